"""Whole episodes of a pool by a rule or a scorer of jobs; see `simkit.learners.scorers.job_model`.

One function is EASY backfilling, another has the rules of `simkit.policies.rlscheduler`. They are
plain Python over numbers and preallocated arrays, which numba compiles for a processor and for a
GPU. What is known of a job's score as an instant begins is added up once for all decisions at it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled.orders import none_seen, predicted
from simkit.learners.pools.state import (
    ACTIVE,
    COUNTS,
    ENDED,
    FREE,
    NOW,
    NUMBERS,
    SLACK,
    SPARE,
    TO_COME,
    WAITING,
    Jobs,
    Pool,
    begin,
    go_on,
    go_on_and_release,
    release,
    reserve,
    start_job,
)
from simkit.learners.scorers.job_scorer import (
    features_at,
    features_now,
    features_of,
    log_of_waiting,
)
from simkit.machine_code import compiled, inner
from simkit.policy.formulas import area, cubed_wait

__all__ = [
    "EASY", "FIXED", "FORMS", "Columns", "Picker", "Rules", "Scratch", "episode", "fixed_features",
    "play_all",
]  # fmt: skip

FORMS: Final = ("key", "ratio", "ratio_p", "area_p", "scorer")
"""How a score is made, the highest is picked: minus the key; minus `cubed_wait` of the key, or of
p, which is at most the key; minus `area` of p, see `simkit.policy.formulas`; or by weights."""
KEY: Final = 0
RATIO: Final = 1
RATIO_P: Final = 2
SCORER: Final = 4

FIXED: Final = 6
"""Features of a job that never change."""
SETTLED: Final = 10
"""Of all features, the first: they do not change at an instant."""

EASY: Final = 0
"""Backfilling. This one: EASY."""
BACKFILLING: Final = 1
"""RLScheduler's; 2 is none."""


class Columns(NamedTuple):
    """All jobs of W windows, one window behind the other; N jobs."""

    first: Ints
    """(W + 1,) the first job of each window, and N."""
    size: Floats
    """(W,) processors of each window's pool."""
    submit: Floats
    run: Floats
    processors: Floats
    requested: Floats
    user: Ints
    """(N,) from 0 in each window; -1 is unknown."""
    fixed: Floats
    """(N, `FIXED`) of scorers; else (0, `FIXED`)."""
    key: Floats
    """(N,) of rules, as the next; else (0,)."""
    factor: Floats


class Picker(NamedTuple):
    """Which of the waiting jobs is picked, by each of C candidates."""

    visible: int
    """Of those that wait, this many of the first can be picked."""
    form: int
    """One of `FORMS`, by its place."""
    linear: Floats
    """(C, F) this and what follows: the weights of scorers, as in `job_score`."""
    hidden: Floats
    """(C, F, U)"""
    bias: Floats
    """(C, U)"""
    out: Floats
    """(C, U)"""
    end: Floats
    """(C,)"""


class Rules(NamedTuple):
    """What may start."""

    backfill: int
    """`EASY`, `BACKFILLING` or 2."""
    may_end: int
    """EASY: where the scorer may let time go on: 1: behind a head, 2: everywhere."""
    longer: float
    """EASY: jobs that request more are held while fewer than `keep` processors would stay free."""
    keep: Floats
    """(W,)"""


class Scratch(NamedTuple):
    """What an episode writes to; of the arrays over jobs only the beginnings are in use."""

    at: Floats
    counts: Ints
    queue: Ints
    running: Ints
    ending: Ints
    recent: Floats
    known: Floats
    """(J,) the part of each waiting job's score that is settled for the instant."""
    predicted: Floats
    """(J,) its logarithm of p, as a feature."""
    inside: Floats
    """(J, U) the like of each unit's argument."""
    line: Ints
    """(J,) RLScheduler's: the jobs that are seen, in the order of the last sort."""
    keys: Floats
    """(J,) RLScheduler's: what they are sorted by."""


