"""What a lane finds in a long queue is what a look at every task finds."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policy.claims import Gap
from simkit.policy.lane import LONG, make_lanes
from simkit.policy.queue import TaskQueue
from simkit.policy.task import Task

TASKS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 9), st.integers(0, 2), st.integers(0, 5)),
    min_size=1, max_size=3 * LONG,
)  # fmt: skip


class ByKey:
    """A fixed order by a number that the test has given each task."""

    def key(self, task):
        return task.requested_time_s


class ByKeys:
    """The same, as an order that changes."""

    def keys(self, state):
        return state.queue.columns().requested_time_s


class Now:
    """What a lane needs of a state."""

    def __init__(self, tasks):
        self.queue, self.arrived = TaskQueue(1), list(tasks)
        self.now = self.starts = self.releases = 0
        for task in tasks:
            self.queue.add(task)

    def place(self, task):
        self.queue.remove(task)
        self.arrived = []


def tasks_of(rows):
    return [
        Task(index, index, 0.0, (float(size),), estimate_s=float(estimate), priority=priority,
             requested_time_s=float(key))
        for index, (size, estimate, priority, key) in enumerate(rows)
    ]  # fmt: skip


def in_order(tasks):
    return sorted(tasks, key=lambda t: (-t.priority, t.requested_time_s, t.index))


@pytest.mark.parametrize("order", [ByKey, ByKeys])
@pytest.mark.parametrize("shortest_first", [False, True])
@given(
    rows=TASKS, free=st.integers(0, 30), slack=st.integers(0, 9), spare=st.integers(0, 9),
    parts=st.integers(1, 4),
)  # fmt: skip
def test_it_finds_what_a_look_at_every_task_finds(
    order, shortest_first, rows, free, slack, spare, parts
):
    tasks = tasks_of(rows)
    state, (lane,) = Now([]), make_lanes(order(), None, [[0]])
    lane.alone = True
    for part in range(parts):  # they arrive in parts, so that rows are inserted
        state.arrived = tasks[part::parts]
        for task in state.arrived:
            state.queue.add(task)
        lane.update(state)
        list(lane.fitting(Gap([0.0])))  # columns are made now and kept up to date
    waiting = in_order(tasks)
    while waiting:
        assert [entry[3] for entry in lane.entries] == waiting
        assert lane.head is waiting[0]
        expected = plain(waiting[1:], free, slack, spare, shortest_first)
        assert greedy(lane, free, slack, spare, shortest_first) == expected
        for task in expected or waiting[:1]:
            lane.drop(task)
            state.place(task)
            waiting.remove(task)
        lane.update(state)


def greedy(lane, free, slack, spare, shortest_first):
    """Take what fits into a gap that shrinks."""
    gap, taken = Gap((float(free),), float(slack), float(spare)), []
    for task in lane.fitting(gap, shortest_first=shortest_first):
        if take(task, gap):
            taken.append(task)
    return taken


def plain(tasks, free, slack, spare, shortest_first):
    if shortest_first:
        tasks = sorted(tasks, key=lambda t: (-t.priority, t.estimate_s))
    gap = Gap((float(free),), float(slack), float(spare))
    return [task for task in tasks if take(task, gap)]


def take(task, gap):
    size = task.least[0]
    long = task.estimate_s > gap.slack_s
    if size > gap.free[0] or (long and size > gap.spare):
        return False
    gap.free = (gap.free[0] - size,)
    if long:
        gap.spare -= size
    return True


def test_a_key_that_is_no_number_goes_last():
    class Odd:
        def keys(self, state):
            return np.array([np.nan, inf, 1.0])

    state, (lane,) = Now(tasks_of([(1, 1, 0, 0)] * 3)), make_lanes(Odd(), None, [[0]])
    lane.alone = True
    lane.update(state)
    assert [entry[3].index for entry in lane.entries] == [2, 0, 1]
