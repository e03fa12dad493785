"""Room: what is free on each machine, and where a task fits in it.

Two implementations: `PoolRoom` holds plain numbers, the fastest for one machine (a log without
machine boundaries); `MachineRoom` holds arrays for many. A test checks that they agree. A free
amount is negative if capacity was removed under a running task. A task that requests none of that
resource still fits.

`split_in_order` and `split_by_score` say how many instances of a task each machine gets. They are
alike, so all of them are placed at once; the outcome is exactly that of placing one after another,
each time with the scores of that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.policy.task import Placement, Task

_MANY = 16  # machines from which on arrays are faster than one number after another


class PlacementRule(Protocol):
    """The order in which machines that have room are filled."""

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Ints) -> Ints:
        """Return `fitting` (machines with room for an instance, ascending) in order of choice.

        Args:
            task: the task to place.
            free: (M, R) free amounts.
            capacity: (M, R) machine totals.
            fitting: (F,) rows of machines.
        """


class Room(Protocol):
    """Free amounts by machine, and how policies and the engine change them."""

    capacity: Floats
    """(M, R) current capacity."""

    def fit(self, task: Task, rule: PlacementRule | None = None) -> Placement | None:
        """Return where instances of the task fit now, or None.

        All instances of a gang, or as many as fit of a bag's remaining ones. Machines are filled
        in the order that `rule` gives; without one, in order of their rows.
        """

    def claim(self, on: Placement, request: tuple[float, ...]) -> bool:
        """Take `request` for every instance of `on` and return True, or change nothing.

        Returns False for an unknown or repeated machine, a count below 1, or too little free.
        """

    def take(self, on: Placement, request: tuple[float, ...]) -> None:
        """Take it unchecked; when planning, the free amount may become negative."""

    def give(self, on: Placement, request: tuple[float, ...]) -> None:
        """Give it back."""

    def copy(self) -> Room:
        """Return an independent copy."""

    def common(self, other: Room) -> Room:
        """Return the room that is free in both this and `other`."""

    def free(self) -> Floats:
        """Return (M, R) free amounts; read-only."""

    def total_free(self) -> Sequence[float]:
        """Return (R,) free amounts over all machines; a live list, read-only."""

    def change_capacity(self, machine: int, capacity: Sequence[float]) -> None:
        """Change a machine's capacity; its tasks keep running."""


def total_usable(room: Room) -> Sequence[float]:
    """Return (R,) what tasks may take over all machines; live unless one of several is overdrawn.

    A machine whose capacity went while tasks ran on it has less than nothing free, and in
    `Room.total_free` that would hide what other machines have.
    """
    if len(room.capacity) == 1 or ((free := room.free()) >= 0).all():
        return room.total_free()
    usable: list[float] = np.maximum(free, 0.0).sum(axis=0).tolist()
    return usable


def make_room(capacity: Floats) -> Room:
    """Return an empty cluster's room: (M, R) capacities."""
    return PoolRoom(capacity) if len(capacity) == 1 else MachineRoom(capacity)


