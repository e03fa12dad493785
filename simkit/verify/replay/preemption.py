"""Preemption in a pool: running jobs of partitions with a lower priority make room for the head.

The lowest priority stops first, of equals the job that started last, until the head fits. Of these
the ones run on whose place turns out not to be needed; the one that would have stopped last is
asked first. None stops if the head would not fit then. This is SLURM's preemption by partition
priority (``preempt/partition_prio`` with ``preempt_youngest_first``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from simkit.verify.numbers import TICK
from simkit.verify.replay.pool import Pool
from simkit.verify.replay.profile import Profile

_Running = TypeVar("_Running")


def who_gives_way(
    in_order: list[_Running], fits_without: Callable[[list[_Running]], bool]
) -> list[_Running]:
    """Return which of the running must stop for a task to fit; empty if it fits in no case.

    Args:
        in_order: those that may stop, in the order in which they would.
        fits_without: whether the task fits if some have stopped; it does not if none has.
    """
    counts = range(1, len(in_order) + 1)
    enough = next((n for n in counts if fits_without(in_order[:n])), 0)
    chosen = in_order[:enough]
    for one in reversed(in_order[: max(enough - 1, 0)]):  # without the last the task did not fit
        others = [other for other in chosen if other is not one]
        if fits_without(others):
            chosen = others
    return chosen


def make_room(pool: Pool) -> bool:
    """Stop what must stop for the head of the queue; return whether anything did."""
    if not pool.preempts:
        return False
    head = pool.waiting[0]
    may_stop = [
        job
        for _, job in pool.expected
        if pool.treatment[job] is not None and pool.priority[job] < pool.priority[head]
    ]
    if pool.free + sum(pool.size[job] for job in may_stop) < pool.size[head]:
        return False
    may_stop.sort(key=lambda job: (pool.priority[job], -pool.turn[job]))
    stopped = who_gives_way(may_stop, lambda jobs: _fits_without(pool, head, jobs))
    pool.preempt(stopped)
    return bool(stopped)


def _fits_without(pool: Pool, head: int, stopped: list[int]) -> bool:
    """Return whether the head fits if these stop; with maintenance, through its estimate."""
    if pool.free + sum(pool.size[job] for job in stopped) < pool.size[head]:
        return False
    if not pool.change_is_ahead:
        return True
    profile = Profile(pool)
    for job in stopped:
        profile.give(pool.size[job], pool.now, max(pool.expected_end[job], pool.now + TICK))
    return profile.fits_now(pool.size[head], pool.estimate[head])
