"""Admission: slots, the backlog, its limit and its order, and when a slot is refilled."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_gang, greedy, make_jobs, rigid, simulate
from hypothesis import given
from hypothesis import strategies as st

from simkit.engine.admission import RankedBacklog
from simkit.errors import ScenarioError
from simkit.policy import Cancel, Kill, Place, Suspend
from simkit.policy.task import Task
from simkit.rules import AdmissionRule, Rules

ENDS = "job_id start_time_s status"


def rules(slots=None, backlog=None, refill="at_once", **facts) -> Rules:
    return Rules(admission=AdmissionRule(slots=slots, backlog=backlog, refill=refill), **facts)


def looking(log, schedule):
    """Return a policy that notes (now, visible tasks, tasks that arrived) at every decision."""

    def look(state):
        visible = [task.index for task in state.queue]
        log.append((state.now, visible, [task.index for task in state.arrived]))
        yield from schedule(state)

    return look


def one_at_a_time(state):
    """Start the first task that fits, if nothing runs."""
    for task in state.queue:
        if not len(state.running):
            yield Place(task, state.fit(task))


def test_slots_limit_what_a_policy_sees():
    log = []
    run = simulate(looking(log, one_at_a_time), rigid(*[(0, 5, 1)] * 5), rules=rules(slots=2))
    assert log == [
        (0, [0, 1], [0, 1]),
        (5, [1, 2], [2]),  # 2 came at 0, while the policy acted
        (10, [2, 3], [3]), (15, [3, 4], [4]), (20, [4], []), (25, [], []),
    ]  # fmt: skip
    assert run.rows("timeline", "time_s waiting backlog running") == [
        (0, 2, 2, 1), (5, 2, 1, 1), (10, 2, 0, 1), (15, 1, 0, 1), (20, 0, 0, 1), (25, 0, 0, 0),
    ]  # fmt: skip


def test_refill_at_the_next_decision():
    log = []
    load = rigid(*[(0, 5, 1)] * 4)
    run = simulate(looking(log, greedy), load, rules=rules(slots=2, refill="next_decision"))
    assert log == [(0, [0, 1], [0, 1]), (5, [2, 3], [2, 3]), (10, [], [])]
    assert run.rows("timeline", "time_s waiting backlog") == [(0, 0, 2), (5, 0, 0), (10, 0, 0)]


def test_what_the_backlog_does_not_hold_is_rejected():
    run = simulate(one_at_a_time, rigid(*[(0, 5, 1)] * 5), rules=rules(slots=2, backlog=1))
    assert run.rows("jobs", f"{ENDS} reason") == [
        (3, None, "rejected", "the backlog is full"), (4, None, "rejected", "the backlog is full"),
        (0, 0, "finished", ""), (1, 5, "finished", ""), (2, 10, "finished", ""),
    ]  # fmt: skip
    assert run.rows("events", "time_s kind job_id") == [(0, "rejected", 3), (0, "rejected", 4)]


@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_a_job_of_several_tasks_is_admitted_whole_or_not(tasks):
    # one slot is taken; another and one place in the backlog are left
    load = make_jobs(
        (0, a_gang(4, 9)), (0, a_gang(4, 9)), (1, *[a_gang(1, 1)] * tasks), (2, a_gang(1, 1))
    )
    log = []
    run = simulate(looking(log, greedy), load, rules=rules(slots=2, backlog=1))
    status = dict(run.rows("jobs", "job_id status"))
    assert status == {0: "finished", 1: "finished", 2: "finished" if tasks == 2 else "rejected",
                      3: "rejected" if tasks == 2 else "finished"}  # fmt: skip
    if tasks > 2:
        assert log[:3] == [(0, [0, 1], [0, 1]), (1, [1], []), (2, [1, 2 + tasks], [2 + tasks])]
        assert run.rows("tasks", "status")[:tasks] == [("rejected",)] * tasks


def test_what_comes_back_does_so_whatever_the_slots():
    # a lost task and a cancelled reservation
    log = []

    def schedule(state):
        if state.now == 3:
            yield from (Suspend(allocation, keep_work=False) for allocation in state.running)
        elif state.now == 4:
            for task in state.queue:
                if task.index == 1:
                    yield Place(task, ((0, 4),), 20.0)
                    yield Cancel(task)
            yield from greedy(state)
        else:
            yield from greedy(state)

    load = rigid((0, 9, 4), (1, 9, 4), (3, 9, 4), (4, 9, 4))
    run = simulate(looking(log, schedule), load, rules=rules(slots=1))
    assert log[:4] == [(0, [0], [0]), (1, [1], [1]), (3, [1], []), (4, [0, 1], [0])]
    assert [status for (status,) in run.rows("jobs", "status")] == ["finished"] * 4


def test_killing_frees_a_slot_or_a_place_in_the_backlog():
    log = []
    kept = []

    def schedule(state):
        kept.extend(state.queue)
        if state.now == 1:
            yield Kill(kept[0])

    simulate(looking(log, schedule), rigid((0, 9, 1), (0, 9, 1), (1, 9, 1), (2, 1, 1)),
             rules=rules(slots=1))  # fmt: skip
    assert [row[1] for row in log] == [[0], [0], [1]]


def test_a_kill_of_all_that_is_visible_leaves_nobody_behind():
    # Nothing else will ever happen: the backlog needs a decision of its own.
    killed = []

    def once(state):
        if not killed:
            killed.append(state.queue[0])
            yield Kill(state.queue[0])
            return
        yield from greedy(state)

    run = simulate(once, rigid((0, 9, 1), (0, 9, 1)), rules=rules(slots=1, refill="next_decision"))
    assert run.rows("jobs", "job_id status") == [(0, "killed"), (1, "finished")]


def worthy(load, qos, **columns):
    return load.with_columns(qos=np.array(qos, dtype=float), **columns)


def order_of_starts(run) -> list[int]:
    starts = run.starts()
    return sorted(starts, key=starts.__getitem__)


@pytest.mark.parametrize("refill", ["at_once", "next_decision"])
@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fifo", [0, 1, 2, 3]),
        ("qos", [2, 0, 3, 1]),  # of equals the first submitted
        ("value", [3, 1, 0, 2]),
    ],
)
def test_who_goes_first(order, expected, refill):
    load = worthy(
        rigid(*[(0, 5, 1)] * 4), [0.5, 0.2, 0.9, 0.5], value=np.array([2.0, 3.0, 1.0, 4.0])
    )
    rules = Rules(admission=AdmissionRule(slots=1, refill=refill, order=order))
    assert order_of_starts(simulate(one_at_a_time, load, rules=rules)) == expected


@given(st.lists(st.one_of(st.floats(0.01, 1), st.integers(0, 20)), max_size=40))
def test_the_backlog_is_a_sorted_list(steps):
    """A float adds a task of that QoS, a whole number takes out the nth, or the first if none."""
    backlog, model, made = RankedBacklog(lambda task: task.qos), [], 0
    for step in steps:
        if isinstance(step, float):
            task = Task(made, made, 0.0, (1.0,))
            task.qos = step
            backlog.append(task)
            model.append(task)
            made += 1
        elif step < len(model):
            backlog.remove(model.pop(step))
        elif model:
            best = min(model, key=lambda task: (-task.qos, task.index))
            model.remove(best)
            assert backlog.popleft() is best
        assert list(backlog) == model
        assert len(backlog) == len(model)
        assert all(task in backlog for task in model)


def test_what_is_not_held_back_cannot_be_taken_out():
    with pytest.raises(ValueError, match="is not held back"):
        RankedBacklog(lambda task: task.qos).remove(Task(0, 0, 0.0, (1.0,)))


@pytest.mark.parametrize(
    "rule",
    [
        {"order": "qos"},  # an order needs slots
        {"slots": 1, "order": "lifo"},
        {"slots": 0},
        {"slots": -1},
        {"slots": 1, "backlog": -1},
    ],
)
def test_rules_that_cannot_be(rule):
    with pytest.raises(ScenarioError, match=rf"admission\.{[*rule][-1]}"):
        AdmissionRule(**rule)
