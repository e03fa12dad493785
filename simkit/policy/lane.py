"""The waiting tasks that compete for the same machines, in the order of a policy.

A lane answers two questions without looking at every task: who is first, and who behind the first
may start into what is free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from operator import itemgetter
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import PolicyError
from simkit.policy.claims import Claims, Gap
from simkit.policy.profile import Profile
from simkit.policy.queue import ColumnTable
from simkit.policy.room import PlacementRule
from simkit.policy.state import State
from simkit.policy.task import Task

__all__ = ["ChangingOrder", "Entry", "Lane", "Line", "Order", "Passing"]

Entry = tuple[float, float, int, Task]
"""(-priority, key, index, task): sorts by partition priority, then key, then submission."""
LONG = 192
"""From this many waiting tasks on, arrays find the ones that fit faster than a loop."""
_PART = 256  # tasks compared at once at first; the longer none is found, the more at once
_MOST = 16_384
_TASK = itemgetter(3)  # of an entry
_MINUS_PRIORITY, _ESTIMATE, _LEAST = 0, 1, 2  # columns; then what must be free


_NOBODY: Final = Task(-1, -1, 0.0, ())


class Order(Protocol):
    """An ordering by a number that a task keeps while it waits; smaller goes first."""

    def key(self, task: Task) -> float:
        """Return the task's number; ties go by submission."""


class ChangingOrder(Protocol):
    """An ordering that time or events change; asked again at every decision."""

    def keys(self, state: State) -> Floats:
        """Return (n,): a number for each task of ``state.queue.columns()``; smaller goes first."""


Passing = Literal["none", "head", "all", "free", "own"]
"""Which waiting tasks a policy lets pass others: none passes the head; those that do not delay the
head; those that delay none ahead of them; all that fit; or a rule of the policy's own."""


class Line(NamedTuple):
    """Waiting tasks in the order in which a policy takes them; `simkit explain` asks for it."""

    tasks: Sequence[Task]
    passing: Passing


class Lane(ABC):
    """The waiting tasks of partitions that share machines, in order."""

    def __init__(self, rule: PlacementRule | None, partitions: Sequence[int]) -> None:
        self.rule = rule
        """How machines are chosen."""
        self.alone = False
        """Whether there is no other lane, so that every waiting task is of this one."""
        self.machine: int | None = None
        """Row of the one machine of its partitions, a pool of their own; None: they have several,
        or all that there are."""
        self.profile: Profile | None = None
        """Gap of this decision, if the head has been tried in it; whoever needs it takes it."""
        self.head = _NOBODY
        """The first task; it means nothing while there is none."""
        self.claims: Claims | None = None
        """Claims of suspended allocations in its partitions; None if there are none. A backfilling
        rule holds them in its profile, so that tasks start only where they leave room."""
        self._partitions = frozenset(partitions)

    @property
    def partitions(self) -> frozenset[int]:
        """Rows of its partitions."""
        return self._partitions

    def pool(self, state: State) -> State:
        """Return the state of the machines of its partitions: of a pool of their own, or of all."""
        return state if self.machine is None else state.pool(self.machine)

    @abstractmethod
    def update(self, state: State, first: int = 0) -> int:
        """Take in ``state.arrived[first:]``, or ask for all keys again if the order changes.

        Returns the number of tasks.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of tasks."""

    @property
    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """All tasks in order; valid until a task is dropped."""

    @abstractmethod
    def drop(self, task: Task) -> None:
        """Take out a task that has been placed."""

    @abstractmethod
    def in_order(self, tasks: Sequence[Task]) -> list[Entry]:
        """Return the entries of those of some tasks that wait in this lane, in its order."""

    @abstractmethod
    def newcomers(self) -> Iterable[Task]:
        """Return the tasks that the last `update` took in, in order."""

    @abstractmethod
    def fitting(self, gap: Gap, *, shortest_first: bool = False) -> Iterable[Task]:
        """Return tasks behind the head, all that fit into a gap among them.

        In order, or by partition priority and estimate. The gap may shrink while they are gone
        through: a long lane then passes over those that do not fit any more. No task may be
        dropped meanwhile.
        """

    def _is_mine(self, task: Task) -> bool:
        return task.waiting and (self.alone or task.partition in self._partitions)


