"""Resampling: many workloads from one log, by redrawing its users week by week.

The method is that of N. Zakay and D. G. Feitelson, "Workload resampling for performance evaluation
of parallel job schedulers", Concurrency and Computation: Practice and Experience 26(12), 2014: the
log is split into one stream of jobs a user, users are divided into temporary ones, who come once
for a short time, and long-term ones, and the streams are put together in other ways, moved by
whole weeks, so that hours of the day, days of the week and each user's own sequence of jobs stay.

What exactly is done here, for a log of S weeks (a real number, at least 1):

1. Weeks count from the trace's zero. A user's *stay* runs from the week of the first job to that
   of the last. A user whose stay is longer than `long_term_weeks` is long-term, any other
   temporary. Jobs without a user form one separate stream.
2. Temporary users. The log has P of them, so on average P / S arrive a week. Over the new log's
   weeks, and before it as many as the longest temporary stay reaches back, that many users arrive,
   each in a week drawn evenly (a Poisson process whose total is given). They are taken from
   a shuffled list of all temporary users, shuffled again when it is used up.
3. Long-term users. The log has on average N = (sum of long-term stays) / S of them present at once,
   so there are N places (a fraction is a place with that probability). All long-term stays are
   laid end to end, in a random order, into a circle of weeks; the places start at even
   distances on it, the first at a point drawn evenly, and each follows the circle: the rest of a
   user's stay, the whole stay of the next, and so on. Every week of the new log so has the log's
   mean load of long-term users, and one as long as the log has nearly all of their weeks once.
4. Jobs outside the new log's weeks are left out, the others sorted by submit time and numbered
   1, 2, …. Each drawn user is a new person with a separate number, as one that comes twice
   would otherwise be taken for one. A job waits for the preceding jobs of the same drawn user;
   those of others, and those that are left out, count as ended. Release times move by the same
   weeks.

Departures from the paper: the threshold between the two kinds of users is a parameter and the same
for all logs; users whose stay the log's ends cut off are taken as they are seen; a long-term user
who leaves is followed by another; the load is not steered by the number of users (scale the
arrivals instead); summer time is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simkit.arrays import Ints
from simkit.errors import TraceError
from simkit.workload import Workload

WEEK_S = 604800.0
LONG_TERM_WEEKS = 12


def resample(
    workload: Workload,
    weeks: int | None,
    rng: np.random.Generator,
    *,
    long_term_weeks: int = LONG_TERM_WEEKS,
    most_jobs: int | None = None,
) -> Workload:
    """Return a workload of `weeks` weeks with the users of a log redrawn; see the module.

    Args:
        workload: J jobs whose users are known.
        weeks: length of the new log; None: as many weeks as the log has.
        rng: decides everything that is drawn; equal generators give equal workloads.
        long_term_weeks: a user whose stay is longer is a long-term one.
        most_jobs: more are refused, by an estimate, before any is drawn; None: any number.

    Returns:
        The new workload, on the same clock: its week 0 is the log's first. ``user`` numbers the
        persons from 0 in order of their first job; ``labels["user"]`` names them as
        ``name#person`` where the log has names.

    Raises TraceError if the log tells no user, for fewer than one week, or for too many jobs.
    """
    if len(workload) == 0 or (workload.user == -1).all():
        raise TraceError(
            "resample: the trace tells no user of any job, and users are what is drawn; take a log "
            "with users, or leave `resample` out"
        )
    log = _Log.of(workload)
    count = math.ceil(log.weeks) if weeks is None else weeks
    if count < 1 or long_term_weeks < 0:
        raise TraceError(
            f"resample: weeks is {count} and long_term_weeks {long_term_weeks}; give at least one "
            "week, and 0 or more long-term weeks"
        )
    expected = len(workload) / log.weeks * count
    if most_jobs is not None and max(expected, count) > most_jobs:
        raise TraceError(
            f"resample: {count:,} weeks make about {expected:,.0f} jobs, and at most {most_jobs:,} "
            "are allowed; use fewer weeks, or raise limits.jobs"
        )
    long_term = np.flatnonzero(log.stay > long_term_weeks)
    temporary = np.flatnonzero(log.stay <= long_term_weeks)
    visits = _temporary(log, temporary, count, rng)
    visits += list(_long_term(log, long_term, count, rng))
    return _assembled(workload, log, visits, count)


@dataclass(frozen=True)
class _Log:
    """A log by users, U of them, in ascending order of their numbers."""

    weeks: float
    """Length of the log in weeks, at least 1."""
    first_week: int
    """Week of the log's first job."""
    week: Ints
    """(J,) the week in which each job is submitted."""
    rows: list[Ints]
    """U arrays: the rows of each user's jobs, in order of submission."""
    arrival: Ints
    """(U,) the week of each user's first job."""
    stay: Ints
    """(U,) weeks from the first to the last job, both counted."""

    @classmethod
    def of(cls, workload: Workload) -> _Log:
        submit = workload.submit_time_s
        week = np.floor(submit / WEEK_S).astype(np.int64)
        order = np.argsort(workload.user, kind="stable")
        borders = np.flatnonzero(np.diff(workload.user[order])) + 1
        rows = np.split(order, borders)
        arrival = np.array([week[jobs[0]] for jobs in rows])
        stay = np.array([week[jobs[-1]] for jobs in rows]) - arrival + 1
        length = max(1.0, float(submit[-1] - submit[0]) / WEEK_S)
        return cls(length, int(week[0]), week, rows, arrival, stay)


