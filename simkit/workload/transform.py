"""Transforms of a workload into another: a window, its load, processors, run times, a resample.

Times stay on the trace's clock, so a window's first job may be submitted long after 0.

Resampling: many workloads from one log, by redrawing its users week by week.

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
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

import numpy as np

from simkit.arrays import Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.units import format_duration, parse_duration
from simkit.workload.workload import Workload

__all__ = [
    "cap_processors",
    "cap_run_times",
    "resample",
    "scale_load",
    "scale_processors",
    "scale_run_times",
    "scale_to_load",
    "seconds_into",
    "window",
    "with_dependencies",
]

Dependencies = Literal["simulated", "recorded", "ignore"]
"""What becomes of the jobs' release times and preceding jobs; see `with_dependencies`."""

_FIRST_LAST = re.compile(r"\s*([0-9]+)\s*\.\.\s*([0-9]+)\s*", re.ASCII)


def window(
    workload: Workload,
    start: float | str | datetime | None = None,
    end: float | str | datetime | None = None,
    jobs: int | str | tuple[int, int] | None = None,
) -> Workload:
    """Return the jobs submitted in a window of time, and of these a range by number.

    Preceding jobs outside the window count as ended, and their number is `preceding_left_out`.

    Args:
        workload: J jobs.
        start: jobs submitted from this instant on; see `seconds_into` for its forms.
        end: jobs submitted before this instant.
        jobs: the first N of them, or ``"first..last"`` or ``(first, last)``: ranks from 0, both
            ends included; a last beyond the end means the end.

    Raises TraceError if the window is malformed or holds no job.
    """
    since = workload.submit_time_s - workload.submit_time_s[:1]
    low, high = 0, len(workload)
    if start is not None:
        low = int(np.searchsorted(since, seconds_into(workload, start), side="left"))
    if end is not None:
        high = int(np.searchsorted(since, seconds_into(workload, end), side="left"))
    if jobs is not None:
        first, last = _ranks(jobs)
        low, high = low + first, min(high, low + last + 1)
    if low >= high:
        length = format_duration(float(since[-1])) if len(since) else "0 s"
        raise TraceError(
            f"window: it holds none of the {counted(len(workload), 'job')}: "
            f"{_bounds_in_words(start, end, jobs)}; the trace lasts {length} from its first "
            "submit, choose bounds within"
        )
    return workload.take(np.arange(low, high))


def _bounds_in_words(
    start: float | str | datetime | None,
    end: float | str | datetime | None,
    jobs: int | str | tuple[int, int] | None,
) -> str:
    """Return the bounds of a window that are set: ``start 400d 00:00:00, jobs 0..9``."""
    words = [
        f"{name} {format_duration(when) if isinstance(when, (int, float)) else when}"
        for name, when in (("start", start), ("end", end))
        if when is not None
    ]
    if jobs is not None:
        words.append("jobs {}..{}".format(*_ranks(jobs)))
    return ", ".join(words) or "no bounds"


def with_dependencies(workload: Workload, dependencies: Dependencies) -> Workload:
    """Return the workload with what holds its jobs back after their submission, or without.

    Args:
        workload: J jobs.
        dependencies: ``simulated``: a job waits for its release time, and for the simulated ends
            of its preceding jobs, plus the think times; ``recorded``: for its release time alone,
            so that the times of the log stand for what preceding jobs imposed; ``ignore``: for
            neither.

    Raises TraceError for another word.
    """
    if dependencies not in get_args(Dependencies):
        raise TraceError(
            f"dependencies: {dependencies!r}; write {', '.join(get_args(Dependencies))}"
        )
    changes: dict[str, np.ndarray] = {}
    if dependencies != "simulated":
        changes |= {"predecessor": np.empty(0, np.int64)}
    if dependencies == "ignore":
        changes |= {"release_time_s": np.empty(0)}
    return workload.with_columns(**changes) if changes else workload


def seconds_into(workload: Workload, when: float | str | datetime) -> float:
    """Return an instant in seconds after the workload's first submit.

    Args:
        workload: gives the first submit and, for dates, the Unix time of its zero.
        when: seconds, a duration such as ``10d`` or ``1d12h``, or a date with a time zone such as
            ``2024-05-01T00:00+02:00`` (or a datetime with one).

    Raises TraceError for other text, and for a date if it has no zone or the log no epoch.
    """
    if isinstance(when, (int, float)):
        return float(when)
    date = when if isinstance(when, datetime) else _date(when)
    if date is None:
        try:
            return parse_duration(str(when))
        except ValueError:
            raise TraceError(
                f"window: {when!r} is neither a duration (10d, 3h) nor a date with a zone "
                "(2024-05-01T00:00+02:00)"
            ) from None
    if date.tzinfo is None:
        raise TraceError(f"window: {when} has no time zone; add one, e.g. +02:00 or Z")
    if math.isnan(workload.epoch_s):
        raise TraceError(
            f"window: {when} is a date, but the trace does not tell when it began; give durations "
            "since its first submit"
        )
    return date.timestamp() - workload.epoch_s - float(workload.submit_time_s[0])


