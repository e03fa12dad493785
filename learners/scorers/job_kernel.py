"""The event loops of the fast simulation of a pool, compiled by numba; see `simulation`.

One is EASY backfilling, the other has the rules of `simkit.policies.rlscheduler`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.common.compiled import compiled
from simkit.learners.scorers.job_scorer import job_features, job_score
from simkit.units import ENDLESS_S, EVER_S

__all__ = ["Jobs", "Picker", "easy_starts", "rlscheduler_starts"]

KEY: Final = 0
"""Forms of scores, the highest is picked. This one: -key."""
RATIO: Final = 1
"""(wait / key)³·factor."""
RATIO_P: Final = 2
"""(wait / p)³·factor, with p at most the key."""
SCORER: Final = 4
"""That of weights; 3 is -p·factor."""

LAST: Final = 2
"""Run times of a user that count in p."""
LEAST_S: Final = 10.0
"""The least p."""


class Jobs(NamedTuple):
    """The jobs, as in `PoolJobs`."""

    submit: Floats
    run: Floats
    processors: Floats
    requested: Floats
    user: Ints
    """(J,) from 0; -1 is unknown."""
    size: int


class Picker(NamedTuple):
    """Which of the waiting jobs is picked."""

    visible: int
    """Of those that wait, this many of the first can be picked."""
    form: int
    key: Floats
    """(J,)"""
    factor: Floats
    """(J,)"""
    linear: Floats
    """This and what follows: the weights of a scorer, as in `job_score`."""
    hidden: Floats
    bias: Floats
    out: Floats


_features: Any = compiled(job_features)
_network: Any = compiled(job_score)


@compiled
def _score_of(
    job: int, jobs: Jobs, picker: Picker, now: float, recent: Floats, free: float, waiting: int
) -> float:
    """Return a job's score by a rule or by weights; the highest is picked.

    `recent`: (users, 2) each user's last run times, the last one first, NaN: none.
    """
    form, key, wait = picker.form, picker.key[job], now - jobs.submit[job]
    if form == KEY:
        return -key  # type: ignore[no-any-return]
    if form == RATIO:
        return (wait / key) ** 3 * picker.factor[job]  # type: ignore[no-any-return]
    if form != SCORER:
        predicted = _predicted(recent, jobs.user[job], key)
        if form == RATIO_P:
            return (wait / predicted) ** 3 * picker.factor[job]  # type: ignore[no-any-return]
        return -predicted * picker.factor[job]  # type: ignore[no-any-return]
    requested = jobs.requested[job]
    predicted = _predicted(recent, jobs.user[job], requested)
    since = jobs.submit[job] - jobs.submit[0]
    features = _features(
        requested, predicted, jobs.processors[job], wait, since, free, waiting, jobs.size
    )
    return _network(  # type: ignore[no-any-return]
        features, picker.linear, picker.hidden, picker.bias, picker.out
    )


@compiled
def _predicted(recent: Floats, user: int, requested: float) -> float:
    """Return p: the mean of the user's last run times, at most the request, at least 10 s."""
    predicted = min(requested, ENDLESS_S)
    if user >= 0 and not np.isnan(recent[user, 0]):
        mean = recent[user, 0]
        if not np.isnan(recent[user, 1]):
            mean = (recent[user, 1] + recent[user, 0]) / 2
        predicted = min(mean, predicted)
    return max(predicted, LEAST_S)


@compiled
def _next_instant(to_come: Floats, running: Ints, start: Floats, run: Floats) -> float:
    """Return when the next job comes or ends, in s; infinity if none does.

    `to_come`: submissions that are to come, ascending.
    """
    now = to_come[0] if len(to_come) > 0 else np.inf
    for job in running:
        now = min(now, start[job] + run[job])
    return now


@compiled
def _take_ended(
    running: Ints, active: int, now: float, jobs: Jobs, start: Floats, rank: Ints, recent: Floats
) -> int:
    """Return a job that ends by now, of several what started first; -1 if none does.

    It is taken out of those that run, and its run time is made the last one of its user.
    """
    first = -1
    for i in range(active):
        job = running[i]
        if start[job] + jobs.run[job] <= now and (first < 0 or rank[job] < rank[running[first]]):
            first = i
    if first < 0:
        return -1
    job, user = running[first], jobs.user[running[first]]
    running[first : active - 1] = running[first + 1 : active]
    if user >= 0:
        recent[user, 1] = recent[user, 0]
        recent[user, 0] = now - start[job]
    return job  # type: ignore[no-any-return]


@compiled
def _expected_end(job: int, start: Floats, requested: Floats) -> float:
    """Return when a job that runs is due, in s."""
    return start[job] + requested[job]  # type: ignore[no-any-return]


