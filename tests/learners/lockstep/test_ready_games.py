"""Lock-step games of a ready pool: number by number what the simulation does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simkit.agent.ready_pool import ReadyPool
from simkit.errors import PolicyError, ScenarioError
from simkit.learners.lockstep import NEVER
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import streams_of
from simkit.scenario import Scenario

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