class PoolRoom:
    """The room of one machine: of the only one, or of one of several that tasks do not leave.

    Args:
        capacity: (1, R) its capacity.
        free: (R,) free amounts; None: all. A `memoryview` shows another room's, as they change.
        row: the machine's row in the cluster.
    """

    __slots__ = ("_free", "capacity", "row")

    def __init__(
        self,
        capacity: Floats,
        free: list[float] | memoryview[float] | None = None,
        row: int = 0,
    ) -> None:
        self.capacity = capacity
        self.row = row
        self._free = [float(x) for x in capacity[0]] if free is None else free

    def fit(self, task: Task, rule: PlacementRule | None = None) -> Placement | None:
        """Fit as `Room.fit` says; the rule has no choice with one machine."""
        free = self._free
        if task.gang:
            if len(free) == 1:
                fits = task.demand[0] <= free[0] or not task.demand[0]
                return ((self.row, task.instances),) if fits else None
            for amount, left in zip(task.demand, free):  # noqa: B905 - one line, hot
                if amount > left and amount > 0:
                    return None
            return ((self.row, task.instances),)
        count = task.remaining
        for amount, left in zip(task.request, free, strict=True):
            if amount > 0:
                count = min(count, int(left // amount))
        return ((self.row, count),) if count > 0 else None

    def take(self, on: Placement, request: tuple[float, ...]) -> None:
        free, count = self._free, on[0][1]
        for r, amount in enumerate(request):
            free[r] -= amount * count

    def give(self, on: Placement, request: tuple[float, ...]) -> None:
        free, count = self._free, on[0][1]
        if len(free) == 1:
            free[0] += request[0] * count
            return
        for r, amount in enumerate(request):
            free[r] += amount * count

    def claim(self, on: Placement, request: tuple[float, ...]) -> bool:
        if len(on) != 1:
            return False
        machine, count = on[0]
        if machine != self.row or count < 1:
            return False
        free = self._free
        if len(free) == 1:
            left = free[0] - request[0] * count
            if left < 0 and request[0] > 0:
                return False
            free[0] = left
            return True
        for amount, available in zip(request, free, strict=True):
            if amount * count > available and amount > 0:
                return False
        self.take(on, request)
        return True

    def copy(self) -> PoolRoom:
        return PoolRoom(self.capacity, list(self._free), self.row)

    def common(self, other: Room) -> PoolRoom:
        least = [min(a, b) for a, b in zip(self._free, other.total_free(), strict=True)]
        return PoolRoom(self.capacity, least, self.row)

    def free(self) -> Floats:
        return np.array([list(self._free)])

    def total_free(self) -> Sequence[float]:
        return self._free

    def change_capacity(self, machine: int, capacity: Sequence[float]) -> None:
        for r, (new, old) in enumerate(zip(capacity, self.capacity[machine], strict=True)):
            self._free[r] += float(new - old)
        self.capacity = np.array([capacity], dtype=np.float64)


class MachineRoom:
    """The room of many machines."""

    __slots__ = ("_alone", "_flat", "_free", "_total", "capacity", "changes")

    def __init__(self, capacity: Floats, free: Floats | None = None) -> None:
        self.capacity = capacity
        self.changes = 0
        """How often a capacity has changed."""
        self._alone: dict[int, PoolRoom] = {}  # rooms of single machines, which show `_flat`
        self._free = capacity.copy() if free is None else np.ascontiguousarray(free)
        # The same amounts, row after row: a single number is read and written three times as fast.
        self._flat: memoryview[float] = self._free.reshape(-1).data  # type: ignore[assignment]
        self._total: list[float] = [float(x) for x in self._free.sum(axis=0)]

    def machine(self, row: int) -> PoolRoom:
        """Return the room of one machine, as it changes; nothing may be taken from it there."""
        if (room := self._alone.get(row)) is None:
            width = self.capacity.shape[1]
            free = self._flat[row * width : (row + 1) * width]
            room = self._alone[row] = PoolRoom(self.capacity[row : row + 1], free, row)
        return room

    def fit(self, task: Task, rule: PlacementRule | None = None) -> Placement | None:
        if rule is None and (machines := task.machines) is not None and len(machines) == 1:
            return self.machine(machines[0]).fit(task)
        needed = task.instances if task.gang else task.remaining
        fitting = self._fitting(task)
        if not len(fitting) or not needed:
            return None
        if task.gang and len(fitting) < needed:
            counts = instances_that_fit(self._free[fitting], task.request, needed)
            if counts.sum() < needed:
                return None
        if rule is not None:
            fitting = rule.order(task, self._free, self.capacity, fitting)
        fitting = fitting[:needed]  # each takes an instance at least
        counts = instances_that_fit(self._free[fitting], task.request, needed)
        positions, placed = split_in_order(np.arange(len(fitting)), counts, needed)
        return tuple(zip(fitting[positions].tolist(), placed.tolist(), strict=True))

    def _fitting(self, task: Task) -> Ints:
        """Return the rows, ascending, of machines that have room for an instance."""
        fits = np.ones(len(self._free), np.bool_)
        if task.machines is not None:
            fits[:] = False
            fits[list(task.machines)] = True
        for r, amount in enumerate(task.request):
            if amount > 0:
                fits &= self._free[:, r] >= amount
        return np.flatnonzero(fits)

    def take(self, on: Placement, request: tuple[float, ...]) -> None:
        self._add(on, request, -1.0)

    def give(self, on: Placement, request: tuple[float, ...]) -> None:
        self._add(on, request, 1.0)

    def _add(self, on: Placement, request: tuple[float, ...], sign: float) -> None:
        if len(on) > _MANY:
            machines, counts = _columns(on)
            self._add_many(machines.astype(np.int64), counts, request, sign)
            return
        flat, total, width = self._flat, self._total, len(request)
        for r, amount in enumerate(request):
            if amount:
                change = sign * amount
                for machine, count in on:
                    flat[machine * width + r] += change * count
                    total[r] += change * count

    def claim(self, on: Placement, request: tuple[float, ...]) -> bool:
        flat, machines, width = self._flat, len(self.capacity), len(request)
        if len(on) > _MANY:
            return self._claim_many(on, request)
        if len(on) != 1 and len({machine for machine, _ in on}) < max(len(on), 1):
            return False
        for machine, count in on:
            if not 0 <= machine < machines or count < 1:
                return False
            first = machine * width
            for r, amount in enumerate(request):
                if amount * count > flat[first + r] and amount > 0:
                    return False
        self._add(on, request, -1.0)
        return True

    def _claim_many(self, on: Placement, request: tuple[float, ...]) -> bool:
        """Claim as `claim` does, all machines at once."""
        machines, counts = _columns(on)
        rows = machines.astype(np.int64)
        ascending = np.sort(rows)
        if ascending[0] < 0 or ascending[-1] >= len(self.capacity) or counts.min() < 1:
            return False
        if (ascending[1:] == ascending[:-1]).any() or (rows != machines).any():
            return False
        for r, amount in enumerate(request):
            if amount > 0 and (amount * counts > self._free[rows, r]).any():
                return False
        self._add_many(rows, counts, request, -1.0)
        return True

    def _add_many(
        self, rows: Ints, counts: Floats, request: tuple[float, ...], sign: float
    ) -> None:
        for r, amount in enumerate(request):
            if amount:
                changes = sign * amount * counts
                self._free[rows, r] += changes
                # One after another, as `_add` does it: the last bits depend on the order.
                self._total[r] = float(np.cumsum(np.append(self._total[r], changes))[-1])

    def copy(self) -> MachineRoom:
        return MachineRoom(self.capacity, self._free.copy())

    def common(self, other: Room) -> MachineRoom:
        return MachineRoom(self.capacity, np.minimum(self._free, other.free()))

    def free(self) -> Floats:
        return self._free

    def total_free(self) -> Sequence[float]:
        return self._total

    def change_capacity(self, machine: int, capacity: Sequence[float]) -> None:
        new = np.asarray(capacity, dtype=np.float64)
        self._free[machine] += new - self.capacity[machine]
        self.capacity = self.capacity.copy()
        self.capacity[machine] = new
        self._total[:] = [float(x) for x in self._free.sum(axis=0)]
        self.changes += 1
        for row, room in self._alone.items():
            room.capacity = self.capacity[row : row + 1]


def _columns(on: Placement) -> tuple[Floats, Floats]:
    """Return (n,) machines and (n,) numbers of instances."""
    pairs = np.fromiter(chain.from_iterable(on), np.float64, 2 * len(on))
    return pairs[::2], pairs[1::2]


Split = tuple[Ints, Ints]
"""(positions, counts): which of the machines on offer, in order of choice, and how many each."""

Scores = Callable[[Floats, Ints], Floats]
"""(free amounts (n, R), positions (n,)) → (n,): score of an instance on each of these machines."""


def instances_that_fit(free: Floats, request: tuple[float, ...], most: int) -> Ints:
    """Return (F,): how many instances each machine has room for, at most `most`.

    Args:
        free: (F, R) free amounts; below 0 nothing fits but what asks for nothing.
        request: (R,) of an instance.
        most: the largest number worth knowing.
    """
    counts = np.full(len(free), float(most))
    for r, amount in enumerate(request):
        if amount > 0:
            np.minimum(counts, free[:, r] // amount, out=counts)
    np.maximum(counts, 0.0, out=counts)
    return counts.astype(np.int64)


def split_in_order(order: Ints, counts: Ints, needed: int) -> Split:
    """Fill machines in an order, each before the next: (F,) positions and their (F,) room."""
    room = counts[order]
    before = np.cumsum(room) - room
    used = int(np.searchsorted(before, needed))  # machines before which instances are left
    placed = room[:used]
    placed[-1:] = min(int(placed[-1]), needed - int(before[used - 1])) if used else 0
    return order[:used], placed


def split_by_score(
    scores: Scores, free: Floats, request: tuple[float, ...], counts: Ints, needed: int
) -> Split:
    """Place instances one by one on the machine whose score is highest at that moment.

    A machine's k-th instance is placed when the lowest of its first k scores is the highest among
    all machines: higher scores that come after a low one follow it at once. So the order of the
    whole split is that of these running minima.

    Args:
        scores: scores an instance on machines with given free amounts; may rise or fall as they
            fill.
        free: (F, R) free amounts of machines that have room, ascending by row.
        request: (R,) of an instance.
        counts: (F,) how many each has room for, at least 1.
        needed: instances to place, at least 1; if fewer fit, as many as fit.
    """
    first = scores(free, np.arange(len(free)))
    offered = np.arange(len(free))
    if len(free) > needed:  # each machine's first instance comes before what these would get
        offered = np.sort(np.argsort(-first, kind="stable")[:needed])
    room = np.minimum(counts[offered], needed)
    depth = 1 if needed == 1 else 2 * -(-needed // len(offered))
    while True:
        depth = min(depth, int(room.max()))
        taken = _first(_minima(scores, free[offered], offered, request, room, depth), needed)
        placed = np.bincount(taken // depth, minlength=len(offered))
        if depth == room.max() or not ((placed == depth) & (room > depth)).any():
            break
        depth *= 4
    chosen = taken // depth
    _, begins = np.unique(chosen, return_index=True)
    order = chosen[np.sort(begins)]
    return offered[order], placed[order]


def _minima(
    scores: Scores, free: Floats, positions: Ints, request: tuple[float, ...], room: Ints,
    depth: int,
) -> Floats:  # fmt: skip
    """Return (F, depth): the running minimum of a machine's scores as it fills; -inf if full."""
    steps = np.arange(depth, dtype=np.float64)
    states = free[:, None, :] - steps[None, :, None] * np.array(request)  # (F, depth, R)
    possible = np.arange(depth) < room[:, None]
    table = np.full(possible.shape, -np.inf)
    at = np.broadcast_to(positions[:, None], possible.shape)[possible]
    table[possible] = scores(states[possible], at)
    minima: Floats = np.minimum.accumulate(table, axis=1)
    return minima


def _first(table: Floats, needed: int) -> Ints:
    """Return the places of the highest values, ties to the first, that are not -inf."""
    values = table.ravel()
    order = np.argsort(-values, kind="stable")[:needed]
    chosen: Ints = order[values[order] > -np.inf]
    return chosen
