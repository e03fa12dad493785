"""The availability profile: free resources over future time, to plan in.

A step function: between two instants the free amounts are constant. It starts now with what is
really free; running tasks give back at their expected end (an overdue one a tick from now, so that
nothing is planned on what it still holds), capacity steps and reservations take and give.

Three stores of the same thing: `PoolProfile` for one machine with one resource and
`vector_profile.VectorProfile` for one with several, plain numbers; `MachineProfile` for many
machines, arrays. A test holds them equal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Protocol

import numpy as np

from simkit.arrays import Bools, Floats
from simkit.policy.pool_profile import VectorProfile
from simkit.policy.room import MachineRoom, PlacementRule, Room
from simkit.policy.task import Placement, Task
from simkit.units import TIME_GRID

if TYPE_CHECKING:
    from simkit.policy import State


class Profile(Protocol):
    """Free amounts over [now, infinity)."""

    def earliest(
        self, task: Task, rule: PlacementRule | None = None, after: float | None = None
    ) -> tuple[float, Placement] | None:
        """Return the first instant, not before `after`, from which the task fits, and where.

        It must fit through its whole estimate. None if it never fits.
        """

    def earlier(
        self, task: Task, start: float, on: Placement, rule: PlacementRule | None = None
    ) -> tuple[float, Placement] | None:
        """Return the first instant before `start` from which the task fits, and where, or None.

        The place that the task holds in this profile, `on` in ``[start, start + estimate)``,
        counts as free.
        """

    def fit(self, task: Task, start: float, rule: PlacementRule | None = None) -> Placement | None:
        """Return where the task fits through ``[start, start + estimate)``, or None."""

    def advance(self, now: float) -> None:
        """Forget what lies before now, and steps at which nothing changes."""

    def take(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        """Take resources in ``[start, end)``, at least for a tick; `end` may be infinite."""

    def give(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        """Give resources back in ``[start, end)``, likewise."""

    def total_free(self, at: float) -> tuple[float, ...]:
        """Return (R,): what is free over all machines at an instant."""

    def copy(self) -> Profile:
        """Return an independent copy."""


def profile_of(state: State) -> Profile:
    """Return the profile of a state: what runs, what is reserved, what capacity is to change."""
    room, now = state.room, state.now
    soon = now + TIME_GRID
    if room.capacity.size == 1:
        pool = [(time, amounts[0]) for time, amounts in _pool_changes(state, soon)]
        return PoolProfile.of(now, room.total_free()[0], pool)
    if len(room.capacity) == 1:
        return VectorProfile.of(now, room.total_free(), _pool_changes(state, soon))
    profile = MachineProfile(now, room)
    for end, _, allocation in state.expected_ends:
        profile.give(allocation.on, allocation.task.request, max(end, soon), np.inf)
    for step in state.steps:
        profile.give(((step.machine, 1),), step.change, max(step.time_s, now), np.inf)
    for task, place in state.reservations.items():
        start = max(place.start or 0.0, now)
        profile.take(place.on, task.request, start, start + task.estimate_s)
    return profile


def _pool_changes(state: State, soon: float) -> list[tuple[float, tuple[float, ...]]]:
    """Return (when, how much more is free) of all that is known to change on one machine."""
    changes = [
        (end if end > soon else soon, allocation.held) for end, _, allocation in state.expected_ends
    ]
    changes += [(step.time_s, step.change) for step in state.steps]
    for task, place in state.reservations.items():
        start, count = max(place.start or 0.0, state.now), place.on[0][1]
        changes.append((start, tuple([-amount * count for amount in task.request])))
        end = max(start + task.estimate_s, start + TIME_GRID)
        changes.append((end, tuple([amount * count for amount in task.request])))
    return changes


class PoolProfile:
    """One machine, one resource."""

    __slots__ = ("_free", "_times")

    def __init__(self, now: float, free: float) -> None:
        self._times = [now]
        self._free = [free]

    @classmethod
    def of(cls, now: float, free: float, changes: list[tuple[float, float]]) -> PoolProfile:
        """Return a profile made in one pass of (when, how much more is free), in any order."""
        profile = cls(now, free)
        times, amounts = profile._times, profile._free
        changes.sort()
        for time, amount in changes:
            free += amount
            if time <= times[-1]:
                amounts[-1] = free
                if len(amounts) > 1 and free == amounts[-2]:
                    del times[-1], amounts[-1]
            elif amount:
                times.append(time)
                amounts.append(free)
        return profile

    def earliest(
        self, task: Task, rule: PlacementRule | None = None, after: float | None = None
    ) -> tuple[float, Placement] | None:
        """See `Profile.earliest`; one pass over the steps."""
        if task.machines is not None and not task.machines:
            return None
        demand = task.request[0] * _together(task)
        start = self._earliest(demand, task.estimate_s, self._times[0] if after is None else after)
        if start is None or (on := self.fit(task, start)) is None:
            return None
        return start, on

    def _earliest(self, demand: float, duration: float, after: float) -> float | None:
        times, free = self._times, self._free
        start = max(after, times[0])
        if demand <= 0:
            return start  # even where less than nothing is free
        position, size = bisect_right(times, start) - 1, len(times)
        while True:
            if free[position] < demand:
                position += 1
                if position == size:
                    return None
                start = times[position]
                continue
            position += 1
            if position == size or times[position] >= start + duration:
                return start

    def earlier(
        self, task: Task, start: float, on: Placement, rule: PlacementRule | None = None
    ) -> tuple[float, Placement] | None:
        """See `Profile.earlier`; what lies after `start` is the task's own, and fits."""
        demand, duration = task.request[0] * on[0][1], task.estimate_s
        since: float | None = None
        for time, free in zip(self._times, self._free, strict=True):
            if since is not None and (time >= start or time >= since + duration):
                return since, on
            if time >= start:
                return None
            if free < demand and demand > 0:
                since = None
            elif since is None:
                since = time
        return None if since is None else (since, on)

    def fit(self, task: Task, start: float, rule: PlacementRule | None = None) -> Placement | None:
        if task.machines is not None and not task.machines:
            return None
        first = max(bisect_right(self._times, start) - 1, 0)
        last = max(bisect_left(self._times, start + task.estimate_s), first + 1)
        least = min(self._free[first:last])
        request = task.request[0]
        count = task.remaining if request <= 0 else int(min(least // request, task.remaining))
        if count < _together(task):
            return None
        return ((0, count),)

    def take(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        self._add(start, end, -request[0] * on[0][1])

    def give(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        self._add(start, end, request[0] * on[0][1])

    def advance(self, now: float) -> None:
        """See `Profile.advance`; steps at which nothing changes are gone already."""
        passed = bisect_right(self._times, now) - 1
        if passed >= 0:
            del self._times[:passed], self._free[:passed]
            self._times[0] = now

    def _add(self, start: float, end: float, amount: float) -> None:
        end = max(end, start + TIME_GRID)
        first = self._cut(start)
        last = self._cut(end) if end < np.inf else len(self._times)
        free = self._free
        for position in range(first, last):
            free[position] += amount
        for position in (last, first):
            if 0 < position < len(free) and free[position] == free[position - 1]:
                del self._times[position], free[position]

    def _cut(self, time: float) -> int:
        """Return the position of the step that begins at `time`, making one if need be."""
        times = self._times
        position = bisect_left(times, time)
        if position == len(times) or times[position] != time:
            if position == 0:
                return 0  # what lies before now has no say
            times.insert(position, time)
            self._free.insert(position, self._free[position - 1])
        return position

    def total_free(self, at: float) -> tuple[float, ...]:
        return (self._free[max(bisect_right(self._times, at) - 1, 0)],)

    def copy(self) -> PoolProfile:
        twin = PoolProfile(0.0, 0.0)
        twin._times, twin._free = self._times.copy(), self._free.copy()
        return twin


class MachineProfile:
    """Any number of machines and resources."""

    __slots__ = ("_free", "_room", "_times")

    def __init__(self, now: float, room: Room) -> None:
        self._times = [now]
        self._free: Floats = room.free().copy()[None]  # (steps, M, R)
        self._room = room

    def earliest(
        self, task: Task, rule: PlacementRule | None = None, after: float | None = None
    ) -> tuple[float, Placement] | None:
        """See `Profile.earliest`; looks closely at instants where machines together have enough."""
        start = self._times[0] if after is None else max(after, self._times[0])
        for instant in self._promising(task, start, np.inf):
            if on := self.fit(task, instant, rule):
                return instant, on
        return None

    def _promising(self, task: Task, after: float, before: float) -> list[float]:
        """Return steps in ``[after, before)`` from which on, until `before`, enough is free.

        Enough machine by machine, step by step; whether the same machines have it all the time
        is another question.
        """
        first = bisect_right(self._times, after) - 1
        last = bisect_left(self._times, before)
        steps = np.array(self._times[first:last])
        if not len(steps):
            return []
        short = np.where(self._enough(task, self._free[first:last]), np.inf, steps)
        next_short = np.minimum.accumulate(short[::-1])[::-1]
        instants = np.maximum(steps, after)
        ends = np.minimum(instants + task.estimate_s, before)
        chosen: list[float] = instants[(next_short >= ends) & (next_short > instants)].tolist()
        return chosen

    def _enough(self, task: Task, free: Floats) -> Bools:
        """Return (S,): at which steps, of (S, M, R) free amounts, the task would fit."""
        if task.machines is not None:
            free = free[:, list(task.machines)]
        counts = np.full(free.shape[:2], float(task.instances))
        for r, amount in enumerate(task.request):
            if amount > 0:
                np.minimum(counts, free[:, :, r] // amount, out=counts)
        enough: Bools = np.maximum(counts, 0.0).sum(axis=1) >= _together(task)
        return enough

    def earlier(
        self, task: Task, start: float, on: Placement, rule: PlacementRule | None = None
    ) -> tuple[float, Placement] | None:
        """See `Profile.earlier`; what lies after `start` is the task's own, and fits."""
        if not self._promising(task, self._times[0], start):
            return None
        without = self.copy()
        without.give(on, task.request, start, start + task.estimate_s)
        found = without.earliest(task, rule)
        return found if found is not None and found[0] < start else None

    def fit(self, task: Task, start: float, rule: PlacementRule | None = None) -> Placement | None:
        first = max(bisect_right(self._times, start) - 1, 0)
        last = max(bisect_left(self._times, start + task.estimate_s), first + 1)
        return MachineRoom(self._room.capacity, self._free[first:last].min(axis=0)).fit(task, rule)

    def take(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        self._add(on, request, start, end, -1.0)

    def give(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        self._add(on, request, start, end, 1.0)

    def advance(self, now: float) -> None:
        passed = max(bisect_right(self._times, now) - 1, 0)
        free = self._free[passed:]
        kept = np.append(True, (free[1:] != free[:-1]).any(axis=(1, 2)))
        if passed or not kept.all():
            self._free = free[kept]
            self._times = [t for t, keep in zip(self._times[passed:], kept, strict=True) if keep]
        self._times[0] = max(self._times[0], now)

    def _add(
        self, on: Placement, request: tuple[float, ...], start: float, end: float, sign: float
    ) -> None:
        end = max(end, start + TIME_GRID)
        first = self._cut(start)
        last = self._cut(end) if end < np.inf else len(self._times)
        amounts = np.array(request) * sign
        for machine, count in on:
            self._free[first:last, machine] += amounts * count

    def _cut(self, time: float) -> int:
        """Return the position of the step that begins at `time`, making one if need be."""
        position = bisect_left(self._times, time)
        if position == len(self._times) or self._times[position] != time:
            if position == 0:
                return 0
            self._times.insert(position, time)
            self._free = np.insert(self._free, position, self._free[position - 1], axis=0)
        return position

    def total_free(self, at: float) -> tuple[float, ...]:
        free = self._free[max(bisect_right(self._times, at) - 1, 0)]
        return tuple(free.sum(axis=0).tolist())

    def copy(self) -> MachineProfile:
        twin = MachineProfile(0.0, self._room)
        twin._times, twin._free = self._times.copy(), self._free.copy()
        return twin


def _together(task: Task) -> int:
    """Return how many instances must start together: all of a gang, one of a bag."""
    return task.instances if task.gang else 1