def make_lanes(
    order: Order | ChangingOrder, rule: PlacementRule | None, groups: Iterable[Sequence[int]]
) -> list[Lane]:
    """Return an empty lane for each group of partitions.

    An order that changes has a method `keys`, another one `key`.
    """
    if (keys := getattr(order, "keys", None)) is not None:
        shared = WaitingKeys(keys)
        return [ChangingLane(shared, rule, group) for group in groups]
    key = getattr(order, "key", _no_key)
    return [FixedLane(key, rule, group) for group in groups]


class FixedLane(Lane):
    """A lane whose tasks keep their keys: a sorted list, and arrays while it is long."""

    def __init__(
        self, key: Callable[[Task], float], rule: PlacementRule | None, partitions: Sequence[int]
    ) -> None:
        super().__init__(rule, partitions)
        self._key = key
        self._entries: list[Entry] = []
        self._fresh: list[Entry] = []
        self._columns: ColumnTable | None = None  # of the first entries, as far as they were read

    def update(self, state: State, first: int = 0) -> int:
        entries = self._entries
        if self._fresh or state.arrived:
            self._take_in(state.arrived[first:] if first else state.arrived)
        while entries:
            head = entries[0][3]
            if head.waiting:
                self.head = head
                return len(entries)
            self._delete(0)
        return 0

    def _take_in(self, tasks: Sequence[Task]) -> None:
        entries = self._entries
        fresh = self._fresh = []
        for task in tasks:
            if task.waiting and (self.alone or task.partition in self._partitions):
                entry = (-task.priority, self._key(task), task.index, task)
                fresh.append(entry)
                if entries and entries[-1] >= entry:
                    self._insert(entry)
                else:
                    entries.append(entry)

    def _insert(self, entry: Entry) -> None:
        """Put an entry in its place; a task that came back may still be there."""
        entries = self._entries
        position = bisect_left(entries, entry[:3])
        if position == len(entries) or entries[position][3] is not entry[3]:
            entries.insert(position, entry)
            if self._columns is not None and position < self._columns.size:
                self._columns.insert(position, _numbers(entry))

    def _delete(self, position: int) -> None:
        del self._entries[position]
        if self._columns is not None and position < self._columns.size:
            self._columns.remove(position)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Sequence[Entry]:
        return self._entries

    def drop(self, task: Task) -> None:
        entries = self._entries
        if entries[0][3] is not task:
            self._delete(bisect_left(entries, self._entry(task)[:3]))
            return
        self._delete(0)
        while entries and not entries[0][3].waiting:
            self._delete(0)
        if entries:
            self.head = entries[0][3]

    def _entry(self, task: Task) -> Entry:
        return (-task.priority, self._key(task), task.index, task)

    def in_order(self, tasks: Sequence[Task]) -> list[Entry]:
        mine = [self._entry(task) for task in tasks if self._is_mine(task)]
        return sorted(mine) if len(mine) > 1 else mine

    def newcomers(self) -> Iterable[Task]:
        if len(self._fresh) > 1:
            self._fresh.sort()
        return map(_TASK, self._fresh)

    def fitting(self, gap: Gap, *, shortest_first: bool = False) -> Iterable[Task]:
        if len(self._entries) >= LONG:
            return self._search(gap, shortest_first)
        free = gap.free[0] if gap.free[0] > 0 else 0.0
        tasks, head = map(_TASK, self._entries), self.head
        behind = (t for t in tasks if t.least[0] <= free and t.waiting and t is not head)
        return sorted(behind, key=by_estimate) if shortest_first else behind

    def _search(self, gap: Gap, shortest_first: bool) -> Iterator[Task]:
        entries, table = self._entries, self._table()[:, 1:]
        rows = None
        if shortest_first:
            rows = np.flatnonzero(_fits(table, gap))
            rows = rows[np.lexsort((table[_ESTIMATE, rows], table[_MINUS_PRIORITY, rows]))]
            table = table[:, rows]
        for position in _search(table, gap):
            task = entries[1 + (position if rows is None else int(rows[position]))][3]
            if task.waiting:
                yield task

    def _table(self) -> Floats:
        """Return (2 + R, n) the columns of all entries."""
        entries = self._entries
        if self._columns is None:
            self._columns = ColumnTable(len(_numbers(entries[0])))
        columns = self._columns
        columns.extend([_numbers(entry) for entry in entries[columns.size :]])
        return columns.view()


