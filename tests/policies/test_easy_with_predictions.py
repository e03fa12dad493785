"""EASY with user means, corrections and shortest job backfilled first, job by job."""

from __future__ import annotations

from typing import Any

import numpy as np
import plain_easy_plus_plus
import polars as pl
import pytest

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import ScenarioError
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy.estimates import UserMean
from simkit.policy.ordered import OrderedPolicy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

PROCESSORS = 16


class Tables(list[pl.DataFrame]):
    def write(self, table: str, rows: pl.DataFrame) -> None:
        if table == "jobs":
            self.append(rows)


def starts(jobs: dict[str, Any], correction: Any, easy: Easy, cluster: Cluster) -> list[float]:
    """Return the start times under simkit's EASY with user means, by job id."""
    tables, workload = Tables(), Workload.from_jobs(jobs)
    recorder = Recorder(workload, ("processors",), tables)
    simulation = Simulation(
        workload, cluster, recorder, predictor=UserMean(), correction=correction
    )
    simulation.run(OrderedPolicy(FCFS(), easy))
    return pl.concat(tables).sort("job_id")["start_time_s"].to_list()


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
def test_schedules_are_those_of_a_plain_replay(correction: str, order: Any, machines: int) -> None:
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
        assert starts(jobs, correction, Easy(order=order), cluster) == expected


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"easy takes the order queue or sjf, not 'saf'"):
        Easy(order="saf")  # type: ignore[arg-type]
