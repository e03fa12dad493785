"""The queue: waiting tasks in order of submission, as objects and as columns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from simkit.arrays import Bools, Floats
from simkit.policy.task import Task

_FACTS = 11  # columns before the amounts; in the order of `_row`
_REMAINING = 4  # the column of remaining instances


def _row(task: Task) -> tuple[float, ...]:
    return (
        task.index, task.submit_time_s, task.estimate_s, task.requested_time_s, task.remaining,
        task.user, task.queue, task.priority, task.partition, task.gang, task.instances,
        *task.demand, *task.request,
    )  # fmt: skip


class QueueColumns:
    """The queue as arrays, one entry per task, by submission; (n,) unless stated otherwise.

    Read-only views of the queue's table: valid until the queue changes.
    """

    __slots__ = ("demand", "estimate_s", "gang", "index", "instances", "partition", "priority",
                 "queue", "remaining", "request", "requested_time_s", "submit_time_s",
                 "user")  # fmt: skip

    def __init__(self, table: Floats) -> None:
        self.index: Floats = table[0]
        """The tasks' `index`, ascending."""
        self.submit_time_s: Floats = table[1]
        """When the job was submitted."""
        self.estimate_s: Floats = table[2]
        """Estimated run time of an instance."""
        self.requested_time_s: Floats = table[3]
        """The run time that the user requested; NaN if there is none."""
        self.remaining: Floats = table[4]
        """Instances that have not been placed."""
        self.user: Floats = table[5]
        """User number, -1 unknown."""
        self.queue: Floats = table[6]
        """The trace's queue number, -1 unknown."""
        self.priority: Floats = table[7]
        """Priority of the task's partition."""
        self.partition: Floats = table[8]
        """Row of the task's partition in the cluster."""
        self.gang: Bools = table[9] > 0
        """Whether all instances start together."""
        self.instances: Floats = table[10]
        """Instances of the task, placed or not."""
        resources = (len(table) - _FACTS) // 2
        self.demand: Floats = table[_FACTS : _FACTS + resources]
        """(R, n) what all instances of a task request of each resource."""
        self.request: Floats = table[_FACTS + resources :]
        """(R, n) what one instance requests."""

    def __len__(self) -> int:
        return len(self.index)


class TaskQueue:
    """Waiting tasks by `index`; a task that comes back gets its old place.

    Iterating is safe while tasks are being placed: it runs over the tasks that waited at its start
    and skips those that have gone since. Columns are made at the first request and then kept up to
    date, so a queue whose columns are never read pays nothing for them.
    """

    __slots__ = ("_columns", "_indices", "_table", "tasks")

    def __init__(self, resources: int) -> None:
        self._indices: list[int] = []
        self.tasks: list[Task] = []
        """The waiting tasks in order; read-only."""
        # Columns of the first tasks, as far as they were read.
        self._table = ColumnTable(_FACTS + 2 * resources)
        self._columns: QueueColumns | None = None  # until tasks come or go

    def __len__(self) -> int:
        return len(self.tasks)

    def __bool__(self) -> bool:
        return bool(self.tasks)

    def __contains__(self, task: object) -> bool:
        try:
            return isinstance(task, Task) and self._position(task) >= 0
        except KeyError:
            return False

    def __iter__(self) -> Iterator[Task]:
        for task in tuple(self.tasks):
            if task.waiting:
                yield task

    def __getitem__(self, position: int) -> Task:
        return self.tasks[position]

    def add(self, task: Task) -> None:
        """Add a task at its place."""
        indices, index = self._indices, task.index
        task.waiting, self._columns = True, None
        if not indices or index > indices[-1]:
            indices.append(index)
            self.tasks.append(task)
            return
        position = bisect_left(indices, index)
        indices.insert(position, index)
        self.tasks.insert(position, task)
        if position < self._table.size:
            self._table.insert(position, _row(task))

    def remove(self, task: Task) -> None:
        """Remove a task.

        Raises KeyError if it is not here: it waits in another run.
        """
        indices, tasks = self._indices, self.tasks
        position = 0 if tasks and tasks[0] is task else self._position(task)
        task.waiting, self._columns = False, None
        del indices[position], tasks[position]
        if position < self._table.size:
            self._table.remove(position)

    def _position(self, task: Task) -> int:
        position = bisect_left(self._indices, task.index)
        if position == len(self.tasks) or self.tasks[position] is not task:
            raise KeyError(task)
        return position

    def refresh(self, task: Task) -> None:
        """Update a waiting bag whose instances were partly placed; KeyError as for `remove`."""
        position = self._position(task)
        if position < self._table.size:
            self._table.set(_REMAINING, position, task.remaining)

    def columns(self) -> QueueColumns:
        """Return the queue as arrays."""
        if self._columns is not None:
            return self._columns
        table = self._table
        if table.size < len(self.tasks):
            table.extend([_row(task) for task in self.tasks[table.size :]])
        columns = table.view()
        columns.flags.writeable = False
        self._columns = QueueColumns(columns)
        return self._columns


_LEAST = 64  # rows that a table has space for at least


class ColumnTable:
    """A list of rows of C numbers, kept as C arrays.

    There is free space on both sides, so that it is cheap to remove the first row and to add
    behind the last one. In between, the shorter side is moved.
    """

    __slots__ = ("_start", "_table", "size")

    def __init__(self, columns: int) -> None:
        self._table: Floats = np.empty((columns, _LEAST))
        self._start = 0
        self.size = 0
        """Number of rows."""

    def view(self) -> Floats:
        """Return (C, n) the columns; it is valid until the table changes."""
        return self._table[:, self._start : self._start + self.size]

    def extend(self, rows: Sequence[Sequence[float]]) -> None:
        """Add rows at the end."""
        if not rows:
            return
        self._make_space(len(rows))
        end = self._start + self.size
        self._table[:, end : end + len(rows)] = np.array(rows, np.float64).T
        self.size += len(rows)

    def insert(self, position: int, row: Sequence[float]) -> None:
        """Insert a row before the one at a position."""
        table, size = self._table, self.size
        if self._start and 2 * position < size:  # move the shorter side
            self._start -= 1
            start = self._start
            table[:, start : start + position] = table[:, start + 1 : start + 1 + position]
        else:
            self._make_space(1)
            table, start = self._table, self._start
            behind = start + position
            table[:, behind + 1 : start + size + 1] = table[:, behind : start + size]
        table[:, start + position] = row
        self.size += 1

    def remove(self, position: int) -> None:
        """Remove the row at a position."""
        if position == 0:  # the usual case: the head leaves
            self._start += 1
            self.size -= 1
            return
        table, start, end = self._table, self._start, self._start + self.size
        column = start + position
        if 2 * position <= self.size:
            table[:, start + 1 : column + 1] = table[:, start:column]
            self._start += 1
        else:
            table[:, column : end - 1] = table[:, column + 1 : end]
        self.size -= 1

    def set(self, column: int, position: int, number: float) -> None:
        """Change one number."""
        self._table[column, self._start + position] = number

    def _make_space(self, rows: int) -> None:
        """Make room for this many more rows at the end."""
        if self._start + self.size + rows <= self._table.shape[1]:
            return
        width = max(_LEAST, 2 * (self.size + rows))
        table = np.empty((len(self._table), width))
        table[:, : self.size] = self.view()
        self._table, self._start = table, 0
