"""What policies see of the worth of tasks, and what they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from engine_runs import a_gang, make_jobs, rigid

from simkit.engine.submission import Submission
from simkit.policy.estimates import Requested
from simkit.policy.task import Task
from simkit.scenario.value import deadlines, with_resource, with_values
from simkit.workload.cluster import Cluster


def tasks_of(load, **capacity) -> list[Task]:
    predictor = Requested()
    predictor.reset(load, np.random.default_rng(0))
    cluster = Cluster.pool(capacity or {"processors": 4.0})
    return [t for _, _, tasks, _ in Submission(load, cluster, predictor).jobs() for t in tasks]


def test_a_plain_log_has_tasks_without_worth_and_nothing_is_set_on_them():
    (task,) = tasks_of(rigid((0, 5, 2)))
    assert (task.qos, task.value, task.deadline_s, task.cluster_share) == (1, 0, math.inf, 0)
    assert not {"qos", "value_per_s", "deadline_s", "cluster_share"} & vars(task).keys()


def test_value_and_due_time_follow_from_the_estimate_not_from_the_run_time():
    """The job runs 3600 s and asked for 7200 s: that is all that a policy may know."""
    load = rigid((100, 3600, 2, 7200)).with_columns(qos=np.array([0.5]))
    load = with_values(load, {"processors": 0.5})
    load = load.with_columns(deadline_s=deadlines(load, np.array([3.0])))
    (task,) = tasks_of(load)
    assert load.value.tolist() == [2 * 0.5 * 1 * 0.5]
    assert task.value == 2 * 0.5 * 2 * 0.5
    assert task.due_s == 100 + 7200 / 0.5
    assert task.deadline_s == 100 + 3 * 7200


def test_a_fixed_worth_is_shared_by_the_tasks_of_a_job():
    load = make_jobs((0, a_gang(1, 5), a_gang(1, 50)), value=[6.0])
    assert [task.value for task in tasks_of(load)] == [3.0, 3.0]


@pytest.mark.parametrize(
    ("gpus", "share"),
    [
        (1, 0.5),  # 2 of 4 processors, 1 of 8 GPUs
        (6, 0.75),  # the GPUs are the larger share
    ],
)
def test_density_is_value_a_second_over_the_largest_share_of_the_cluster(gpus, share):
    load = with_resource(rigid((0, 3600, 2)), "gpu", np.array([gpus]))
    (task,) = tasks_of(with_values(load, {"processors": 1.0, "gpu": 1.0}), processors=4.0, gpu=8.0)
    assert task.cluster_share == share
    assert task.value_density == pytest.approx((2 + gpus) / (3600 * share))
