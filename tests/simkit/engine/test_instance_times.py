"""Instances with individual run times: each ends when it is done, and frees what it holds."""

from __future__ import annotations

import numpy as np
from engine_runs import a_bag, greedy, make_jobs, simulate

from simkit.rules import Rules
from simkit.workload.cluster import Cluster

PIECES = "task_id machine_id first_instance count start_time_s end_time_s outcome"


def with_times(load, *times):
    """Return the workload with the run times of all instances, task by task."""
    flat = np.array([time for task in times for time in task], dtype=float)
    return load.with_columns(instance_run_time_s=flat)


def test_instances_end_one_by_one_and_others_start():
    load = with_times(make_jobs((0, a_bag(3, 6)), (0, a_bag(1, 4))), (10, 2, 6), (4,))
    run = simulate(greedy, load, 2)
    assert run.rows("allocations", PIECES) == [
        (0, 0, 1, 1, 0, 2, "finished"),
        (0, 0, 2, 1, 2, 8, "finished"),
        (0, 0, 0, 1, 0, 10, "finished"),
        (1, 0, 0, 1, 8, 12, "finished"),
    ]
    assert run.rows("tasks", "task_id start_time_s end_time_s") == [(0, 0, 10), (1, 8, 12)]


def test_each_instance_is_killed_at_the_requested_time():
    load = with_times(make_jobs((0, a_bag(2, 6, 5))), (3, 9))
    run = simulate(greedy, load, 2, rules=Rules(walltime="kill"))
    ends = run.rows("allocations", "first_instance end_time_s outcome")
    assert ends == [(0, 3, "finished"), (1, 5, "killed")]
    assert run.rows("jobs", "end_time_s status trace_run_time_s") == [(5, "killed", 9)]


def two_machines() -> Cluster:
    return Cluster(("processors",), ("a", "b"), np.array([[2.0], [2.0]]))


def test_instances_that_end_together_on_a_machine_are_one_allocation():
    # (0, 1 | 2, 3) on machines a and b; 0, 2 and 3 take equally long
    load = with_times(make_jobs((0, a_bag(4, 6))), (6, 9, 6, 6))
    run = simulate(greedy, load, two_machines())
    assert run.rows("allocations", PIECES) == [
        (0, 0, 0, 1, 0, 6, "finished"), (0, 1, 2, 2, 0, 6, "finished"), (0, 0, 1, 1, 0, 9, "finished"),
    ]  # fmt: skip
    assert max(run["timeline"]["running"]) == 3