def scale_load(workload: Workload, factor: float) -> Workload:
    """Return the workload with the times between arrivals divided by `factor`.

    The first submit stays, run times do not change: 2 means twice the arrival rate, and twice the
    offered load. Release times move along with their jobs, think times stay.

    Raises TraceError if the factor is not a finite number above 0.
    """
    _check_factor("load", factor)
    first = workload.submit_time_s[:1]
    return workload.with_columns(submit_time_s=first + (workload.submit_time_s - first) / factor)


def scale_to_load(workload: Workload, offered_load: float, processors: int) -> Workload:
    """Return the workload with its arrivals compressed or spread to a given offered load.

    Args:
        workload: jobs that ask for ``processors``, or else for their first resource.
        offered_load: requested area / (processors * time from first to last submit), above 0.
        processors: capacity of the machine that the load is meant for, at least 1.

    Raises TraceError if a number is out of range, or if the jobs have no area or all come at once.
    """
    _check_factor("target_load", offered_load)
    if processors < 1:
        raise TraceError(f"target_load: a machine of {processors} processors; give at least 1")
    name = "processors" if "processors" in workload.resources else workload.resources[0]
    size = workload.request[:, workload.resources.index(name)] * workload.instances
    area = float((size * workload.held_time_s()).sum())
    span = float(workload.submit_time_s[-1] - workload.submit_time_s[0]) if len(workload) else 0.0
    if not (area > 0 and span > 0):
        raise TraceError(
            f"target_load: the jobs ask for {area:g} {name}-seconds within {span:g} s, which no "
            "factor brings to a load; leave it out"
        )
    return scale_load(workload, offered_load * processors * span / area)


def scale_processors(workload: Workload, factor: float, cap: int | None = None) -> Workload:
    """Return the workload with the number of instances of each task multiplied by `factor`.

    Numbers are rounded (halves up), but at least 1 and, with a `cap`, at most that. What an
    instance asks for, and the machine that the trace's header names, stay as they are.

    Args:
        workload: T tasks; for rigid jobs the instances are the processors, or units of several.
        factor: above 0.
        cap: the most instances a task may have, e.g. the machine's processors.

    Raises TraceError if the factor is not a finite number above 0, or the cap below 1.
    """
    _check_factor("processors_scale", factor)
    if cap is not None and cap < 1:
        raise TraceError(f"processors_scale: the cap is {cap}; it must be at least 1")
    scaled = np.maximum(np.floor(workload.instances * factor + 0.5), 1)
    if cap is not None:
        scaled = np.minimum(scaled, cap)
    return workload.with_columns(instances=scaled.astype(np.int64))


def cap_processors(workload: Workload, most: int) -> Workload:
    """Return the workload with no task of more processors than `most`; run times stay.

    Tasks lose instances; where one instance alone has more processors, it keeps `most` of them, and
    its gpus and memory as they are. Where no task asks for ``processors``, instances are capped. A
    log of a large machine so fits a small one: RARE (2023) allows a job half of its pool.

    Raises TraceError for fewer than one.
    """
    if most < 1:
        raise TraceError(f"processors_max: {most}; a task has at least 1")
    if "processors" not in workload.resources:
        return scale_processors(workload, 1.0, cap=most)
    column = workload.resources.index("processors")
    each = workload.request[:, column]
    fit = np.maximum(np.floor(most / np.where(each > 0, each, 1.0)), 1).astype(np.int64)
    changes = {"instances": np.minimum(workload.instances, fit)}
    if (each > most).any():
        request = np.array(workload.request)
        request[:, column] = np.minimum(each, most)
        changes["request"] = request
    return workload.with_columns(**changes)


def scale_run_times(workload: Workload, factor: float) -> Workload:
    """Return the workload with run times and requested times multiplied by `factor`.

    Submit times stay, so the offered load is multiplied as well; deadlines stay where they are.

    Raises TraceError if the factor is not a finite number above 0.
    """
    _check_factor("run_time_scale", factor)
    return workload.with_columns(**{name: getattr(workload, name) * factor for name in _RUN_TIMES})


def cap_run_times(workload: Workload, longest_s: float) -> Workload:
    """Return the workload with no run time or requested time longer than `longest_s`.

    Raises TraceError if that is not a finite time above 0.
    """
    _check_factor("run_time_max", longest_s)
    return workload.with_columns(
        **{name: np.minimum(getattr(workload, name), longest_s) for name in _RUN_TIMES}
    )


_RUN_TIMES = ("run_time_s", "requested_time_s", "instance_run_time_s")


def _check_factor(name: str, factor: float) -> None:
    if not (math.isfinite(factor) and factor > 0):
        raise TraceError(f"{name}: {factor} is not a valid factor; give a finite number above 0")


def _ranks(jobs: int | str | tuple[int, int]) -> tuple[int, int]:
    """Return (first, last) of N, ``"first..last"`` or a pair."""
    if isinstance(jobs, str):
        if match := _FIRST_LAST.fullmatch(jobs):
            first, last = int(match[1]), int(match[2])
        elif jobs.strip().isdecimal():
            first, last = 0, int(jobs) - 1
        else:
            raise TraceError(f"window: jobs is {jobs!r}; write a number, or first..last from 0")
    else:
        first, last = jobs if isinstance(jobs, tuple) else (0, jobs - 1)
    if not 0 <= first <= last:
        raise TraceError(f"window: jobs {jobs!r} is empty; write first..last with first <= last")
    return first, last


def _date(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


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
        weeks: length of the new log; None: that of the log.
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
