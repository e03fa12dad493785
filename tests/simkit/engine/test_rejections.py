"""Jobs that are rejected after they have waited: by the policy, or because they are late."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_gang, greedy, make_jobs, rigid, simulate

from simkit.errors import PolicyError, ScenarioError
from simkit.policy import Place, Reject, Suspend
from simkit.rules import AdmissionRule, Rules

ENDS = "job_id start_time_s status reason"


def leaving(slots=None, backlog=None, refill="at_once") -> Rules:
    return Rules(admission=AdmissionRule(slots=slots, backlog=backlog, refill=refill, late="leave"))


def with_qos(workload, qos):
    return workload.with_columns(qos=np.array(qos, dtype=float))


def rejecting(wanted):
    """Return a policy that rejects some tasks, by index, and starts what fits of the others."""

    def schedule(state):
        for task in state.queue:
            if task.index in wanted:
                yield Reject(task, "not this one")
            elif on := state.fit(task):
                yield Place(task, on)

    return schedule


def test_a_rejected_job_never_runs_and_its_reason_is_kept():
    run = simulate(rejecting({1}), rigid((0, 5, 4), (1, 5, 4), (2, 5, 4)))
    assert run.rows("jobs", ENDS, by="job_id") == [
        (0, 0.0, "finished", ""), (1, None, "rejected", "policy: not this one"),
        (2, 5.0, "finished", ""),
    ]  # fmt: skip
    assert run.rows("events", "time_s kind job_id detail") == [
        (1.0, "rejected", 1, "policy: not this one")
    ]
    assert run.rows("tasks", "task_id ready_time_s", by="task_id")[1] == (1, 1.0)


def test_the_slot_of_a_rejected_job_is_filled_in_the_same_decision():
    rules = Rules(admission=AdmissionRule(slots=1))
    run = simulate(rejecting({0, 1}), rigid((0, 5, 4), (0, 5, 4), (0, 5, 4)), rules=rules)
    assert run.starts() == {0: None, 1: None, 2: 0.0}


def test_the_whole_job_is_rejected():
    run = simulate(rejecting({1}), make_jobs((0, a_gang(4, 5)), (1, a_gang(4, 5), a_gang(2, 5))))
    assert run.rows("jobs", "job_id status", by="job_id") == [(0, "finished"), (1, "rejected")]
    assert run.rows("tasks", "task_id status", by="task_id") == [
        (0, "finished"), (1, "rejected"), (2, "rejected"),
    ]  # fmt: skip


# ---- late jobs ----------------------------------------------------------------------------------


def test_late_jobs_leave_at_the_first_decision_that_is_too_late():
    # 5 s with a quality of service of 0.5 are due 10 s after the submission: start by 5 s
    work = with_qos(rigid((0, 4, 4), (0, 5, 4), (0, 5, 4), (9, 1, 1)), [1, 0.5, 0.5, 1])
    run = simulate(greedy, work, rules=leaving())
    late = "late: it can no longer end in time"
    assert run.rows("jobs", ENDS, by="job_id") == [
        (0, 0.0, "finished", ""), (1, 4.0, "finished", ""), (2, None, "rejected", late),
        (3, 9.0, "finished", ""),
    ]  # fmt: skip
    assert run.rows("events", "time_s kind job_id") == [(9.0, "rejected", 2)]


def test_late_jobs_of_the_backlog_leave_before_they_are_seen():
    seen = []

    def schedule(state):
        seen.append((state.now, [task.index for task in state.queue]))
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)

    for refill in ("at_once", "next_decision"):
        seen.clear()
        work = with_qos(rigid((0, 8, 4), (0, 1, 4), (0, 1, 4), (0, 9, 4)), [1, 0.5, 0.5, 0.5])
        run = simulate(schedule, work, rules=leaving(slots=1, refill=refill))
        assert run.starts() == {0: 0.0, 1: None, 2: None, 3: 8.0}
        assert (8.0, [3]) in seen
        assert run.rows("events", "time_s kind job_id", by="job_id") == [
            (8.0, "rejected", 1), (8.0, "rejected", 2),
        ]  # fmt: skip


@pytest.mark.parametrize("slots", [None, 1, 2, 3])
def test_a_late_job_of_several_tasks_leaves_once(slots):
    work = make_jobs((0, a_gang(4, 8)), (0, a_gang(4, 5), a_gang(4, 5)), (8, a_gang(1, 1)))
    run = simulate(greedy, with_qos(work, [1, 0.9, 1]), rules=leaving(slots=slots))
    assert run.rows("jobs", "job_id status", by="job_id") == [
        (0, "finished"), (1, "rejected"), (2, "finished"),
    ]  # fmt: skip
    assert run.rows("tasks", "task_id", by="task_id") == [(0,), (1,), (2,), (3,)]
    assert run.rows("events", "kind job_id") == [("rejected", 1)]


def test_a_policy_sees_what_it_may_reject():
    seen = []

    def schedule(state):
        seen.append([(task.index, state.rejectable(task)) for task in state.queue])
        if not len(state.running) and state.queue.tasks:
            yield Place(state.queue[0], state.fit(state.queue[0]))
            seen.append([(task.index, state.rejectable(task)) for task in state.queue])

    simulate(schedule, make_jobs((0, a_gang(4, 5), a_gang(4, 5)), (0, a_gang(4, 5))))
    assert seen[:2] == [[(0, True), (1, True), (2, True)], [(1, False), (2, True)]]


def test_without_quality_or_deadlines_nobody_can_be_late():
    with pytest.raises(ScenarioError, match="neither deadlines nor a quality of service"):
        simulate(greedy, rigid((0, 5, 4)), rules=leaving())


def reject_second_after(later):
    """Return a policy that places the first task, perhaps later, and rejects the other."""

    def schedule(state):
        first, second = state.queue.tasks
        yield Place(first, state.fit(first), later)
        yield Reject(second)

    return schedule


def reject_what_runs(state):
    for task in list(state.queue):
        yield Place(task, state.fit(task))
        yield Reject(task)


def reject_what_lost_its_work(state):
    for allocation in list(state.running):
        yield Suspend(allocation, keep_work=False)
    for task in list(state.queue):
        yield Reject(task) if state.now else Place(task, state.fit(task))


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (reject_second_after(None), "task 0 has started"),
        (reject_second_after(10.0), "task 0 has started or is reserved"),
        (reject_what_runs, "is not waiting"),
        (reject_what_lost_its_work, "has started or is reserved"),
    ],
)
def test_only_a_job_of_which_nothing_has_begun_is_rejected(schedule, words):
    second = [a_gang(1, 5)] if "second" in schedule.__qualname__ else []
    with pytest.raises(PolicyError, match=words):
        simulate(schedule, make_jobs((0, a_gang(1, 5), *second), (2, a_gang(1, 5))))


def test_a_start_at_the_last_instant_is_in_time():
    work = with_qos(rigid((0, 5, 4), (0, 5, 4)), [1, 0.5])
    run = simulate(greedy, work, rules=leaving())
    assert run.starts() == {0: 0.0, 1: 5.0}
