"""Replays under conservative backfilling: every waiting job has its place, which none may delay.

The rules are those of `simkit.policies.conservative`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled import heap, plan
from simkit.compiled.orders import KEPT, Order, key_at
from simkit.compiled.pool import Pool, next_instant, note, start
from simkit.compiled.releases import are_due, has
from simkit.compiled.replay_changing import end_in_order, sort_by_key, submit_in_order
from simkit.machine_code import compiled, inner, records
from simkit.units import TIME_GRID

__all__ = ["Planned", "no_places", "replay"]

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
    newcomers: Ints
    """(J,) scratch."""
    wake: Any
    """(2 J + 2,) heap of the times at which to decide."""
    last_wake: Floats
    """(1,) the last of these for a planned start."""


@inner
def _lasts(pool: Pool, job: int) -> float:
    """Return for how long a job's place is held."""
    return max(pool.job[job].estimate, TIME_GRID)  # type: ignore[no-any-return]


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
def _plan_newcomers(pool: Pool, order: Order, held: Planned, new: int, time: float) -> None:
    """Give newcomers their places, in order."""
    for each in range(new):
        held.turn[each] = each
        held.keys[each] = key_at(order, pool.job, held.newcomers[each], time)
    sort_by_key(held.turn, new, held.keys)
    for each in range(new):
        _reserve(pool, held, held.newcomers[held.turn[each]])


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
def _wake(pool: Pool, held: Planned, time: float, following: float, late: bool) -> None:
    """Ask for a decision at the next planned start, unless one is sure to come by then.

    If something is late, also a tick from now.
    """
    now, last = pool.now[0], held.last_wake
    if late:
        heap.push(held.wake, now.wakes, time + TIME_GRID, 0)
        now.wakes += 1
    if are_due(pool.releases, time) or following == np.inf or time < last[0] <= following:
        return
    if not has(pool.releases, following):
        heap.push(held.wake, now.wakes, following, 0)
        now.wakes += 1
        last[0] = following


def no_places(jobs: int) -> Planned:
    """Return an empty queue for so many jobs, and no plan."""
    return Planned(
        plan.no_plan(jobs), np.full(jobs, np.inf), np.empty(jobs, np.int64),
        np.empty(2 * jobs, np.int64), np.empty(jobs), np.empty(jobs, np.int64),
        records(np.empty(2 * jobs + 2, heap.ENTRY)), np.full(1, -np.inf),
    )  # fmt: skip


@compiled
def replay(pool: Pool, order: Order, held: Planned, by_start: bool, timeline: Any) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        pool: one that looks ahead.
        order: of the queue.
        held: at first without a plan.
        by_start: whether jobs move up by their planned starts, not in the queue's order.
        timeline: (D,) written from `noted` on.
    """
    now = pool.now[0]
    while now.noted < len(timeline):
        time = next_instant(pool)
        if now.wakes > 0:
            time = min(time, held.wake[0].time)
        if time == np.inf:
            return True
        ended = end_in_order(pool, order, time)
        new = submit_in_order(pool, order, time, held.newcomers)
        while now.wakes > 0 and held.wake[0].time == time:
            heap.pop(held.wake, now.wakes)
            now.wakes -= 1
            now.changed = 1
        if now.changed == 0:
            continue
        freed, void = False, held.plan.size[0] == 0
        if not void:
            plan.advance(held.plan, time)
            freed = _give_back(pool, held, ended, time)
            void = not _holds(pool, held, now.waiting, time)
        for each in range(new):
            _enter(order, held, now.waiting, held.newcomers[each])
            now.waiting += 1
        if void:
            plan.make(held.plan, pool.releases, now.free, time)
            for place in range(now.waiting):
                held.start[held.queue[place]] = np.inf
        if void or freed:
            _plan_all(pool, order, held, now.waiting, by_start and not void, time)
        else:
            _plan_newcomers(pool, order, held, new, time)
        late = _start_due(pool, held, now.waiting, time)
        now.waiting, following = _leave(held, now.waiting, time)
        _wake(pool, held, time, following, late)
        note(pool, timeline, time)
    return False
