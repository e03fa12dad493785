"""One pool of processors under rigid jobs: its state in arrays, and how it moves on.

The functions are plain Python over numbers and preallocated arrays, which numba compiles for a
processor and for a GPU. All of them are told the jobs and the state; nothing is allocated.

    begin(jobs, pool)
    while go_on_and_release(jobs, pool):      # to the next instant at which jobs come or end
        for place in range(pool.counts[WAITING]):
            if jobs.processors[pool.queue[place]] <= pool.at[FREE]:
                start_job(jobs, pool, place)
                break
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled.orders import take
from simkit.machine_code import inner
from simkit.units import EVER_S

__all__ = [
    "ACTIVE", "COUNTS", "ENDED", "FREE", "NOW", "NUMBERS", "SLACK", "SPARE", "TO_COME", "WAITING",
    "Jobs", "Pool", "begin", "go_on", "go_on_and_release", "release", "reserve",
    "start_job", "when_freed",
]  # fmt: skip

NOW: Final = 0
"""Places in `Pool.at`. This one: the instant, in s."""
FREE: Final = 1
"""Processors that are free."""
SLACK: Final = 2
"""With a head, seconds until it is expected to start; without, infinite."""
SPARE: Final = 3
"""Processors that are then expected to be free next to it; without a head, infinite."""
NUMBERS: Final = 4

TO_COME: Final = 0
"""Places in `Pool.counts`. This one: the first job that is to come."""
WAITING: Final = 1
ACTIVE: Final = 2
"""Jobs that hold processors."""
ENDED: Final = 3
"""Of these, jobs that have ended, and are not released yet."""
COUNTS: Final = 4


class Jobs(NamedTuple):
    """The J jobs of an episode, in order of submission."""

    submit: Floats
    run: Floats
    processors: Floats
    requested: Floats
    user: Ints
    """(J,) from 0; -1 is unknown."""
    size: float
    """Processors of the pool."""


class Pool(NamedTuple):
    """The state of an episode; of the arrays over jobs only the beginnings are in use."""

    at: Floats
    """(`NUMBERS`,)"""
    counts: Ints
    """(`COUNTS`,)"""
    queue: Ints
    """(J,) the jobs that wait, in order of submission."""
    running: Ints
    """(J,) the jobs that run, by expected end, then start."""
    ending: Ints
    """(J,) the same by their true ends: last what ends first, and of several what started first."""
    start: Floats
    """(J,) the starts of all jobs, in s."""
    recent: Floats
    """(users, 3) see `simkit.compiled.orders.none_seen`."""


@inner
def begin(jobs: Jobs, pool: Pool) -> None:
    """Empty the pool; no job has come."""
    pool.at[NOW], pool.at[FREE] = -np.inf, jobs.size
    pool.at[SLACK], pool.at[SPARE] = np.inf, np.inf
    for k in range(COUNTS):
        pool.counts[k] = 0
    for user in range(pool.recent.shape[0]):
        pool.recent[user, 0] = 0.0


@inner
def go_on(jobs: Jobs, pool: Pool) -> bool:
    """Go to the next instant at which jobs come or end; False: there is none.

    What comes joins the queue, and there is no head. What ends is counted, but holds its processors
    until it is released.
    """
    at, counts, queue, ending = pool.at, pool.counts, pool.queue, pool.ending
    to_come, waiting, active = counts[TO_COME], counts[WAITING], counts[ACTIVE]
    total = jobs.submit.shape[0]
    if to_come == total and active == 0:
        return False
    now = np.inf
    if to_come < total:
        now = jobs.submit[to_come]
    if active > 0:
        first = ending[active - 1]
        now = min(now, pool.start[first] + jobs.run[first])
    before = active
    while active > 0:
        job = ending[active - 1]
        if pool.start[job] + jobs.run[job] > now:
            break
        active -= 1
        user = jobs.user[job]
        if user >= 0:
            take(pool.recent, user, now - pool.start[job])
    while to_come < total and jobs.submit[to_come] <= now:
        queue[waiting] = to_come
        waiting += 1
        to_come += 1
    at[NOW], at[SLACK], at[SPARE] = now, np.inf, np.inf
    counts[TO_COME], counts[WAITING], counts[ENDED] = to_come, waiting, before - active
    return True


@inner
def release(jobs: Jobs, pool: Pool) -> None:
    """Release the processors of the next job that ended; of several, what started first."""
    at, counts, running = pool.at, pool.counts, pool.running
    active = counts[ACTIVE]
    job = pool.ending[active - 1]
    k = 0
    while running[k] != job:
        k += 1
    while k < active - 1:
        running[k] = running[k + 1]
        k += 1
    at[FREE] += jobs.processors[job]
    counts[ACTIVE], counts[ENDED] = active - 1, counts[ENDED] - 1


@inner
def go_on_and_release(jobs: Jobs, pool: Pool) -> bool:
    """Go to the next instant, and release all that ended."""
    on = go_on(jobs, pool)
    while pool.counts[ENDED] > 0:
        release(jobs, pool)
    return on


@inner
def start_job(jobs: Jobs, pool: Pool, place: int) -> None:
    """Start the job at a place of the queue, which must fit."""
    at, counts, queue = pool.at, pool.counts, pool.queue
    job, waiting, active = queue[place], counts[WAITING], counts[ACTIVE]
    for k in range(place, waiting - 1):
        queue[k] = queue[k + 1]
    pool.start[job] = at[NOW]
    at[FREE] -= jobs.processors[job]
    running, due = pool.running, at[NOW] + jobs.requested[job]
    k = active
    while k > 0 and pool.start[running[k - 1]] + jobs.requested[running[k - 1]] > due:
        running[k] = running[k - 1]
        k -= 1
    running[k] = job
    ending, end = pool.ending, at[NOW] + jobs.run[job]
    k = active
    while k > 0 and pool.start[ending[k - 1]] + jobs.run[ending[k - 1]] <= end:
        ending[k] = ending[k - 1]
        k -= 1
    ending[k] = job
    counts[WAITING], counts[ACTIVE] = waiting - 1, active + 1


@inner
def reserve(jobs: Jobs, pool: Pool, job: int) -> None:
    """Make a waiting job that does not fit the head: keep the earliest place for it."""
    at = pool.at
    missing = jobs.processors[job] - at[FREE]
    time, freed = when_freed(jobs, pool, missing)
    at[SLACK], at[SPARE] = min(time - at[NOW], EVER_S), freed - missing


@inner
def when_freed(jobs: Jobs, pool: Pool, missing: float) -> tuple[float, float]:
    """Return when so many more are expected to be free, and how many more by then.

    What is overdue counts as ending now.
    """
    now, time, freed = pool.at[NOW], np.inf, 0.0
    for k in range(pool.counts[ACTIVE]):
        job = pool.running[k]
        due = pool.start[job] + jobs.requested[job]
        if due > time:
            break
        freed += jobs.processors[job]
        if time == np.inf and freed >= missing:
            time = max(due, now)
    return time, freed
