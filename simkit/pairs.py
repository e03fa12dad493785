"""Pairs of a machine and a task that fits on it: what a fitness sees when it scores them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from simkit.task import Task

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class TaskFacts:
    """What a decision knows of its tasks, as columns; (T,) unless said otherwise."""

    __slots__ = ("estimate_s", "gang", "index", "instances", "remaining", "request",
                 "requested_time_s", "submit_time_s", "tasks", "user")  # fmt: skip

    def __init__(self, tasks: Sequence[Task], resources: int) -> None:
        self.tasks = tasks
        """The tasks, in order."""
        rows = [
            (t.index, t.remaining, t.instances, t.estimate_s, t.requested_time_s, t.submit_time_s,
             t.user, t.gang, *t.request)
            for t in tasks
        ]  # fmt: skip
        table = np.array(rows, dtype=np.float64).reshape(len(tasks), 8 + resources)
        self.index, self.remaining, self.instances, self.estimate_s = table.T[:4]
        self.requested_time_s, self.submit_time_s, self.user, gang = table.T[4:8]
        self.gang: Bools = gang > 0
        self.request: Floats = table[:, 8:]
        """(T, R)"""


class Pairs:
    """Feasible pairs, one a row: P pairs, R resources; columns are made when they are asked for.

    The instance of a row's task has room on its machine.
    """

    __slots__ = ("capacity", "facts", "free", "machine", "task")

    def __init__(
        self, facts: TaskFacts, task: Ints, machine: Ints, free: Floats, capacity: Floats
    ) -> None:
        self.facts = facts
        """The tasks of the decision, as columns."""
        self.task = task
        """(P,) rows of `facts`."""
        self.machine = machine
        """(P,) rows of machines."""
        self.free = free
        """(P, R) what is free on the machine now."""
        self.capacity = capacity
        """(P, R) the machine's total."""

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.task)

    @property
    def request(self) -> Floats:
        """(P, R) what an instance asks for."""
        column: Floats = self.facts.request[self.task]
        return column

    @property
    def estimate_s(self) -> Floats:
        """(P,) estimated run time of an instance."""
        column: Floats = self.facts.estimate_s[self.task]
        return column

    @property
    def remaining(self) -> Floats:
        """(P,) instances that had not been placed when the decision began."""
        column: Floats = self.facts.remaining[self.task]
        return column

    @property
    def submit_time_s(self) -> Floats:
        """(P,) when the job was submitted."""
        column: Floats = self.facts.submit_time_s[self.task]
        return column

    @property
    def index(self) -> Floats:
        """(P,) the tasks' rank in order of submission."""
        column: Floats = self.facts.index[self.task]
        return column


Score = Callable[[Pairs], Floats]
"""From P pairs to (P,) scores."""
