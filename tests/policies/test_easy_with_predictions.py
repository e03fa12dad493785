"""EASY with user means, corrections and shortest job backfilled first, job by job."""

from __future__ import annotations

from typing import Any

import numpy as np
import plain_easy_plus_plus
import pytest

from simkit.errors import ScenarioError
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy.estimates import UserMean
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import Cluster

PROCESSORS = 16


def random_jobs(seed: int, count: int) -> dict[str, Any]:
    """Jobs of few users with run times over five orders of magnitude, in a busy cluster."""
    rng = np.random.default_rng(seed)
    run = np.ceil(10 ** rng.uniform(0, 5, count))
    return {
        "job_id": np.arange(count),
        "submit_time_s": np.sort(np.ceil(rng.uniform(0, run.sum() / 4, count))),
        "run_time_s": run,
        "processors": rng.integers(1, PROCESSORS + 1, count),
        "requested_time_s": np.ceil(run * rng.uniform(1, 10, count)),
        "user": rng.integers(0, 4, count),
    }


@pytest.mark.sampled
@pytest.mark.parametrize("order", ["queue", "sjf"])
@pytest.mark.parametrize("correction", ["none", "tsafrir", "request"])
@pytest.mark.parametrize("machines", [1, 4])  # 4: the general form, for many machines
def test_schedules_are_those_of_a_plain_replay(correction, order, machines, simulate):
    for seed in range(3):
        jobs = random_jobs(seed, 250)  # more than wait in a short queue
        columns = [list(jobs[name]) for name in list(jobs)[1:]]
        expected = plain_easy_plus_plus.replay(
            PROCESSORS, *columns, correction=correction, shortest_first=order == "sjf"
        )
        cluster = Cluster.pool({"processors": PROCESSORS})
        if machines > 1:
            rows = np.full((machines, 1), PROCESSORS / machines)
            cluster = Cluster(("processors",), tuple(map(str, range(machines))), rows)
        policy = OrderedPolicy(FCFS(), Easy(order=order))
        run = simulate(policy, jobs, cluster, predictor=UserMean(), correction=correction)
        assert run.starts == expected


def test_an_unknown_order_is_refused():
    with pytest.raises(ScenarioError, match=r"easy takes the order queue or sjf, not 'saf'"):
        Easy(order="saf")  # type: ignore[arg-type]
