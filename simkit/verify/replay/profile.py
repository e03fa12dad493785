"""What of a pool is free from now on, a step function of time, as far as it is foreseen."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf

from simkit.verify.numbers import TICK
from simkit.verify.replay.pool import Pool


class Profile:
    """Free amounts over [now, infinity): running jobs end as expected, maintenance as announced.

    A job past its estimate is expected to end a tick from now, so that nothing is planned on what
    it still holds. Windows that recur without end are taken in as far as they are needed.
    """

    def __init__(self, pool: Pool) -> None:
        self._times, self._free = [pool.now], [pool.free]
        self._windows = pool.rules.windows
        self._known = self._settled = pool.now
        for expected, job in pool.expected:
            if expected == inf:
                break
            self._add(pool.size[job], max(expected, pool.now + TICK), inf)
        if self._windows is None:
            self._known = inf
        else:
            self._look(self._windows.last_single)

    def forget(self, now: float) -> None:
        """Forget what lies before now."""
        if self._known < now:
            self._look(now)
        passed = bisect_right(self._times, now) - 1
        del self._times[:passed], self._free[:passed]
        self._times[0] = now

    def hold(self, size: float, start: float, length: float) -> None:
        """Take what a job holds from its start on; an estimate of 0 is planned as a tick."""
        self._add(-size, start, start + max(length, TICK))

    def give(self, size: float, start: float, end: float) -> None:
        """Give back what was held in ``[start, end)``."""
        self._add(size, start, end)

    def fits_now(self, size: float, length: float) -> bool:
        """Return whether a job fits from now on through its length."""
        end = self._times[0] + length
        if self._known < end:
            self._look(self._seen_through(self._times[0], length))
        return all(free >= size for free in self._free[: max(bisect_left(self._times, end), 1)])

    def earliest(self, size: float, length: float, before: float = inf) -> float:
        """Return the first instant before `before` from which a job fits; infinity if none.

        It must fit through its length, or until `before`.
        """
        found = self._first(size, length, before)
        if self._windows is None or before < inf:
            return found
        # Later than this there is nothing new: all windows have been seen once.
        settled = max(self._times[0], self._settled, self._windows.last_single)
        latest = settled + self._windows.cycle
        while (until := self._seen_through(min(found, latest), length)) > self._known:
            self._look(max(until, 2 * self._known - self._times[0]))
            found = self._first(size, length, before)
        return found if found <= latest else inf

    def _seen_through(self, start: float, length: float) -> float:
        """Return how far windows must be known for a job; an endless one sees each come again."""
        if length < inf or self._windows is None:
            return start + length
        begun = max(start, self._settled, self._windows.last_single, self._windows.last_first)
        return begun + self._windows.cycle

    def _first(self, size: float, length: float, before: float) -> float:
        found, end = inf, before
        for time, free in zip(self._times, self._free, strict=True):
            if time >= end:
                break
            if free < size:
                found, end = inf, before
            elif found == inf:
                found, end = time, min(time + length, before)
        return found

    def _look(self, until: float) -> None:
        """Take in what maintenance changes until then."""
        assert self._windows is not None
        if until > self._known:
            settled = self._settled
            for time, change in self._windows.changes(self._known, until):
                self._add(change, time, inf)
            self._known, self._settled = until, settled

    def _add(self, amount: float, start: float, end: float) -> None:
        self._settled = max(self._settled, start if end == inf else end)
        first, last = self._step(start), len(self._times) if end == inf else self._step(end)
        for position in range(first, last):
            self._free[position] += amount
        for position in (last, first):  # a step at which nothing changes is none
            if 0 < position < len(self._free) and (
                self._free[position] == self._free[position - 1]
            ):
                del self._times[position], self._free[position]

    def _step(self, time: float) -> int:
        """Return the position of the step that begins at a time, which is made if needed."""
        at = bisect_left(self._times, time)
        if at == len(self._times) or self._times[at] != time:
            self._times.insert(at, time)
            self._free.insert(at, self._free[at - 1])
        return at
