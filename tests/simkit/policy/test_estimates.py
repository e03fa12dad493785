"""What a policy is told of run times."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from simkit.arrays import stream
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import ScenarioError
from simkit.policies.orderings import FCFS
from simkit.policy.estimates import Actual, Perturbed, Predictor, Requested, UserMean
from simkit.policy.ordered import OrderedPolicy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

NAN = float("nan")


class Tables:
    def __init__(self) -> None:
        self.jobs: list[pl.DataFrame] = []

    def write(self, table: str, rows: pl.DataFrame) -> None:
        if table == "jobs":
            self.jobs.append(rows)


def told(predictor: Predictor, rows: list[tuple[float, ...]]) -> list[float]:
    """Return the estimate of every job of (submit, run, requested, user), on a large machine."""
    submit, run, requested, user = zip(*rows, strict=True)
    workload = Workload.from_jobs(
        {
            "job_id": np.arange(len(rows)),
            "submit_time_s": submit,
            "run_time_s": run,
            "processors": np.ones(len(rows)),
            "requested_time_s": requested,
            "user": user,
        }
    )
    tables = Tables()
    recorder = Recorder(workload, ("processors",), tables)
    cluster = Cluster.pool({"processors": 99})
    Simulation(workload, cluster, recorder, predictor=predictor, seed=3).run(OrderedPolicy(FCFS()))
    return pl.concat(tables.jobs).sort("job_id")["estimate_s"].to_list()


def test_requested_and_actual():
    rows = [(0, 10, 60, 1), (0, 10, NAN, 1)]
    assert told(Requested(), rows) == [60, 10]  # the run time where nothing was requested
    assert told(Actual(), rows) == [10, 10]


def test_the_users_last_two_that_have_finished_by_then():
    rows = [
        (0, 10, 60, 1),  # nothing is known of user 1
        (0, 20, 60, 1),
        (10, 5, 60, 1),  # job 0 ends at this very instant; one is not enough
        (20, 5, 60, 1),  # jobs 0, 2 and 1 have finished, at 10, 15 and 20: the last two
        (20, 5, 60, 2),  # another user
        (30, 5, 7, 1),  # jobs 1 and 3: 12.5, but never above the request
        (30, 5, 60, -1),  # unknown users are no user
    ]
    assert told(UserMean(), rows) == [60, 60, 60, 12.5, 60, 7, 60]


def test_perturbed_lies_between_the_run_time_and_its_multiple_and_is_seeded():
    rows = [(i, 100, 100, 1) for i in range(500)]
    estimates = np.array(told(Perturbed(factor=4.0), rows))
    assert (estimates >= 100).all()
    assert (estimates <= 500).all()
    assert abs(estimates.mean() - 300) < 20  # uniform: 5 standard errors are 26
    assert told(Perturbed(factor=4.0), rows) == estimates.tolist()
    assert told(Perturbed(factor=0.0), rows) == [100] * 500


def test_the_perturbed_stream_does_not_depend_on_blocks():
    workload = Workload.from_jobs(
        {"job_id": [1, 2, 3], "submit_time_s": [0, 1, 2], "run_time_s": [9, 9, 9],
         "processors": [1, 1, 1]}
    )  # fmt: skip
    whole, parts = Perturbed(), Perturbed()
    whole.reset(workload, stream(0, "predictor"))
    parts.reset(workload, stream(0, "predictor"))
    pieces = [*parts.estimates(0, 1), *parts.estimates(1, 3)]
    assert whole.estimates(0, 3).tolist() == pieces


@pytest.mark.parametrize(
    ("make", "what"),
    [(lambda: Perturbed(factor=-1), "at least 0"), (lambda: Perturbed(factor=NAN), "at least 0"),
     (lambda: UserMean(last=0), "at least 1")],
)  # fmt: skip
def test_wrong_parameters(make, what):
    with pytest.raises(ScenarioError, match=what):
        make()
