"""Replays under conservative backfilling: every waiting job has its place, which none may delay.

The rules are those of `simkit.policies.conservative`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled import heap, plan
from simkit.compiled.orders import KEPT, Order, key_at
from simkit.compiled.pool import ROW, Pool, longer, next_instant, note, start
from simkit.compiled.releases import are_due, has
from simkit.compiled.replay_changing import end_in_order, sort_by_key, submit_in_order
from simkit.machine_code import compiled, inner
from simkit.units import TIME_GRID

__all__ = ["replay"]

_STARTED: Final = -np.inf


class Planned(NamedTuple):
    """The waiting jobs and their places."""

    plan: plan.Plan
    start: Floats
    """(J,) when each waiting job is planned to start; infinity: it has no place."""
    queue: Ints
    """(J,) who waits, by key where keys are kept, else in order of submission."""
    turn: Ints
    """(2 J,) places in the queue in the order in which they are gone through."""
    keys: Floats
    """(J,) by place in the queue, or by place among newcomers."""


@inner
def _lasts(pool: Pool, job: int) -> float:
    """Return for how long a job's place is held."""
    return max(pool.job[job].estimate, TIME_GRID)


@inner
def _reserve(pool: Pool, held: Planned, job: int) -> None:
    """Give a job the earliest place."""
    one = pool.job[job]
    begin = plan.earliest(held.plan, one.demand, one.estimate)
    held.start[job] = begin
    if begin < np.inf:
        plan.change(held.plan, begin, begin + _lasts(pool, job), -one.demand)


@inner
def _move_up(pool: Pool, held: Planned, job: int, time: float) -> None:
    """Give a job an earlier place, if there is one."""
    one, own = pool.job[job], held.start[job]
    if own == np.inf:
        _reserve(pool, held, job)
    elif own > time:
        begin = plan.earlier(held.plan, one.demand, one.estimate, own)
        if begin < np.inf:
            plan.change(held.plan, own, own + _lasts(pool, job), one.demand)
            plan.change(held.plan, begin, begin + _lasts(pool, job), -one.demand)
            held.start[job] = begin


@inner
def _give_back(pool: Pool, held: Planned, ended: int, time: float) -> bool:
    """Give back what the last jobs that ended would have held for longer; return if any would."""
    freed = False
    for row in range(pool.now[0].over - ended, pool.now[0].over):
        one = pool.job[pool.over[row].job]
        end = max(one.expected_end, one.start + TIME_GRID)
        if end > time:
            plan.change(held.plan, time, end, one.demand)
            freed = True
    return freed


@inner
def _holds(pool: Pool, held: Planned, waiting: int, time: float) -> bool:
    """Return whether things are as planned: nothing is overdue, or should have started before."""
    free = held.plan.step[0].free
    for place in range(waiting):
        begin = held.start[held.queue[place]]
        if begin < time:
            return False
        if begin == time:
            free += pool.job[held.queue[place]].demand
    return not are_due(pool.releases, time) and free == pool.now[0].free


@inner
def _take_turns(pool: Pool, order: Order, held: Planned, waiting: int, time: float) -> None:
    """Put the places of the queue in its order."""
    for place in range(waiting):
        held.turn[place] = place
    if order.changing != KEPT:
        for place in range(waiting):
            held.keys[place] = key_at(order, pool.job, held.queue[place], time)
        sort_by_key(held.turn, waiting, held.keys)


@inner
def _plan_all(
    pool: Pool, order: Order, held: Planned, waiting: int, by_start: bool, time: float
) -> None:
    """Give every waiting job the earliest place, or an earlier one, in turn."""
    _take_turns(pool, order, held, waiting, time)
    if by_start:
        for place in range(waiting):
            held.keys[place] = held.start[held.queue[place]]
        sort_by_key(held.turn, waiting, held.keys)
    for each in range(waiting):
        _move_up(pool, held, held.queue[held.turn[each]], time)


@inner
def _plan_newcomers(
    pool: Pool, order: Order, held: Planned, newcomers: Ints, new: int, time: float
) -> None:
    """Give newcomers their places, in order."""
    for each in range(new):
        held.turn[each] = each
        held.keys[each] = key_at(order, pool.job, newcomers[each], time)
    sort_by_key(held.turn, new, held.keys)
    for each in range(new):
        _reserve(pool, held, newcomers[held.turn[each]])