_cubed_wait: Any = inner(cubed_wait)
_area: Any = inner(area)
_of_job: Any = inner(features_of)
_at_instant: Any = inner(features_at)
_now: Any = inner(features_now)
_log_of_waiting: Any = inner(log_of_waiting)


@compiled
def fixed_features(columns: Columns, fixed: Floats) -> None:
    """Fill (N, `FIXED`) with the features that never change."""
    for w in range(columns.first.shape[0] - 1):
        first = columns.first[w]
        for job in range(first, columns.first[w + 1]):
            since = columns.submit[job] - columns.submit[first]
            found = _of_job(columns.requested[job], columns.processors[job], since, columns.size[w])
            for k in range(FIXED):
                fixed[job, k] = found[k]


# --- scores ---------------------------------------------------------------------------------------


class _Scorer(NamedTuple):
    """One candidate on one window."""

    form: int
    fixed: Floats
    key: Floats
    factor: Floats
    linear: Floats
    hidden: Floats
    bias: Floats
    out: Floats
    known: Floats
    predicted: Floats
    inside: Floats


@inner
def _settle(job: int, jobs: Jobs, pool: Pool, by: _Scorer) -> None:
    """Add up what is settled of a job's score as the instant begins."""
    form, wait = by.form, pool.at[NOW] - jobs.submit[job]
    if form == KEY:
        by.known[job] = -by.key[job]
    elif form == RATIO:
        by.known[job] = -_cubed_wait(wait, by.key[job], by.factor[job])
    elif form != SCORER:
        p = predicted(pool.recent, jobs.user[job], by.key[job])
        if form == RATIO_P:
            by.known[job] = -_cubed_wait(wait, p, by.factor[job])
        else:
            by.known[job] = -_area(wait, p, by.factor[job])
    else:
        p = predicted(pool.recent, jobs.user[job], jobs.requested[job])
        log_predicted, log_wait, days, expansion = _at_instant(p, wait)
        f = by.fixed[job]
        w = by.linear
        by.predicted[job] = log_predicted
        by.known[job] = (
            w[0] * f[0] + w[1] * log_predicted + w[2] * f[1] + w[3] * log_wait + w[4] * f[2]
            + w[5] * days + w[6] * expansion + w[7] * f[3] + w[8] * f[4] + w[9] * f[5]
        )  # fmt: skip
        h = by.hidden
        for u in range(h.shape[1]):
            by.inside[job, u] = (
                by.bias[u] + h[0, u] * f[0] + h[1, u] * log_predicted + h[2, u] * f[1]
                + h[3, u] * log_wait + h[4, u] * f[2] + h[5, u] * days + h[6, u] * expansion
                + h[7, u] * f[3] + h[8, u] * f[4] + h[9, u] * f[5]
            )  # fmt: skip


@inner
def _score_of(job: int, jobs: Jobs, by: _Scorer, free: float, log_waiting: float) -> float:
    """Return a job's score, of which the settled part is known; the highest is picked."""
    if by.form != SCORER:
        return by.known[job]  # type: ignore[no-any-return]
    fits, share, both, pressed = _now(
        jobs.processors[job], by.fixed[job, 2], by.predicted[job], free, free / jobs.size,
        log_waiting,
    )  # fmt: skip
    w = by.linear
    score = (
        by.known[job] + w[10] * fits + w[11] * share + w[12] * log_waiting + w[13] * both
        + w[14] * pressed
    )  # fmt: skip
    h = by.hidden
    for u in range(h.shape[1]):
        inside = (
            by.inside[job, u] + h[10, u] * fits + h[11, u] * share + h[12, u] * log_waiting
            + h[13, u] * both + h[14, u] * pressed
        )  # fmt: skip
        score += by.out[u] * max(inside, 0.0)
    return score  # type: ignore[no-any-return]


# --- EASY -----------------------------------------------------------------------------------------


