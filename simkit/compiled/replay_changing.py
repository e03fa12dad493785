"""Replays in which the order is made anew at every decision: without backfilling, or with EASY's.

The order follows waits, predictions, or estimates that are learned; so the queue is gone through.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled.orders import KEPT, Order, key_at, key_of, take_run_time
from simkit.compiled.pool import Pool, end_due, next_instant, note, start, submit
from simkit.compiled.replay_fixed import NOBODY, look_ahead
from simkit.machine_code import compiled, inner

__all__ = ["Line", "end_in_order", "no_line", "replay", "sort_by_key", "submit_in_order"]

_GONE: Final = -1


class Line(NamedTuple):
    """Who waits, in order of submission, and scratch; (J,) each, `turn` (2 J,)."""

    queue: Ints
    newcomers: Ints
    keys: Floats
    estimates: Floats
    turn: Ints


def no_line(jobs: int) -> Line:
    """Return an empty queue for so many jobs."""
    return Line(
        np.empty(jobs, np.int64), np.empty(jobs, np.int64), np.empty(jobs), np.empty(jobs),
        np.empty(2 * jobs, np.int64),
    )  # fmt: skip


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
    pool: Pool, gap: Any, line: Line, size: int, first: int, known: int, shortest_first: bool,
    time: float,
) -> None:  # fmt: skip
    """Start who does not delay the head, at a place of the queue.

    `known` waited at the last decision: if the gap still holds, only those behind are tried.
    """
    now, queue, turn = pool.now[0], line.queue, line.turn
    head, begin, count = queue[first], known, 0
    if gap[0].head != head or time > gap[0].shadow:
        gap[0].head, gap[0].shadow, begin = head, np.inf, 0
    for place in range(begin, size):
        job = queue[place]
        if job != _GONE and place != first and pool.job[job].demand <= now.free:
            if gap[0].shadow == np.inf:
                look_ahead(gap, pool, head, time)
            one = pool.job[job]
            if one.estimate <= gap[0].shadow - time or one.demand <= gap[0].spare:
                turn[count] = place
                count += 1
    sort_by_key(turn, count, line.keys)
    if shortest_first:
        for each in range(count):
            line.estimates[turn[each]] = pool.job[queue[turn[each]]].estimate
        sort_by_key(turn, count, line.estimates)
    for each in range(count):
        one = pool.job[queue[turn[each]]]
        if one.demand > now.free:
            continue
        if one.estimate > gap[0].shadow - time:
            if one.demand > gap[0].spare:
                continue
            gap[0].spare -= one.demand
        start(pool, queue[turn[each]], time)
        queue[turn[each]] = _GONE
        now.waiting -= 1
        if now.free <= 0:
            break


@inner
def _close_gaps(queue: Ints, size: int) -> None:
    """Move up those behind who is gone."""
    left = 0
    for place in range(size):
        if queue[place] != _GONE:
            queue[left] = queue[place]
            left += 1


@compiled
def replay(
    pool: Pool, order: Order, gap: Any, line: Line, shortest_first: bool, timeline: Any
) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        pool: that it looks ahead stands for EASY backfilling.
        order: of the queue.
        gap: (1,) at first for nobody.
        line: at first empty.
        shortest_first: whether jobs overtake by their estimates, not in the queue's order.
        timeline: (D,) written from `noted` on.
    """
    now, least, queue, keys = pool.now[0], np.inf, line.queue, line.keys
    for job in range(len(pool.job)):
        least = min(least, pool.job[job].demand)
    while now.noted < len(timeline):
        time = next_instant(pool)
        if time == np.inf:
            return True
        end_in_order(pool, order, time)
        if now.changed > 0:
            gap[0].head = NOBODY
        new = submit_in_order(pool, order, time, line.newcomers)
        if now.changed == 0:
            continue
        known, size = now.waiting, now.waiting + new
        for each in range(new):
            queue[known + each] = line.newcomers[each]
        now.waiting = size
        if size > 0 and now.free >= least:
            for place in range(size):
                keys[place] = key_at(order, pool.job, queue[place], time)
            first = _first(queue, size, keys)
            while first >= 0 and pool.job[queue[first]].demand <= now.free:
                start(pool, queue[first], time)
                queue[first] = _GONE
                gap[0].head = NOBODY
                now.waiting -= 1
                first = _first(queue, size, keys)
            if pool.looks_ahead and now.waiting > 1 and now.free > 0:
                _backfill(pool, gap, line, size, first, known, shortest_first, time)
            if now.waiting < size:
                _close_gaps(queue, size)
        note(pool, timeline, time)
    return False
