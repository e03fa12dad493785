"""Lock-step ready pools: what the simulation does, number by number, and what each part pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.ready_pool import (
    ReadyActions,
    ReadyEncoder,
    ReadyPool,
    ReadyTracker,
    ready_image,
    ready_set,
)
from simkit.agent.reward import Reward, WeightedRewards
from simkit.agent.rewards import make_reward
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import PolicyError, ScenarioError
from simkit.gym.episodes import Episodes, Nowhere
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.lockstep.job_sets import NEVER
from simkit.learners.lockstep.ready_pool import streams
from simkit.learners.lockstep.ready_pool.accounts import ACCOUNTS, COSTS, Accounts
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import JobStreams, StreamSource, streams_of
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.task import Task
from simkit.scenario import Scenario
from simkit.workload import Workload

HORIZON, DISCOUNT = 12, 0.97
POOL = ReadyPool(ready=3, waiting=4, horizon=HORIZON, max_start=HORIZON - 1, longest=6)
OF_ENERGY = ("energy-cost", "carbon")


def wind(step: str = "1h", low_w: float = 600.0) -> dict[str, Any]:
    return {"type": "levels", "high_w": 1400, "low_w": low_w, "high_share": 0.6, "step": step}


POWER: dict[str, Any] = {
    "machines": {"idle_w": 20, "full_w": 100, "off_w": 5},
    "sources": {
        "wind": {"signal": wind(), "price_per_kwh": 0.02, "carbon_gco2_per_kwh": 11},
        "sun": {"signal": wind(low_w=0), "price_per_kwh": 0.03, "carbon_gco2_per_kwh": 41},
    },
    "grid": {
        "import_limit_w": 150, "export_limit_w": 200, "export_price_per_kwh": 0.04,
        "price_per_kwh": {"type": "levels", "high_w": 0.5, "low_w": 0.1, "high_share": 0.5},
        "carbon_gco2_per_kwh": {"type": "levels", "high_w": 500, "low_w": 90, "high_share": 0.4},
    },
    "critical_w": 40, "pue": 1.2,
    "supply": {"limit": "power"},
    "forecast": {"type": "perfect", "horizon": f"{HORIZON}h", "step": "1h"},
}  # fmt: skip
WIND: dict[str, Any] = {
    "machines": {"idle_w": 0, "full_w": 100}, "sources": {"wind": {"signal": wind()}},
    "supply": {"limit": "power"}, "forecast": POWER["forecast"],
}  # fmt: skip
CURVED: dict[str, Any] = {
    "machines": {"table": [30, 80, 90, 100]},
    "pue": {"rated_w": 1000, "by_load": {0.0: 1.6, 0.5: 1.3, 1.0: 1.1}}, "supply": {},
}  # fmt: skip


def scenario(power: dict[str, Any] | None = None, late: str = "stay") -> Scenario:
    stated: dict[str, Any] = {
        "name": "ready", "seed": 1,
        "workload": {
            "type": "rare", "jobs": 25, "offered_load": 1.2, "short_steps": [1, 3],
            "long_steps": [3, 6],
        },
        "value": {}, "estimates": "actual", "scheduling": {"step": "1h"},
        "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
        "admission": {"slots": POOL.ready, "backlog": POOL.waiting, "late": late},
    }  # fmt: skip
    return Scenario.model_validate(stated | ({"power": power} if power else {}))


class Ends(Reward):
    """Notes when jobs end."""

    def __init__(self) -> None:
        self.found: dict[int, float] = {}

    def begin(self, workload: Workload, info: SystemInfo) -> None: ...

    def collect(self, time_s: float) -> float:
        return 0.0

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        self.found[task.job_index] = time_s


class Both:
    """A simulation and a game in lock-step that take the same random actions."""

    def __init__(
        self,
        told: Scenario,
        seed: int,
        parts: list[str],
        max_start: int = HORIZON - 1,
        **rules: Any,
    ) -> None:
        late, self.pool = told.admission.late == "leave", replace(POOL, max_start=max_start)
        self.parts, self.ends = parts, Ends()
        self.games = ReadyGames(
            self.pool, streams_of(told, [seed], 400, parts), hours=400, late_leave=late,
            backlog=POOL.waiting, accounts=parts, discount=DISCOUNT, **rules,
        )  # fmt: skip
        experiment = Episodes(told).prepare(seed)
        load, cluster = experiment.trace.workload, experiment.cluster
        self.rewards = [reward(name) for name in parts]
        self.simulation = Simulation(
            load, cluster, Recorder(load, cluster.resources, Nowhere()), rules=experiment.scenario,
            predictor=experiment.predictor, seed=seed, site=experiment.site,
            observer=WeightedRewards([(1.0, part) for part in (*self.rewards, self.ends)]),
        )  # fmt: skip
        for part in self.rewards:
            part.begin(load, self.simulation.info)
        tracker = ReadyTracker(self.pool, in_time=late)
        self.actions = ReadyActions(tracker, **rules)
        self.actions.reset(self.simulation.info)
        self.encoders = [ReadyEncoder(tracker, units) for units in (None, (10, 10))]
        self.hour0, self.rng = float(load.submit_time_s[0]), np.random.default_rng(seed)
        self.start = np.full(len(load), -1)

    def play(self) -> list[tuple[list[float], list[float]]]:
        """Return, of each decision, what each part was in lock-step and in the simulation."""
        found: list[tuple[list[float], list[float]]] = []
        mine: list[float] | None = None
        decisions = self.simulation.decisions()
        for state in decisions:
            self.actions.update(state)
            for action in self.actions.begin(state):
                self.apply(action, state)
            if self.is_over(state.now):
                break
            while self.actions.asks(state):
                earned = self.collect(state.now)
                if mine is not None:
                    found.append((mine, earned))
                number = int(self.rng.choice(np.flatnonzero(self.seen(state))))
                meant = self.actions.action_of(state, number)
                self.apply(meant, state)
                self.games.step([number])
                mine = [float(self.games.accounts.reward(name)[0]) for name in self.parts]
                if meant is None or self.is_over(state.now):
                    break
            for action in self.actions.end(state):
                self.simulation.apply(action)
            if self.is_over(state.now):
                break
        assert mine is not None
        assert self.is_over(self.simulation.now)
        found.append((mine, self.collect(self.simulation.now)))
        self.check_schedule(decisions)
        return found

    def seen(self, state: State) -> np.ndarray:
        """Return the mask; it and all that is seen are the same in both."""
        assert (state.now - self.hour0) / 3600 == self.games.steps[0]
        mask, view = self.games.mask()[0], self.games.view()
        assert mask.tolist() == self.actions.mask(state).astype(bool).tolist()
        shown = ready_set(view, self.pool), ready_image(view, self.pool, (10, 10))
        for mine, encoder in zip(shown, self.encoders, strict=True):
            assert mine[0].tolist() == encoder.encode(state).tolist()
        return mask

    def apply(self, meant: Action | None, state: State) -> None:
        if isinstance(meant, Place):
            at = state.now if meant.start is None else meant.start
            self.start[meant.task.job_index] = round((at - self.hour0) / 3600)
        if meant is not None:
            self.simulation.apply(meant)
            self.actions.update(state)

    def check_schedule(self, decisions: Iterator[State]) -> None:
        """Let the rest run; jobs start and end alike."""
        for state in decisions:
            self.actions.update(state)
            for action in self.actions.begin(state):
                self.apply(action, state)
            for action in self.actions.end(state):
                self.simulation.apply(action)
        mine = self.games.end[0, : len(self.start)]
        ends = {job: round((end - self.hour0) / 3600) for job, end in self.ends.found.items()}
        assert {job: int(mine[job]) for job in np.flatnonzero(mine < NEVER).tolist()} == ends
        assert self.games.start[0, : len(self.start)].tolist() == self.start.tolist()

    def is_over(self, now: float) -> bool:
        hours = round((now - self.hour0) / 3600)
        return not len(self.games.active) and hours == self.games.steps[0]

    def collect(self, now: float) -> list[float]:
        return [part.collect(now) for part in self.rewards]


def reward(name: str) -> Reward:
    """Return the simulation's, with time in steps."""
    arguments: dict[str, dict[str, float]] = {
        "value-at-decision": {"discount": DISCOUNT, "time_unit_s": 3600},
        "utilisation": {"time_unit_s": 3600}, "wait": {"time_unit_s": 3600},
        "qos-violations": {"time_unit_s": 3600},
    }  # fmt: skip
    return make_reward(name, arguments.get(name))


