"""Preemption: the head of a higher priority takes the place of running tasks below it."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from engine_runs import a_gang, make_jobs, pool, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, LCFS, SJF, WFP3
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import Cluster, Maintenance, Partition

URGENT = Partition("urgent", priority=2, queues=frozenset({2}))
MIDDLE = Partition("middle", priority=1, queues=frozenset({1}), preempt="requeue")
REST = Partition("rest", preempt="requeue")
SUSPEND = Partition("rest", preempt="suspend")


@pytest.mark.parametrize("backfill", [None, Easy])
def test_the_victim_starts_over(backfill):
    load = make_jobs((0, a_gang(8, 10)), (4, a_gang(8, 5)), queue=[0, 2])
    run = simulate(OrderedPolicy(FCFS(), backfill and backfill()), load, pool(8, URGENT, REST))
    assert run.rows("allocations", "job_id start_time_s end_time_s outcome attempt") == [
        (0, 0, 4, "lost", 1), (1, 4, 9, "finished", 1), (0, 9, 19, "finished", 2),
    ]  # fmt: skip
    assert run.rows("jobs", "job_id lost_time_s attempts", by="job_id") == [(0, 4, 2), (1, 0, 1)]


@pytest.mark.parametrize("backfill", [None, Easy])
def test_the_victim_pauses_where_the_partition_suspends(backfill):
    """It goes on after all that would preempt it at once, and before others of its priority."""
    whole = [(0, 10, 0), (1, 3, 0), (4, 5, 2), (5, 6, 2)]  # submit, run time, queue
    load = make_jobs(*((at, a_gang(8, run)) for at, run, _ in whole), queue=[q for *_, q in whole])
    run = simulate(OrderedPolicy(FCFS(), backfill and backfill()), load, pool(8, URGENT, SUSPEND))
    assert run.rows("allocations", "job_id start_time_s end_time_s outcome attempt") == [
        (0, 0, 4, "suspended", 1), (2, 4, 9, "finished", 1), (3, 9, 15, "finished", 1),
        (0, 15, 21, "finished", 1), (1, 21, 24, "finished", 1),
    ]  # fmt: skip
    assert run.rows("jobs", "job_id suspended_time_s lost_time_s", by="job_id")[0] == (0, 11, 0)


def test_a_paused_victim_does_not_idle_behind_a_head_that_cannot_start():
    """The head of a higher priority waits for one that does not give way; the victim runs on."""
    rows = [(0, a_gang(4, 100)), (1, a_gang(4, 20)), (2, a_gang(4, 3)), (3, a_gang(8, 5))]
    load = make_jobs(*rows, queue=[2, 0, 2, 2])
    run = simulate(OrderedPolicy(FCFS(), Easy()), load, pool(8, URGENT, SUSPEND))
    assert run.starts() == {0: 0, 1: 1, 2: 2, 3: 100}
    assert run.rows("allocations", "job_id start_time_s end_time_s outcome", by="start_time_s")[
        1:4
    ] == [(1, 1, 2, "suspended"), (2, 2, 5, "finished"), (1, 5, 24, "finished")]


def test_a_paused_victim_goes_on_where_it_ran():
    import numpy as np

    where = Cluster(
        ("processors",), ("a", "b"), np.array([[4.0], [4.0]]),
        (Partition("urgent", machines=(0,), priority=2, queues=frozenset({2})), SUSPEND),
    )  # fmt: skip
    load = make_jobs((0, a_gang(4, 10)), (2, a_gang(4, 5)), queue=[0, 2])
    run = simulate(OrderedPolicy(FCFS()), load, where)
    assert run.rows("allocations", "job_id machine_id start_time_s end_time_s") == [
        (0, 0, 0, 2), (1, 0, 2, 7), (0, 0, 7, 15),
    ]  # fmt: skip


CASES = [
    # (size, queue) of jobs that start at 0, 1, 2, …; size of the urgent job; who is preempted
    ([(4, 0), (4, 0)], 4, {1}),  # the one that started last
    ([(4, 0), (4, 1)], 4, {0}),  # the lowest priority first
    ([(2, 0), (2, 0), (4, 0)], 2, {2}),  # the youngest, although a smaller one would do
    ([(4, 0), (2, 0), (2, 0)], 4, {1, 2}),
    ([(6, 0), (1, 0), (1, 0)], 6, {0}),  # those that are not needed after all run on
    ([(6, 1), (1, 0), (1, 0)], 6, {0}),
    ([(4, 2), (4, 0)], 5, set()),  # nobody stops where that is not enough
    ([(4, 0), (2, 0)], 2, set()),  # there is room
]


@pytest.mark.parametrize(("running", "size", "expected"), CASES)
def test_who_is_preempted(running, size, expected):
    rows = [(float(n), a_gang(count, 100)) for n, (count, _) in enumerate(running)]
    queues = [queue for _, queue in running] + [2]
    load = make_jobs(*rows, (50, a_gang(size, 5)), queue=queues)
    run = simulate(OrderedPolicy(FCFS(), Easy()), load, pool(8, URGENT, MIDDLE, REST))
    stops = run["allocations"].filter(outcome="lost", end_time_s=50.0)
    assert set(stops["job_id"]) == expected


def test_nobody_stops_for_a_task_that_maintenance_ahead_keeps_from_starting():
    window = Maintenance(10.0, 20.0, 0, (8.0,))
    load = make_jobs((0, a_gang(8, 8)), (4, a_gang(8, 7)), queue=[0, 2])
    where = pool(8, URGENT, REST, maintenance=(window,))
    assert simulate(OrderedPolicy(FCFS()), load, where).starts() == {0: 0, 1: 20}
    fits = make_jobs((0, a_gang(8, 8)), (4, a_gang(8, 6)), queue=[0, 2])
    assert simulate(OrderedPolicy(FCFS()), fits, where).starts() == {0: 0, 1: 4}


def test_nobody_stops_for_nothing_if_another_head_started_before_with_maintenance_ahead():
    """The second urgent job needs the place of the younger batch job alone."""
    window = Maintenance(100.0, 110.0, 0, (1.0,))
    load = make_jobs(
        (0, a_gang(3, 50)), (1, a_gang(3, 50)), (4, a_gang(2, 5)), (4, a_gang(3, 5)),
        queue=[0, 0, 2, 2],
    )  # fmt: skip
    run = simulate(OrderedPolicy(FCFS()), load, pool(8, URGENT, REST, maintenance=(window,)))
    assert run.rows("jobs", "job_id start_time_s attempts", by="job_id") == [
        (0, 0, 1), (1, 1, 2), (2, 4, 1), (3, 4, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("below", [REST, SUSPEND])
def test_one_victim_is_enough_although_maintenance_is_ahead(below):
    """The second urgent job starts in the victim's place, and no other job stops for it."""
    rows = [(0, a_gang(4, 50)), (1, a_gang(2, 50)), (5, a_gang(2, 5)), (5, a_gang(2, 5))]
    load = make_jobs(*rows, queue=[0, 0, 2, 2])
    where = pool(8, URGENT, below, maintenance=(Maintenance(100.0, 110.0, 0, (8.0,)),))
    run = simulate(OrderedPolicy(FCFS(), Easy()), load, where)
    assert [run.starts()[urgent] for urgent in (2, 3)] == [5, 5]
    stops = run["allocations"].filter(pl.col("outcome") != "finished")
    assert stops["job_id"].to_list() == [1]


