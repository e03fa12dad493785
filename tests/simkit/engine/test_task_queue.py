"""The queue: whatever is done to it, it is a sorted list, and its columns are the objects."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simkit.policy.queue import TaskQueue
from simkit.policy.task import Task

COLUMNS = ("index", "submit_time_s", "estimate_s", "requested_time_s", "remaining", "user", "queue",
           "priority", "partition", "gang")  # fmt: skip


def make_task(index: int) -> Task:
    """Make a task whose every fact follows from its index."""
    request = (1.0 + index % 3, 0.5 * (index % 5))
    return Task(
        index, index, 2.0 * index, request, 1 + index % 7, index % 2 == 0, 3.0 * index, 4.0 * index,
        index % 4, -1, index % 5, index % 3, float(index % 6),
    )  # fmt: skip


def check_columns(queue: TaskQueue, expected: list[Task]) -> None:
    columns = queue.columns()
    assert len(columns) == len(expected)
    for name in COLUMNS:
        assert getattr(columns, name).tolist() == [getattr(task, name) for task in expected]
    demand = np.array([task.demand for task in expected]).reshape(-1, 2).T
    assert columns.demand.tolist() == demand.tolist()


class QueueMachine(RuleBasedStateMachine):
    """Random changes of a queue beside a plain list."""

    @initialize()
    def begin(self) -> None:
        self.queue = TaskQueue(2)
        self.plain: list[Task] = []
        self.gone: list[Task] = []
        self.next = 0

    @rule(count=st.integers(1, 70), skip=st.integers(0, 3))
    def arrive(self, count: int, skip: int) -> None:
        self.next += skip
        for _ in range(count):
            task = make_task(self.next)
            self.next += 1
            self.queue.add(task)
            self.plain.append(task)

    @precondition(lambda self: self.plain)
    @rule(at=st.floats(0, 1, exclude_max=True))
    def leave(self, at: float) -> None:
        task = self.plain.pop(int(at * len(self.plain)))
        self.queue.remove(task)
        self.gone.append(task)
        assert not task.waiting

    @precondition(lambda self: self.plain)
    @rule(count=st.integers(1, 40))
    def leave_from_the_head(self, count: int) -> None:
        for task in self.plain[:count]:
            self.queue.remove(task)
            self.gone.append(task)
        del self.plain[:count]

    @precondition(lambda self: self.gone)
    @rule(at=st.floats(0, 1, exclude_max=True))
    def come_back(self, at: float) -> None:
        task = self.gone.pop(int(at * len(self.gone)))
        self.queue.add(task)
        self.plain.append(task)
        self.plain.sort(key=lambda task: task.index)

    @precondition(lambda self: self.plain)
    @rule(at=st.floats(0, 1, exclude_max=True), remaining=st.integers(1, 9))
    def place_some(self, at: float, remaining: int) -> None:
        task = self.plain[int(at * len(self.plain))]
        task.remaining = remaining
        self.queue.refresh(task)

    @rule()
    def look(self) -> None:
        check_columns(self.queue, self.plain)

    @invariant()
    def it_is_the_list(self) -> None:
        assert list(self.queue) == self.plain
        assert len(self.queue) == len(self.plain)
        assert bool(self.queue) == bool(self.plain)
        assert all(task.waiting for task in self.plain)
        assert not any(task.waiting for task in self.gone)

    def teardown(self) -> None:
        check_columns(self.queue, self.plain)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(stateful_step_count=40)


def test_one_may_loop_over_it_while_it_changes():
    queue = TaskQueue(2)
    tasks = [make_task(index) for index in range(5)]
    for task in tasks:
        queue.add(task)
    seen = []
    for task in queue:
        seen.append(task.index)
        if task.index == 1:
            queue.remove(tasks[1])
            queue.remove(tasks[3])  # gone before its turn
            queue.add(make_task(9))  # was not there when the loop began
    assert seen == [0, 1, 2, 4]
