"""Which waiting jobs start: in order, and behind a blocked head by EASY backfilling.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"
(2001).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from simkit.verify.replay.pool import Pool
from simkit.verify.replay.preemption import make_room
from simkit.verify.replay.profile import Profile

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
    that are free then beside the head, counting all releases up to that instant. A running job past
    its estimate is expected to end now; one without a limit never ends, not even by a shadow time
    that never comes.

    With maintenance ahead, the head has the earliest slot in the availability profile, and a job
    starts if it fits beside it through its estimate.

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
        """Give the head its slot, and start jobs behind it that fit now and beside that slot."""
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