@dataclass(frozen=True)
class _Visit:
    """One user's stay in the new log."""

    user: int
    """Row of the user in the log."""
    begins: int
    """Week of the new log in which the stay begins; negative: before the new log does."""


def _temporary(log: _Log, users: Ints, weeks: int, rng: np.random.Generator) -> list[_Visit]:
    if len(users) == 0:
        return []
    warm_up = int(log.stay[users].max()) - 1
    arrivals = round(len(users) / log.weeks * (warm_up + weeks))
    packs = [rng.permutation(users) for _ in range(math.ceil(arrivals / len(users)))]
    drawn = np.concatenate(packs)[:arrivals] if packs else users[:0]
    begins = rng.integers(-warm_up, weeks, size=arrivals)
    return [_Visit(int(user), int(week)) for user, week in zip(drawn, begins, strict=True)]


def _long_term(log: _Log, users: Ints, weeks: int, rng: np.random.Generator) -> Iterator[_Visit]:
    if len(users) == 0:
        return
    circle = rng.permutation(users)
    ends = np.cumsum(log.stay[circle])  # in weeks along the circle
    length = int(ends[-1])
    present = length / log.weeks
    places = int(present) + int(rng.random() < present - int(present))
    offset = int(rng.integers(length))
    for place in range(places):
        point = (offset + place * length // places) % length
        index = int(np.searchsorted(ends, point, side="right"))
        begins = int(ends[index] - log.stay[circle[index]]) - point
        while begins < weeks:
            user = int(circle[index])
            yield _Visit(user, begins)
            begins += int(log.stay[user])
            index = (index + 1) % len(circle)


def _assembled(workload: Workload, log: _Log, visits: list[_Visit], weeks: int) -> Workload:
    """Put the visits' jobs together, sorted by submit time, ties in the order of the log."""
    rows_of, shift_of, person_of = [], [], []
    for number, visit in enumerate(visits):
        jobs = log.rows[visit.user]
        shift = visit.begins - int(log.arrival[visit.user])  # in weeks, to the new log's week 0
        seen = jobs[(log.week[jobs] + shift >= 0) & (log.week[jobs] + shift < weeks)]
        rows_of.append(seen)
        shift_of.append(np.full(len(seen), shift + log.first_week))
        person_of.append(np.full(len(seen), number))
    rows = np.concatenate(rows_of) if rows_of else np.empty(0, np.int64)
    if len(rows) == 0:
        raise TraceError(
            f"resample: no job falls into {weeks} weeks with these draws; give more weeks"
        )
    person = np.concatenate(person_of)
    submit = workload.submit_time_s[rows] + np.concatenate(shift_of) * WEEK_S
    order = np.lexsort((person, rows, submit))
    users, labels = _persons(workload, rows[order], person[order])
    return workload.take(
        rows[order],
        copy=person[order],
        job_id=np.arange(1, len(rows) + 1),
        submit_time_s=submit[order],
        user=users,
        labels=labels,
    )


def _persons(
    workload: Workload, rows: Ints, person: Ints
) -> tuple[Ints, dict[str, tuple[str, ...]]]:
    """Number persons by their first job; a job without a user has none in the new log either."""
    unknown = workload.user[rows] == -1
    _, first, inverse = np.unique(person[~unknown], return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    users = np.full(len(rows), -1)
    users[~unknown] = rank[inverse]
    labels = dict(workload.labels)
    if names := labels.pop("user", None):
        originals = workload.user[rows][~unknown][np.sort(first)]
        labels["user"] = tuple(f"{names[user]}#{n}" for n, user in enumerate(originals))
    return users, labels
