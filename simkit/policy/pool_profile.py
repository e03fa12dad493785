"""The availability profile of one machine with several resources, as plain numbers.

The third store of the same thing; see `simkit.policy.profile`. A pool of processors and accelerators has
a few hundred steps of a few numbers each, for which lists are several times faster than arrays.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import inf

from simkit.policy.room import PlacementRule
from simkit.policy.task import Placement, Task
from simkit.units import TIME_GRID


class VectorProfile:
    """One machine, any number of resources."""

    __slots__ = ("_free", "_times")

    def __init__(self, now: float, free: Sequence[float]) -> None:
        self._times = [now]
        self._free = [list(free)]  # (steps, R)

    @classmethod
    def of(
        cls, now: float, free: Sequence[float], changes: Iterable[tuple[float, Sequence[float]]]
    ) -> VectorProfile:
        """Return a profile made in one pass of (when, how much more is free), in any order."""
        profile = cls(now, free)
        times, rows = profile._times, profile._free
        row = rows[0]
        for time, amounts in sorted(changes, key=_when):
            if time > times[-1]:
                row = row.copy()
                times.append(time)
                rows.append(row)
            for r, amount in enumerate(amounts):
                row[r] += amount
        return profile

    def earliest(
        self, task: Task, rule: PlacementRule | None = None, after: float | None = None
    ) -> tuple[float, Placement] | None:
        """See `Profile.earliest`; one pass over the steps."""
        if task.machines is not None and not task.machines:
            return None
        times, rows = self._times, self._free
        start = times[0] if after is None else max(after, times[0])
        duration, size = task.estimate_s, len(times)
        needs = [(r, amount) for r, amount in enumerate(task.least) if amount > 0]
        position = bisect_right(times, start) - 1
        while position < size:
            row = rows[position]
            for r, amount in needs:
                if row[r] < amount:
                    break
            else:
                position += 1
                if position == size or times[position] >= start + duration:
                    on = self.fit(task, start)
                    return None if on is None else (start, on)
                continue
            position += 1
            if position < size:
                start = times[position]
        return None

    def earlier(
        self, task: Task, start: float, on: Placement, rule: PlacementRule | None = None
    ) -> tuple[float, Placement] | None:
        """See `Profile.earlier`; what lies after `start` is the task's own, and fits."""
        needs = [(r, amount * on[0][1]) for r, amount in enumerate(task.request) if amount > 0]
        duration, since = task.estimate_s, None
        for time, row in zip(self._times, self._free, strict=True):
            if since is not None and (time >= start or time >= since + duration):
                return since, on
            if time >= start:
                return None
            if any(row[r] < amount for r, amount in needs):
                since = None
            elif since is None:
                since = time
        return None if since is None else (since, on)

    def fit(self, task: Task, start: float, rule: PlacementRule | None = None) -> Placement | None:
        if task.machines is not None and not task.machines:
            return None
        first = max(bisect_right(self._times, start) - 1, 0)
        last = max(bisect_left(self._times, start + task.estimate_s), first + 1)
        count, rows = task.remaining, self._free[first:last]
        for r, amount in enumerate(task.request):
            if amount > 0:
                least = min([row[r] for row in rows])
                if least < amount * count:
                    count = int(least // amount)
        if count < (task.instances if task.gang else 1):
            return None
        return ((0, count),)

    def take(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        self._add(start, end, request, -on[0][1])

    def give(self, on: Placement, request: tuple[float, ...], start: float, end: float) -> None:
        self._add(start, end, request, on[0][1])

    def advance(self, now: float) -> None:
        """See `Profile.advance`; steps at which nothing changes are gone already."""
        passed = bisect_right(self._times, now) - 1
        if passed >= 0:
            del self._times[:passed], self._free[:passed]
            self._times[0] = now

    def total_free(self, at: float) -> tuple[float, ...]:
        return tuple(self._free[max(bisect_right(self._times, at) - 1, 0)])

    def copy(self) -> VectorProfile:
        twin = VectorProfile(0.0, ())
        twin._times, twin._free = self._times.copy(), [row.copy() for row in self._free]
        return twin

    def _add(self, start: float, end: float, request: tuple[float, ...], count: int) -> None:
        end = max(end, start + TIME_GRID)
        first = self._cut(start)
        last = self._cut(end) if end < inf else len(self._times)
        rows = self._free
        for r, amount in enumerate(request):
            if amount:
                change = amount * count
                for position in range(first, last):
                    rows[position][r] += change
        for position in (last, first):
            if 0 < position < len(rows) and rows[position] == rows[position - 1]:
                del self._times[position], rows[position]

    def _cut(self, time: float) -> int:
        """Return the position of the step that begins at `time`, making one if need be."""
        times = self._times
        position = bisect_left(times, time)
        if position == len(times) or times[position] != time:
            if position == 0:
                return 0  # what lies before now has no say
            times.insert(position, time)
            self._free.insert(position, self._free[position - 1].copy())
        return position


def _when(change: tuple[float, Sequence[float]]) -> float:
    return change[0]
