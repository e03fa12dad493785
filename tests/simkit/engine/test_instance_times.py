"""Instances with individual run times: each ends when it is done, and frees what it holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.engine.simulation import Rules
from simkit.policy import Place, Suspend
from simkit.workload.cluster import Cluster

PIECES = "task_id machine_id first_instance count start_time_s end_time_s outcome"


def with_times(load, *times):
    """Return the workload with the run times of all instances, task by task."""
    flat = np.array([time for task in times for time in task], dtype=float)
    return load.with_columns(instance_run_time_s=flat)


def two_machines() -> Cluster:
    return Cluster(("processors",), ("a", "b"), np.array([[2.0], [2.0]]))


def test_instances_end_one_by_one_and_others_start(simulate, make_jobs, a_bag, greedy):
    load = with_times(make_jobs((0, a_bag(3, 6)), (0, a_bag(1, 4))), (10, 2, 6), (4,))
    run = simulate(greedy, load, 2)
    assert run.rows("allocations", PIECES) == [
        (0, 0, 1, 1, 0, 2, "finished"),
        (0, 0, 2, 1, 2, 8, "finished"),
        (0, 0, 0, 1, 0, 10, "finished"),
        (1, 0, 0, 1, 8, 12, "finished"),
    ]
    assert run.rows("tasks", "task_id start_time_s end_time_s") == [(0, 0, 10), (1, 8, 12)]


def test_instances_that_end_together_on_a_machine_are_one_allocation(
    simulate, make_jobs, a_bag, greedy
):
    # (0, 1 | 2, 3) on machines a and b; 0, 2 and 3 take equally long
    load = with_times(make_jobs((0, a_bag(4, 6))), (6, 9, 6, 6))
    run = simulate(greedy, load, two_machines())
    assert run.rows("allocations", PIECES) == [
        (0, 0, 0, 1, 0, 6, "finished"), (0, 1, 2, 2, 0, 6, "finished"), (0, 0, 1, 1, 0, 9, "finished"),
    ]  # fmt: skip
    assert max(run["timeline"]["running"]) == 3


def test_a_lost_instance_takes_its_own_time_again(simulate, make_jobs, a_bag, greedy):
    def schedule(state):
        if state.now == 3:
            yield from (Suspend(a, keep_work=False) for a in state.running)
        else:
            yield from greedy(state)

    load = with_times(
        make_jobs((0, a_bag(2, 6)), (3, a_bag(1, 1)), (4, a_bag(1, 1))), (8, 4), (1,), (1,)
    )
    run = simulate(schedule, load, 4)
    mine = [row[2:] for row in run.rows("allocations", PIECES) if row[0] == 0]
    assert sorted(mine) == [
        (0, 1, 0, 3, "lost"), (0, 1, 4, 12, "finished"), (1, 1, 0, 3, "lost"), (1, 1, 4, 8, "finished"),
    ]  # fmt: skip


def test_a_gang_ends_with_its_last_instance(simulate, make_jobs, a_gang, greedy):
    load = with_times(make_jobs((0, a_gang(2, 6))), (2, 10))
    run = simulate(greedy, load, 2)
    assert run.rows("allocations", PIECES) == [(0, 0, 0, 2, 0, 10, "finished")]


def test_each_instance_is_killed_at_the_requested_time(simulate, make_jobs, a_bag, greedy):
    load = with_times(make_jobs((0, a_bag(2, 6, 5))), (3, 9))
    run = simulate(greedy, load, 2, rules=Rules(walltime="kill"))
    ends = run.rows("allocations", "first_instance end_time_s outcome")
    assert ends == [(0, 3, "finished"), (1, 5, "killed")]
    assert run.rows("jobs", "end_time_s status trace_run_time_s") == [(5, "killed", 9)]


@given(data=st.data())
def test_every_instance_runs_once_for_its_time_within_capacity(
    data, simulate, make_jobs, a_bag, greedy
):
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    times = [data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)) for n in sizes]
    submits = sorted(
        data.draw(st.lists(st.integers(0, 20), min_size=len(sizes), max_size=len(sizes)))
    )
    load = make_jobs(*((float(t), a_bag(n, 1)) for t, n in zip(submits, sizes, strict=True)))
    run = simulate(greedy, with_times(load, *times), two_machines())
    seen = {}
    for task, machine, first, count, start, end, outcome in run.rows("allocations", PIECES):
        assert outcome == "finished"
        for instance in range(first, first + count):
            assert (task, instance) not in seen
            seen[task, instance] = (machine, start, end)
            assert end - start == times[task][instance]
            assert start >= submits[task]
    assert len(seen) == sum(sizes)
    for _, start, end in seen.values():
        for machine in (0, 1):
            held = [1 for m, s, e in seen.values() if m == machine and s <= start < e]
            assert len(held) <= 2
            assert end >= start


def test_wrong_numbers_of_instances_are_placed_by_nobody(simulate, make_jobs, a_bag):
    from simkit.errors import PolicyError

    load = with_times(make_jobs((0, a_bag(2, 6))), (3, 9))
    with pytest.raises(PolicyError):
        simulate(lambda state: [Place(task, ((0, 3),)) for task in state.queue], load)
