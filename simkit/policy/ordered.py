"""The base of most policies: an ordering, composed with a placement and a backfilling rule.

Orders and rules may have a method ``reset(info, rng)``; it is called when a run begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from math import inf
from typing import Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.policy import Action, Place, Resume, State, SystemInfo, WakeAt
from simkit.policy.room import PlacementRule
from simkit.policy.task import Allocation, Placement, Task

Entry = tuple[float, float, int, Task]
"""(-priority, key, index, task): sorts by partition priority, then key, then submission."""


class Order(Protocol):
    """An ordering by a number that a task keeps while it waits; smaller goes first.

    One that never departs from the order of submission may say so: ``by_submission = True``.
    """

    def key(self, task: Task) -> float:
        """Return the task's number; ties go by submission."""


class ChangingOrder(Protocol):
    """An ordering that time or events change; sorted again at every decision."""

    def keys(self, state: State) -> Floats:
        """Return (n,): a number for each task of ``state.queue.columns()``; smaller goes first."""


class Backfill(Protocol):
    """Which tasks may overtake a head that does not fit.

    A rule that decides about the head as well has ``compose(order, placement)`` instead, which
    returns the policy.
    """

    def fill(self, state: State, lane: Lane) -> Iterable[Place]:
        """Return or yield placements of tasks behind the lane's blocked head.

        The lane is brought up to date by its owner after each placement.
        """


class Lane:
    """The waiting tasks that compete for the same machines, in order."""

    def __init__(
        self, order: Order | ChangingOrder, rule: PlacementRule | None, partitions: Sequence[int]
    ) -> None:
        # An order that changes has `keys`, one that does not has `key`.
        self._keys: Callable[[State], Floats] | None = getattr(order, "keys", None)
        self._key: Callable[[Task], float] = getattr(order, "key", _no_key)
        self.rule = rule
        self._partitions = frozenset(partitions)
        self._as_queued = getattr(order, "by_submission", False) and len(self._partitions) == 1
        self.alone = False
        """Whether there is no other lane, so that every waiting task is of this one."""
        self.entries: list[Entry] = []
        self._fresh: list[Entry] = []

    def update(self, state: State, first: int = 0) -> None:
        """Take in ``state.arrived[first:]``, or sort everything again if the order changes."""
        if self._keys is not None:
            self._sort_all(state, self._keys(state))
            return
        entries = self.entries
        if self._fresh or state.arrived:
            self._take_in(state.arrived[first:] if first else state.arrived)
        while entries and not entries[0][3].waiting:
            del entries[0]

    def _take_in(self, tasks: Sequence[Task]) -> None:
        entries = self.entries
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
        entries = self.entries
        position = bisect_left(entries, entry[:3])
        if position == len(entries) or entries[position][3] is not entry[3]:
            entries.insert(position, entry)

    def _entry(self, task: Task) -> Entry:
        return (-task.priority, self._key(task), task.index, task)

    def _sort_all(self, state: State, keys: Floats) -> None:
        columns = state.queue.columns()
        order = np.lexsort((columns.index, keys, -columns.priority))
        ahead, queue = (-columns.priority).tolist(), state.queue
        values = keys.tolist()
        self.entries = [
            (ahead[row], values[row], task.index, task)
            for row in order.tolist()
            for task in (queue[row],)
            if self.alone or task.partition in self._partitions
        ]

    def remove(self, entry: Entry) -> None:
        """Take out a task that has been placed."""
        entries = self.entries
        position = 0 if entries[0] is entry else bisect_left(entries, entry[:3])
        del entries[position]

    def newcomers(self, state: State) -> Sequence[Entry]:
        """Return the entries that arrived since the last decision, in order."""
        if self._keys is not None:
            return self.in_order(state.arrived)
        if len(self._fresh) > 1:
            self._fresh.sort()
        return self._fresh

    def in_order(self, tasks: Sequence[Task]) -> list[Entry]:
        """Return the entries of some waiting tasks of this lane, in the lane's order."""
        if self._keys is not None:
            chosen = set(tasks)
            return [entry for entry in self.entries if entry[3] in chosen]
        mine = [
            self._entry(task)
            for task in tasks
            if task.waiting and (self.alone or task.partition in self._partitions)
        ]
        return sorted(mine) if len(mine) > 1 else mine

    def sorted_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Return waiting tasks of this lane, given in order of submission, in the lane's order."""
        if self._as_queued and self.alone:
            return tasks
        return [entry[3] for entry in self.in_order(tasks)]

    def drop(self, task: Task) -> None:
        """Take out a task that has been placed."""
        entries = self.entries
        if entries[0][3] is task:
            del entries[0]
        elif self._keys is None:
            del entries[bisect_left(entries, self._entry(task)[:3])]
        else:
            del entries[next(i for i, entry in enumerate(entries) if entry[3] is task)]


