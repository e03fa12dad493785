"""Replays while capacity is to change: without backfilling, or with EASY's, in either order.

The rule is that of `simkit.policies.easy` with known capacity changes ahead: what starts must fit
through its estimate by a plan of all that runs and changes, in which a blocked head has its place.
At the last change the replays that look at nothing ahead go on, with the same queues.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simkit.arrays import Ints
from simkit.compiled import plan, replay_changing, replay_fixed
from simkit.compiled.orders import Order, key_at
from simkit.compiled.plan import Plan
from simkit.compiled.pools import Pools, end_due, next_instant, note, submit
from simkit.compiled.replay_changing import GONE, Line
from simkit.compiled.replay_fixed import Queue
from simkit.compiled.waiting import first_fitting, first_waiting
from simkit.machine_code import compiled, inner

__all__ = ["in_line", "in_queue"]


@inner
def _is_last(pools: Pools, time: float) -> bool:
    """Return whether capacity changes at a time for the last time."""
    return pools.change[len(pools.change) - 1].time == time  # type: ignore[no-any-return]


@inner
def _make_if_needed(ahead: Plan, pools: Pools, at: int, time: float) -> None:
    """Plan a pool if there is no plan of this decision: most need none."""
    if ahead.span[at].used == 0:
        plan.make(ahead, pools, at, time)


@inner
def _fits(ahead: Plan, pools: Pools, job: int, time: float) -> bool:
    """Return whether a job fits now, and through its estimate."""
    one = pools.job[job]
    if one.demand > pools.pool[one.pool].free:
        return False
    _make_if_needed(ahead, pools, one.pool, time)
    return plan.fits_now(ahead, one.pool, one.demand, one.estimate)


@inner
def _hold(ahead: Plan, pools: Pools, job: int, time: float) -> None:
    """Take the place of a job that starts now."""
    one = pools.job[job]
    plan.hold(ahead, one.pool, time, one.estimate, one.demand)


@inner
def _hold_for_head(ahead: Plan, pools: Pools, head: int, time: float) -> None:
    """Give a head that does not fit the earliest place, if it has any."""
    one = pools.job[head]
    _make_if_needed(ahead, pools, one.pool, time)
    begin = plan.earliest(ahead, one.pool, one.demand, one.estimate)
    if begin < np.inf:
        plan.hold(ahead, one.pool, begin, one.estimate, one.demand)


@inner
def _decide_in_queue(
    pools: Pools, queue: Queue, ahead: Plan, at: int, overtakes: bool, time: float
) -> None:
    """Start who is first in a pool for as long as it fits, and then who does not delay it."""
    pool, first = pools.pool[at], 0
    ahead.span[at].used = 0
    while pool.waiting > 0:
        first = first_waiting(queue.in_order, at, first)
        head = queue.by_rank[pool.begin + first]
        if not _fits(ahead, pools, head, time):
            if overtakes and pool.waiting > 1 and pool.free > 0:
                _backfill_from_queue(pools, queue, ahead, head, time)
            return
        replay_fixed.start_waiting(queue, pools, head, time)
        _hold(ahead, pools, head, time)


@inner
def _backfill_from_queue(pools: Pools, queue: Queue, ahead: Plan, head: int, time: float) -> None:
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
            _hold_for_head(ahead, pools, head, time)
            is_held = True
        if _fits(ahead, pools, job, time):
            replay_fixed.start_waiting(queue, pools, job, time)
            _hold(ahead, pools, job, time)


@compiled
def in_queue(
    pools: Pools, queue: Queue, ahead: Plan, overtakes: bool, newcomers: Ints, timeline: Any
) -> bool:
    """Go on with a replay until the timeline is full, or only the last change lies ahead.

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
        if _is_last(pools, time):
            return True
        end_due(pools, time)
        new = submit(pools, time, newcomers)
        if now.changed == 0:
            continue
        for each in range(new):
            replay_fixed.enter(queue, pools, newcomers[each])
        for at in range(len(pools.pool)):
            _decide_in_queue(pools, queue, ahead, at, overtakes, time)
        note(pools, timeline, time)
    return False


@inner
def _decide_in_line(
    pools: Pools, order: Order, line: Line, ahead: Plan, at: int, overtakes: bool,
    shortest_first: bool, time: float,
) -> None:  # fmt: skip
    """Start who is first in a pool for as long as it fits, and then who does not delay it."""
    pool = pools.pool[at]
    begin, end = pool.begin, pool.begin + pool.waiting
    ahead.span[at].used = 0
    for place in range(begin, end):
        line.keys[place] = key_at(order, pools.job, line.queue[place], time)
    first = replay_changing.first_in_line(line, begin, end)
    while first >= 0 and _fits(ahead, pools, line.queue[first], time):
        _hold(ahead, pools, line.queue[first], time)
        replay_changing.start_waiting(pools, line, first, time)
        first = replay_changing.first_in_line(line, begin, end)
    if overtakes and pool.waiting > 1 and pool.free > 0:
        _backfill_from_line(pools, line, ahead, first, begin, end, shortest_first, time)
    if pool.waiting < end - begin:
        replay_changing.close_gaps(line.queue, begin, end)


@inner
def _backfill_from_line(
    pools: Pools, line: Line, ahead: Plan, first: int, begin: int, end: int, shortest_first: bool,
    time: float,
) -> None:  # fmt: skip
    """Start who does not delay the head, which is at a place of the queue."""
    queue, turn, count = line.queue, line.turn, 0
    pool = pools.pool[pools.job[queue[first]].pool]
    for place in range(begin, end):
        job = queue[place]
        if job != GONE and place != first and pools.job[job].demand <= pool.free:
            turn[count] = place
            count += 1
    if count == 0:
        return
    replay_changing.sort_in_turn(pools, line, count, shortest_first)
    _hold_for_head(ahead, pools, queue[first], time)
    for each in range(count):
        job = queue[turn[each]]
        if _fits(ahead, pools, job, time):
            _hold(ahead, pools, job, time)
            replay_changing.start_waiting(pools, line, turn[each], time)


@compiled
def in_line(
    pools: Pools, order: Order, line: Line, ahead: Plan, overtakes: bool, shortest_first: bool,
    timeline: Any,
) -> bool:  # fmt: skip
    """Go on as `in_queue` does, where the order is made anew at every decision.

    Args:
        pools: they look ahead, even if nobody overtakes.
        order: of the queues.
        line: at first empty.
        ahead: scratch.
        overtakes: whether EASY backfilling is done.
        shortest_first: whether jobs overtake by their estimates, not in the queue's order.
        timeline: (D,) written from `noted` on.

    Returns whether only the last change lies ahead.
    """
    now = pools.now[0]
    while now.noted < len(timeline):
        time = next_instant(pools)
        if _is_last(pools, time):
            return True
        replay_changing.end_in_order(pools, order, time)
        new = replay_changing.submit_in_order(pools, order, time, line.newcomers)
        if now.changed == 0:
            continue
        for each in range(new):
            replay_changing.enter(pools, line, line.newcomers[each])
        for at in range(len(pools.pool)):
            _decide_in_line(pools, order, line, ahead, at, overtakes, shortest_first, time)
        for each in range(new):
            line.fresh[line.newcomers[each]] = False
        note(pools, timeline, time)
    return False
