"""The event loop of the fast simulation by RLScheduler's rules; `simkit.policies.rlscheduler`."""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.pool.compiled import (
    LAST,
    compiled,
    first_to_end,
    next_instant,
    put_by_expected_end,
    remember,
    score_of,
)

__all__ = ["start_times"]


@compiled
def start_times(
    submit: Floats, run: Floats, processors: Floats, requested: Floats, user: Ints, size: int,
    visible: int, form: int, key: Floats, factor: Floats, linear: Floats, hidden: Floats,
    bias: Floats, out: Floats, backfilling: bool,
) -> Floats:  # fmt: skip
    """Return (J,) the starts.

    The arguments are as in `simkit.learners.pool.kernel`. `backfilling` says whether others may
    start while the picked job waits.
    """
    jobs = len(submit)
    start = np.full(jobs, np.nan)
    queue, waiting = np.empty(jobs, np.int64), 0  # in order of submission
    line, lined = np.empty(jobs, np.int64), 0  # those seen, in the order of the last sort
    running, active = np.empty(jobs, np.int64), 0  # by expected end, then start
    rank, started = np.empty(jobs, np.int64), 0
    ending = np.empty(jobs, np.int64)
    recent = np.full((jobs + 1, LAST), np.nan)  # (users, 2) run times, the last one first
    free, to_come, seen = float(size), 0, 0
    picked, shadow, by_submission = -1, np.inf, True
    while to_come < jobs or active > 0:
        now = next_instant(submit[to_come:], running[:active], start, run)
        # What ends at this instant is free; `held` of it is not known to be yet
        ended, known, held = 0, 0, 0.0
        while True:
            place = first_to_end(running[:active], now, start, run, rank)
            if place < 0:
                break
            job = running[place]
            running[place : active - 1] = running[place + 1 : active]
            active -= 1
            ending[ended] = job
            ended += 1
            free += processors[job]
            held += processors[job]
            remember(recent, user[job], now - start[job])
        while to_come < jobs and submit[to_come] <= now:
            queue[waiting] = to_come
            waiting += 1
            to_come += 1
        # One after the other: arrivals, then ends
        while seen < to_come or known < ended:
            if seen < to_come:
                line[lined] = seen
                lined += 1
                seen += 1
            else:
                held -= processors[ending[known]]
                known += 1
            behind = 0  # place in the line of the next to be tried behind the picked job
            while lined > 0:
                if picked < 0:
                    keys = np.full(jobs, np.inf)
                    for i in range(min(waiting, visible)):
                        job = queue[i]
                        keys[job] = -score_of(
                            form, key[job], factor[job], now - submit[job],
                            submit[job] - submit[0], requested[job], processors[job], user[job],
                            recent, free, waiting, size, linear, hidden, bias, out,
                        )  # fmt: skip
                    _sort(line[:lined], keys)
                    by_submission, picked = False, line[0]
                    shadow = _shadow_time(
                        processors[picked] - (free - held), running[:active],
                        ending[known:ended], start, requested, processors,
                    )  # fmt: skip
                job = picked
                if processors[picked] > free - held:
                    if not backfilling:
                        break
                    if not by_submission:
                        _sort(line[:lined], submit)
                        by_submission = True
                    while behind < lined:
                        job = line[behind]
                        if processors[job] <= free - held and now + requested[job] < shadow:
                            break
                        behind += 1
                    if behind == lined:
                        break
                _take_out(job, queue, waiting)
                _take_out(job, line, lined)
                waiting -= 1
                lined -= 1
                free -= processors[job]
                start[job], rank[job] = now, started
                started += 1
                put_by_expected_end(job, running, active, start, requested)
                active += 1
                if job == picked:
                    picked = -1
    return start


@compiled
def _sort(jobs: Ints, by: Floats) -> None:
    """Sort jobs by a number of each; equals stay as they stood.

    By insertion: they are nearly sorted, since those beyond the visible ones stay at the end.
    """
    for i in range(1, len(jobs)):
        job, place = jobs[i], i
        while place > 0 and by[jobs[place - 1]] > by[job]:
            jobs[place] = jobs[place - 1]
            place -= 1
        jobs[place] = job


@compiled
def _take_out(job: int, jobs: Ints, count: int) -> None:
    """Remove a job from the first `count`, and close the gap."""
    place = 0
    while jobs[place] != job:
        place += 1
    jobs[place : count - 1] = jobs[place + 1 : count]


@compiled
def _shadow_time(
    missing: float, running: Ints, ending: Ints, start: Floats, requested: Floats,
    processors: Floats,
) -> float:  # fmt: skip
    """Return the earliest expected end, past or not, at which `more` are free.

    `ending` have ended, which is not recorded yet.
    """
    jobs = np.concatenate((running, ending))
    ends = start[jobs] + requested[jobs]
    for place in np.argsort(ends):
        missing -= processors[jobs[place]]
        if missing <= 0:
            return ends[place]  # type: ignore[no-any-return]
    return np.inf
