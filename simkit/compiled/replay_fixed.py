"""Replays in which jobs keep their places in the order: without backfilling, or with EASY's.

The rule is that of `simkit.policies.easy`; `Waiting` finds who may start without going through the
queue, and while the same job is blocked at its head only newcomers are tried.

While capacity is to change, `replay_ahead` decides: what starts must fit through its estimate, by a
plan of all that runs and changes, in which a blocked head has its place.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled.plan import Plan, fits_ahead, hold_for, hold_for_head
from simkit.compiled.pools import (
    ARRIVED,
    FREED,
    Pools,
    end_due,
    is_last_change,
    next_instant,
    note,
    start,
    submit,
)
from simkit.compiled.releases import when_freed
from simkit.compiled.trees import (
    Waiting,
    first_fitting,
    first_waiting,
    least_demand,
    nobody_waits,
    put,
    take_out,
)
from simkit.machine_code import compiled, inner, records
from simkit.units import EVER_S

__all__ = [
    "NOBODY", "Queue", "look_ahead", "no_gaps", "no_queue", "replay", "replay_ahead",
]  # fmt: skip

NOBODY: Final = -1
GAP: Final = np.dtype([("head", np.int64), ("shadow", np.float64), ("spare", np.float64)])
"""What a blocked head of a pool leaves to others: for which job it holds, `NOBODY` if for none, so
that everyone is to be tried; when it is expected to start, infinity while nobody else fits into
what is free now; and the extra nodes."""


def no_gaps(pools: int) -> Any:
    """Return gaps of pools that hold for nobody."""
    gaps = records(np.zeros(pools, GAP))
    gaps["head"] = NOBODY
    return gaps


@inner
def look_ahead(gap: Any, pools: Pools, head: int, time: float) -> None:
    """Work out shadow time and extra nodes of a head that does not fit."""
    one = pools.job[head]
    missing = one.demand - pools.pool[one.pool].free
    shadow, freed = when_freed(pools.releases, one.pool, missing, time)
    gap.shadow, gap.spare = min(shadow, EVER_S), freed - missing


class Queue(NamedTuple):
    """Who waits, twice: in the order, and in that in which jobs overtake; pool by pool."""

    rank: Ints
    """(J,) each job's place in its pool's order."""
    by_rank: Ints
    """(J,) the jobs of one pool after the other, in order."""
    in_order: Waiting
    turn: Ints
    """(J,) each job's place among those of its pool that try to overtake; `by_turn` likewise."""
    by_turn: Ints
    in_turn: Waiting
    same: bool
    """Whether both orders are the same."""


def no_queue(pools: Pools, keys: Floats, *, shortest_first: bool) -> Queue:
    """Return empty queues.

    Args:
        pools: with all jobs.
        keys: (J,) the order.
        shortest_first: whether jobs overtake by their estimates, not in the same order.
    """
    sizes, pool = pools.pool["jobs"], pools.job["pool"]
    by_rank = np.lexsort((keys, pool))
    rank, in_order = _places(by_rank, pools), nobody_waits(sizes)
    if not shortest_first:
        return Queue(rank, by_rank, in_order, rank, by_rank, in_order, True)
    by_turn = np.lexsort((rank, pools.job["estimate"], pool))
    return Queue(
        rank, by_rank, in_order, _places(by_turn, pools), by_turn, nobody_waits(sizes), False
    )


