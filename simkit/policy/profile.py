"""The availability profile: free resources over future time, used for planning.

A step function: between two instants the free amounts are constant. It starts now with what is
free; running tasks give back at their expected end (an overdue one a tick from now, so that
nothing is planned on what it still holds), capacity steps and reservations take and give.

One base and two stores: `PoolProfile` keeps numbers for one machine, `MachineProfile` arrays for
many. A test checks that they are equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice
from math import inf
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.policy.room import MachineRoom, PlacementRule, PoolRoom, Room
from simkit.policy.task import Placement, Release, Reservation, Task, instances_on
from simkit.units import TIME_GRID
from simkit.workload.cluster import CapacityStep


class LeastFree:
    """The least amount of one resource that is free from now on through a time ahead."""

    __slots__ = ("_amounts", "_times")

    def __init__(self, times: Sequence[float], free: Sequence[float]) -> None:
        """Take (n,) instants in s, the first is now, and (n,) what is free from each on."""
        now, least = times[0], inf
        self._times: list[float] = []  # from now, when it falls
        self._amounts: list[float] = []  # to what; at least 0, as a request of 0 always fits
        for time, amount in zip(times, free, strict=True):
            if amount < least:
                least = amount
                self._times.append(time - now)
                self._amounts.append(max(amount, 0.0))

    def through(self, seconds: float) -> float:
        """Return the minimum that is free in the next `seconds`."""
        return self._amounts[max(bisect_left(self._times, seconds), 1) - 1]

    def through_each(self, seconds: Floats) -> Floats:
        """Return (N,) the same for (N,) times."""
        steps = np.searchsorted(self._times, seconds)
        least: Floats = np.array(self._amounts)[np.maximum(steps, 1) - 1]
        return least


class Hold(NamedTuple):
    """What is held of a profile for a time."""

    start_s: float
    end_s: float
    task: Task
    on: Placement


Change = tuple[float, Sequence[float]]
"""(time, (R,) how much more is free from then on)."""


def make_profile(
    room: Room,
    now: float,
    releases: Sequence[Release],
    steps: Sequence[CapacityStep],
    reservations: Iterable[Reservation],
) -> Profile:
    """Return the profile from what is free now, what ends, what changes and what is reserved.

    Args:
        room: free amounts now.
        now: the instant, in s.
        releases: the running allocations with their expected ends, soonest first.
        steps: changes of capacity that are known ahead.
        reservations: places that are kept for a later start.
    """
    soon = now + TIME_GRID
    if isinstance(room, PoolRoom):
        changes: list[Change] = [(end if end > soon else soon, a.held) for end, _, a in releases]
        changes += [(step.time_s, step.change) for step in steps]
        for task, on, start_s in reservations:
            held = [amount * on[0][1] for amount in task.request]
            start_s = max(start_s, now)
            changes.append((start_s, [-amount for amount in held]))
            changes.append((start_s + max(task.estimate_s, TIME_GRID), held))
        pool = PoolProfile(now, room.total_free(), changes, room.row)
        pool.steps = list(steps)
        return pool
    profile = MachineProfile(now, room, releases)
    for step in steps:
        profile.give(((step.machine, 1),), step.change, max(step.time_s, now), inf)
    for task, on, start_s in reservations:
        profile.hold(task, on, max(start_s, now))
    profile.steps = list(steps)
    return profile


class Profile(ABC):
    """Free amounts over [now, infinity).

    What is expected never to end holds its place for ever. Maintenance that recurs without end is
    in it through `known_until` and taken in further as it is needed.
    """

    __slots__ = ("_ahead", "_all_begun", "_cycle_s", "_settled", "_times", "known_until", "steps")

    def __init__(self, now: float) -> None:
        self._times = [now]  # when each step begins
        self.steps: Sequence[CapacityStep] = ()
        """The capacity steps in it, soonest first."""
        self.known_until = inf
        """Time in s through which it has all capacity steps that are known."""
        self._ahead: Callable[[float], Sequence[CapacityStep]] | None = None
        self._cycle_s = 0.0
        self._all_begun = -inf  # when all that recurs has come for the first time
        self._settled = now  # from then on nothing changes but by steps that recur

    def expect(
        self, ahead: Callable[[float], Sequence[CapacityStep]], known_until: float, cycle_s: float,
        all_begun: float = -inf,
    ) -> None:  # fmt: skip
        """Expect capacity steps that recur without end.

        Args:
            ahead: returns all steps that lie ahead, those that recur through a time in s.
            known_until: time through which the steps are in the profile.
            cycle_s: time in s after which they repeat as a whole.
            all_begun: when all of them have come for the first time, in s.
        """
        self._ahead, self.known_until, self._cycle_s = ahead, known_until, cycle_s
        self._all_begun = all_begun
        self._settled = self._times[-1]

    def change_steps(self, steps: Sequence[CapacityStep]) -> None:
        """Have these capacity steps ahead, in place of those that it has."""
        now = self._times[0]
        before = Counter(step for step in self.steps if step.time_s > now)
        after = Counter(steps)
        for gone in (before - after).elements():
            self._add(((gone.machine, 1),), gone.change, max(gone.time_s, now), inf, -1.0)
        for new in (after - before).elements():
            self._add(((new.machine, 1),), new.change, max(new.time_s, now), inf, 1.0)
        self.steps = steps

    def _look_until(self, time: float) -> None:
        """Take in the steps that recur through a time, and at least twice as far as so far."""
        assert self._ahead is not None
        until = max(time, 2 * self.known_until - self._times[0])
        self.change_steps(list(self._ahead(until)))
        self.known_until = until

    def earliest(
        self, task: Task, rule: PlacementRule | None = None, after: float | None = None
    ) -> tuple[float, Placement] | None:
        """Return the first instant, not before `after`, from which the task fits, and where.

        It must fit through its whole estimate. None if it never fits: with steps that recur, if
        it does not start within one cycle from when nothing else changes any more.
        """
        found = self._earliest(task, rule, after)
        if self.known_until == inf:
            return found
        latest = max(self._settled, self._times[0] if after is None else after) + self._cycle_s
        while True:
            start = latest if found is None else found[0]
            end = self._looked_through(task, start)
            if end <= self.known_until:
                return found
            if start > latest:
                return None
            self._look_until(end)
            found = self._earliest(task, rule, after)

    def _looked_through(self, task: Task, start: float) -> float:
        """Return the time through which steps must be known for a task from a start on, in s.

        For one without an end, that is when all that recurs has come once more.
        """
        end = start + task.estimate_s
        return end if end < inf else max(start, self._settled, self._all_begun) + self._cycle_s

    @abstractmethod
    def _earliest(
        self, task: Task, rule: PlacementRule | None, after: float | None
    ) -> tuple[float, Placement] | None:
        """Return the same by the steps that are in the profile."""

    @abstractmethod
    def earlier(
        self, task: Task, start: float, on: Placement, rule: PlacementRule | None = None
    ) -> tuple[float, Placement] | None:
        """Return the first instant before `start` from which the task fits, and where, or None.

        The place that the task holds in this profile, `on` in ``[start, start + estimate)``,
        counts as free.
        """

    def fit(self, task: Task, start: float, rule: PlacementRule | None = None) -> Placement | None:
        """Return where the task fits through ``[start, start + estimate)``, or None."""
        if start + task.estimate_s > self.known_until:
            end = self._looked_through(task, start)
            if end > self.known_until:
                self._look_until(end)
        return self._fit(task, start, rule)

    @abstractmethod
    def _fit(self, task: Task, start: float, rule: PlacementRule | None) -> Placement | None:
        """Return the same by the steps that are in the profile."""

    @abstractmethod
    def advance(self, now: float) -> None:
        """Forget what lies before now, and steps at which nothing changes."""

    def total_free(self, at: float) -> tuple[float, ...]:
        """Return (R,): what is free over all machines at an instant."""
        if at > self.known_until:
            self._look_until(at)
        return self._total_free(at)

    @abstractmethod
    def _total_free(self, at: float) -> tuple[float, ...]:
        """Return the same by the steps that are in the profile."""

    def total_free_at(self, times: Floats) -> Floats:
        """Return (n, R) what is free over all machines at (n,) instants, ascending."""
        if len(times) and times[-1] > self.known_until:
            self._look_until(float(times[-1]))
        steps = np.searchsorted(self._times, times, side="right") - 1
        return self._total_free_in(np.maximum(steps, 0))

    @abstractmethod
    def _total_free_in(self, steps: Ints) -> Floats:
        """Return (n, R) what is free over all machines in (n,) steps."""

    def least_free(self) -> LeastFree | None:
        """Return what stays free of the one resource of one machine; None if there is more."""
        return None

    def take(self, on: Placement, request: Sequence[float], start: float, end: float) -> None:
        """Take resources in ``[start, end)``, for at least a tick; `end` may be infinite."""
        self._add(on, request, start, end, -1.0)
        self._settled = max(self._settled, start if end == inf else end)

    def give(self, on: Placement, request: Sequence[float], start: float, end: float) -> None:
        """Give resources back in ``[start, end)``, for at least a tick; `end` may be infinite."""
        self._add(on, request, start, end, 1.0)
        self._settled = max(self._settled, start if end == inf else end)

    def hold(self, task: Task, on: Placement, start: float) -> Hold:
        """Take what a task holds that starts at an instant and runs for its estimate."""
        hold = Hold(start, start + max(task.estimate_s, TIME_GRID), task, on)
        self.take(on, task.request, start, hold.end_s)
        return hold

    def let_go(self, hold: Hold) -> None:
        """Give back what was held."""
        self.give(hold.on, hold.task.request, hold.start_s, hold.end_s)

    @abstractmethod
    def agrees(self, room: Room, due: Iterable[Hold]) -> bool:
        """Return whether as much is free now as in a room, where what is due has not started."""

    def _step_at(self, time: float) -> int:
        """Return the step that begins at `time`, made if needed; 0 for times before now."""
        times = self._times
        position = bisect_left(times, time)
        if position and (position == len(times) or times[position] != time):
            times.insert(position, time)
            self._repeat(position)
        return position

    def _steps_through(self, task: Task, start: float) -> tuple[int, int]:
        """Return the range of steps that meet ``[start, start + estimate)``."""
        first = max(bisect_right(self._times, start) - 1, 0)
        return first, max(bisect_left(self._times, start + task.estimate_s), first + 1)

    @abstractmethod
    def _repeat(self, position: int) -> None:
        """Insert a step that has the amounts of the one before it."""

    @abstractmethod
    def _add(
        self, on: Placement, request: Sequence[float], start: float, end: float, sign: float
    ) -> None:
        """Add what instances ask for in ``[start, end)``, for at least a tick."""


class PoolProfile(Profile):
    """One machine: a list of numbers for each resource, faster than arrays of one element.

    Args:
        now: the instant from which on it holds, in s.
        free: (R,) free amounts now.
        changes: when how much more is free, in any order.
        row: the machine's row in the cluster.
    """

    __slots__ = ("_free", "_row")

    def __init__(
        self, now: float, free: Sequence[float], changes: Iterable[Change] = (), row: int = 0
    ) -> None:
        super().__init__(now)
        self._row = row
        times, last = self._times, [0]  # of each step, the number of changes up to it
        ordered = sorted(changes, key=itemgetter(0))
        while ordered and ordered[-1][0] == inf:
            del ordered[-1]
        for number, (time, _) in enumerate(ordered, 1):
            if time > times[-1]:
                times.append(time)
                last.append(number)
            else:
                last[-1] = number
        self._free: list[list[float]] = []
        for r, amount in enumerate(free):
            sums = list(accumulate([change[r] for _, change in ordered], initial=amount))
            self._free.append([sums[number] for number in last])

    def _earliest(
        self, task: Task, rule: PlacementRule | None, after: float | None
    ) -> tuple[float, Placement] | None:
        if task.machines is not None and not task.machines:
            return None
        start = self._times[0] if after is None else max(after, self._times[0])
        start = self._first(task, _together(task), start)
        if start == inf or (on := self._fit(task, start, rule)) is None:
            return None
        return start, on

    def earlier(
        self, task: Task, start: float, on: Placement, rule: PlacementRule | None = None
    ) -> tuple[float, Placement] | None:
        # What lies after `start` is the task's own, and fits.
        found = self._first(task, on[0][1], self._times[0], start)
        return None if found == inf else (found, on)

    def _first(self, task: Task, count: int, start: float, before: float = inf) -> float:
        """Return the first instant in ``[start, before)`` from which instances fit; inf: never.

        They must fit through the estimate or until `before`.
        """
        request, duration = task.request, task.estimate_s
        if len(request) == 1 and request[0] > 0:  # the usual case
            return self._first_of(self._free[0], request[0] * count, start, duration, before)
        found = inf
        while found != start:  # until all resources agree
            found = start
            for column, amount in zip(self._free, request, strict=True):
                if amount > 0:
                    start = self._first_of(column, amount * count, start, duration, before)
        return found if found < before else inf  # a task that asks for nothing fits anywhere

    def _first_of(
        self, column: list[float], amount: float, start: float, duration: float, before: float
    ) -> float:
        """Return the same for one resource."""
        times = self._times
        steps: Iterable[tuple[float, float]] = zip(times, column, strict=True)
        if start > times[0]:
            steps = islice(steps, bisect_right(times, start) - 1, None)
        found, end = inf, before
        for time, free in steps:
            if time >= end:
                return found
            if free < amount:
                found, end = inf, before
            elif found == inf:
                found = time if time > start else start
                end = found + duration
                if end > before:
                    end = before
        return found

    def _fit(self, task: Task, start: float, rule: PlacementRule | None) -> Placement | None:
        if task.machines is not None and not task.machines:
            return None
        first, last = self._steps_through(task, start)
        count = task.remaining
        for column, amount in zip(self._free, task.request, strict=True):
            if amount > 0:
                least = min(column[first:last])
                if least < amount * count:
                    count = int(least // amount)
        return None if count < _together(task) else ((self._row, count),)

    def spans(
        self, amount: float, begin: float = -inf, end: float = inf
    ) -> list[tuple[float, float]]:
        """Return when at least an amount of the first resource is free, as long as it is.

        In order, as (start, end) in s; only the spans that meet ``[begin, end)``, whole.
        """
        times, free = self._times, self._free[0]
        first = max(bisect_right(times, begin) - 1, 0)
        while first and free[first] >= amount and free[first - 1] >= amount:
            first -= 1
        found: list[tuple[float, float]] = []
        since = None
        for time, left in zip(islice(times, first, None), islice(free, first, None), strict=True):
            if left >= amount:
                if since is None:
                    if time >= end:
                        return found
                    since = time
            elif since is not None:
                found.append((since, time))
                since = None
            elif time >= end:
                return found
        if since is not None:
            found.append((since, inf))
        return found

    def most_free(self, begin: float, end: float) -> float:
        """Return the most of the first resource that is free at any time from begin to end."""
        first = max(bisect_right(self._times, begin) - 1, 0)
        return max(self._free[0][first : max(bisect_left(self._times, end), first + 1)])

    def advance(self, now: float) -> None:
        passed = bisect_right(self._times, now) - 1
        if passed >= 0:
            for column in (self._times, *self._free):
                del column[:passed]
            self._times[0] = now

    def agrees(self, room: Room, due: Iterable[Hold]) -> bool:
        free = [column[0] for column in self._free]
        for hold in due:
            count = instances_on(hold.on)
            for r, amount in enumerate(hold.task.request):
                free[r] += amount * count
        return free == list(room.total_free())

    def _total_free(self, at: float) -> tuple[float, ...]:
        position = max(bisect_right(self._times, at) - 1, 0)
        return tuple([column[position] for column in self._free])

    def _total_free_in(self, steps: Ints) -> Floats:
        free: Floats = np.array(self._free)[:, steps].T
        return free

    def least_free(self) -> LeastFree | None:
        if len(self._free) > 1 or self.known_until < inf:
            return None
        return LeastFree(self._times, self._free[0])

    def _repeat(self, position: int) -> None:
        for column in self._free:
            column.insert(position, column[position - 1])

    def _add(
        self, on: Placement, request: Sequence[float], start: float, end: float, sign: float
    ) -> None:
        first = self._step_at(start)
        last = self._step_at(max(end, start + TIME_GRID)) if end < inf else len(self._times)
        count = on[0][1] * sign
        for column, amount in zip(self._free, request, strict=True):
            if amount:
                change = amount * count
                column[first:last] = [free + change for free in column[first:last]]
        for position in (last, first):  # leave out a step at which nothing changes
            if 0 < position < len(self._times):
                for column in self._free:
                    if column[position] != column[position - 1]:
                        break
                else:
                    for column in (self._times, *self._free):
                        del column[position]


class MachineProfile(Profile):
    """Any number of machines and resources.

    Args:
        now: the instant from which on it holds, in s.
        room: free amounts now.
        releases: what ends, soonest first.
    """

    __slots__ = ("_free", "_room")

    def __init__(self, now: float, room: Room, releases: Sequence[Release] = ()) -> None:
        super().__init__(now)
        times, soon = self._times, now + TIME_GRID
        free, steps = room.free().copy(), []
        for end, _, allocation in releases:
            if end == inf:
                break
            if (time := max(end, soon)) > times[-1]:
                steps.append(free.copy())
                times.append(time)
            request = np.array(allocation.task.request)
            for machine, count in allocation.on:
                free[machine] += request * count
        self._free: Floats = np.array([*steps, free])  # (steps, M, R)
        self._room = room

    def _earliest(
        self, task: Task, rule: PlacementRule | None, after: float | None
    ) -> tuple[float, Placement] | None:
        start = self._times[0] if after is None else max(after, self._times[0])
        for instant in self._promising(task, start, inf):
            if on := self._fit(task, instant, rule):
                return instant, on
        return None

    def _promising(self, task: Task, after: float, before: float) -> list[float]:
        """Return the instants in ``[after, before)`` from which enough is free at every step.

        Necessary, not sufficient: from step to step it may be free on other machines.
        """
        first = bisect_right(self._times, after) - 1
        last = bisect_left(self._times, before)
        steps = np.array(self._times[first:last])
        if not len(steps):
            return []
        short = np.where(self._enough(task, self._free[first:last]), inf, steps)
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
        # What lies after `start` is the task's own, and fits.
        if not self._promising(task, self._times[0], start):
            return None
        own = on, task.request, start, start + task.estimate_s
        self.give(*own)
        found = self.earliest(task, rule)
        self.take(*own)
        return found if found is not None and found[0] < start else None

    def _fit(self, task: Task, start: float, rule: PlacementRule | None) -> Placement | None:
        first, last = self._steps_through(task, start)
        return MachineRoom(self._room.capacity, self._free[first:last].min(axis=0)).fit(task, rule)

    def advance(self, now: float) -> None:
        passed = max(bisect_right(self._times, now) - 1, 0)
        free = self._free[passed:]
        kept = np.append(True, (free[1:] != free[:-1]).any(axis=(1, 2)))
        if passed or not kept.all():
            self._free = free[kept]
            self._times = [t for t, keep in zip(self._times[passed:], kept, strict=True) if keep]
        self._times[0] = max(self._times[0], now)

    def agrees(self, room: Room, due: Iterable[Hold]) -> bool:
        now = MachineRoom(self._room.capacity, self._free[0].copy())
        for hold in due:
            now.give(hold.on, hold.task.request)
        return bool((now.free() == room.free()).all())

    def _total_free(self, at: float) -> tuple[float, ...]:
        free = self._free[max(bisect_right(self._times, at) - 1, 0)]
        return tuple(free.sum(axis=0).tolist())

    def _total_free_in(self, steps: Ints) -> Floats:
        total: Floats = self._free[steps].sum(axis=1)
        return total

    def _repeat(self, position: int) -> None:
        self._free = np.insert(self._free, position, self._free[position - 1], axis=0)

    def _add(
        self, on: Placement, request: Sequence[float], start: float, end: float, sign: float
    ) -> None:
        first = self._step_at(start)
        last = self._step_at(max(end, start + TIME_GRID)) if end < inf else len(self._times)
        amounts = np.array(request) * sign
        for machine, count in on:
            self._free[first:last, machine] += amounts * count


def _together(task: Task) -> int:
    """Return how many instances must start together: all of a gang, one of a bag."""
    return task.instances if task.gang else 1
