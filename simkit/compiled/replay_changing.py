"""Replays in which the order is made anew at every decision: without backfilling, or with EASY's.

The order follows waits, predictions, or estimates that are learned; so the queue is gone through.
While capacity is to change, `replay_ahead` decides, as that of `replay_fixed` does.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.compiled.orders import KEPT, Order, key_at, key_of, take_run_time
from simkit.compiled.plan import Plan, fits_ahead, hold_for, hold_for_head
from simkit.compiled.pools import (
    FREED,
    Pools,
    end_due,
    is_last_change,
    next_instant,
    note,
    start,
    submit,
)
from simkit.compiled.replay_fixed import NOBODY, look_ahead
from simkit.machine_code import compiled, inner

__all__ = [
    "Line", "end_in_order", "no_line", "replay", "replay_ahead", "sort_by_key", "submit_in_order",
]  # fmt: skip

_GONE: Final = -1


class Line(NamedTuple):
    """Who waits, in order of submission, and scratch; (J,) each, one pool after the other."""

    queue: Ints
    newcomers: Ints
    keys: Floats
    estimates: Floats
    turn: Ints
    """(2 J,)"""
    fresh: Bools
    """By job: whether it is a newcomer at this decision."""


def no_line(jobs: int) -> Line:
    """Return empty queues for so many jobs in all."""
    return Line(
        np.empty(jobs, np.int64), np.empty(jobs, np.int64), np.empty(jobs), np.empty(jobs),
        np.empty(2 * jobs, np.int64), np.zeros(jobs, np.bool_),
    )  # fmt: skip


@inner
def _first(line: Line, begin: int, end: int) -> int:
    """Return the place of who is first between two; of equals the first submitted."""
    first = -1
    for place in range(begin, end):
        if line.queue[place] != _GONE and (first < 0 or line.keys[place] < line.keys[first]):
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
def _sort_in_turn(pools: Pools, line: Line, count: int, shortest_first: bool) -> None:
    """Sort the first places of `Line.turn` by key, or by estimate and then by key."""
    turn = line.turn
    sort_by_key(turn, count, line.keys)
    if shortest_first:
        for each in range(count):
            line.estimates[turn[each]] = pools.job[line.queue[turn[each]]].estimate
        sort_by_key(turn, count, line.estimates)


@inner
def submit_in_order(pools: Pools, order: Order, time: float, newcomers: Ints) -> int:
    """Submit as `pools.submit` does; make keys that are kept."""
    new = submit(pools, time, newcomers)
    if order.fixed != KEPT:
        for each in range(new):
            job = newcomers[each]
            order.key[job] = key_of(order.fixed, pools.job, job)
    return new


@inner
def end_in_order(pools: Pools, order: Order, time: float) -> int:
    """End what is due, as `pools.end_due` does; take in the run times for predictions."""
    ended = end_due(pools, time)
    for row in range(pools.now[0].over - ended, pools.now[0].over):
        one = pools.job[pools.over[row].job]
        take_run_time(order, one.user, one.work)
    return ended


@inner
def _decide(
    pools: Pools, order: Order, gap: Any, line: Line, at: int, shortest_first: bool, time: float
) -> None:
    """Start who is first in a pool for as long as it fits, and then who does not delay it."""
    pool = pools.pool[at]
    if pool.news == FREED:
        gap.head = NOBODY
    pool.news = 0
    begin, end = pool.begin, pool.begin + pool.waiting
    for place in range(begin, end):
        line.keys[place] = key_at(order, pools.job, line.queue[place], time)
    first = _first(line, begin, end)
    while first >= 0 and pools.job[line.queue[first]].demand <= pool.free:
        _start(pools, line, first, time)
        gap.head = NOBODY
        first = _first(line, begin, end)
    if pools.looks_ahead and pool.waiting > 1 and pool.free > 0:
        _backfill(pools, gap, line, first, begin, end, shortest_first, time)
    if pool.waiting < end - begin:
        _close_gaps(line.queue, begin, end)


@inner
def _enter(pools: Pools, line: Line, job: int) -> None:
    """Put a newcomer into its queue, in order of submission."""
    pool = pools.pool[pools.job[job].pool]
    place = pool.begin + pool.waiting
    while place > pool.begin and line.queue[place - 1] > job:
        line.queue[place] = line.queue[place - 1]
        place -= 1
    line.queue[place], line.fresh[job] = job, True
    pool.waiting += 1


@inner
def _start(pools: Pools, line: Line, place: int, time: float) -> None:
    """Start a job that waits at a place."""
    job = line.queue[place]
    start(pools, job, time)
    pools.pool[pools.job[job].pool].waiting -= 1
    line.queue[place] = _GONE


@inner
def _backfill(
    pools: Pools, gap: Any, line: Line, first: int, begin: int, end: int, shortest_first: bool,
    time: float,
) -> None:  # fmt: skip
    """Start who does not delay the head, which is at a place of the queue.

    If the gap still holds, only newcomers are tried.
    """
    queue, turn, head, count = line.queue, line.turn, line.queue[first], 0
    pool = pools.pool[pools.job[head].pool]
    holds = gap.head == head and time <= gap.shadow
    if not holds:
        gap.head, gap.shadow = head, np.inf
    for place in range(begin, end):
        job = queue[place]
        if job == _GONE or place == first or (holds and not line.fresh[job]):
            continue
        if pools.job[job].demand <= pool.free:
            if gap.shadow == np.inf:
                look_ahead(gap, pools, head, time)
            one = pools.job[job]
            if one.estimate <= gap.shadow - time or one.demand <= gap.spare:
                turn[count] = place
                count += 1
    _sort_in_turn(pools, line, count, shortest_first)
    for each in range(count):
        one = pools.job[queue[turn[each]]]
        if one.demand > pool.free:
            continue
        if one.estimate > gap.shadow - time:
            if one.demand > gap.spare:
                continue
            gap.spare -= one.demand
        _start(pools, line, turn[each], time)
        if pool.free <= 0:
            break


@inner
def _close_gaps(queue: Ints, begin: int, end: int) -> None:
    """Move up those behind who is gone."""
    left = begin
    for place in range(begin, end):
        if queue[place] != _GONE:
            queue[left] = queue[place]
            left += 1


@compiled
def replay(
    pools: Pools, order: Order, gaps: Any, line: Line, shortest_first: bool, timeline: Any
) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        pools: that they look ahead stands for EASY backfilling.
        order: of the queues.
        gaps: (P,) at first for nobody.
        line: at first empty.
        shortest_first: whether jobs overtake by their estimates, not in the queue's order.
        timeline: (D,) written from `noted` on.
    """
    now, least = pools.now[0], np.inf
    for job in range(len(pools.job)):
        least = min(least, pools.job[job].demand)
    while now.noted < len(timeline):
        time = next_instant(pools)
        if time == np.inf:
            return True
        end_in_order(pools, order, time)
        new = submit_in_order(pools, order, time, line.newcomers)
        if now.changed == 0:
            continue
        for each in range(new):
            _enter(pools, line, line.newcomers[each])
        for at in range(len(gaps)):
            if pools.pool[at].waiting > 0 and pools.pool[at].free >= least:
                _decide(pools, order, gaps[at], line, at, shortest_first, time)
        for each in range(new):
            line.fresh[line.newcomers[each]] = False
        note(pools, timeline, time)
    return False


