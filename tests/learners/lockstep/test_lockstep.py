"""The lock-step environment: its rules one by one, and equal to a slow model of one game."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.slotted import Slotted
from simkit.errors import PolicyError, ScenarioError
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets

TINY = Slotted(
    capacity=(3, 2), slots=2, horizon=6, max_length=5, backlog=1, backlog_shown=3, memory=3
)
VOID = TINY.slots


def job_sets(*rows, resources=2):
    """Make job sets of rows of (step of arrival, length, units of each resource)."""
    most = max(map(len, rows))
    padded = [[*row, *[(0, 0, *[0] * resources)] * (most - len(row))] for row in rows]
    table = np.array(padded, np.int64).reshape(len(rows), most, 2 + resources)
    return JobSets(table[..., 0], table[..., 1], table[..., 2:])


class PlainGame:
    """One game, job by job and step by step, written from the description of the model alone."""

    def __init__(self, model: Slotted, jobs: list[tuple[int, int, tuple[int, ...]]]) -> None:
        self.model, self.jobs = model, jobs
        self.now = jobs[0][0]
        self.coming = list(range(len(jobs)))
        self.slots: list[int | None] = [None] * model.slots
        self.backlog: list[int] = []
        self.placed: dict[int, int] = {}  # job -> start
        self.since = 0
        self._arrivals()

    def _arrivals(self) -> None:
        while self.coming and self.jobs[self.coming[0]][0] == self.now:
            job = self.coming.pop(0)
            self.since = 0
            if None in self.slots:
                self.slots[self.slots.index(None)] = job
            elif self.model.backlog is None or len(self.backlog) < self.model.backlog:
                self.backlog.append(job)

    def held(self, step: int, resource: int) -> int:
        """Return the units of a resource that are held in a step."""
        return sum(
            self.jobs[job][2][resource]
            for job, start in self.placed.items()
            if start <= step < start + self.jobs[job][1]
        )

    def earliest(self, slot: int) -> int:
        if (job := self.slots[slot]) is None:
            return -1
        _, length, size = self.jobs[job]
        for ahead in range(self.model.latest_start(length) + 1):
            if all(
                self.held(self.now + ahead + step, resource) + size[resource] <= capacity
                for step in range(length)
                for resource, capacity in enumerate(self.model.capacity)
            ):
                return ahead
        return -1

    def in_system(self) -> list[int]:
        runs = [j for j, start in self.placed.items() if start + self.jobs[j][1] > self.now]
        return runs + [j for j in self.slots if j is not None] + self.backlog

    def step(self, action: int, objective: str) -> float:
        ahead = self.earliest(action) if action < self.model.slots else -1
        if ahead >= 0:
            job = self.slots[action]
            assert job is not None
            self.placed[job] = self.now + ahead
            self.slots[action] = self.backlog.pop(0) if self.backlog else None
            return 0.0
        lengths = [self.jobs[job][1] for job in self.in_system()]
        self.now += 1
        self.since = min(self.since + 1, self.model.memory)
        self._arrivals()
        return -sum(1 / n if objective == "slowdown" else 1.0 for n in lengths)

    @property
    def over(self) -> bool:
        return not self.coming and not self.in_system()


def assert_sees(env: Lockstep, row: int, game: PlainGame) -> None:
    """Assert that a row of the view, the mask and what fits now are those of the plain game."""
    view, model = env.view(), game.model
    resources = range(model.resources)
    assert view.occupied[row].tolist() == [
        [game.held(game.now + ahead, r) for r in resources] for ahead in range(model.horizon)
    ]
    in_slots = [(0, (0,) * model.resources) if j is None else game.jobs[j][1:] for j in game.slots]
    assert view.length[row].tolist() == [length for length, _ in in_slots]
    assert view.size[row].tolist() == [list(size) for _, size in in_slots]
    assert (view.backlog[row], view.since_arrival[row]) == (len(game.backlog), game.since)
    earliest = [game.earliest(slot) for slot in range(model.slots)]
    assert env.mask()[row].tolist() == [*[ahead >= 0 for ahead in earliest], True]
    assert env.fits_now()[row].tolist() == [ahead == 0 for ahead in earliest]


JOB = st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2))


@given(
    rows=st.lists(st.lists(JOB, max_size=9), min_size=1, max_size=3),
    backlog=st.sampled_from([0, 1, 2, None]),
    objective=st.sampled_from(["slowdown", "completion"]),
    looks=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_game_is_the_plain_game(rows, backlog, objective, looks, seed):
    """Several jobs a step, full backlogs, empty sets, replicas that end at different times."""
    model = replace(TINY, backlog=backlog)
    rows = [  # gaps between arrivals become steps
        [(int(t), *job[1:]) for t, job in zip(np.cumsum([j[0] for j in row]), row, strict=True)]
        for row in rows
    ]
    sets = job_sets(*rows)
    env = Lockstep(model, sets, replicas=2, objective=objective)
    plain = [[(enter, n, tuple(size)) for enter, n, *size in row] for row in rows]
    games = {n: PlainGame(model, plain[n // 2]) for n in range(2 * len(rows)) if plain[n // 2]}
    decisions = dict.fromkeys(games, 0)
    rng = np.random.default_rng(seed)
    while games:
        assert env.active.tolist() == sorted(games)
        if looks:  # a look at the mask changes how starts are found, not what they are
            for row, n in enumerate(env.active):
                assert_sees(env, row, games[n])
        active, actions = env.active, rng.integers(0, model.actions, len(games))
        rewards = env.step(actions)
        for n, action, reward in zip(active, actions, rewards, strict=True):
            decisions[n] += 1
            assert reward == pytest.approx(games[n].step(int(action), objective), abs=1e-12)
            if games[n].over:
                placed = games.pop(n).placed
                jobs = range(sets.length.shape[1])
                assert env.start[n].tolist() == [placed.get(j, -1) for j in jobs]
                ends = [placed[j] + sets.length[n // 2, j] if j in placed else -1 for j in jobs]
                assert env.finish[n].tolist() == ends
                assert env.decisions[n] == decisions[n]
    assert len(env.active) == 0


class TestRules:
    def test_a_limit_ends_a_game_undone(self):
        env = Lockstep(TINY, job_sets([(0, 1, 1, 1)]), limit=3)
        while len(env.active):
            env.step([VOID])
        assert env.decisions.tolist() == [3]
        assert env.finish.tolist() == [[-1]]

    def test_reset_forgets_everything(self):
        env = Lockstep(TINY, job_sets([(1, 2, 1, 1), (3, 1, 2, 2)]), replicas=3)
        script = np.random.default_rng(1).integers(0, VOID + 1, (40, 3))

        def play():
            rewards = []
            while len(env.active):
                rewards += env.step(script[len(rewards) % 40, : len(env.active)]).tolist()
            return rewards, env.start.tolist(), env.finish.tolist()

        first = play()
        env.reset()
        assert play() == first

    def test_units_beyond_two_bytes(self):
        big = Slotted(capacity=(100_000,), slots=1, horizon=4, max_length=2)
        env = Lockstep(big, job_sets([(0, 1, 70_000), (0, 1, 30_001)], resources=1))
        env.step([0])
        assert env.earliest().tolist() == [[1]]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0], "int64 of shape (1,); give one whole number for each of the 2 active replicas"),
        ([0.0, 1.0], "float64 of shape (2,); give one whole number"),
        ([0, 3], "actions range from 0 to 3; they are slots 0 to 1, and 2 lets a step pass"),
        ([-1, 0], "actions range from -1 to 0"),
    ],
)
def test_wrong_actions_are_told(actions, message):
    with pytest.raises(PolicyError) as error:
        Lockstep(TINY, job_sets([(0, 1, 1, 1)]), replicas=2).step(actions)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("row", "choices", "message"),
    [
        ([(0, 6, 1, 1)], {}, "job 0 of set 0 takes 6 steps; the horizon of 6 holds at most 5"),
        ([(0, 1, 1, 3)], {}, "asks for [1, 3] units of [3, 2]"),
        ([(0, 1, 1, 1)], {"objective": "speed"}, "objective is 'speed'"),
        ([(0, 1, 1, 1)], {"replicas": 0}, "replicas is 0, limit is None; they must be at least 1"),
        ([(0, 1, 1, 1)], {"limit": 0}, "limit is 0"),
    ],
)
def test_wrong_arguments_are_told(row, choices, message):
    with pytest.raises(ScenarioError) as error:
        Lockstep(TINY, job_sets(row), **choices)
    assert message in str(error.value)
