"""Dependencies between tasks: cycles are found and named, and jobs keep theirs when moved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.workload import Workload
from simkit.workload.dependencies import critical_path_s, find_cycles, slices


def _columns(parents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    first = np.concatenate(([0], np.cumsum([len(row) for row in parents]))).astype(np.int64)
    return first, np.array([row for rows in parents for row in rows], dtype=np.int64)


def _workload(jobs: list[list[list[int]]]) -> Workload:
    """Return jobs of tasks, each given as its parents' rows within the job."""
    sizes = [len(job) for job in jobs]
    first_task = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    rows = [
        [above + int(first) for above in task]
        for job, first in zip(jobs, first_task, strict=False)
        for task in job
    ]
    first_parent, parent = _columns(rows)
    tasks = sum(sizes)
    instances = np.arange(1, tasks + 1)
    return Workload(
        resources=("cpu",),
        job_id=np.arange(len(jobs)),
        submit_time_s=np.arange(len(jobs), dtype=float),
        first_task=first_task,
        task_id=np.concatenate([np.arange(size) for size in sizes]),
        instances=instances,
        request=np.ones((tasks, 1)),
        run_time_s=np.ones(tasks),
        requested_time_s=np.full(tasks, np.nan),
        gang=np.zeros(tasks, dtype=bool),
        first_parent=first_parent,
        parent=parent,
        instance_run_time_s=np.arange(instances.sum(), dtype=float),
    )


@given(st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=7, max_size=7))
def test_a_cycle_is_found_exactly_if_no_order_of_the_tasks_exists(parents: list[list[int]]) -> None:
    done: set[int] = set()
    while more := {i for i, row in enumerate(parents) if i not in done and set(row) <= done}:
        done |= more
    cycles = find_cycles(*_columns(parents), np.zeros(len(parents), int))
    assert len(cycles) == (len(done) < len(parents))
    for cycle in cycles:
        for above, below in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
            assert above in parents[below]


def test_slices_are_those_of_the_rows_wanted() -> None:
    offsets, positions = slices(np.array([0, 2, 2, 5]), np.array([2, 0, 2]))
    assert offsets.tolist() == [0, 3, 5, 8]
    assert positions.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]


def test_a_cycle_is_an_error_that_names_the_job_and_the_tasks() -> None:
    with pytest.raises(TraceError, match=r"tasks of job 1 wait for each other: .*0 -> .*1"):
        _workload([[[], [0]], [[1], [0]]])


def test_the_error_names_every_job_with_a_cycle_and_what_to_do() -> None:
    loop = [[2], [0], [1]]
    told = (
        r"tasks of job 0 wait for each other: .*; of job 2 wait for each other: .*; "
        "take one of these dependencies out, or leave these jobs out"
    )
    with pytest.raises(TraceError, match=told):
        _workload([loop, [[], [0]], [[], *[[above + 1 for above in task] for task in loop]]])
    with pytest.raises(TraceError, match="; of 5 more jobs do so, too; take one"):
        _workload([[[0]]] * 25)


def test_parents_must_be_of_the_same_job() -> None:
    told = r"task 0 of job 1 has the parent row 0; .*same job: correct .*\(1 in all\)"
    with pytest.raises(TraceError, match=told):
        _workload([[[]], [[-1]]])
    with pytest.raises(TraceError, match="parent row 7; .*same job"):
        _workload([[[]], [[6]]])


def test_jobs_keep_their_parents_and_instances_when_taken() -> None:
    whole = _workload([[[], [0]], [[], [0], [0, 1]], [[], []]])
    some = whole.take(np.array([1, 2]))
    assert some.first_parent.tolist() == [0, 0, 1, 3, 3, 3]
    assert some.parent.tolist() == [0, 0, 1]
    begun = int(whole.instances[:2].sum())
    assert some.instance_run_time_s.tolist() == whole.instance_run_time_s[begun:].tolist()
    again = whole.take(np.array([1, 1]), submit_time_s=np.array([5.0, 6.0]))
    assert again.parent.tolist() == [0, 0, 1, 3, 3, 4]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(0, 7))), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_a_critical_path_is_the_longest_of_all_ways(tasks, random):
    """Task i depends on earlier ones; then the rows are shuffled."""
    above = [
        sorted(parent for parent in parents if parent < i) for i, (_, parents) in enumerate(tasks)
    ]
    run = [float(length) for length, _ in tasks]

    def until(i: int) -> float:
        return run[i] + max((until(parent) for parent in above[i]), default=0.0)

    place = random.sample(range(len(tasks)), len(tasks))  # the row of each task
    order = np.argsort(place)
    first, parent = _columns([[place[p] for p in above[i]] for i in order])
    jobs = np.array([0, len(tasks)])
    found = critical_path_s(jobs, first, parent, np.array(run)[order])
    assert found.tolist() == [max(map(until, range(len(tasks))))]
