"""The event loop of the fast simulation by EASY backfilling; `simkit.learners.pool.simulation`."""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.pool.compiled import (
    LAST,
    compiled,
    expected_end,
    first_to_end,
    next_instant,
    put_by_expected_end,
    remember,
    score_of,
)
from simkit.units import EVER_S

__all__ = ["start_times"]


@compiled
def start_times(
    submit: Floats, run: Floats, processors: Floats, requested: Floats, user: Ints, size: int,
    visible: int, form: int, key: Floats, factor: Floats, linear: Floats, hidden: Floats,
    bias: Floats, out: Floats, end_score: float, may_end: int, longer: float, keep: float,
) -> Floats:  # fmt: skip
    """Return (J,) the starts.

    `submit`, `run`, `processors`, `requested`, (J,), and `size` are as in `PoolJobs`, `user` (J,)
    counts from 0, -1 is unknown. Of those that wait, the first `visible` can be picked. `form`,
    `key` and `factor`, (J,), say which is, or the scorer's `linear`, `hidden`, `bias` and `out`.
    Where `may_end` (1: behind a head, 2: everywhere) a job must have more than `end_score`. Jobs
    that request more than `longer` are held while fewer than `keep` processors would stay free.
    """
    jobs = len(submit)
    start = np.full(jobs, np.nan)
    queue, waiting = np.empty(jobs, np.int64), 0  # in order of submission
    running, active = np.empty(jobs, np.int64), 0  # by expected end, then start
    rank, started = np.empty(jobs, np.int64), 0
    recent = np.full((jobs + 1, LAST), np.nan)  # (users, 2) run times, the last one first
    free, to_come = float(size), 0
    while to_come < jobs or active > 0:
        now = next_instant(submit[to_come:], running[:active], start, run)
        while True:
            ended = first_to_end(running[:active], now, start, run, rank)
            if ended < 0:
                break
            job = running[ended]
            running[ended : active - 1] = running[ended + 1 : active]
            active -= 1
            free += processors[job]
            remember(recent, user[job], now - start[job])
        while to_come < jobs and submit[to_come] <= now:
            queue[waiting] = to_come
            waiting += 1
            to_come += 1
        head, slack, spare = -1, np.inf, np.inf
        while _any_fits(queue, min(waiting, visible), processors, free, head):
            best, best_score = -1, -np.inf
            for i in range(min(waiting, visible)):
                job = queue[i]
                n = processors[job]
                if head >= 0 and (
                    job == head or n > free or (requested[job] > slack and n > spare)
                ):
                    continue
                if requested[job] > longer and active > 0 and free - n < keep:
                    continue
                score = score_of(
                    form, key[job], factor[job], now - submit[job], submit[job] - submit[0],
                    requested[job], n, user[job], recent, free, waiting, size, linear, hidden,
                    bias, out,
                )  # fmt: skip
                if best < 0 or score > best_score:
                    best, best_score = i, score
            if best < 0:
                break
            ends = may_end == 2 or (may_end == 1 and head >= 0)
            if ends and active > 0 and best_score <= end_score:
                break
            job = queue[best]
            if processors[job] > free:
                head = job
                missing = processors[job] - free
                shadow, freed = _when_freed(
                    missing, now, running[:active], start, requested, processors
                )
                slack, spare = min(shadow - now, EVER_S), freed - missing
                continue
            if requested[job] > slack:
                spare -= processors[job]
            queue[best : waiting - 1] = queue[best + 1 : waiting]
            waiting -= 1
            free -= processors[job]
            start[job], rank[job] = now, started
            started += 1
            put_by_expected_end(job, running, active, start, requested)
            active += 1
    return start


@compiled
def _any_fits(queue: Ints, seen: int, processors: Floats, free: float, head: int) -> bool:
    """Return whether a visible job but the head fits now."""
    for i in range(seen):  # noqa: SIM110 - numba compiles loops
        if processors[queue[i]] <= free and queue[i] != head:
            return True
    return False


@compiled
def _when_freed(
    missing: float, now: float, running: Ints, start: Floats, requested: Floats, processors: Floats
) -> tuple[float, float]:
    """Return when enough is expected to be free, and how much more it is by then.

    What is overdue counts as ending now.
    """
    time, freed = np.inf, 0.0
    for job in running:
        ends = expected_end(job, start, requested)
        if ends > time:
            break
        freed += processors[job]
        if time == np.inf and freed >= missing:
            time = max(ends, now)
    return time, freed
