"""Replays under conservative backfilling: every waiting job has its place, which none may delay.

The rules are those of `simkit.policies.conservative`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled import plan, trees
from simkit.compiled.orders import KEPT, Order, key_at
from simkit.compiled.pools import Pools, next_instant, note, start
from simkit.compiled.releases import are_due, has
from simkit.compiled.replay_changing import end_in_order, sort_by_key, submit_in_order
from simkit.machine_code import compiled, inner, records
from simkit.units import TIME_GRID

__all__ = ["Planned", "no_places", "replay"]

_STARTED: Final = -np.inf


class Planned(NamedTuple):
    """The waiting jobs and their places; (J,) one pool after the other where not said otherwise."""

    plan: plan.Plan
    start: Floats
    """(J,) by job: when it is planned to start; infinity: it has no place."""
    queue: Ints
    """Who waits, by key where keys are kept, else in order of submission."""
    turn: Ints
    """(2 J,) places in a queue, in the order in which they are gone through; who is due."""
    keys: Floats
    newcomers: Ints
    wake: Any
    """(2 J + 2,) heap of the times at which to decide."""
    last_wake: Floats
    """(1,) the last of these for a planned start."""


def no_places(pools: Pools) -> Planned:
    """Return empty queues of pools, and no plans."""
    jobs = len(pools.job)
    return Planned(
        plan.no_plan(pools.pool["jobs"], len(pools.change)), np.full(jobs, np.inf),
        np.empty(jobs, np.int64), np.empty(2 * jobs, np.int64), np.empty(jobs),
        np.empty(jobs, np.int64),
        records(np.empty(2 * jobs + 2, trees.ENTRY)), np.full(1, -np.inf),
    )  # fmt: skip


@inner
def _reserve(pools: Pools, held: Planned, job: int) -> None:
    """Give a job the earliest place."""
    one = pools.job[job]
    begin = plan.earliest(held.plan, one.pool, one.demand, one.estimate)
    held.start[job] = begin
    if begin < np.inf:
        plan.hold_for(held.plan, pools, job, begin)


@inner
def _move_up(pools: Pools, held: Planned, job: int, time: float) -> None:
    """Give a job an earlier place, if there is one."""
    one, own = pools.job[job], held.start[job]
    if own == np.inf:
        _reserve(pools, held, job)
    elif own > time:
        begin = plan.earlier(held.plan, one.pool, one.demand, one.estimate, own)
        if begin < np.inf:
            lasts = max(one.estimate, TIME_GRID)
            plan.change(held.plan, one.pool, own, own + lasts, one.demand)
            plan.hold_for(held.plan, pools, job, begin)
            held.start[job] = begin


@inner
def _give_back(pools: Pools, held: Planned, at: int, first: int, last: int, time: float) -> bool:
    """Give back what jobs that are over would have held for longer; return if any would.

    They stand between two rows of `Pools.over`.
    """
    freed = False
    for row in range(first, last):
        one = pools.job[pools.over[row].job]
        end = max(one.expected_end, one.start + TIME_GRID)
        if one.pool == at and end > time:
            plan.change(held.plan, at, time, end, one.demand)
            freed = True
    return freed


@inner
def _holds(pools: Pools, held: Planned, at: int, time: float) -> bool:
    """Return whether things are as planned: nothing is overdue, or should have started before."""
    pool, free = pools.pool[at], held.plan.step[held.plan.span[at].first].free
    for job in held.queue[pool.begin : pool.begin + pool.waiting]:
        if held.start[job] < time:
            return False
        if held.start[job] == time:
            free += pools.job[job].demand
    return not are_due(pools.releases, at, time) and free == pool.free


@inner
def _is_behind(order: Order, one: int, other: int) -> bool:
    """Return whether one job stands behind another in the queue."""
    if order.changing != KEPT or order.key[one] == order.key[other]:
        return one > other
    return order.key[one] > order.key[other]  # type: ignore[no-any-return]


@inner
def _enter(order: Order, held: Planned, pools: Pools, job: int) -> None:
    """Put a newcomer into its queue: behind those whose kept keys are not larger."""
    pool = pools.pool[pools.job[job].pool]
    place = pool.begin + pool.waiting
    while place > pool.begin and _is_behind(order, held.queue[place - 1], job):
        held.queue[place] = held.queue[place - 1]
        place -= 1
    held.queue[place] = job
    pool.waiting += 1


@inner
def _plan_all(
    pools: Pools, order: Order, held: Planned, at: int, by_start: bool, time: float
) -> None:
    """Give every waiting job of a pool the earliest place, or an earlier one, in turn."""
    pool, turn = pools.pool[at], held.turn
    for each in range(pool.waiting):
        turn[each] = pool.begin + each
    if order.changing != KEPT:
        for place in range(pool.begin, pool.begin + pool.waiting):
            held.keys[place] = key_at(order, pools.job, held.queue[place], time)
        sort_by_key(turn, pool.waiting, held.keys)
    if by_start:
        for place in range(pool.begin, pool.begin + pool.waiting):
            held.keys[place] = held.start[held.queue[place]]
        sort_by_key(turn, pool.waiting, held.keys)
    for each in range(pool.waiting):
        _move_up(pools, held, held.queue[turn[each]], time)


@inner
def _plan_newcomers(
    pools: Pools, order: Order, held: Planned, at: int, new: int, time: float
) -> None:
    """Give newcomers of a pool their places, in order."""
    count = 0
    for each in range(new):
        if pools.job[held.newcomers[each]].pool == at:
            held.turn[count] = each
            held.keys[each] = key_at(order, pools.job, held.newcomers[each], time)
            count += 1
    sort_by_key(held.turn, count, held.keys)
    for each in range(count):
        _reserve(pools, held, held.newcomers[held.turn[each]])


@inner
def _plan_pool(
    pools: Pools, order: Order, held: Planned, at: int, first: int, last: int, new: int,
    by_start: bool, time: float,
) -> None:  # fmt: skip
    """Bring the plan of a pool up to date: what has ended, between two rows, and newcomers."""
    pool, freed, void = pools.pool[at], False, held.plan.span[at].used == 0
    if not void:
        plan.advance(held.plan, at, time)
        freed = _give_back(pools, held, at, first, last, time)
        void = not _holds(pools, held, at, time)
    for each in range(new):
        if pools.job[held.newcomers[each]].pool == at:
            _enter(order, held, pools, held.newcomers[each])
    if void:
        plan.make(held.plan, pools, at, time)
        for job in held.queue[pool.begin : pool.begin + pool.waiting]:
            held.start[job] = np.inf
    if void or freed:
        _plan_all(pools, order, held, at, by_start and not void, time)
    else:
        _plan_newcomers(pools, order, held, at, new, time)


@inner
def _start_due(pools: Pools, held: Planned, time: float) -> bool:
    """Start who is planned for now, of one instant in order of submission; return if one is late.

    A job is late whose place something holds that should have ended.
    """
    late, due, turn, begin = False, 0, held.turn, held.start
    for pool in pools.pool:
        for job in held.queue[pool.begin : pool.begin + pool.waiting]:
            if begin[job] <= time:
                at = due
                while at > 0 and (
                    begin[turn[at - 1]] > begin[job]
                    or (begin[turn[at - 1]] == begin[job] and turn[at - 1] > job)
                ):
                    turn[at] = turn[at - 1]
                    at -= 1
                turn[at] = job
                due += 1
    for each in range(due):
        one = pools.job[turn[each]]
        if one.demand > max(pools.pool[one.pool].free, 0.0):
            late = True
        else:
            start(pools, turn[each], time)
            begin[turn[each]] = _STARTED
    return late


@inner
def _leave(pools: Pools, held: Planned, at: int, time: float) -> float:
    """Take out of a queue who has started; return the next planned start."""
    pool, left, following = pools.pool[at], pools.pool[at].begin, np.inf
    for job in held.queue[pool.begin : pool.begin + pool.waiting]:
        if held.start[job] != _STARTED:
            held.queue[left] = job
            left += 1
            if held.start[job] > time:
                following = min(following, held.start[job])
    pool.waiting = left - pool.begin
    return following


@inner
def _wake(pools: Pools, held: Planned, at: int, time: float, following: float) -> None:
    """Ask for a decision at the next planned start, unless one is sure to come by then."""
    if are_due(pools.releases, at, time) or has(pools.releases, at, following):
        return
    for change in pools.change[pools.now[0].passed :]:
        if change.pool == at and change.time == following:
            return
    if following < np.inf and not time < held.last_wake[0] <= following:
        _wake_at(pools, held, following)
        held.last_wake[0] = following


@inner
def _wake_at(pools: Pools, held: Planned, time: float) -> None:
    trees.push(held.wake, pools.now[0].wakes, time, 0)
    pools.now[0].wakes += 1


@compiled
def replay(pools: Pools, order: Order, held: Planned, by_start: bool, timeline: Any) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        pools: they look ahead.
        order: of the queues.
        held: at first without plans.
        by_start: whether jobs move up by their planned starts, not in the queue's order.
        timeline: (D,) written from `noted` on.
    """
    now = pools.now[0]
    while now.noted < len(timeline):
        time = next_instant(pools)
        if now.wakes > 0:
            time = min(time, held.wake[0].time)
        if time == np.inf:
            return True
        first, last = now.over, now.over + end_in_order(pools, order, time)
        new = submit_in_order(pools, order, time, held.newcomers)
        while now.wakes > 0 and held.wake[0].time == time:
            trees.pop(held.wake, now.wakes)
            now.wakes -= 1
            now.changed = 1
        if now.changed == 0:
            continue
        for at in range(len(pools.pool)):
            _plan_pool(pools, order, held, at, first, last, new, by_start, time)
        if _start_due(pools, held, time):
            _wake_at(pools, held, time + TIME_GRID)
        for at in range(len(pools.pool)):
            following = _leave(pools, held, at, time)
            _wake(pools, held, at, time, following)
        note(pools, timeline, time)
    return False