def _places(order: Ints, pools: Pools) -> Ints:
    """Return each job's place in its pool's order."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places - pools.pool["begin"][pools.job["pool"]]  # type: ignore[no-any-return]


@inner
def _enter(queue: Queue, pools: Pools, job: int) -> None:
    """Put a job into its queues."""
    one = pools.job[job]
    put(queue.in_order, one.pool, queue.rank[job], one.demand, one.estimate)
    if not queue.same:
        put(queue.in_turn, one.pool, queue.turn[job], one.demand, one.estimate)
    pools.pool[one.pool].waiting += 1
    pools.pool[one.pool].news = max(pools.pool[one.pool].news, ARRIVED)


@inner
def _start(queue: Queue, pools: Pools, job: int, time: float) -> None:
    """Start a job that waits."""
    at = pools.job[job].pool
    start(pools, job, time)
    take_out(queue.in_order, at, queue.rank[job])
    if not queue.same:
        take_out(queue.in_turn, at, queue.turn[job])
    pools.pool[at].waiting -= 1


@inner
def _decide(
    pools: Pools, queue: Queue, gap: Any, at: int, newcomers: Ints, new: int, time: float
) -> None:
    """Start who is first in a pool for as long as it fits, and then who does not delay it.

    If nothing has happened there, nobody can start while the gap holds, or where there is none.
    """
    pool, first = pools.pool[at], 0
    if pool.news == 0 and (gap.head == NOBODY or time <= gap.shadow):
        return
    if pool.news == FREED:
        gap.head = NOBODY
    pool.news = 0
    while pool.waiting > 0:
        first = first_waiting(queue.in_order, at, first)
        head = queue.by_rank[pool.begin + first]
        if pools.job[head].demand > pool.free:
            if pools.looks_ahead and pool.waiting > 1 and pool.free > 0:
                _backfill(pools, queue, gap, head, newcomers, new, time)
            return
        _start(queue, pools, head, time)
        gap.head = NOBODY


@inner
def _backfill(
    pools: Pools, queue: Queue, gap: Any, head: int, newcomers: Ints, new: int, time: float
) -> None:
    """Start who does not delay the head."""
    at = pools.job[head].pool
    if gap.head == head and time <= gap.shadow:
        _try_newcomers(pools, queue, gap, at, newcomers, new, time)
        return
    pool = pools.pool[at]
    gap.head, gap.shadow = head, np.inf
    if least_demand(queue.in_order, at) > pool.free:
        return
    look_ahead(gap, pools, head, time)
    slack = gap.shadow - time
    place = queue.turn[head] + 1 if queue.same else 0
    while pool.free > 0:
        within = min(gap.spare, pool.free)
        place = first_fitting(queue.in_turn, at, place, pool.free, slack, within)
        if place < 0:
            break
        job = queue.by_turn[pool.begin + place]
        if pools.job[job].estimate > slack:
            gap.spare -= pools.job[job].demand
        _start(queue, pools, job, time)
        place += 1


@inner
def _try_newcomers(
    pools: Pools, queue: Queue, gap: Any, at: int, newcomers: Ints, new: int, time: float
) -> None:
    """Start newcomers of a pool as `_backfill` does, where nobody else could start."""
    head, pool = gap.head, pools.pool[at]
    for each in range(1, new):  # put them in turn
        job, place = newcomers[each], each
        while place > 0 and queue.turn[newcomers[place - 1]] > queue.turn[job]:
            newcomers[place] = newcomers[place - 1]
            place -= 1
        newcomers[place] = job
    for each in range(new):
        job = newcomers[each]
        one = pools.job[job]
        if one.pool != at or job == head or one.demand > pool.free or not np.isnan(one.start):
            continue
        if gap.shadow == np.inf:
            look_ahead(gap, pools, head, time)
        if one.estimate > gap.shadow - time:
            if one.demand > gap.spare:
                continue
            gap.spare -= one.demand
        _start(queue, pools, job, time)
        if pool.free <= 0:
            break


@compiled
def replay(pools: Pools, queue: Queue, gaps: Any, newcomers: Ints, timeline: Any) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        pools: that they look ahead stands for EASY backfilling.
        queue: at first empty.
        gaps: (P,) at first for nobody.
        newcomers: (J,) scratch.
        timeline: (D,) written from `noted` on.
    """
    now = pools.now[0]
    while now.noted < len(timeline):
        time = next_instant(pools)
        if time == np.inf:
            return True
        end_due(pools, time)
        new = submit(pools, time, newcomers)
        if now.changed == 0:
            continue
        if new == 1 and _need_not_queue(pools, newcomers[0]):
            start(pools, newcomers[0], time)
            gaps[pools.job[newcomers[0]].pool].head = NOBODY
            new = 0
        for each in range(new):
            _enter(queue, pools, newcomers[each])
        for at in range(len(gaps)):
            _decide(pools, queue, gaps[at], at, newcomers, new, time)
        note(pools, timeline, time)
    return False


@inner
def _need_not_queue(pools: Pools, job: int) -> bool:
    """Return whether a single newcomer starts at once: it fits, and nobody waits."""
    pool = pools.pool[pools.job[job].pool]
    return pool.waiting == 0 and pools.job[job].demand <= pool.free  # type: ignore[no-any-return]


@inner
def _decide_ahead(
    pools: Pools, queue: Queue, ahead: Plan, at: int, overtakes: bool, time: float
) -> None:
    """Start who is first in a pool for as long as it fits, and then who does not delay it."""
    pool, first = pools.pool[at], 0
    ahead.span[at].used = 0
    while pool.waiting > 0:
        first = first_waiting(queue.in_order, at, first)
        head = queue.by_rank[pool.begin + first]
        if not fits_ahead(ahead, pools, head, time):
            if overtakes and pool.waiting > 1 and pool.free > 0:
                _backfill_ahead(pools, queue, ahead, head, time)
            return
        _start(queue, pools, head, time)
        hold_for(ahead, pools, head, time)


@inner
def _backfill_ahead(pools: Pools, queue: Queue, ahead: Plan, head: int, time: float) -> None:
    """Start who does not delay the head."""
    at, is_held = pools.job[head].pool, False
    pool, place = pools.pool[at], 0
    if queue.same:
        place = queue.turn[head] + 1
    while pool.free > 0:
        place = first_fitting(queue.in_turn, at, place, 0.0, 0.0, pool.free)
        if place < 0:
            return
        job = queue.by_turn[pool.begin + place]
        place += 1
        if job == head:
            continue
        if not is_held:
            hold_for_head(ahead, pools, head, time)
            is_held = True
        if fits_ahead(ahead, pools, job, time):
            _start(queue, pools, job, time)
            hold_for(ahead, pools, job, time)


@compiled
def replay_ahead(
    pools: Pools, queue: Queue, ahead: Plan, overtakes: bool, newcomers: Ints, timeline: Any
) -> bool:
    """Go on until the timeline is full, or only the last change of capacity lies ahead.

    Args:
        pools: they look ahead, even if nobody overtakes.
        queue: at first empty.
        ahead: scratch.
        overtakes: whether EASY backfilling is done.
        newcomers: (J,) scratch.
        timeline: (D,) written from `noted` on.

    Returns whether only the last change lies ahead.
    """
    now = pools.now[0]
    while now.noted < len(timeline):
        time = next_instant(pools)
        if is_last_change(pools, time):
            for pool in pools.pool:
                pool.news = FREED
            return True
        end_due(pools, time)
        new = submit(pools, time, newcomers)
        if now.changed == 0:
            continue
        for each in range(new):
            _enter(queue, pools, newcomers[each])
        for at in range(len(pools.pool)):
            _decide_ahead(pools, queue, ahead, at, overtakes, time)
        note(pools, timeline, time)
    return False
