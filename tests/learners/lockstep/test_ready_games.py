"""Lock-step games of a ready pool: number by number what the simulation does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.ready_pool import ReadyPool, ready_image, ready_set
from simkit.agent.ready_pool_actions import ReadyActions, ReadyEncoder, ReadyTracker
from simkit.agent.reward import Reward
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import PolicyError, ScenarioError
from simkit.gym.episodes import Episodes, Nowhere
from simkit.learners.lockstep import NEVER
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import streams_of
from simkit.policy import Place, SystemInfo
from simkit.policy.task import Task
from simkit.scenario import Scenario
from simkit.workload import Workload

HORIZON = 12
POOL = ReadyPool(ready=3, waiting=4, horizon=HORIZON, max_start=HORIZON - 1, longest=6)
POWER: dict[str, Any] = {
    "machines": {"idle_w": 0, "full_w": 100},
    "sources": {
        "wind": {
            "signal": {
                "type": "levels", "high_w": 1000, "low_w": 600, "high_share": 0.6, "step": "1h"
            }
        }
    },
    "supply": {"limit": "power"},
    "forecast": {"type": "perfect", "horizon": f"{HORIZON}h", "step": "1h"},
}  # fmt: skip


def scenario(*, power: bool = False, late: str = "stay", load: float = 1.2) -> Scenario:
    stated: dict[str, Any] = {
        "name": "ready", "seed": 1,
        "workload": {
            "type": "rare", "jobs": 25, "offered_load": load, "short_steps": [1, 3],
            "long_steps": [3, 6],
        },
        "value": {}, "estimates": "actual", "scheduling": {"step": "1h"},
        "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
        "admission": {"slots": POOL.ready, "backlog": POOL.waiting, "late": late},
    }  # fmt: skip
    return Scenario.model_validate(stated | ({"power": POWER} if power else {}))


@given(
    power=st.booleans(),
    late=st.sampled_from(["stay", "leave"]),
    max_start=st.sampled_from([0, 4, HORIZON - 1]),
    suspend=st.integers(0, 3),
    rejects=st.booleans(),
    advance=st.sampled_from(["no-op", "each"]),
    seed=st.integers(0, 2**31 - 1),
)
def test_lockstep_is_the_simulation(power, late, max_start, suspend, rejects, advance, seed):
    """Random choices, seen and allowed in both alike, start, end and reject jobs alike."""
    told, pool = scenario(power=power, late=late), replace(POOL, max_start=max_start)
    streams = streams_of(told, [seed], 400)
    games = ReadyGames(
        pool, streams, hours=400, late_leave=late == "leave", suspend=suspend, reject=rejects,
        advance=advance, backlog=POOL.waiting,
    )  # fmt: skip
    experiment = Episodes(told).prepare(seed)
    load, cluster = experiment.trace.workload, experiment.cluster
    ends = Ends()
    simulation = Simulation(
        load, cluster, Recorder(load, cluster.resources, Nowhere()), rules=experiment.rules,
        predictor=experiment.predictor, seed=seed, site=experiment.site, observer=ends,
    )  # fmt: skip
    tracker = ReadyTracker(pool, in_time=late == "leave")
    actions = ReadyActions(tracker, suspend, rejects, advance)
    actions.reset(simulation.info)
    encoders = [ReadyEncoder(tracker, units) for units in (None, (10, 10))]
    rng, hour0 = np.random.default_rng(seed), float(load.submit_time_s[0])
    start = np.full(len(load), -1)
    for state in simulation.decisions():
        for action in actions.begin(state):
            simulation.apply(action)
        while actions.asks(state):
            assert (state.now - hour0) / 3600 == games.hours[0] + 0.0
            mask = games.mask()[0]
            assert mask.tolist() == actions.mask(state).astype(bool).tolist()
            view = games.view()
            assert ready_set(view, pool)[0].tolist() == encoders[0].encode(state).tolist()
            shown = ready_image(view, pool, (10, 10))[0]
            assert shown.tolist() == encoders[1].encode(state).tolist()
            number = int(rng.choice(np.flatnonzero(mask)))
            meant = actions.action_of(state, number)
            if isinstance(meant, Place):
                at = state.now if meant.start is None else meant.start
                start[meant.task.job_index] = round((at - hour0) / 3600)
            if meant is not None:
                simulation.apply(meant)
            games.step([number])
            if meant is None:
                break
        for action in actions.end(state):
            simulation.apply(action)
    end = {job: round((time_s - hour0) / 3600) for job, time_s in ends.found.items()}
    mine = games.end[0, : len(load)]
    assert {job: int(mine[job]) for job in np.flatnonzero(mine < NEVER).tolist()} == end
    assert start.tolist() == games.start[0, : len(load)].tolist()
    counts = dict(zip(*np.unique(games.rejected[0] >= 0, return_counts=True), strict=True))
    simulation.recorder.flush()
    assert counts.get(True, 0) == len(load) - (start >= 0).sum() - waiting_at_end(simulation)


class Ends(Reward):
    """Notes when jobs end."""

    def __init__(self) -> None:
        self.found: dict[int, float] = {}

    def begin(self, workload: Workload, info: SystemInfo) -> None: ...

    def collect(self, time_s: float) -> float:
        return 0.0

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        self.found[task.job_index] = time_s


def waiting_at_end(simulation: Simulation) -> int:
    state = simulation.state
    return len(state.queue) + state.backlog


def games(streams, **told: Any) -> ReadyGames:
    return ReadyGames(POOL, streams, hours=300, backlog=POOL.waiting, **told)


def test_replicas_of_a_stream_are_independent():
    """Each plays as it would alone."""
    streams, rng = streams_of(scenario(late="leave"), [1, 2], 300), np.random.default_rng(0)
    rules = {"late_leave": True, "reject": True, "suspend": 2}
    choices = rng.random((4, 2000, 3 + 2 * POOL.ready))
    alone = []
    for number in range(4):
        one = ReadyGames(
            POOL, streams_of(scenario(late="leave"), [1 + number // 2], 300), hours=300,
            backlog=POOL.waiting, **rules,
        )  # fmt: skip
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


def test_suspended_jobs_end_later():
    """Jobs that are stopped for a while end so much later, which the value in time accounts for."""
    streams, rng = streams_of(scenario(), [5], 300), np.random.default_rng(0)
    one = games(streams, suspend=3)
    while len(one.active):
        one.step((one.mask() * rng.random(one.mask().shape)).argmax(axis=1))
    there, late = streams.there, one.end - one.start - streams.length
    assert (one.end[there] < NEVER).all()
    assert (late[there] > 0).any()
    in_time = there & (one.end - streams.length <= streams.last_start)
    assert one.value_ratio()[0] == pytest.approx(
        streams.value[in_time].sum() / streams.value[there].sum()
    )
    assert (in_time & (late > 0)).any()


@pytest.mark.parametrize("actions", [[0, 0], [0.5], [4], [-1], "no"])
def test_wrong_actions_are_refused(actions):
    one = games(streams_of(scenario(), [1], 300))
    with pytest.raises(PolicyError, match="ready pool: actions"):
        one.step(actions)


POOL_OF_10 = [{"count": 1, "processors": 10, "gpu": 10}]
WRONG: list[tuple[dict[str, Any], str]] = [
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
    ({"power": {**POWER, "battery": {"capacity_kwh": 1}}}, "power.battery"),
    ({"power": {**POWER, "forecast": {"type": "noisy", "horizon": "12h", "step": "1h"}}},
     "power.forecast"),
    ({"power": {**POWER, "sources": {"wind": {"signal": {
        "type": "levels", "high_w": 1000, "low_w": 600, "high_share": 0.6, "step": "20m",
    }}}}}, "power"),  # it changes within a step
]  # fmt: skip


@pytest.mark.parametrize(("changed", "place"), WRONG)
def test_scenarios_that_lock_step_does_not_know_are_refused(changed, place):
    stated = scenario(power=True).model_dump(mode="json", exclude_unset=True) | changed
    with pytest.raises(ScenarioError, match=place):
        streams_of(Scenario.model_validate(stated), [1], 20)