@inner
def _enter(order: Order, held: Planned, waiting: int, job: int) -> None:
    """Put a newcomer into the queue: behind those whose kept keys are not larger."""
    place = waiting
    if order.changing == KEPT:
        while place > 0 and order.key[held.queue[place - 1]] > order.key[job]:
            held.queue[place] = held.queue[place - 1]
            place -= 1
    held.queue[place] = job


@inner
def _start_due(pool: Pool, held: Planned, waiting: int, time: float) -> bool:
    """Start who is planned for now, of one instant in order of submission; return if one is late.

    A job is late whose place something holds that should have ended.
    """
    late, due = False, 0
    for place in range(waiting):
        job = held.queue[place]
        if held.start[job] <= time:
            at = due
            while at > 0 and (
                held.start[held.turn[at - 1]] > held.start[job]
                or (held.start[held.turn[at - 1]] == held.start[job] and held.turn[at - 1] > job)
            ):
                held.turn[at] = held.turn[at - 1]
                at -= 1
            held.turn[at] = job
            due += 1
    for each in range(due):
        job = held.turn[each]
        if pool.job[job].demand > max(pool.now[0].free, 0.0):
            late = True
        else:
            start(pool, job, time)
            held.start[job] = _STARTED
    return late


@inner
def _leave(held: Planned, waiting: int, time: float) -> tuple[int, float]:
    """Take out of the queue who has started; return how many wait, and the next planned start."""
    left, following = 0, np.inf
    for place in range(waiting):
        job = held.queue[place]
        if held.start[job] != _STARTED:
            held.queue[left] = job
            left += 1
            if held.start[job] > time:
                following = min(following, held.start[job])
    return left, following


@inner
def _wake(pool: Pool, following: float, last: float, time: float) -> bool:
    """Return whether to decide at the next planned start: nothing else is sure to come by then."""
    if are_due(pool.releases, time) or following == np.inf or time < last <= following:
        return False
    return not has(pool.releases, following)


@compiled
def replay(pool: Pool, order: Order, by_start: bool) -> Any:
    """Replay all jobs; return the timeline. Where the jobs stand at the end is in the pool.

    Args:
        pool: an empty one that looks ahead.
        order: of the queue.
        by_start: whether jobs move up by their planned starts, not in the queue's order.
    """
    count, now = len(pool.job), pool.now[0]
    held = Planned(
        plan.no_plan(count), np.full(count, np.inf), np.empty(count, np.int64),
        np.empty(2 * count, np.int64), np.empty(count),
    )  # fmt: skip
    timeline, newcomers = np.empty(2 * count + 16, ROW), np.empty(count, np.int64)
    wakes, wake = 0, np.empty(64, heap.ENTRY)
    waiting, void, last_wake = 0, True, -np.inf
    while True:
        time = next_instant(pool)
        if wakes > 0:
            time = min(time, wake[0].time)
        if time == np.inf:
            return timeline[: now.noted]
        ended = end_in_order(pool, order, time)
        new = submit_in_order(pool, order, time, newcomers)
        while wakes > 0 and wake[0].time == time:
            heap.pop(wake, wakes)
            wakes -= 1
            now.changed = 1
        if now.changed == 0:
            continue
        freed = False
        if not void:
            plan.advance(held.plan, time)
            freed = _give_back(pool, held, ended, time)
            void = not _holds(pool, held, waiting, time)
        for each in range(new):
            _enter(order, held, waiting, newcomers[each])
            waiting += 1
        if void:
            plan.make(held.plan, pool.releases, now.free, time)
            for place in range(waiting):
                held.start[held.queue[place]] = np.inf
        if void or freed:
            _plan_all(pool, order, held, waiting, by_start and not void, time)
        else:
            _plan_newcomers(pool, order, held, newcomers, new, time)
        void = False
        late = _start_due(pool, held, waiting, time)
        waiting, following = _leave(held, waiting, time)
        if wakes + 2 > len(wake):
            more = np.empty(2 * len(wake), heap.ENTRY)
            more[: len(wake)] = wake
            wake = more
        if late:
            heap.push(wake, wakes, time + TIME_GRID, 0)
            wakes += 1
        if _wake(pool, following, last_wake, time):
            heap.push(wake, wakes, following, 0)
            wakes += 1
            last_wake = following
        if now.noted == len(timeline):
            timeline = longer(timeline)
        note(pool, timeline, time, waiting)