@given(
    power=st.sampled_from([None, POWER, POWER | {"supply": {"limit": "none"}}, POWER | CURVED]),
    late=st.sampled_from(["stay", "leave"]),
    max_start=st.sampled_from([0, 4, HORIZON - 1]),
    rejects=st.booleans(),
    seed=st.integers(0, 2**31 - 1),
)
def test_lockstep_is_the_simulation(power, late, max_start, rejects, seed):
    """Random choices show, allow, start, end, reject and bring the same, part by part."""
    parts = [name for name in ACCOUNTS if power or name not in OF_ENERGY]
    both = Both(scenario(power, late), seed, parts, max_start, reject=rejects)
    for mine, theirs in both.play():
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-9)


def test_costs_are_what_constraints_limit():
    parts = [COSTS[name] for name in COSTS]
    games = ReadyGames(
        POOL, streams_of(scenario(POWER), [1, 2, 3], 400, parts), hours=400, accounts=parts
    )
    games.step([games.count - 1] * 3)
    assert games.cost.tolist() == games.accounts.cost("waiting").tolist() == games.costs.tolist()
    assert all((games.accounts.cost(name) > 0).any() for name in ("energy-cost", "carbon"))
    for name, part in COSTS.items():
        assert games.accounts.cost(name).tolist() == (-games.accounts.reward(part)).tolist()