@compiled
def _put_by_expected_end(
    job: int, running: Ints, active: int, start: Floats, requested: Floats
) -> None:
    """Put a job that starts among the `active` that run, behind those expected to end with it."""
    place = active
    while place > 0 and (
        _expected_end(running[place - 1], start, requested) > _expected_end(job, start, requested)
    ):
        running[place] = running[place - 1]
        place -= 1
    running[place] = job


@compiled
def _take_out(job: int, jobs: Ints, count: int) -> None:
    """Remove a job from the first `count`, and close the gap."""
    place = 0
    while jobs[place] != job:
        place += 1
    jobs[place : count - 1] = jobs[place + 1 : count]


# --- EASY -----------------------------------------------------------------------------------------


@compiled
def easy_starts(
    jobs: Jobs, picker: Picker, end_score: float, may_end: int, longer: float, keep: float
) -> Floats:
    """Return (J,) the starts by EASY backfilling.

    Where `may_end` (1: behind a head, 2: everywhere) a job must have more than `end_score`. Jobs
    that request more than `longer` are held while fewer than `keep` processors would stay free.
    """
    count, submit, processors, requested = (
        len(jobs.submit), jobs.submit, jobs.processors, jobs.requested
    )  # fmt: skip
    start = np.full(count, np.nan)
    queue, waiting = np.empty(count, np.int64), 0  # in order of submission
    running, active = np.empty(count, np.int64), 0  # by expected end, then start
    rank, started = np.empty(count, np.int64), 0
    recent = np.full((count + 1, LAST), np.nan)  # (users, 2) run times, the last one first
    free, to_come = float(jobs.size), 0
    while to_come < count or active > 0:
        now = _next_instant(submit[to_come:], running[:active], start, jobs.run)
        while True:
            job = _take_ended(running, active, now, jobs, start, rank, recent)
            if job < 0:
                break
            active -= 1
            free += processors[job]
        while to_come < count and submit[to_come] <= now:
            queue[waiting] = to_come
            waiting += 1
            to_come += 1
        head, slack, spare = -1, np.inf, np.inf
        while _any_fits(queue, min(waiting, picker.visible), processors, free, head):
            best, best_score = -1, -np.inf
            for i in range(min(waiting, picker.visible)):
                job = queue[i]
                n = processors[job]
                if head >= 0 and (
                    job == head or n > free or (requested[job] > slack and n > spare)
                ):
                    continue
                if requested[job] > longer and active > 0 and free - n < keep:
                    continue
                score = _score_of(job, jobs, picker, now, recent, free, waiting)
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
            _put_by_expected_end(job, running, active, start, requested)
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
        ends = _expected_end(job, start, requested)
        if ends > time:
            break
        freed += processors[job]
        if time == np.inf and freed >= missing:
            time = max(ends, now)
    return time, freed


# --- RLScheduler's rules --------------------------------------------------------------------------


@compiled
def rlscheduler_starts(jobs: Jobs, picker: Picker, backfilling: bool) -> Floats:
    """Return (J,) the starts by RLScheduler's rules.

    `backfilling` says whether others may start while the picked job waits.
    """
    count, submit, processors, requested = (
        len(jobs.submit), jobs.submit, jobs.processors, jobs.requested
    )  # fmt: skip
    start = np.full(count, np.nan)
    queue, waiting = np.empty(count, np.int64), 0  # in order of submission
    line, lined = np.empty(count, np.int64), 0  # those seen, in the order of the last sort
    running, active = np.empty(count, np.int64), 0  # by expected end, then start
    rank, started = np.empty(count, np.int64), 0
    ending = np.empty(count, np.int64)
    recent = np.full((count + 1, LAST), np.nan)  # (users, 2) run times, the last one first
    free, to_come, seen = float(jobs.size), 0, 0
    picked, shadow, by_submission = -1, np.inf, True
    while to_come < count or active > 0:
        now = _next_instant(submit[to_come:], running[:active], start, jobs.run)
        # What ends at this instant is free; `held` of it is not known to be yet
        ended, known, held = 0, 0, 0.0
        while True:
            job = _take_ended(running, active, now, jobs, start, rank, recent)
            if job < 0:
                break
            active -= 1
            ending[ended] = job
            ended += 1
            free += processors[job]
            held += processors[job]
        while to_come < count and submit[to_come] <= now:
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
                    keys = np.full(count, np.inf)
                    for i in range(min(waiting, picker.visible)):
                        job = queue[i]
                        keys[job] = -_score_of(job, jobs, picker, now, recent, free, waiting)
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
                _put_by_expected_end(job, running, active, start, requested)
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