@inner
def _decide_ahead(
    pools: Pools, order: Order, line: Line, ahead: Plan, at: int, overtakes: bool,
    shortest_first: bool, time: float,
) -> None:  # fmt: skip
    """Start who is first in a pool for as long as it fits, and then who does not delay it."""
    pool = pools.pool[at]
    begin, end = pool.begin, pool.begin + pool.waiting
    ahead.span[at].used = 0
    for place in range(begin, end):
        line.keys[place] = key_at(order, pools.job, line.queue[place], time)
    first = _first(line, begin, end)
    while first >= 0 and fits_ahead(ahead, pools, line.queue[first], time):
        hold_for(ahead, pools, line.queue[first], time)
        _start(pools, line, first, time)
        first = _first(line, begin, end)
    if overtakes and pool.waiting > 1 and pool.free > 0:
        _backfill_ahead(pools, line, ahead, first, begin, end, shortest_first, time)
    if pool.waiting < end - begin:
        _close_gaps(line.queue, begin, end)


@inner
def _backfill_ahead(
    pools: Pools, line: Line, ahead: Plan, first: int, begin: int, end: int, shortest_first: bool,
    time: float,
) -> None:  # fmt: skip
    """Start who does not delay the head, which is at a place of the queue."""
    queue, turn, count = line.queue, line.turn, 0
    pool = pools.pool[pools.job[queue[first]].pool]
    for place in range(begin, end):
        job = queue[place]
        if job != _GONE and place != first and pools.job[job].demand <= pool.free:
            turn[count] = place
            count += 1
    if count == 0:
        return
    _sort_in_turn(pools, line, count, shortest_first)
    hold_for_head(ahead, pools, queue[first], time)
    for each in range(count):
        job = queue[turn[each]]
        if fits_ahead(ahead, pools, job, time):
            hold_for(ahead, pools, job, time)
            _start(pools, line, turn[each], time)


@compiled
def replay_ahead(
    pools: Pools, order: Order, line: Line, ahead: Plan, overtakes: bool, shortest_first: bool,
    timeline: Any,
) -> bool:  # fmt: skip
    """Go on until the timeline is full, or only the last change of capacity lies ahead.

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
        if is_last_change(pools, time):
            for pool in pools.pool:
                pool.news = FREED
            return True
        end_in_order(pools, order, time)
        new = submit_in_order(pools, order, time, line.newcomers)
        if now.changed == 0:
            continue
        for each in range(new):
            _enter(pools, line, line.newcomers[each])
        for at in range(len(pools.pool)):
            _decide_ahead(pools, order, line, ahead, at, overtakes, shortest_first, time)
        for each in range(new):
            line.fresh[line.newcomers[each]] = False
        note(pools, timeline, time)
    return False
