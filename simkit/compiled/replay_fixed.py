"""Replays in which jobs keep their places in the order: without backfilling, or with EASY's.

The rule is that of `simkit.policies.easy`; `Waiting` finds who may start without going through the
queue, and while the same job is blocked at its head only newcomers are tried.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Ints
from simkit.compiled.pool import Pool, end_due, next_instant, note, start, submit
from simkit.compiled.releases import when_freed
from simkit.compiled.waiting import (
    Waiting,
    first_fitting,
    first_waiting,
    nobody_waits,
    put,
    take_out,
)
from simkit.machine_code import compiled, inner, records
from simkit.units import EVER_S

__all__ = ["NOBODY", "Queue", "look_ahead", "no_gap", "no_queue", "replay"]

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
def _start_first(pool: Pool, queue: Queue, gap: Any, first: int, time: float) -> int:
    """Start who is first for as long as it fits; return the first rank that waits."""
    now = pool.now[0]
    while now.waiting > 0:
        first = first_waiting(queue.in_order, first)
        job = queue.by_rank[first]
        if pool.job[job].demand > now.free:
            return first
        start(pool, job, time)
        _leave(queue, job)
        gap[0].head = NOBODY
        now.waiting -= 1
    return queue.in_order.leaves


@inner
def _backfill(
    pool: Pool, queue: Queue, gap: Any, head: int, newcomers: Ints, new: int, time: float
) -> None:
    """Start who does not delay the head."""
    if gap[0].head == head and time <= gap[0].shadow:
        _try_newcomers(pool, queue, gap, newcomers, new, time)
        return
    gap[0].head, gap[0].shadow = head, np.inf
    now = pool.now[0]
    if queue.in_order.least[1].demand > now.free:
        return
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
        now.waiting -= 1
        place += 1


@inner
def _try_newcomers(
    pool: Pool, queue: Queue, gap: Any, newcomers: Ints, new: int, time: float
) -> None:
    """Start newcomers as `_backfill` does, where nobody else could start."""
    head, now = gap[0].head, pool.now[0]
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
        now.waiting -= 1
        if now.free <= 0:
            break


def no_queue(by_rank: Ints, by_turn: Ints | None) -> Queue:
    """Return an empty queue.

    Args:
        by_rank: (J,) the jobs in order.
        by_turn: (J,) the jobs in the order in which they overtake; None: in the same.
    """
    in_order, same = nobody_waits(len(by_rank)), by_turn is None
    rank = _places(by_rank)
    if by_turn is None:
        return Queue(rank, by_rank, in_order, rank, by_rank, in_order, same)
    in_turn = nobody_waits(len(by_rank))
    return Queue(rank, by_rank, in_order, _places(by_turn), by_turn, in_turn, same)


def _places(order: Ints) -> Ints:
    """Return each job's place in an order."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def no_gap() -> Any:
    """Return a gap that holds for nobody."""
    gap = records(np.zeros(1, GAP))
    gap["head"] = NOBODY
    return gap


@compiled
def replay(pool: Pool, queue: Queue, gap: Any, newcomers: Ints, timeline: Any) -> bool:
    """Go on with a replay until the timeline is full; return whether everything is over.

    Args:
        pool: that it looks ahead stands for EASY backfilling.
        queue: at first empty, like the gap.
        gap: (1,)
        newcomers: (J,) scratch.
        timeline: (D,) written from `noted` on.
    """
    now = pool.now[0]
    first = 0  # no job of a rank below waits
    while now.noted < len(timeline):
        time = next_instant(pool)
        if time == np.inf:
            return True
        end_due(pool, time)
        if now.changed > 0:
            gap[0].head = NOBODY
        new = submit(pool, time, newcomers)
        if now.changed == 0:
            continue
        if new == 1 and now.waiting == 0 and pool.job[newcomers[0]].demand <= now.free:
            start(pool, newcomers[0], time)  # it need not queue
            gap[0].head = NOBODY
        elif new > 0 or now.waiting > 0:
            for each in range(new):
                _enter(queue, pool, newcomers[each])
                first = min(first, queue.rank[newcomers[each]])
            now.waiting += new
            first = _start_first(pool, queue, gap, first, time)
            if pool.looks_ahead and now.waiting > 1 and now.free > 0:
                _backfill(pool, queue, gap, queue.by_rank[first], newcomers, new, time)
        note(pool, timeline, time)
    return False
