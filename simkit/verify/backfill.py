"""Which waiting jobs start: in order, and behind a blocked head by EASY backfilling.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"
(2001).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from heapq import heappush
from math import inf
from typing import Protocol, TypeVar

import numpy as np

from simkit.verify.audit import TICK
from simkit.verify.pool import Pool

_Running = TypeVar("_Running")


def who_gives_way(
    in_order: list[_Running], fits_without: Callable[[list[_Running]], bool]
) -> list[_Running]:
    """Return which of the running must stop for a task to fit; empty if it fits in no case.

    Args:
        in_order: those that may stop, in the order in which they would.
        fits_without: whether the task fits if some have stopped; it does not if none has.
    """
    counts = range(1, len(in_order) + 1)
    enough = next((n for n in counts if fits_without(in_order[:n])), 0)
    chosen = in_order[:enough]
    for one in reversed(in_order[: max(enough - 1, 0)]):  # without the last the task did not fit
        others = [other for other in chosen if other is not one]
        if fits_without(others):
            chosen = others
    return chosen


def make_room(pool: Pool) -> bool:
    """Stop what must stop for the head of the queue; return whether anything did."""
    if not pool.preempts:
        return False
    head = pool.waiting[0]
    may_stop = [
        job
        for _, job in pool.expected
        if pool.treatment[job] is not None and pool.priority[job] < pool.priority[head]
    ]
    if pool.free + sum(pool.size[job] for job in may_stop) < pool.size[head]:
        return False
    may_stop.sort(key=lambda job: (pool.priority[job], -pool.turn[job]))
    stopped = who_gives_way(may_stop, lambda jobs: _fits_without(pool, head, jobs))
    pool.preempt(stopped)
    return bool(stopped)


def _fits_without(pool: Pool, head: int, stopped: list[int]) -> bool:
    """Return whether the head fits if these stop; with maintenance, through its estimate."""
    if pool.free + sum(pool.size[job] for job in stopped) < pool.size[head]:
        return False
    if not pool.change_is_ahead:
        return True
    profile = Profile(pool)
    for job in stopped:
        profile.give(pool.size[job], pool.now, max(pool.expected_end[job], pool.now + TICK))
    return profile.fits_now(pool.size[head], pool.estimate[head])


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


_LONG = 64
"""From this many waiting jobs on, arrays find those that may start faster than a loop."""


class Rule(Protocol):
    """Decides which waiting jobs start."""

    def decide(self, pool: Pool) -> None:
        """Start jobs of the pool's queue; called once for each decision."""


class NoBackfill:
    """While the head of the queue does not fit, no job behind it starts.

    With maintenance ahead, a job fits only if it fits through its estimate. A head that does not
    fit takes the place of running jobs that give way to it.
    """

    def decide(self, pool: Pool) -> None:
        if not pool.waiting:
            return
        for _ in pool.rounds():
            foreseen = Profile(pool) if pool.change_is_ahead else None
            while pool.waiting:
                if _begins(pool, foreseen, pool.waiting[0]):
                    continue
                if not make_room(pool):
                    break
                foreseen = Profile(pool) if pool.change_is_ahead else None
            if len(pool.waiting) > 1 and pool.free >= pool.least:
                self._behind_head(pool, foreseen)

    def _behind_head(self, pool: Pool, foreseen: Profile | None) -> None:
        """Start jobs behind the blocked head."""


def _begins(pool: Pool, foreseen: Profile | None, job: int) -> bool:
    """Start a job if it fits; return whether it did."""
    size, length = pool.size[job], pool.estimate[job]
    if size > pool.free or (foreseen is not None and not foreseen.fits_now(size, length)):
        return False
    pool.begin(job)
    if foreseen is not None:
        foreseen.hold(size, pool.now, length)
    return True


class Easy(NoBackfill):
    """Jobs behind a blocked head start if they fit and do not delay it.

    The shadow time is the earliest expected end at which the head fits. The extra nodes are those
    that the head leaves free then, counting all releases up to that instant. A running job past its
    estimate is expected to end now; one without a limit never ends, not even by a shadow time that
    never comes.

    With maintenance ahead, the head has the earliest slot in the availability profile, and a job
    starts if it fits next to it through its estimate.

    Args:
        shortest_first: the jobs behind the head are tried by partition priority and estimate, ties
            in the order of the queue: Tsafrir, Etsion and Feitelson, "Backfilling using
            system-generated predictions rather than user runtime estimates" (2007).
    """

    def __init__(self, *, shortest_first: bool = False) -> None:
        self._shortest_first = shortest_first

    def _behind_head(self, pool: Pool, foreseen: Profile | None) -> None:
        if foreseen is not None:
            self._beside_slot(pool, foreseen)
            return
        shadow, extra = _shadow(pool, pool.size[pool.waiting[0]])
        now, size, estimate = pool.now, pool.size, pool.estimate
        for job in self._tried(pool, _candidates(pool, shadow, extra)):
            if size[job] > pool.free:
                continue
            if now + estimate[job] > shadow or estimate[job] == np.inf:
                if size[job] > extra:
                    continue
                extra -= size[job]
            pool.begin(job)
            if pool.free < pool.least:
                break

    def _beside_slot(self, pool: Pool, foreseen: Profile) -> None:
        """Give the head its slot, and start jobs behind it that fit now and next to that slot."""
        head, *behind = pool.waiting
        slot = foreseen.earliest(pool.size[head], pool.estimate[head])
        if slot < np.inf:
            foreseen.hold(pool.size[head], slot, pool.estimate[head])
        for job in self._tried(pool, behind):
            _begins(pool, foreseen, job)

    def _tried(self, pool: Pool, behind: list[int]) -> list[int]:
        """Return jobs of the queue in the order in which they are tried."""
        if not self._shortest_first:
            return behind
        return sorted(behind, key=lambda job: (-pool.priority[job], pool.estimate[job]))