@inner
def _play_easy(
    jobs: Jobs, pool: Pool, by: _Scorer, visible: int, rules: Rules, keep: float, end_score: float
) -> int:
    """Play by EASY backfilling; return the number of picks."""
    at, counts, queue = pool.at, pool.counts, pool.queue
    processors, requested = jobs.processors, jobs.requested
    picks, narrowest, came = 0, np.inf, 0  # no job that waits is narrower than `narrowest`
    begin(jobs, pool)
    while go_on_and_release(jobs, pool):
        while came < counts[TO_COME]:
            narrowest = min(narrowest, processors[came])
            came += 1
        head, settled = -1, 0
        while narrowest <= at[FREE]:
            free, waiting = at[FREE], counts[WAITING]
            seen = min(waiting, visible)
            if head < 0:
                least = np.inf
                for i in range(seen):
                    least = min(least, processors[queue[i]])
                if seen == waiting:
                    narrowest = least
                if least > free:
                    break
            while settled < seen:
                _settle(queue[settled], jobs, pool, by)
                settled += 1
            log_waiting = _log_of_waiting(waiting) if by.form == SCORER else 0.0
            slack, spare, loose = at[SLACK], at[SPARE], counts[ACTIVE] == 0
            best, best_score = -1, -np.inf
            for i in range(seen):
                job = queue[i]
                n = processors[job]
                if head >= 0 and (
                    job == head or n > free or (requested[job] > slack and n > spare)
                ):
                    continue
                if requested[job] > rules.longer and not loose and free - n < keep:
                    continue
                score = _score_of(job, jobs, by, free, log_waiting)
                if best < 0 or score > best_score:
                    best, best_score = i, score
            if best < 0:
                break
            ends = rules.may_end == 2 or (rules.may_end == 1 and head >= 0)
            if ends and not loose and best_score <= end_score:
                break
            picks += 1
            job = queue[best]
            if processors[job] > free:
                head = job
                reserve(jobs, pool, job)
                continue
            if requested[job] > slack:
                at[SPARE] -= processors[job]
            start_job(jobs, pool, best)
            settled -= 1
    return picks


# --- RLScheduler's rules --------------------------------------------------------------------------


@inner
def _play_rlscheduler(
    jobs: Jobs, pool: Pool, by: _Scorer, visible: int, rules: Rules, scratch: Scratch
) -> int:
    """Play by RLScheduler's rules; return the number of picks.

    At an instant the jobs come and end one after the other, and what may start does so in between.
    """
    at, counts, queue, line = pool.at, pool.counts, pool.queue, scratch.line
    processors, requested = jobs.processors, jobs.requested
    picks, seen, lined = 0, 0, 0
    picked, shadow, by_submission = -1, np.inf, True
    begin(jobs, pool)
    while go_on(jobs, pool):
        settled = 0
        while seen < counts[TO_COME] or counts[ENDED] > 0:
            if seen < counts[TO_COME]:
                line[lined] = seen
                lined += 1
                seen += 1
            else:
                release(jobs, pool)
            behind = 0  # place in the line of the next to be tried behind the picked job
            while lined > 0:
                if picked < 0:
                    settled = _sort_by_score(jobs, pool, by, visible, settled, lined, scratch)
                    picked, by_submission = line[0], False
                    shadow = _shadow_time(jobs, pool, processors[picked])
                    picks += 1
                job = picked
                if processors[picked] > at[FREE]:
                    if rules.backfill != BACKFILLING:
                        break
                    if not by_submission:
                        _sort(line, lined, jobs.submit)
                        by_submission = True
                    while behind < lined:
                        job = line[behind]
                        if processors[job] <= at[FREE] and at[NOW] + requested[job] < shadow:
                            break
                        behind += 1
                    if behind == lined:
                        break
                place = _place(job, queue)
                start_job(jobs, pool, place)
                if place < settled:
                    settled -= 1
                for k in range(_place(job, line), lined - 1):
                    line[k] = line[k + 1]
                lined -= 1
                if job == picked:
                    picked = -1
    return picks


