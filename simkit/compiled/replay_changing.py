"""Replays in which the order is made anew at every decision: without backfilling, or with EASY's.

The order follows waits, predictions, or estimates that are learned; so the queue is gone through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled.orders import KEPT, Order, key_at, key_of, take_run_time
from simkit.compiled.pool import ROW, Pool, end_due, longer, next_instant, note, start, submit
from simkit.compiled.replay_fixed import GAP, NOBODY, look_ahead
from simkit.machine_code import compiled, inner

__all__ = ["replay", "submit_in_order", "sort_by_key"]

_GONE = -1


@inner
def _first(queue: Ints, waiting: int, keys: Floats) -> int:
    """Return the place of who is first; of equals the first submitted."""
    first = -1
    for place in range(waiting):
        if queue[place] != _GONE and (first < 0 or keys[place] < keys[first]):
            first = place
    return first


@inner
def sort_by_key(places: Ints, count: int, by: Floats) -> None:
    """Sort the first places by a number of each; equals stay as they stand."""
    width = 1
    if count < 32:
        for row in range(1, count):
            place, at = places[row], row
            while at > 0 and by[places[at - 1]] > by[place]:
                places[at] = places[at - 1]
                at -= 1
            places[at] = place
        return
    spare = places[count : 2 * count]
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for at in range(low, high):
                if left < middle and (right >= high or by[places[left]] <= by[places[right]]):
                    spare[at] = places[left]
                    left += 1
                else:
                    spare[at] = places[right]
                    right += 1
        for at in range(count):
            places[at] = spare[at]
        width *= 2


@inner
def submit_in_order(pool: Pool, order: Order, time: float, newcomers: Ints) -> int:
    """Take in what has ended, and submit as `pool.submit` does; make keys that are kept."""
    new = submit(pool, time, newcomers)
    if order.fixed != KEPT:
        for each in range(new):
            job = newcomers[each]
            order.key[job] = key_of(order.fixed, pool.job, job)
    return new


@inner
def end_in_order(pool: Pool, order: Order, time: float) -> int:
    """End what is due, as `pool.end_due` does; take in the run times for predictions."""
    ended = end_due(pool, time)
    for row in range(pool.now[0].over - ended, pool.now[0].over):
        one = pool.job[pool.over[row].job]
        take_run_time(order, one.user, one.work)
    return ended


@inner
def _backfill(
    pool: Pool, gap: Any, queue: Ints, waiting: int, keys: Floats, first: int, known: int,
    shortest_first: bool, chosen: Ints, by: Floats, time: float,
) -> int:  # fmt: skip
    """Start who does not delay the head, at a place of the queue; return how many did.

    `known` waited at the last decision: if the gap still holds, only those behind are tried.
    """
    now, head = pool.now[0], queue[first]
    begin = known
    if gap[0].head != head or time > gap[0].shadow:
        gap[0].head, gap[0].shadow, begin = head, np.inf, 0
    count = 0
    for place in range(begin, waiting):
        job = queue[place]
        if job != _GONE and place != first and pool.job[job].demand <= now.free:
            if gap[0].shadow == np.inf:
                look_ahead(gap, pool, head, time)
            one = pool.job[job]
            if one.estimate <= gap[0].shadow - time or one.demand <= gap[0].spare:
                chosen[count] = place
                count += 1
    sort_by_key(chosen, count, keys)
    if shortest_first:
        for each in range(count):
            by[chosen[each]] = pool.job[queue[chosen[each]]].estimate
        sort_by_key(chosen, count, by)
    started = 0
    for each in range(count):
        place = chosen[each]
        job, one = queue[place], pool.job[queue[place]]
        if one.demand > now.free:
            continue
        if one.estimate > gap[0].shadow - time:
            if one.demand > gap[0].spare:
                continue
            gap[0].spare -= one.demand
        start(pool, job, time)
        queue[place] = _GONE
        started += 1
        if now.free <= 0:
            break
    return started


@inner
def _close_gaps(queue: Ints, waiting: int) -> int:
    """Move up those behind who is gone; return how many wait."""
    left = 0
    for place in range(waiting):
        if queue[place] != _GONE:
            queue[left] = queue[place]
            left += 1
    return left


@compiled
def replay(pool: Pool, order: Order, shortest_first: bool) -> Any:
    """Replay all jobs; return the timeline. Where the jobs stand at the end is in the pool.

    Args:
        pool: an empty one; that it looks ahead stands for EASY backfilling.
        order: of the queue.
        shortest_first: whether jobs overtake by their estimates, not in the queue's order.
    """
    count = len(pool.job)
    gap = np.zeros(1, GAP)
    gap[0].head = NOBODY
    timeline = np.empty(2 * count + 16, ROW)
    newcomers, queue, waiting = np.empty(count, np.int64), np.empty(count, np.int64), 0
    keys, by, chosen = np.empty(count), np.empty(count), np.empty(2 * count, np.int64)
    now, least = pool.now[0], np.inf
    for job in range(count):
        least = min(least, pool.job[job].demand)
    while True:
        time = next_instant(pool)
        if time == np.inf:
            return timeline[: now.noted]
        end_in_order(pool, order, time)
        if now.changed > 0:
            gap[0].head = NOBODY
        new = submit_in_order(pool, order, time, newcomers)
        if now.changed == 0:
            continue
        known = waiting
        for each in range(new):
            queue[waiting] = newcomers[each]
            waiting += 1
        if waiting > 0 and now.free >= least:
            for place in range(waiting):
                keys[place] = key_at(order, pool.job, queue[place], time)
            left = waiting
            first = _first(queue, waiting, keys)
            while left > 0 and pool.job[queue[first]].demand <= now.free:
                start(pool, queue[first], time)
                queue[first] = _GONE
                gap[0].head = NOBODY
                left -= 1
                first = _first(queue, waiting, keys) if left > 0 else first
            if pool.looks_ahead and left > 1 and now.free > 0:
                left -= _backfill(
                    pool, gap, queue, waiting, keys, first, known, shortest_first, chosen, by, time
                )
            if left < waiting:
                waiting = _close_gaps(queue, waiting)
        if now.noted == len(timeline):
            timeline = longer(timeline)
        note(pool, timeline, time, waiting)
