"""The lock-step environment: its rules one by one, and replicas that do not disturb each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.slotted import Slotted
from simkit.errors import PolicyError, ScenarioError
from simkit.learners.lockstep import Lockstep, plan
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


JOB = st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2))


@given(
    rows=st.lists(st.lists(JOB, max_size=9), min_size=1, max_size=3),
    backlog=st.sampled_from([0, 1, 2, None]),
    objective=st.sampled_from(["slowdown", "completion"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_replica_is_a_game_of_its_own(rows, backlog, objective, seed):
    """Empty sets, and replicas that end at different times; whether one looks does not matter.

    One game alone is the simulation: test_lockstep_simulation.py.
    """
    model, rng = replace(TINY, backlog=backlog), np.random.default_rng(seed)
    rows = [  # gaps between arrivals become steps
        [(int(t), *job[1:]) for t, job in zip(np.cumsum([j[0] for j in row]), row, strict=True)]
        for row in rows
    ]
    sets = job_sets(*rows)
    env = Lockstep(model, sets, replicas=2, objective=objective)
    alone = {
        n: Lockstep(model, sets.take([n // 2]), objective=objective)
        for n in range(2 * len(rows)) if rows[n // 2]
    }  # fmt: skip
    while any(len(game.active) for game in alone.values()):
        active = [n for n, game in alone.items() if len(game.active)]
        assert env.active.tolist() == active
        masks = np.array([alone[n].mask()[0] for n in active])
        if rng.random() < 0.5:  # a look at the mask changes how starts are found, not what they are
            assert (env.mask() == masks).all()
            assert (env.fits_now() == [alone[n].fits_now()[0] for n in active]).all()
        actions = rng.integers(0, model.actions, len(active))
        rewards = [float(alone[n].step([a])[0]) for n, a in zip(active, actions, strict=True)]
        assert env.step(actions) == pytest.approx(rewards, abs=1e-12)
    assert len(env.active) == 0
    for n, game in alone.items():
        assert env.start[n].tolist() == game.start[0].tolist()
        assert env.finish[n].tolist() == game.finish[0].tolist()
        assert (env.decisions[n], env.steps[n]) == (game.decisions[0], game.steps[0])


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
        ([0, 3], "actions range from 0 to 3; they are 0 to 2, and 2 lets a step pass"),
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


# --- windows of free steps, in the bits of one number ---------------------------------------------


@pytest.mark.parametrize("steps", [1, 7, 24, 25, 48, 49, 63, 64])
@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_bits_find_the_windows_that_a_pass_over_the_steps_finds(steps, share):
    rng = np.random.default_rng(steps)
    free = rng.random((steps, 5, 200)) < share
    length = rng.integers(0, steps + 2, (5, 200)).astype(np.int16)
    bits = plan.first_run(plan.packed(free), length)
    passed = plan.first_run_of_many(free.astype(np.int16), length)
    assert (bits == passed).all()


def test_no_replica_at_all():
    free, length = np.zeros((7, 0), np.bool_), np.zeros(0, np.int16)
    assert plan.first_run(plan.packed(free), length).shape == (0,)
