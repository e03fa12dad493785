"""What maintenance takes of a pool, once or again and again: known ahead, without end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from simkit.verify.machines import Window


@dataclass(frozen=True)
class PoolWindow:
    """A window in which an amount of the pool is away; times in s."""

    start: float
    end: float
    every: float | None
    """Period of repetition; None: once."""
    amount: float

    def edges(self, after: float, until: float) -> list[tuple[float, float]]:
        """Return (time, change of the capacity) with after < time <= until, in any order."""
        found = []
        for edge, change in ((self.start, -self.amount), (self.end, self.amount)):
            first, last = 0, 0
            if self.every is not None:
                first = max(ceil((after - edge) / self.every) - 1, 0) if after > -inf else 0
                last = int((until - edge) // self.every) + 1
            for number in range(first, last + 1):
                time = edge + number * (self.every or 0.0)
                if after < time <= until:
                    found.append((time, change))
        return found

    def next_edge(self, after: float) -> float:
        """Return the first edge after a time; infinity if there is none."""
        every = self.every or 0.0
        times = []
        for edge in (self.start, self.end):
            times.append(edge)
            if every and after >= edge:
                passed = int((after - edge) // every)
                times += [edge + number * every for number in (passed, passed + 1, passed + 2)]
        return min((time for time in times if time > after), default=inf)


class Windows:
    """All maintenance windows of a pool."""

    def __init__(self, windows: list[PoolWindow]) -> None:
        self._windows = windows
        periods = [window.every for window in windows if window.every is not None]
        self.cycle: Final = max(periods, default=0.0)
        """Time in which everything that recurs has happened; all that recur have one period."""
        recurring = (window.start for window in windows if window.every is not None)
        self.last_first: Final = max(recurring, default=-inf)
        """When all that recurs has come for the first time."""
        self.last_single: Final = max((w.end for w in windows if w.every is None), default=-inf)

    def changes(self, after: float, until: float) -> list[tuple[float, float]]:
        """Return (time, change of the capacity) with after < time <= until, in order."""
        at: dict[float, float] = defaultdict(float)
        for window in self._windows:
            for time, change in window.edges(after, until):
                at[time] += change
        return sorted((time, change) for time, change in at.items() if change)

    def next_change(self, after: float) -> float:
        """Return when the capacity may next change after a time; infinity: never again."""
        return min((window.next_edge(after) for window in self._windows), default=inf)


def pool_windows(windows: list[Window], machine: int, capacity: float) -> Windows | None:
    """Return the windows of a pool; None if they may overlap, touch, or have several periods."""
    made = [PoolWindow(w.start, w.end, w.every, w.taken[machine][0]) for w in windows]
    if sum(window.amount for window in made) > capacity and len(made) > 1:
        return None
    if len({window.every for window in made if window.every is not None}) > 1:
        return None
    if any(not w.start < w.end or (w.every and w.end - w.start >= w.every) for w in made):
        return None
    return Windows(made)
