"""Rules for ready pools in lock-step start the jobs that the policies of a simulation start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ready_pools import ready_scenario
from small_scenarios import WIND

import simkit
from simkit.agent.ready_pool import ReadyPool
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import ORDERS, left_over, play, threshold
from simkit.learners.lockstep.ready_pool.streams import streams_of
from simkit.scenario import Scenario

RULES = {
    **{name: (rule, {"order": name, "backfill": {"type": "ready-pool", "horizon": "0s"}}, 0)
       for name, rule in ORDERS.items()},
    "threshold": (
        threshold(0.5),
        {"order": "qos", "backfill": {"type": "ready-pool", "horizon": 0, "least_qos": 0.5}}, 0,
    ),
    "fit0": (
        left_over(0),
        {"order": "fcfs", "backfill": {"type": "ready-pool", "horizon": 0, "choose": "left-over"}},
        0,
    ),
    "fit12": (
        left_over(12),
        {"order": "fcfs",
         "backfill": {"type": "ready-pool", "horizon": "12h", "choose": "left-over"}},
        12,
    ),
    "qos, ahead": (ORDERS["qos"], {"order": "qos", "backfill": "ready-pool"}, 48),
}  # fmt: skip


def scenario(policy: dict[str, Any], late: str, power: bool) -> Scenario:
    return ready_scenario(
        workload={"type": "rare", "jobs": 100, "offered_load": 1.2}, policy=policy,
        admission={"slots": 5, "backlog": 20, "late": late}, **({"power": WIND} if power else {}),
    )  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("late", "power"),
    [("leave", False), pytest.param("stay", False, marks=pytest.mark.thorough), ("stay", True),
     pytest.param("leave", True, marks=pytest.mark.thorough)],
)  # fmt: skip
@pytest.mark.parametrize("name", RULES)
def test_rule_and_policy_start_the_same_jobs_at_the_same_time(name, late, power):
    rule, policy, last = RULES[name]
    if last and late == "leave":
        pytest.skip("where late jobs leave, the environment reserves no late start")
    if last == 48 and power:
        pytest.skip("of what lies beyond the forecast the environment places nothing")
    told, hours = scenario(policy, late, power), 2000
    pool = ReadyPool(max_start=last, horizon=80 if last == 48 else 48)
    games = ReadyGames(
        pool, streams_of(told, [7], hours), hours=hours, late_leave=late == "leave", backlog=20
    )
    play(games, rule)
    run = simkit.simulate(told.model_copy(update={"seed": 7}))
    jobs = run.jobs.sort("job_id")
    first = float(jobs["submit_time_s"].min())
    hour = ((jobs["start_time_s"] - first) / 3600).fill_null(-1).to_numpy()
    assert games.start[0, : jobs.height].tolist() == np.rint(hour).astype(int).tolist()