class OrderedPolicy:
    """Starts tasks in order; when the head does not fit, leaves it to the backfilling rule.

    Partitions that share machines have one queue with one head; others do not wait for each other.
    Suspended allocations are resumed first, oldest first.

    Args:
        order: which task comes first.
        backfill: which tasks may overtake the head; None: none.
        placement: which machine comes first; None: the first that fits.

    Raises PolicyError for a backfilling rule that makes the policy itself.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        backfill: Backfill | None = None,
        placement: PlacementRule | None = None,
    ) -> None:
        if hasattr(backfill, "compose"):
            rule = type(backfill).__name__
            raise PolicyError(
                f"OrderedPolicy: {rule} decides about the head of the queue as well; make the "
                f"policy with {rule}(…).compose(order, placement)"
            )
        self.order = order
        self.backfill = backfill
        self.placement = placement

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        for part in (self.order, self.backfill, self.placement):
            if (reset := getattr(part, "reset", None)) is not None:
                reset(info, rng)
        self._wake_s = -inf
        groups = _groups_sharing_machines(info)
        self._lanes = [Lane(self.order, self.placement, group) for group in groups]
        if len(groups) == 1:
            self._lanes[0].alone = True

    def schedule(self, state: State) -> Iterable[Action]:
        for lane in self._lanes:
            lane.update(state)
        if lane.alone and not (state.constrained or state.suspended or state.refills):
            # Most decisions end here: no task waits, or only the head does, or the head still
            # does not fit.
            entries = lane.entries
            if not entries:
                return ()
            head = entries[0][3]
            on = state.room.fit(head, lane.rule)
            if on is None:
                if self.backfill is None or len(entries) == 1:
                    return ()
                return self.backfill.fill(state, lane)
            if len(entries) == 1 and head.gang:
                entries.clear()
                return (Place(head, on),)
        return self._start(state)

    def _start(self, state: State) -> Iterator[Action]:
        if state.suspended:
            yield from resumptions(state, self.placement)
        for _ in self._rounds(state):
            for lane in self._lanes:
                yield from self._start_lane(state, lane)

    def _rounds(self, state: State) -> Iterator[int]:
        """Yield once, and again while admission lets in tasks for those that started.

        Each time the lanes are up to date. Yields the position in `state.arrived` of the first
        task that is new in this round.
        """
        first, known = 0, len(state.arrived)
        yield first
        while known < len(state.arrived):
            first, known = known, len(state.arrived)
            for lane in self._lanes:
                lane.update(state, first)
            yield first

    def _wake_at(self, state: State, time_s: float) -> Iterator[WakeAt]:
        """Ask for a decision at a time, unless it is infinite or an earlier one is asked for."""
        if time_s < inf and not state.now < self._wake_s <= time_s:
            self._wake_s = time_s
            yield WakeAt(time_s)

    def _start_lane(self, state: State, lane: Lane) -> Iterator[Action]:
        entries, rule = lane.entries, lane.rule
        while entries:
            task = entries[0][3]
            on = _fit_ahead(state, task, rule) if state.constrained else state.fit(task, rule)
            if on is None:
                break
            yield Place(task, on)
            if not task.remaining:
                del entries[0]
        if len(entries) > 1 and self.backfill is not None:
            yield from self.backfill.fill(state, lane)

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        for lane in self._lanes:
            for position, entry in enumerate(lane.entries):
                if entry[3] is not task:
                    continue
                if position == 0:
                    return "it is first in the queue and does not fit into what is free"
                return f"{position} tasks are before it in the queue"
        return "it does not wait for the policy"


def resumptions(
    state: State, rule: PlacementRule | None = None, but: Container[Allocation] = ()
) -> Iterator[Resume]:
    """Resume what was suspended: where it ran, or, a gang, on any machines that have room.

    Its work is kept, so that a capacity step ahead does not hold it back. Those in `but` stay
    suspended.
    """
    for allocation in [each for each in state.suspended if each not in but]:
        task, on = allocation.task, allocation.on
        if state.room.copy().claim(on, task.request):
            yield Resume(allocation)
        elif task.gang and (other := state.fit(task, rule)) is not None:
            yield Resume(allocation, other)


def _no_key(task: Task) -> float:
    raise PolicyError(f"an order needs a method key(task) or keys(state); found none for {task}")


def _fit_ahead(state: State, task: Task, rule: PlacementRule | None) -> Placement | None:
    """Return where a task fits now and through its estimate, given all that is known ahead."""
    if state.fit(task, rule) is None:
        return None
    return state.profile().fit(task, state.now, rule)


def _groups_sharing_machines(info: SystemInfo) -> list[list[int]]:
    """Return rows of partitions, grouped so that groups share no machine."""
    everything = frozenset(range(len(info.machine_names)))
    groups: list[tuple[frozenset[int], list[int]]] = []
    for row, partition in enumerate(info.partitions):
        machines = everything if partition.machines is None else frozenset(partition.machines)
        rows = [row]
        for group in [g for g in groups if g[0] & machines]:
            groups.remove(group)
            machines |= group[0]
            rows = group[1] + rows
        groups.append((machines, rows))
    return [rows for _, rows in groups]
