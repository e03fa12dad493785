"""Orderings by worth and by how soon a job is due."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import ScenarioError
from simkit.policies.orderings import (
    HighestValue,
    LeastSlack,
    QoS,
    ValueDensity,
    duration_s,
    last_start_s,
)
from simkit.policy.queue import TaskQueue
from simkit.policy.task import Task


def task(index=0, submit=0.0, size=1, estimate=10.0, **worth):
    made = Task(index, index, submit, (1.0,), size, estimate_s=estimate)
    for name, number in worth.items():
        setattr(made, name, number)
    return made


SMALLER_FIRST = [
    # The higher quality of service, whatever the value.
    (QoS, task(qos=0.9, value_per_s=1.0), task(qos=0.5, value_per_s=9.0)),
    # The higher value: 10 s at 2 a second against 50 s at 1, and a worth that is fixed.
    (HighestValue, task(estimate=50.0, value_per_s=1.0), task(estimate=10.0, value_per_s=2.0)),
    (HighestValue, task(fixed_value=60.0), task(estimate=50.0, value_per_s=1.0)),
    # The higher value for each processor-second: 2 / 1 against 6 / 4.
    (ValueDensity, task(value_per_s=2.0), task(size=4, value_per_s=6.0)),
]


@pytest.mark.parametrize(("order", "first", "second"), SMALLER_FIRST)
def test_which_of_two_goes_first(order, first, second):
    assert order().key(first) < order().key(second)


LAST_STARTS = [
    # The deadline counts where there is one.
    (task(submit=5.0, deadline_s=100.0, qos=0.5), None, 90.0),
    # Or else the time at which the quality of service is violated: 5 + 10 / 0.5 - 10.
    (task(submit=5.0, qos=0.5), None, 15.0),
    (task(submit=5.0, qos=0.5), 1000.0, 15.0),
    # Full quality of service knows no delay, unless it stands for having none.
    (task(submit=5.0), None, 5.0),
    (task(submit=5.0), 1000.0, 1005.0),
    # On the grid of time, and never later than it must be: 10 / 0.3 - 10 = 23.3333...
    (task(qos=0.3), None, int(70 / 3 * 2**20) / 2**20),
]


@pytest.mark.parametrize(("waiting", "patience", "last"), LAST_STARTS)
def test_when_a_task_must_start(waiting, patience, last):
    assert last_start_s(waiting, patience) == last


def in_order(order, tasks, now):
    """Return the indices of tasks as least slack sorts them."""
    queue = TaskQueue(1)
    for each in tasks:
        queue.add(each)
    state = SimpleNamespace(now=now, queue=queue, arrived=list(tasks))
    if hasattr(order, "reset"):
        order.reset(None, None)
    keys = order.keys(state)
    return [queue[row].index for row in np.lexsort((queue.columns().index, keys))]


def test_least_slack_first_and_the_late_ones_last():
    tasks = [task(index, deadline_s=due) for index, due in enumerate([200.0, 60.0, 90.0, 75.0])]
    # At 70 s a task of 10 s is late if it is due before 80 s.
    assert in_order(LeastSlack(), tasks, now=70.0) == [2, 0, 1, 3]
    assert in_order(LeastSlack(hopeless_last=False), tasks, now=70.0) == [1, 3, 2, 0]
    assert in_order(LeastSlack(), tasks, now=80.0) == [2, 0, 1, 3], "no slack left is in time"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0, 1e6))
def test_least_slack_sorts_by_lateness_then_by_slack(deadlines, now):
    tasks = [task(index, deadline_s=due + 10.0) for index, due in enumerate(deadlines)]
    slack = [last_start_s(tasks[i]) - now for i in in_order(LeastSlack(), tasks, now)]
    groups = [(each < 0, each) for each in slack]
    for one, other in pairwise(groups):
        assert one[0] <= other[0]
        # Slacks that differ by less than the rounding of a sum count as equal.
        assert one[0] != other[0] or one[1] <= other[1] + 1e-9


@pytest.mark.parametrize("value", [0, -3, "soon", float("nan")])
def test_refuses_durations_that_are_none(value):
    with pytest.raises(ScenarioError, match="rule: horizon"):
        duration_s("rule: horizon", value)