class Snapshot(NamedTuple):
    """The queue and its keys, as they were when an order was asked for them."""

    tasks: Sequence[Task]
    key: Floats
    """(n,); an endless or undefined key is infinite and goes last."""
    table: Floats
    """(2 + R, n) columns: minus the priority, estimate, and what must be free of each resource."""
    number: Floats
    """(n,) `index` of the tasks."""
    partition: Floats
    """(n,) rows of their partitions."""
    made: tuple[object, float, int, int]
    """The columns of the queue, the time, and the state's `starts` and `releases` then."""


class WaitingKeys:
    """Asks an order for its keys, once for all lanes that ask one after the other."""

    def __init__(self, keys: Callable[[State], Floats]) -> None:
        self._keys = keys
        self._last: Snapshot | None = None

    def after(self, known: Snapshot | None, state: State) -> Snapshot:
        """Return the keys, asked for again if somebody knows the last ones, or they are old."""
        last = self._last
        if (
            last is None
            or last is known
            or any(
                now is not then and now != then
                for now, then in zip(_made(state), last.made, strict=True)
            )
        ):
            last = self._last = self._asked(state)
        return last

    def _asked(self, state: State) -> Snapshot:
        columns = state.queue.columns()
        key = np.nan_to_num(self._keys(state), nan=inf, posinf=inf, neginf=-inf)
        # One instance of a bag may do; so its request is not known here, and it always may fit.
        least = np.where(columns.gang, columns.demand, 0.0)
        return Snapshot(
            state.queue.tasks.copy(),
            key,
            np.vstack([-columns.priority, columns.estimate_s, least]),
            columns.index.copy(),
            columns.partition.copy(),
            _made(state),
        )


def _made(state: State) -> tuple[object, float, int, int]:
    return state.queue.columns(), state.now, state.starts, state.releases