def _shadow(pool: Pool, head: float) -> tuple[float, float]:
    """Return the shadow time of a head of this size, and the extra nodes."""
    free, shadow = pool.free, np.inf
    for expected, job in pool.expected:
        if expected > shadow:
            break
        free += pool.size[job]
        if free >= head and shadow == np.inf:
            shadow = max(expected, pool.now)
    return shadow, free - head


def _candidates(pool: Pool, shadow: float, extra: float) -> list[int]:
    """Return the jobs behind the head, in order; of a long queue only those that may start."""
    if len(pool.waiting) < _LONG:
        return pool.waiting[1:]
    behind = np.array(pool.waiting[1:])
    size = pool.sizes[behind]
    estimate = pool.estimates[behind]
    may = (size <= extra) | ((pool.now + estimate <= shadow) & np.isfinite(estimate))
    return [int(job) for job in behind[may & (size <= pool.free)]]


class Conservative:
    """The reservations of all waiting jobs, kept from decision to decision.

    Args:
        by_start: when a job ends early, the others move up in the order of their planned starts.
    """

    def __init__(self, *, by_start: bool = False) -> None:
        self._by_start = by_start
        self._planned: dict[int, float] = {}
        self._profile: Profile | None = None
        self._asked = -inf

    def decide(self, pool: Pool) -> None:
        early = self._forget_ended(pool)
        if self._profile is None or self._is_broken(pool):
            self._profile = Profile(pool)
            self._planned = {}
        elif early:
            self._move_up(pool, self._profile)
        for _ in pool.rounds():
            for job in pool.waiting:
                if job not in self._planned:
                    self._reserve(pool, self._profile, job)
            for job in [job for job, start in self._planned.items() if start <= pool.now]:
                del self._planned[job]
                pool.begin(job)
        self._ask(pool)

    def _forget_ended(self, pool: Pool) -> bool:
        """Return whether a job has ended earlier than planned, and free what it had reserved."""
        early = False
        if self._profile is None:
            return early
        self._profile.forget(pool.now)
        for job in pool.ended:
            end = max(pool.expected_end[job], pool.start[job] + TICK)
            if end > pool.now:
                early = True
                self._profile.give(pool.size[job], pool.now, end)
        return early

    def _is_broken(self, pool: Pool) -> bool:
        """Return whether a job is past its estimate or was corrected, or a start was missed."""
        overrun = bool(pool.expected) and pool.expected[0][0] <= pool.now
        return overrun or pool.was_corrected or min(self._planned.values(), default=inf) < pool.now

    def _reserve(self, pool: Pool, profile: Profile, job: int) -> None:
        """Give a job the earliest slot; infinity if no gap between windows is long enough."""
        size, length = pool.size[job], pool.estimate[job]
        self._planned[job] = start = profile.earliest(size, length)
        if start < inf:
            profile.hold(size, start, length)

    def _move_up(self, pool: Pool, profile: Profile) -> None:
        """Give each waiting job, in order, an earlier slot if there is one; newcomers a first."""
        order = list(pool.waiting)
        if self._by_start:
            order.sort(key=lambda job: self._planned.get(job, inf))
        for job in order:
            planned = self._planned.get(job, inf)
            size, length = pool.size[job], pool.estimate[job]
            if planned == inf:
                self._reserve(pool, profile, job)
            elif (
                planned > pool.now and (start := profile.earliest(size, length, planned)) < planned
            ):
                profile.give(size, planned, planned + max(length, TICK))
                profile.hold(size, start, length)
                self._planned[job] = start

    def _ask(self, pool: Pool) -> None:
        """Ask for a decision at the next planned start, unless something else brings one."""
        now, ends = pool.now, pool.expected
        start = min((start for start in self._planned.values() if start > now), default=inf)
        if start == inf or (ends and ends[0][0] <= now):
            return
        at = bisect_left(ends, (start, -1))
        if (at < len(ends) and ends[at][0] == start) or pool.changes_at(start):
            return
        if now < self._asked <= start:
            return
        self._asked = start
        heappush(pool.wakes, start)