@inner
def _sort_by_score(
    jobs: Jobs, pool: Pool, by: _Scorer, visible: int, settled: int, lined: int, scratch: Scratch
) -> int:
    """Sort the line, the highest score first; return how many of the queue are settled."""
    waiting, free, keys = pool.counts[WAITING], pool.at[FREE], scratch.keys
    for k in range(pool.counts[ACTIVE] - pool.counts[ENDED], pool.counts[ACTIVE]):
        free += jobs.processors[pool.ending[k]]  # what ended is free, though it is not released
    for k in range(lined):
        keys[scratch.line[k]] = np.inf
    log_waiting = _log_of_waiting(waiting) if by.form == SCORER else 0.0
    for k in range(min(waiting, visible)):
        job = pool.queue[k]
        if k >= settled:
            _settle(job, jobs, pool, by)
        keys[job] = -_score_of(job, jobs, by, free, log_waiting)
    _sort(scratch.line, lined, keys)
    return max(settled, int(min(waiting, visible)))


@inner
def _sort(line: Ints, lined: int, by: Floats) -> None:
    """Sort jobs by a number of each; equals stay as they stood.

    By insertion: they are nearly sorted, since those beyond the visible ones stay at the end.
    """
    for i in range(1, lined):
        job, place = line[i], i
        while place > 0 and by[line[place - 1]] > by[job]:
            line[place] = line[place - 1]
            place -= 1
        line[place] = job


@inner
def _shadow_time(jobs: Jobs, pool: Pool, n: float) -> float:
    """Return the earliest expected end, past or not, at which `n` are free."""
    missing = n - pool.at[FREE]
    for k in range(pool.counts[ACTIVE]):
        job = pool.running[k]
        missing -= jobs.processors[job]
        if missing <= 0:
            return pool.start[job] + jobs.requested[job]  # type: ignore[no-any-return]
    return np.inf


@inner
def _place(job: int, jobs: Ints) -> int:
    """Return the place of a job, which is there."""
    place = 0
    while jobs[place] != job:
        place += 1
    return place


# --- all of them ----------------------------------------------------------------------------------


@inner
def episode(
    columns: Columns, w: int, picker: Picker, c: int, rules: Rules, scratch: Scratch, start: Floats
) -> int:
    """Play window w by candidate c; fill `start`, (J,), and return the number of picks."""
    a, b = columns.first[w], columns.first[w + 1]
    jobs = Jobs(
        columns.submit[a:b], columns.run[a:b], columns.processors[a:b], columns.requested[a:b],
        columns.user[a:b], columns.size[w],
    )  # fmt: skip
    pool = Pool(
        scratch.at, scratch.counts, scratch.queue, scratch.running, scratch.ending, start,
        scratch.recent,
    )  # fmt: skip
    by = _Scorer(
        picker.form, columns.fixed[a:b], columns.key[a:b], columns.factor[a:b], picker.linear[c],
        picker.hidden[c], picker.bias[c], picker.out[c], scratch.known, scratch.predicted,
        scratch.inside,
    )  # fmt: skip
    if rules.backfill == EASY:
        return _play_easy(jobs, pool, by, picker.visible, rules, rules.keep[w], picker.end[c])
    return _play_rlscheduler(jobs, pool, by, picker.visible, rules, scratch)


def scratch_of(most: int, users: int, units: int) -> Scratch:
    """Return the scratch of an episode of at most so many jobs and users, by scorers of U units."""
    return Scratch(
        np.empty(NUMBERS), np.empty(COUNTS, np.int64), np.empty(most, np.int32),
        np.empty(most, np.int32), np.empty(most, np.int32), none_seen(users),
        np.empty(most), np.empty(most), np.empty((most, units)),
        np.empty(most, np.int32), np.empty(most),
    )  # fmt: skip


@compiled
def play_all(
    columns: Columns, picker: Picker, rules: Rules, scratch: Scratch, start: Floats
) -> int:
    """Play all windows by all candidates; return the number of picks.

    Args:
        columns: the windows.
        picker: the candidates.
        rules: what may start.
        scratch: for the most jobs of a window.
        start: (C, N), is filled.
    """
    picks = 0
    for c in range(start.shape[0]):
        for w in range(columns.size.shape[0]):
            a, b = columns.first[w], columns.first[w + 1]
            picks += episode(columns, w, picker, c, rules, scratch, start[c, a:b])
    return picks