def test_a_source_of_games_accounts_for_what_it_is_asked_for():
    source = ReadySource(scenario(POWER), hours=200, cost="carbon")
    for games in (
        source.games(source.streams([1, 2])),
        source.endless(2, np.random.default_rng(0)),
    ):
        games.step([games.count - 1] * 2)
        assert (games.cost > 0).all()


def test_games_without_end_account_as_each_of_them():
    """The sums over all steps are those of the games that have been played, one after another."""
    told, parts, seeds = scenario(POWER, "leave"), list(ACCOUNTS), iter(range(1000))
    source = StreamSource(told, 200, parts)

    def fresh(count: int) -> JobStreams:
        return source.draw([next(seeds) for _ in range(count)])

    def play(games: ReadyGames) -> np.ndarray:
        games.step(games.mask().argmax(axis=1))
        return np.array([games.accounts.reward(name)[0] for name in parts])

    rules: dict[str, Any] = {"hours": 150, "late_leave": True, "backlog": 4, "accounts": parts}
    endless = ReadyGames(POOL, fresh(1), fresh=fresh, **rules)
    before = np.array([endless.accounts.reward(name)[0] for name in parts])
    total, begun = before, 0
    while begun < 4:
        total = total + play(endless)
        begun += int(endless.begun[0])
    expected = np.zeros(len(parts))
    for seed in range(4):
        alone = ReadyGames(POOL, source.draw([seed]), **rules)
        expected += [alone.accounts.reward(name)[0] for name in parts]
        while len(alone.active):
            expected += play(alone)
    after = ReadyGames(POOL, source.draw([4]), **rules)  # hours that passed by themselves at first
    expected += [after.accounts.reward(name)[0] for name in parts]
    assert total == pytest.approx(expected)


WRONG: list[tuple[dict[str, Any], list[str], str]] = [
    ({"power": None}, ["carbon"], "power"),
    ({"power": POWER | {"controller": {"type": "green-charging"}}}, ["carbon"], "power.controller"),
    ({"value": None}, ["qos-violations"], "value"),
    ({"power": POWER | {"grid": {"carbon_gco2_per_kwh": wind("20m")}}}, ["carbon"], "power"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "parts", "text"), WRONG)
