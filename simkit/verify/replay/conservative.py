"""Conservative backfilling: every waiting job has a reservation that no other job delays.

Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling" (2001). What the paper leaves open is settled in the
reference of policies: who moves when a job ends early, when everything is planned again, and at
which instants the policy asks for a decision.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappush
from math import inf

from simkit.verify.numbers import TICK
from simkit.verify.replay.pool import Pool
from simkit.verify.replay.profile import Profile


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