class ChangingLane(Lane):
    """A lane whose keys change: the order of all tasks is worked out only where it is asked for."""

    def __init__(
        self, keys: WaitingKeys, rule: PlacementRule | None, partitions: Sequence[int]
    ) -> None:
        super().__init__(rule, partitions)
        self._keys = keys
        self._known: Snapshot | None = None
        self._tasks: Sequence[Task] = []  # the queue as it was when the keys were asked for
        self._key: Floats = np.empty(0)
        self._table: Floats = np.empty((_LEAST, 0))
        self._index: Floats = np.empty(0)
        self._fresh: Sequence[Task] = []
        self._rows: Ints = np.empty(0, np.int64)  # of the tasks that are still here, ascending
        self._first = -1  # row of the head
        self._entries: list[Entry] | None = None

    def update(self, state: State, first: int = 0) -> int:
        known = self._known = self._keys.after(self._known, state)
        self._tasks, self._key, self._table, self._index, partition, _ = known
        self._fresh = state.arrived[first:]
        if self.alone:
            self._rows = np.arange(len(self._tasks))
        else:
            self._rows = np.flatnonzero(self._is_here(partition))
        self._entries = None
        self._find_head()
        return len(self._rows)

    def _is_here(self, partition: Floats) -> Bools:
        """Return (n,): which of the tasks of (n,) partitions are of this lane."""
        here = np.zeros(len(partition), np.bool_)
        for row in self._partitions:
            here |= partition == row
        return here

    def __len__(self) -> int:
        return len(self._rows)

    def _find_head(self) -> None:
        rows = self._rows
        if len(rows):
            ahead = self._table[_MINUS_PRIORITY, rows]
            rows = rows[ahead == ahead.min()]
            self._first = int(rows[self._key[rows].argmin()])  # the first of equals
            self.head = self._tasks[self._first]

    @property
    def entries(self) -> Sequence[Entry]:
        if self._entries is None:
            self._entries = self._entries_of(self._rows)
        return self._entries

    def _entries_of(self, rows: Ints) -> list[Entry]:
        """Return the entries of some rows, in order."""
        rows = self._sorted(rows)
        ahead, keys = self._table[_MINUS_PRIORITY, rows].tolist(), self._key[rows].tolist()
        tasks = [self._tasks[row] for row in rows.tolist()]
        return [(a, k, task.index, task) for a, k, task in zip(ahead, keys, tasks, strict=True)]

    def _sorted(self, rows: Ints) -> Ints:
        order: Ints = rows[np.lexsort((rows, self._key[rows], self._table[_MINUS_PRIORITY, rows]))]
        return order

    def drop(self, task: Task) -> None:
        row = int(np.searchsorted(self._index, task.index))
        self._rows = np.delete(self._rows, np.searchsorted(self._rows, row))
        if self._entries is not None:
            position = 0 if self._entries[0][3] is task else self._place(task)
            del self._entries[position]
        if row == self._first:
            self._find_head()

    def _place(self, task: Task) -> int:
        assert self._entries is not None
        return next(i for i, entry in enumerate(self._entries) if entry[3] is task)

    def in_order(self, tasks: Sequence[Task]) -> list[Entry]:
        index = np.array([task.index for task in tasks if self._is_mine(task)])
        return self._entries_of(np.searchsorted(self._index, index)) if len(index) else []

    def newcomers(self) -> Iterable[Task]:
        return [entry[3] for entry in self.in_order(self._fresh)]

    def fitting(self, gap: Gap, *, shortest_first: bool = False) -> Iterator[Task]:
        rows = self._rows[_fits(self._table[:, self._rows], gap)]
        rows = rows[rows != self._first]
        rows = self._sorted(rows)
        table = self._table[:, rows]
        if shortest_first:
            order = np.lexsort((table[_ESTIMATE], table[_MINUS_PRIORITY]))
            rows, table = rows[order], table[:, order]
        for position in _search(table, gap):
            yield self._tasks[rows[position]]


def _numbers(entry: Entry) -> tuple[float, ...]:
    """Return an entry's row of a lane's columns."""
    task = entry[3]
    return entry[0], task.estimate_s, *task.least


def _fits(table: Floats, gap: Gap) -> Bools:
    """Return (n,): which tasks of (2 + R, n) columns fit into a gap."""
    least = table[_LEAST]
    fits: Bools = least <= max(gap.free[0], 0.0)
    if gap.slack_s < inf:
        fits &= (table[_ESTIMATE] <= gap.slack_s) | (least <= gap.spare)
    if gap.least is not None:
        fits &= least <= gap.least.through_each(table[_ESTIMATE])
    for row, free in zip(table[_LEAST + 1 :], gap.free[1:], strict=True):
        fits &= row <= max(free, 0.0)  # a request of 0 fits although the free amount is negative
    return fits


def _search(table: Floats, gap: Gap) -> Iterator[int]:
    """Yield the rows whose tasks fit into a gap, as it is when each is looked for."""
    begin, size, rows = 0, _PART, table.shape[1]
    while begin < rows:
        fits = _fits(table[:, begin : begin + size], gap)
        position = int(fits.argmax())
        if fits[position]:
            begin += position
            yield begin
            begin, size = begin + 1, _PART
        else:
            begin, size = begin + size, min(4 * size, _MOST)


def by_estimate(task: Task) -> tuple[float, float]:
    """Key by which tasks are tried shortest first: by partition priority, then estimate."""
    return -task.priority, task.estimate_s


def _no_key(task: Task) -> float:
    raise PolicyError(f"an order needs a method key(task) or keys(state); found none for {task}")
