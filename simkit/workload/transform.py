"""Transforms of a workload into another: a window, its load, processors, run times, a resample.

Times stay on the trace's clock, so a window's first job may be
submitted long after 0.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Literal, get_args

import numpy as np

from simkit.errors import TraceError
from simkit.text import counted
from simkit.units import format_duration, parse_duration
from simkit.workload import Workload
from simkit.workload.resample import resample

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
