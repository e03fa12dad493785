"""Replays in which jobs keep their places in the order: without backfilling, or with EASY's.

The rule is that of `simkit.policies.easy`; `Waiting` finds who may start without going through the
queue, and while the same job is blocked at its head only newcomers are tried.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Ints
from simkit.machine_code import compiled, inner
from simkit.compiled.pool import (
    ROW,
    Pool,
    end_due,
    longer,
    next_instant,
    note,
    start,
    submit,
)
from simkit.compiled.releases import when_freed
from simkit.compiled.waiting import (
    Waiting,
    first_fitting,
    first_waiting,
    nobody_waits,
    put,
    take_out,
)
from simkit.units import EVER_S

__all__ = ["GAP", "NOBODY", "look_ahead", "replay"]

NOBODY: Final = -1
GAP: Final = np.dtype([("head", np.int64), ("shadow", np.float64), ("spare", np.float64)])
"""What a blocked head leaves to others: for which job it holds, `NOBODY` if for none, so that
everyone is to be tried; when it is expected to start, infinity while nobody else fits into what is
free now; and the extra nodes."""


@inner
def look_ahead(gap: Any, pool: Pool, head: int, time: float) -> None:
    """Work out shadow time and extra nodes of a head that does not fit."""
    missing = pool.job[head].demand - pool.now[0].free
    shadow, freed = when_freed(pool.releases, missing, time)
    gap[0].shadow, gap[0].spare = min(shadow, EVER_S), freed - missing


class Queue(NamedTuple):
    """Who waits, twice: in the order, and in that in which jobs overtake."""

    rank: Ints
    """(J,) each job's place in the order; `by_rank` is the job at each place."""
    by_rank: Ints
    in_order: Waiting
    turn: Ints
    """(J,) each job's place among those that try to overtake; `by_turn` likewise."""
    by_turn: Ints
    in_turn: Waiting
    same: bool
    """Whether both orders are the same."""


@inner
def _enter(queue: Queue, pool: Pool, job: int) -> None:
    one = pool.job[job]
    put(queue.in_order, queue.rank[job], one.demand, one.estimate)
    if not queue.same:
        put(queue.in_turn, queue.turn[job], one.demand, one.estimate)


@inner
def _leave(queue: Queue, job: int) -> None:
    take_out(queue.in_order, queue.rank[job])
    if not queue.same:
        take_out(queue.in_turn, queue.turn[job])


@inner
def _start_first(
    pool: Pool, queue: Queue, gap: Any, waiting: int, first: int, time: float
) -> tuple[int, int]:
    """Start who is first for as long as it fits; return how many wait, and the first one's rank."""
    while waiting > 0:
        first = first_waiting(queue.in_order, first)
        job = queue.by_rank[first]
        if pool.job[job].demand > pool.now[0].free:
            return waiting, first
        start(pool, job, time)
        _leave(queue, job)
        gap[0].head = NOBODY
        waiting -= 1
    return 0, queue.in_order.leaves


@inner
def _backfill(
    pool: Pool, queue: Queue, gap: Any, head: int, newcomers: Ints, new: int, time: float
) -> int:
    """Start who does not delay the head; return how many did."""
    if gap[0].head == head and time <= gap[0].shadow:
        return _try_newcomers(pool, queue, gap, newcomers, new, time)
    gap[0].head, gap[0].shadow = head, np.inf
    now, started = pool.now[0], 0
    if queue.in_order.least[1].demand > now.free:
        return 0
    look_ahead(gap, pool, head, time)
    slack = gap[0].shadow - time
    place = queue.turn[head] + 1 if queue.same else 0
    while now.free > 0:
        within = min(gap[0].spare, now.free)
        place = first_fitting(queue.in_turn, place, now.free, slack, within)
        if place < 0:
            break
        job = queue.by_turn[place]
        if pool.job[job].estimate > slack:
            gap[0].spare -= pool.job[job].demand
        start(pool, job, time)
        _leave(queue, job)
        started += 1
        place += 1
    return started


@inner
def _try_newcomers(
    pool: Pool, queue: Queue, gap: Any, newcomers: Ints, new: int, time: float
) -> int:
    """Start newcomers as `_backfill` does, where nobody else could start."""
    head, now, started = gap[0].head, pool.now[0], 0
    for each in range(1, new):  # put them in turn
        job, place = newcomers[each], each
        while place > 0 and queue.turn[newcomers[place - 1]] > queue.turn[job]:
            newcomers[place] = newcomers[place - 1]
            place -= 1
        newcomers[place] = job
    for each in range(new):
        job = newcomers[each]
        one = pool.job[job]
        if job == head or one.demand > now.free or not np.isnan(one.start):
            continue
        if gap[0].shadow == np.inf:
            look_ahead(gap, pool, head, time)
        if one.estimate > gap[0].shadow - time:
            if one.demand > gap[0].spare:
                continue
            gap[0].spare -= one.demand
        start(pool, job, time)
        _leave(queue, job)
        started += 1
        if now.free <= 0:
            break
    return started


@compiled
def replay(
    pool: Pool, rank: Ints, by_rank: Ints, turn: Ints, by_turn: Ints, same: bool
) -> Any:
    """Replay all jobs; return the timeline. Where the jobs stand at the end is in the pool.

    Args:
        pool: an empty one; that it looks ahead stands for EASY backfilling.
        rank: (J,) each job's place in the order.
        by_rank: (J,) the job at each place.
        turn: (J,) each job's place among those that try to overtake the head.
        by_turn: (J,) the job at each of these.
        same: whether they overtake in the queue's order.
    """
    gap = np.zeros(1, GAP)
    gap[0].head = NOBODY
    in_order = nobody_waits(len(rank))
    in_turn = in_order if same else nobody_waits(len(rank))
    queue = Queue(rank, by_rank, in_order, turn, by_turn, in_turn, same)
    timeline = np.empty(2 * len(rank) + 16, ROW)
    newcomers = np.empty(len(rank), np.int64)
    now = pool.now[0]
    waiting, first = 0, in_order.leaves  # no job of a rank below the first waits
    while True:
        time = next_instant(pool)
        if time == np.inf:
            return timeline[: now.noted]
        end_due(pool, time)
        if now.changed > 0:
            gap[0].head = NOBODY
        new = submit(pool, time, newcomers)
        if now.changed == 0:
            continue
        if new == 1 and waiting == 0 and pool.job[newcomers[0]].demand <= now.free:
            start(pool, newcomers[0], time)  # it need not queue
            gap[0].head = NOBODY
        elif new > 0 or waiting > 0:
            for each in range(new):
                _enter(queue, pool, newcomers[each])
                first = min(first, rank[newcomers[each]])
            waiting, first = _start_first(pool, queue, gap, waiting + new, first, time)
            if pool.looks_ahead and waiting > 1 and now.free > 0:
                waiting -= _backfill(pool, queue, gap, by_rank[first], newcomers, new, time)
        if now.noted == len(timeline):
            timeline = longer(timeline)
        note(pool, timeline, time, waiting)
