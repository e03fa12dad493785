"""Waiting tasks as arrays, to find those that fit into given free amounts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.policy.task import Task

_PART = 1024  # tasks compared at once when the first that fits is wanted
_FEW = 8  # at most so many tasks are compared no faster by a sieve


class WaitingTasks:
    """Tasks in slots, with an array for each attribute that a search needs.

    `sort` orders them by partition priority, then by key, then by submission. Empty slots are
    removed when half of all slots are empty.
    """

    __slots__ = ("_alive", "_dead", "_end", "_index", "_key", "_least", "_partition",
                 "_priority", "_request", "_slots", "_sorted", "_tasks", "gangs")  # fmt: skip

    def __init__(self, resources: int) -> None:
        # One row per resource, compared as a whole. Infinite in empty slots, which never fit.
        self._request: Floats = np.empty((resources, 64))
        self._key: Floats = np.empty(64)
        self._index: Floats = np.empty(64)
        self._priority: Floats = np.empty(64)
        self._partition: Ints = np.empty(64, np.int64)
        self._alive: Bools = np.zeros(64, np.bool_)
        self._tasks: list[Task | None] = []
        self._slots: dict[int, int] = {}  # task's index → slot
        self._end = 0
        self._dead = 0
        self.gangs = 0
        """Number of gangs of several instances."""
        self._sorted = True
        self._least = [0.0] * resources  # no task asks for less: a bound that saves searches

    def __len__(self) -> int:
        """Return the number of tasks."""
        return self._end - self._dead

    def __getitem__(self, slot: int) -> Task:
        """Return the task in an occupied slot."""
        task = self._tasks[slot]
        assert task is not None
        return task

    def __contains__(self, task: Task) -> bool:
        return task.index in self._slots

    def slot_of(self, task: Task) -> int:
        """Return the slot of a task that is here."""
        return self._slots[task.index]

    def partitions(self, slots: Ints) -> Ints:
        """Return the partition of the tasks in some slots."""
        return self._partition[slots]

    def indices(self, slots: Ints) -> Floats:
        """Return the `index` of the tasks in some slots."""
        return self._index[slots]

    def clear(self) -> None:
        """Remove every task."""
        self._alive[: self._end] = False
        self._tasks.clear()
        self._slots.clear()
        self._end = self._dead = self.gangs = 0
        self._sorted = True

    def add(self, tasks: Sequence[Task], keys: Sequence[float]) -> None:
        """Add tasks with their keys; a task that is already here keeps its slot and key."""
        if self._dead > 32 and 2 * self._dead > self._end:
            self._arrange(self.slots())
        self._make_space(len(tasks))
        for task, key in zip(tasks, keys, strict=True):
            if task.index not in self._slots:
                self._add(task, key)

    def _add(self, task: Task, key: float) -> None:
        slot = self._end
        self._slots[task.index] = slot
        self._end += 1
        self._tasks.append(task)
        self._request[:, slot] = task.request
        if slot == 0:
            self._least = list(task.request)
        else:
            self._least = list(map(min, self._least, task.request))
        self._index[slot] = task.index
        self._priority[slot] = task.priority
        self._partition[slot] = task.partition
        self._alive[slot] = True
        self._key[slot] = key
        self.gangs += task.gang and task.instances > 1
        self._sorted = self._sorted and (slot == 0 or self._place(slot - 1) < self._place(slot))

    def _place(self, slot: int) -> tuple[float, float, float]:
        return -self._priority[slot], self._key[slot], self._index[slot]

    def remove(self, slot: int) -> None:
        """Remove a task."""
        task = self[slot]
        del self._slots[task.index]
        self._tasks[slot] = None
        self._alive[slot] = False
        self._request[:, slot] = np.inf
        self._dead += 1
        self.gangs -= task.gang and task.instances > 1

    def order_by(self, index: Floats, keys: Floats) -> None:
        """Change keys: `keys` (n,) of the tasks with these indices (n,), ascending."""
        end = self._end
        if end and len(index):
            at = np.searchsorted(index, self._index[:end])
            self._key[:end] = keys[np.minimum(at, len(index) - 1)]
            self._sorted = False

    def sort(self) -> None:
        """Put the tasks in order; their slots change."""
        if not self._sorted:
            slots = self.slots()
            keys = (self._index[slots], self._key[slots], -self._priority[slots])
            self._arrange(slots[np.lexsort(keys)])
            self._sorted = True

    def slots_of(self, tasks: Sequence[Task]) -> Ints:
        """Return the slots of tasks that are here, ascending."""
        return np.array(sorted([self._slots[task.index] for task in tasks]), np.int64)

    def gangs_among(self, slots: Ints) -> Bools:
        """Return (n,): which of these slots hold gangs of several instances."""
        if not self.gangs:
            return np.zeros(len(slots), np.bool_)
        tasks = [self[slot] for slot in slots.tolist()]
        return np.array([task.gang and task.instances > 1 for task in tasks], np.bool_)

    def waiting(self, slots: Ints) -> Ints:
        """Return those of some slots whose task still waits; remove the others."""
        kept: list[int] = []
        for slot in slots.tolist():
            if (task := self._tasks[slot]) is not None:
                if task.waiting:
                    kept.append(slot)
                else:
                    self.remove(slot)
        return np.array(kept, np.int64)

    def slots(self) -> Ints:
        """Return all occupied slots."""
        return np.flatnonzero(self._alive[: self._end])

    def first(self, free: Sequence[float], begin: int) -> int:
        """Return the first slot from `begin` on whose task fits with one instance; -1 if none does.

        Args:
            free: (R,) free amounts.
            begin: a slot.
        """
        if any(least > left and least > 0 for least, left in zip(self._least, free, strict=True)):
            return -1
        while begin < self._end:
            end = min(begin + _PART, self._end)
            fits = self._request[0, begin:end] <= max(free[0], 0.0)
            for r in range(1, len(free)):
                fits &= self._request[r, begin:end] <= max(free[r], 0.0)
            position = int(fits.argmax())
            if fits[position]:
                return begin + position
            begin = end
        return -1

    def fitting(self, slots: Ints, free: Floats) -> Ints:
        """Return the given slots whose task fits with one instance in a row of `free`.

        Args:
            slots: (n,) occupied slots.
            free: (F, R) free amounts, one row per machine.
        """
        if not len(free) or not len(slots):
            return slots[:0]
        # Resource by resource: NumPy reduces long, narrow arrays slowly along their length. A
        # request of 0 fits although the free amount is negative.
        most = np.array([max(column.max(), 0.0) for column in free.T])
        slots = slots[self._below(slots, most)]
        if len(free) == 1 or len(most) == 1 or len(slots) <= _FEW or _any_row(free, most):
            return slots
        fits = np.zeros(len(slots), np.bool_)
        for row in _undominated(np.maximum(free, 0.0)):
            fits |= self._below(slots, row)
        return slots[fits]

    def _below(self, slots: Ints, most: Floats) -> Bools:
        request = self._request
        below: Bools = request[0][slots] <= most[0]
        for r in range(1, len(request)):
            below &= request[r][slots] <= most[r]
        return below

    def _make_space(self, more: int) -> None:
        size = len(self._key)
        if self._end + more <= size:
            return
        wider = max(2 * size, self._end + more)
        for name in ("_key", "_index", "_priority", "_partition", "_alive"):
            setattr(self, name, np.resize(getattr(self, name), wider))
        self._alive[self._end :] = False
        request = np.empty((len(self._request), wider))
        request[:, :size] = self._request
        self._request = request

    def _arrange(self, slots: Ints) -> None:
        """Move the tasks of these slots (all occupied ones) to the front, in this order."""
        end = len(slots)
        for column in (self._key, self._index, self._priority, self._partition):
            column[:end] = column[slots]
        self._request[:, :end] = self._request[:, slots]
        if end:
            self._least = self._request[:, :end].min(axis=1).tolist()
        self._tasks = [self._tasks[slot] for slot in slots.tolist()]
        self._alive[: self._end] = False
        self._alive[:end] = True
        self._slots = {self[slot].index: slot for slot in range(end)}
        self._end, self._dead = end, 0


def _any_row(table: Floats, row: Floats) -> bool:
    """Return whether a row of (F, R) numbers equals the given one, as (R,) that are not below 0."""
    same = table[:, 0] == row[0]
    for r in range(1, len(row)):
        same &= table[:, r] == row[r]
    return bool(same.any())


def _undominated(free: Floats) -> Floats:
    """Return (U, R) the rows of (F, R) that no other row exceeds in every resource.

    If any row fits, one of these does.
    """
    rows = free[np.argsort(-free[:, 0], kind="stable")]
    if rows.shape[1] == 2:
        best = np.maximum.accumulate(rows[:, 1])
        kept = np.append(True, rows[1:, 1] > best[:-1])
        undominated: Floats = rows[kept]
        return undominated
    chosen = [rows[0]]
    for row in rows[1:]:
        if not any((row <= other).all() for other in chosen):
            chosen.append(row)
    return np.array(chosen)
