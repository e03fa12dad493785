"""Retries of a task's own: it is killed where its work would be lost once more."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, greedy, make_jobs, rigid, simulate
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import LimitError
from simkit.policy import Suspend
from simkit.rules import Limits, Rules
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import Cluster

PIECES = "task_id machine_id first_instance count attempt start_time_s end_time_s outcome"
JOB = "job_id end_time_s run_time_s lost_time_s attempts status reason"


def failing(*times: float) -> Cluster:
    """Return machines 0 and 1 of 4 processors; machine 0 fails at these times, for a second."""
    changes = [
        CapacityChange(time + late, 0, kind, "test", (), "requeue", 0)
        for time in times
        for late, kind in ((0.0, "down"), (1.0, "up"))
    ]
    return Cluster(("processors",), ("a", "b"), np.array([[4.0], [4.0]]), changes=tuple(changes))


def why(retries: int) -> str:
    return f"its work was lost and it may not start over again (retries: {retries})"


def test_a_gang_is_killed_when_its_retries_are_used_up():
    load = rigid((0, 100, 5), (0, 1, 1)).with_columns(retries=np.array([1, -1]))
    run = simulate(greedy, load, failing(3, 7, 20))
    assert run.rows("allocations", PIECES)[1:] == [
        (0, 0, 0, 4, 1, 0, 3, "lost"), (0, 1, 4, 1, 1, 0, 3, "lost"),
        (0, 0, 0, 4, 2, 4, 7, "killed"), (0, 1, 4, 1, 2, 4, 7, "killed"),
    ]  # fmt: skip
    assert run.rows("jobs", JOB)[-1] == (0, 7, 3, 3, 2, "killed", why(1))
    assert (7, "killed", why(1)) in run.rows("events", "time_s kind detail")


def test_a_bag_is_killed_as_a_whole_with_its_children():
    load = make_jobs(
        (0, a_bag(10, 100), a_bag(1, 5)), first_parent=[0, 0, 1], parent=[0], retries=[0, 3]
    )
    run = simulate(greedy, load, failing(3))
    assert run.rows("allocations", PIECES, by="machine_id") == [
        (0, 0, 0, 4, 1, 0, 3, "killed"), (0, 1, 4, 4, 1, 0, 3, "killed"),
    ]  # fmt: skip
    assert run.rows("tasks", "task_id end_time_s status") == [(0, 3, "killed"), (1, 3, "killed")]
    assert run.rows("jobs", "status reason") == [("killed", "a task that it depends on was killed")]


@pytest.mark.parametrize("own", [1, 5])
def test_the_limit_of_the_scenario_is_the_ceiling(own):
    rules = Rules(limits=Limits(retries=1))
    load = rigid((0, 100, 8)).with_columns(retries=np.array([own]))
    run = simulate(greedy, load, failing(3, 7, 20), rules=rules)
    assert run.rows("jobs", "attempts status reason") == [(2, "killed", why(1))]
    with pytest.raises(LimitError, match="job 0 task 0 has lost its work 2 times"):
        simulate(greedy, rigid((0, 100, 8)), failing(3, 7, 20), rules=rules)


def test_work_that_a_policy_throws_away_counts_and_work_it_keeps_does_not():
    def schedule(keep_work):
        def decide(state):
            if state.now == 2:
                yield from (Suspend(a, keep_work) for a in list(state.running) if not a.task.index)
            yield from greedy(state)

        return decide

    load = rigid((0, 9, 4), (2, 1, 1)).with_columns(retries=np.array([0, 0]))
    lost = simulate(schedule(False), load)
    assert lost.rows("jobs", JOB, by="job_id")[0] == (0, 2, 2, 0, 1, "killed", why(0))
    assert lost.starts()[1] == 2  # in the room that it leaves
    kept = simulate(schedule(True), load)
    assert kept.rows("events", "kind job_id")[0] == ("suspended", 0)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 20), st.booleans(), st.integers(1, 9), st.integers(0, 12),
            st.integers(-1, 2),
        ),
        min_size=1, max_size=6,
    ),
    st.lists(st.integers(0, 15), max_size=8),
)  # fmt: skip
def test_no_attempt_comes_after_the_last_and_all_tasks_end(rows, gaps):
    load = make_jobs(
        *((at, (a_gang if together else a_bag)(min(size, 8), run))
          for at, together, size, run, _ in sorted(rows)),
        retries=[row[-1] for row in sorted(rows)],
    )  # fmt: skip
    run = simulate(greedy, load, failing(*(np.cumsum(gaps) + np.arange(len(gaps)) * 2.0).tolist()))
    own = dict(enumerate(load.retries.tolist()))
    allocations = run.rows("allocations", "task_id attempt outcome")
    for task, attempt, outcome in allocations:
        if own[task] >= 0:
            assert attempt <= own[task] + 1
            assert outcome != "lost" or attempt <= own[task]
    for task, status in run.rows("tasks", "task_id status"):
        mine = [(attempt, outcome) for index, attempt, outcome in allocations if index == task]
        assert (status == "killed") == ((own[task] + 1, "killed") in mine)
        assert status in ("killed", "finished")