def test_what_goes_on_is_known_to_those_that_start_after_it():
    """At 6 the paused job takes back its place, and the profile of what is ahead has it."""
    rows = [(0, a_gang(6, 20)), (1, a_gang(6, 5)), (5, a_gang(4, 5)), (6, a_gang(2, 3))]
    load = make_jobs(*rows, queue=[0, 2, 0, 2])
    where = pool(8, URGENT, SUSPEND, maintenance=(Maintenance(100.0, 110.0, 0, (8.0,)),))
    run = simulate(OrderedPolicy(FCFS(), Easy()), load, where)
    rows = run.rows("allocations", "job_id start_time_s end_time_s")
    assert sorted(rows, key=lambda row: (row[1], row[0])) == [
        (0, 0, 1), (1, 1, 6), (0, 6, 25), (3, 6, 9), (2, 25, 30),
    ]  # fmt: skip


JOBS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(1, 8), st.integers(0, 2)),
    min_size=1, max_size=25,
)  # fmt: skip


MODE = st.sampled_from(["requeue", "suspend"])


def starts_of_the_urgent(simulate, make_jobs, a_gang, rows, policy, mode) -> list[float]:
    """Return when jobs of the highest priority start; all jobs must finish."""
    load = make_jobs(*((r[0], a_gang(r[2], r[1])) for r in rows), queue=[r[3] for r in rows])
    below = (replace(partition, preempt=mode) for partition in (MIDDLE, REST))
    run = simulate(policy, load, pool(8, URGENT, *below))
    assert set(run["jobs"]["status"]) == {"finished"}
    return [start for row, start in zip(rows, run.starts().values(), strict=True) if row[3] == 2]


@settings(max_examples=80, deadline=None)
@given(rows=JOBS, order=st.sampled_from([FCFS, LCFS, SJF]), mode=MODE)
def test_the_highest_priority_is_served_as_if_it_were_alone(rows, order, mode):
    """Whatever runs below it, what nobody may preempt starts as on a machine of its own.

    Not where the order changes with time (WFP3): the jobs below it add instants at which it is
    looked at.
    """
    rows = sorted(rows, key=lambda row: row[0])
    urgent = [row for row in rows if row[3] == 2]
    starts = starts_of_the_urgent(simulate, make_jobs, a_gang, rows, OrderedPolicy(order()), mode)
    if urgent:
        alone = starts_of_the_urgent(
            simulate, make_jobs, a_gang, urgent, OrderedPolicy(order()), mode
        )
        assert starts == alone


@settings(max_examples=80, deadline=None)
@given(
    rows=JOBS,
    order=st.sampled_from([FCFS, LCFS, SJF, WFP3]),
    backfill=st.sampled_from([None, Easy]),
    mode=MODE,
)
def test_whatever_is_preempted_all_jobs_finish(rows, order, backfill, mode):
    rows = sorted(rows, key=lambda row: row[0])
    policy = OrderedPolicy(order(), backfill and backfill())
    starts_of_the_urgent(simulate, make_jobs, a_gang, rows, policy, mode)
