"""Suspension: work kept or lost, attempts, and running on somewhere else."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import greedy, rigid, simulate

from simkit.errors import PolicyError
from simkit.policy import Place, Resume, Suspend
from simkit.rules import Rules
from simkit.workload.cluster import Cluster, Partition

JOB = "job_id start_time_s end_time_s run_time_s suspended_time_s lost_time_s attempts status"
PIECES = "task_id machine_id first_instance count attempt start_time_s end_time_s outcome"
EVENTS = "time_s kind job_id"


def two_machines(**facts) -> Cluster:
    return Cluster(("processors",), ("a", "b"), np.array([[4.0], [4.0]]), **facts)


def at(times, greedy):
    """Return a policy that does what `times` says, once at an instant, then starts what fits."""
    left = dict(times)

    def schedule(state):
        if state.now in left:
            yield from left.pop(state.now)(state)
        yield from greedy(state)

    return schedule


def suspend(index, *, keep_work=True):
    return lambda state: [
        Suspend(allocation, keep_work)
        for allocation in state.running
        if allocation.task.index == index
    ]


def resume(on=None):
    return lambda state: [Resume(allocation, on) for allocation in state.suspended]


def test_kept_work_is_not_done_again():
    load = rigid((0, 10, 4), (4, 5, 4), (9, 0, 1))
    run = simulate(at({4: suspend(0), 9: resume()}, greedy), load)
    assert run.rows("jobs", JOB, by="job_id")[:2] == [
        (0, 0, 15, 10, 5, 0, 1, "finished"), (1, 4, 9, 5, 0, 0, 1, "finished"),
    ]  # fmt: skip
    assert run.rows("allocations", PIECES)[:2] == [
        (0, 0, 0, 4, 1, 0, 4, "suspended"), (1, 0, 0, 4, 1, 4, 9, "finished"),
    ]  # fmt: skip
    assert run.rows("allocations", PIECES)[-1] == (2, 0, 0, 1, 1, 15, 15, "finished")
    assert (0, 0, 0, 4, 1, 9, 15, "finished") in run.rows("allocations", PIECES)
    assert run.rows("events", EVENTS) == [(4, "suspended", 0), (9, "resumed", 0)]


def test_lost_work_starts_over():
    load = rigid((0, 10, 4), (4, 5, 4))

    def lose(state):
        yield from suspend(0, keep_work=False)(state)
        for task in list(state.queue)[::-1]:  # job 1 goes before job 0, which is back in its place
            if on := state.fit(task):
                yield Place(task, on)

    run = simulate(at({4: lose}, greedy), load)
    assert run.rows("jobs", JOB) == [
        (1, 4, 9, 5, 0, 0, 1, "finished"), (0, 0, 19, 10, 0, 4, 2, "finished"),
    ]  # fmt: skip
    assert run.rows("allocations", PIECES) == [
        (0, 0, 0, 4, 1, 0, 4, "lost"), (1, 0, 0, 4, 1, 4, 9, "finished"),
        (0, 0, 0, 4, 2, 9, 19, "finished"),
    ]  # fmt: skip
    assert run.rows("events", f"{EVENTS} detail") == [(4, "lost", 0, "4 instances start over")]


def test_expected_end_counts_what_is_done():
    seen = []

    def look(state):
        seen.extend((state.now, allocation.expected_end_s) for allocation in state.running)
        return ()

    def go_on(state):
        yield from resume()(state)
        yield from look(state)

    load = rigid((0, 10, 4, 12), (4, 0, 1), (9, 0, 1))
    simulate(at({4: suspend(0), 9: go_on}, greedy), load)
    assert seen == [(9, 9 + 12 - 4)]


def test_overdue_and_suspended_is_expected_to_end_at_once():
    ends = []

    def go_on(state):
        yield from resume()(state)
        ends.extend(end for end, _, _ in state.expected_ends)

    simulate(at({8: suspend(0), 9: go_on}, greedy), rigid((0, 10, 4, 5), (8, 0, 4), (9, 0, 1)))
    assert ends == [9]


def test_the_requested_time_is_of_running_not_of_rest():
    load = rigid((0, 10, 4, 6), (4, 0, 1), (9, 0, 1))
    run = simulate(at({4: suspend(0), 9: resume()}, greedy), load, rules=Rules(walltime="kill"))
    assert run.rows("jobs", JOB, by="job_id")[0] == (0, 0, 11, 6, 5, 0, 1, "killed")


def test_suspended_for_ever_counts_as_running():
    run = simulate(at({4: suspend(0)}, greedy), rigid((0, 10, 4), (4, 1, 1)))
    assert run.rows("jobs", JOB)[1] == (0, 0, None, None, 0, 0, 1, "running")
    assert run.rows("allocations", "task_id outcome") == [(0, "suspended"), (1, "finished")]


@pytest.mark.parametrize(
    ("on", "what"),
    [
        (((0, 3),), "resumes 3 of 4 instances"),
        (((0, 2), (1, 2)), "partition left, which has no machine 1"),
        (((0, 2), (0, 2)), "one twice"),
        (None, r"asks machine 0 \(a\) for 4 processors, 1 are free"),
    ],
)
def test_an_illegal_resumption(on, what):
    cluster = two_machines(partitions=(Partition("left", machines=(0,)),))
    with pytest.raises(PolicyError, match=what):
        simulate(
            at({4: suspend(0), 6: resume(on)}, greedy),
            rigid((0, 9, 4), (4, 9, 3), (6, 1, 1)),
            cluster,
        )


@pytest.mark.parametrize("action", [Suspend, Resume])
def test_what_does_not_run_or_rest(action):
    kept = []

    def keep(state):
        kept.extend(state.ended)
        return [action(kept[0])]

    with pytest.raises(PolicyError, match="is not running|is not suspended"):
        simulate(at({5: keep}, greedy), rigid((0, 5, 1)))
