"""Admission by quality of service or value: who of the waiting gets a slot."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import rigid, simulate
from hypothesis import given
from hypothesis import strategies as st

from simkit.engine.admission import RankedBacklog
from simkit.engine.simulation import Rules
from simkit.errors import ScenarioError
from simkit.policy import Place
from simkit.policy.task import Task
from simkit.workload.admission import AdmissionRule


def worthy(load, qos, **columns):
    return load.with_columns(qos=np.array(qos, dtype=float), **columns)


def one_at_a_time(state):
    """Start the first task that is seen, if nothing runs."""
    for task in state.queue:
        if not len(state.running):
            yield Place(task, state.fit(task))


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
    rules = Rules(admission=AdmissionRule(slots=1, backlog=None, refill=refill, order=order))
    assert order_of_starts(simulate(one_at_a_time, load, rules=rules)) == expected


def test_a_late_comer_of_high_quality_overtakes_those_held_back():
    load = worthy(rigid((0, 5, 1), (1, 5, 1), (2, 5, 1)), [0.1, 0.2, 0.9])
    rules = Rules(admission=AdmissionRule(slots=1, order="qos"))
    # job 0 starts at once, and job 1 takes its slot as the first to come while nobody else waits
    assert simulate(one_at_a_time, load, rules=rules).starts() == {0: 0, 1: 5, 2: 10}
    load = worthy(rigid((0, 5, 1), (0, 5, 1), (1, 5, 1), (2, 5, 1)), [0.5, 0.4, 0.2, 0.9])
    assert order_of_starts(simulate(one_at_a_time, load, rules=rules)) == [0, 1, 3, 2]


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
