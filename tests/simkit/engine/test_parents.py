"""Parents: a task is not seen before all that it depends on has ended."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, begin, greedy, make_jobs, simulate

from simkit.policy import Kill
from simkit.rules import AdmissionRule, Rules

ENDS = "task_id start_time_s end_time_s status"


def with_parents(load, *parents):
    """Return the workload with the rows of each task's parents."""
    first = np.cumsum([0, *map(len, parents)])
    return load.with_columns(
        first_parent=first,
        parent=np.array([row for rows in parents for row in rows], dtype=np.int64),
    )


def test_children_start_when_the_last_parent_has_ended():
    # 0 and 1 first, then 2, then 3; there is room for all of them from the start
    load = make_jobs((0, a_gang(1, 5), a_bag(2, 9), a_gang(1, 1), a_gang(1, 1)))
    run = simulate(greedy, with_parents(load, [], [], [0, 1], [2]), 9)
    assert run.rows("tasks", ENDS, by="task_id") == [
        (0, 0, 5, "finished"), (1, 0, 9, "finished"), (2, 9, 10, "finished"), (3, 10, 11, "finished"),
    ]  # fmt: skip
    assert run.rows("jobs", "start_time_s end_time_s status") == [(0, 11, "finished")]


def test_a_child_arrives_at_the_decision_after_its_parents_end():
    seen = []

    def schedule(state):
        seen.append((state.now, [task.index for task in state.arrived]))
        yield from greedy(state)

    load = make_jobs((0, a_gang(1, 5), a_gang(1, 0), a_gang(1, 2)))
    simulate(schedule, with_parents(load, [], [0], [1]), 9)
    # the end of 1, which takes no time, makes a further round of the instant
    assert seen == [(0, [0]), (5, [1]), (5, [2]), (7, [])]


@pytest.mark.parametrize("how", ["walltime", "policy"])
def test_children_of_a_killed_task_are_killed(how):
    def schedule(state):
        if how == "policy" and state.now == 3:
            yield from (Kill(a.task) for a in state.running if a.task.index == 0)
        yield from greedy(state)

    load = make_jobs(
        (0, a_gang(1, 5, 3 if how == "walltime" else 5), a_gang(1, 2), a_gang(1, 2), a_gang(1, 9)),
        (3, a_gang(1, 1)),
    )
    rules = Rules(walltime="kill" if how == "walltime" else "ignore")
    run = simulate(schedule, with_parents(load, [], [0], [1], [], []), 9, rules=rules)
    assert run.rows("tasks", "task_id end_time_s status", by="task_id") == [
        (0, 3, "killed"), (1, 3, "killed"), (2, 3, "killed"), (3, 9, "finished"), (4, 4, "finished"),
    ]  # fmt: skip
    assert run.rows("jobs", "job_id end_time_s status", by="job_id")[0] == (0, 9, "killed")


def test_children_are_let_in_whatever_the_backlog():
    load = make_jobs((0, a_gang(1, 5), a_gang(1, 1), a_gang(1, 1)), (1, a_gang(1, 9)))
    rules = Rules(admission=AdmissionRule(slots=1, backlog=0))
    run = simulate(greedy, with_parents(load, [], [0], [0], []), 1, rules=rules)
    assert [status for (status,) in run.rows("jobs", "status")] == ["finished", "finished"]


def test_what_waits_for_its_parents_waits():
    run = begin(with_parents(make_jobs((0, a_gang(1, 5), a_gang(1, 1))), [], [0]))
    for state in run.simulation.decisions():
        for action in greedy(state):
            run.simulation.apply(action)
        break
    run.simulation.close()
    assert run.rows("tasks", "task_id status") == [(0, "running"), (1, "waiting")]