def test_what_cannot_be_accounted_for_is_refused(changed, parts, text):
    stated = scenario().model_dump(mode="json", exclude_unset=True) | changed
    with pytest.raises(ScenarioError, match=text):
        streams_of(Scenario.model_validate(stated), [1], 20, parts)


def test_unknown_parts_are_refused():
    with pytest.raises(ScenarioError, match="accounts: 'values'"):
        Accounts(["values"])


# --- rules and refusals ----------------------------------------------------------------------------


def games(streams, **told: Any) -> ReadyGames:
    return ReadyGames(POOL, streams, hours=300, backlog=POOL.waiting, **told)


def test_replicas_of_a_stream_are_independent():
    """Each plays as it would alone."""
    streams, rng = streams_of(scenario(None, "leave"), [1, 2], 300), np.random.default_rng(0)
    rules = {"late_leave": True, "reject": True}
    choices = rng.random((4, 2000, 1 + 2 * POOL.ready))
    alone = []
    for number in range(4):
        one = games(streams_of(scenario(None, "leave"), [1 + number // 2], 300), **rules)
        while len(one.active):
            one.step((one.mask() * choices[number, one.decisions[0]]).argmax(axis=1))
        alone.append((one.start[0].tolist(), one.rejected[0].tolist()))
    both = games(streams, replicas=2, **rules)
    while len(active := both.active):
        drawn = choices[active, both.decisions[active]]
        both.step((both.mask() * drawn).argmax(axis=1))
    assert [(a.tolist(), r.tolist()) for a, r in zip(both.start, both.rejected, strict=True)] == (
        alone
    )


@pytest.mark.parametrize("actions", [[0, 0], [0.5], [4], [-1], "no"])
def test_wrong_actions_are_refused(actions):
    one = games(streams_of(scenario(), [1], 300))
    with pytest.raises(PolicyError, match="ready pool: actions"):
        one.step(actions)


POOL_OF_10 = [{"count": 1, "processors": 10, "gpu": 10}]
UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"scheduling": {}}, "scheduling"),
    ({"admission": {"backlog": 4}}, "admission.slots"),
    ({"admission": {"slots": 3, "order": "qos"}}, "admission.order"),
    ({"admission": {"slots": 3, "refill": "next_decision"}}, "admission.refill"),
    ({"admission": {"slots": 3, "late": "leave"}, "value": None}, "value"),
    ({"cluster": {"machines": POOL_OF_10, "failures": {"mtbf": "1d", "mttr": "1h"}}},
     "cluster.failures"),
    ({"cluster": {"machines": POOL_OF_10, "maintenance": [{"start": "10h", "end": "20h"}]}},
     "cluster.maintenance"),
    ({"estimates": "requested"}, "estimates"),
    ({"workload": {"type": "rare", "jobs": 5, "offered_load": 1, "arrivals": "continuous"}},
     "scheduling.step"),
    ({"power": {**WIND, "battery": {"capacity_kwh": 1}}}, "power.battery"),
    ({"power": {**WIND, "forecast": {"type": "noisy", "horizon": "12h", "step": "1h"}}},
     "power.forecast"),
    ({"power": {**WIND, "sources": {"wind": {"signal": wind("20m")}}}}, "power"),  # within a step
]  # fmt: skip


@pytest.mark.parametrize(("changed", "place"), UNKNOWN)
def test_scenarios_that_lock_step_does_not_know_are_refused(changed, place):
    stated = scenario(WIND).model_dump(mode="json", exclude_unset=True) | changed
    with pytest.raises(ScenarioError, match=place):
        streams_of(Scenario.model_validate(stated), [1], 20)


def test_jobs_that_take_no_time_are_refused():
    """They would be padding."""
    experiment = Episodes(scenario()).prepare(1)
    load = replace(experiment.trace.workload, run_time_s=np.zeros(25))
    changed = replace(experiment, trace=replace(experiment.trace, workload=load))
    found = list(streams._problems(changed, 3600.0))
    assert [text for text in found if "take no time" in text]
