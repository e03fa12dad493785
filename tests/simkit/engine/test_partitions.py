"""Partitions: which jobs they take, their limits, priorities and machines."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, greedy, make_jobs, rigid, simulate

from simkit.errors import PolicyError
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy import Place
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import Cluster, Partition


def cluster(*partitions: Partition, machines=(4, 4)) -> Cluster:
    names = tuple(f"m{row}" for row in range(len(machines)))
    capacity = np.array(machines, dtype=float).reshape(-1, 1)
    return Cluster(("processors",), names, capacity, partitions or (Partition("all"),))


def partition_of(load, where):
    """Run a workload; return the name of each task's partition in order of submission."""
    names = []

    def schedule(state):
        names.extend(state.info.partitions[task.partition].name for task in state.arrived)
        yield from ()

    run = simulate(schedule, load, where)
    return names, run


EXPRESS = Partition("express", queues=frozenset({1, 2}))
OLD = Partition("old", partitions=frozenset({7}))
REST = Partition("rest")


@pytest.mark.parametrize(
    ("queue", "number", "name"),
    [
        (1, -1, "express"),  # by its queue number
        (2, 7, "express"),  # the first that takes it, in the order of the cluster
        (3, 7, "old"),  # by its partition number
        (3, 8, "rest"),  # by neither: the one that names no numbers takes all
        (-1, -1, "rest"),
    ],
)
def test_numbers_lead_to_a_partition(queue, number, name):
    load = make_jobs((0, a_gang(1, 1)), queue=[queue], partition=[number])
    assert partition_of(load, cluster(EXPRESS, OLD, REST))[0] == [name]


def test_a_job_that_no_partition_takes_is_rejected():
    load = make_jobs((3, a_gang(1, 1)), queue=[5], partition=[6])
    names, run = partition_of(load, cluster(EXPRESS, OLD))
    assert names == []
    assert run.rows("jobs", "status reason") == [
        ("rejected", "no partition takes queue 5, partition 6")
    ]


LIMITED = Partition("short", max_time_s=60, max_demand=3)


@pytest.mark.parametrize(
    ("size", "run", "requested", "reason"),
    [
        (3, 60, 60, ""),  # exactly at both limits
        (1, 10, 61, "asks for 61 s, partition short allows 60 s"),  # the request counts
        (1, 61, 10, ""),  # not the true run time
        (1, 61, float("nan"), ""),  # who asks for no time may come
        (4, 10, 10, "asks for 4 processors, partition short allows 3"),
    ],
)
def test_limits(size, run, requested, reason):
    for machines in ((8,), (4, 4)):
        load = rigid((0, run, size, requested))
        done = simulate(greedy, load, cluster(LIMITED, machines=machines))
        assert done.rows("jobs", "reason") == [(reason,)]
        assert done.rows("jobs", "status") == [("rejected" if reason else "finished",)]


SHORT = Partition("short", max_time_s=60, max_demand=3)
LONG = Partition("long", max_time_s=600)


@pytest.mark.parametrize(
    ("size", "requested", "name", "reason"),
    [
        (3, 60, "short", ""),
        (1, 61, "long", ""),  # too long for the first
        (4, 60, "long", ""),  # too large for it
        (9, 60, "", "asks for 9 x 1 processors at once, the machines of partition short hold 8; "
                    "asks for 9 x 1 processors at once, the machines of partition long hold 8"),
        (1, 601, "", "asks for 601 s, partition short allows 60 s; asks for 601 s, partition long "
                     "allows 600 s"),
    ],
)  # fmt: skip
def test_a_job_falls_through_to_the_next_partition_that_admits_it(size, requested, name, reason):
    run = simulate(greedy, rigid((0, 5, size, requested)), cluster(SHORT, LONG))
    assert run.rows("jobs", "site_partition reason") == [(name, reason)]


def test_all_tasks_of_a_job_go_to_one_partition():
    load = make_jobs((0, a_gang(2, 5), a_bag(4, 5)), (1, a_gang(2, 5), a_bag(3, 5)))
    names, run = partition_of(load, cluster(SHORT, LONG))
    assert names == ["long", "long", "short", "short"]
    assert run.rows("jobs", "site_partition") == [("long",), ("short",)]


@pytest.mark.parametrize("reserved", [False, True])
def test_another_partitions_machine_is_forbidden(reserved):
    def schedule(state):
        for task in state.queue:
            yield Place(task, ((1, 1),), 5.0 if reserved else None)

    left = Partition("left", machines=(0,))
    with pytest.raises(
        PolicyError, match="job 0 task 0: is in partition left, which has no machine 1"
    ):
        simulate(schedule, rigid((0, 1, 1)), cluster(left))


def test_priorities_go_first_and_then_the_order():
    urgent = Partition("urgent", priority=10, queues=frozenset({1}))
    low = Partition("low", priority=-1, queues=frozenset({2}))
    load = make_jobs(
        (0, a_gang(8, 10)), (1, a_gang(8, 10)), (2, a_gang(8, 10)), (3, a_gang(8, 10)),
        (4, a_gang(8, 10)), queue=[0, 2, 0, 1, 1],
    )  # fmt: skip
    run = simulate(OrderedPolicy(FCFS(), Easy()), load, cluster(urgent, low, REST))
    assert run.starts() == {0: 0, 3: 10, 4: 20, 2: 30, 1: 40}


@pytest.mark.parametrize("backfill", [None, Easy])
def test_disjoint_machines_do_not_wait_for_each_other(backfill):
    left = Partition("left", machines=(0,), queues=frozenset({0}))
    right = Partition("right", machines=(1,))
    load = make_jobs(
        (0, a_gang(4, 50)), (1, a_gang(4, 5)),  # left: the second waits at its head
        (2, a_gang(4, 50)), (3, a_gang(1, 5)),  # right
        queue=[0, 0, 1, 1],
    )  # fmt: skip
    run = simulate(OrderedPolicy(FCFS(), backfill and backfill()), load, cluster(left, right))
    assert run.starts() == {0: 0, 1: 50, 2: 2, 3: 52}


def test_shared_machines_have_one_head():
    # The partitions share machine 1: what waits for it in one holds up the other.
    left = Partition("left", machines=(0, 1), queues=frozenset({0}))
    right = Partition("right", machines=(1,))
    load = make_jobs((0, a_gang(4, 50)), (1, a_gang(5, 5)), (2, a_gang(1, 5)), queue=[0, 0, 1])
    run = simulate(OrderedPolicy(FCFS()), load, cluster(left, right))
    assert run.starts() == {0: 0, 1: 50, 2: 50}
    run = simulate(OrderedPolicy(FCFS(), Easy()), load, cluster(left, right))
    assert run.starts() == {0: 0, 1: 50, 2: 2}  # and may be overtaken
