"""Where a scenario's jobs come from: its source, then its transforms, then the jobs' worth."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import stream
from simkit.errors import PluginError, ScenarioError, TraceError
from simkit.scenario.workload import (
    FixedQuality,
    Gpus,
    NoDeadlines,
    QualityDeadlines,
    SlackDeadlines,
    TraceFormat,
    TwoClasses,
    Value,
    WorkloadModel,
    WorkloadSource,
)
from simkit.workload import Trace, Workload
from simkit.workload.recorded import with_recorded_starts
from simkit.workload.transform import (
    cap_processors,
    cap_run_times,
    resample,
    scale_load,
    scale_processors,
    scale_run_times,
    scale_to_load,
    window,
    with_dependencies,
)
from simkit.workload.value import (
    draw_amounts,
    draw_factors,
    draw_two_classes,
    with_deadlines,
    with_resource,
    with_values,
)


class _Kept(NamedTuple):
    trace: Trace
    state: tuple[tuple[int, int], ...]
    """Size and time of change of each of its files when they were read."""


class TraceMemory:
    """Keeps the logs that were read last, before any transform, so runs of a sweep share them."""

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._kept: dict[str, _Kept] = {}

    def trace(
        self,
        section: WorkloadSource,
        resources: Collection[str],
        rng: np.random.Generator,
        *,
        recorded: bool = False,
    ) -> Trace:
        """Return the section's trace; a log is only read again when one of its files changed.

        With `recorded`, its workload has the recorded starts.
        """
        if not isinstance(section, TraceFormat):
            return section.trace_for(resources, rng)
        key = f"{type(section).__qualname__} {section.arguments()!r} {sorted(resources)} {recorded}"
        kept = self._kept.pop(key, None)
        if kept is None or _state(kept.trace.inputs) != kept.state:
            trace = section.trace_for(resources, rng)
            if recorded:
                trace = _with_recorded_starts(section, trace)
            kept = _Kept(trace, _state(trace.inputs))
        self._kept[key] = kept
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return kept.trace

    def forget(self) -> None:
        """Release the logs."""
        self._kept.clear()


def _state(paths: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return ()  # reading the log says what is wrong
    return tuple((stat.st_size, stat.st_mtime_ns) for stat in found)


def _with_recorded_starts(section: TraceFormat, trace: Trace) -> Trace:
    """Return a log's jobs with their recorded starts."""
    past_trace, past = section.recorded()
    load = trace.workload
    if not np.array_equal(past_trace.workload.job_id, load.job_id):
        raise TraceError(
            f"{section.path}: its recorded starts are not of the same jobs; it may have changed "
            "while it was read, so run again"
        )
    report = replace(trace.report, unread=past_trace.report.unread)
    return replace(trace, workload=with_recorded_starts(load, past), report=report)


def _check_recorded(section: WorkloadSource) -> None:
    """Raise ScenarioError for transforms that leave recorded starts without a meaning."""
    changed = {
        "load": section.load != 1.0,
        "resample": section.resample is not None,
        "target_load": section.target_load is not None,
    }
    problems = [
        f"workload.{key}: moves the submissions of jobs, so that their recorded starts say nothing "
        "about them; leave it out, or use another policy than recorded"
        for key, is_set in changed.items()
        if is_set
    ]
    if isinstance(section, WorkloadModel):
        problems.append(
            f"policy.recorded: jobs of the type {section.type} are drawn, and never started; use a "
            "log, or another policy"
        )
    if problems:
        raise ScenarioError(problems)


def read_trace(
    section: WorkloadSource,
    seed: int,
    value: Value | None = None,
    memory: TraceMemory | None = None,
    resources: Collection[str] = (),
    most_jobs: int | None = None,
    *,
    recorded: bool = False,
) -> Trace:
    """Read or generate the jobs of a scenario, transform them, and give them their worth.

    The transforms are applied in the order dependencies, window, load, processors_scale,
    processors_max, run_time_scale, run_time_max, resample, target_load, and `value` after them.
    Models draw from the stream "workload" of the seed, a resample from "resample", worths from
    their own streams: none depends on the policy, so that runs with the same seed are paired.
    `memory` keeps the log for further runs; `resources` are those of the machines, which decide
    what jobs of some logs ask for. A resample makes at most about `most_jobs`; None: any number.
    With `recorded`, the workload has the recorded starts of its jobs.

    Raises TraceError if the trace cannot be read, PluginError if the reader returns something else,
    ScenarioError if the jobs cannot be given such a worth.
    """
    rng = stream(seed, "workload")
    if recorded:
        _check_recorded(section)
    trace = (memory or TraceMemory()).trace(section, resources, rng, recorded=recorded)
    if not isinstance(trace, Trace):
        raise PluginError(
            f"workload: the type {section.type} returned a {type(trace).__name__}; it must be a "
            "simkit.workload.Trace"
        )
    workload, report = transformed(trace.workload, section, seed, most_jobs), trace.report
    if missing := workload.preceding_left_out:
        report = replace(report, notes={**report.notes, PRECEDING_LEFT_OUT: missing})
    if value is not None:
        workload = valued(workload, value, seed)
    return Trace(workload, report, trace.inputs, trace.tables)


PRECEDING_LEFT_OUT: Final = "preceding job outside the window or resample, taken as ended"
"""Note of a trace's report: how often a transform left out a job that precedes one."""


def transformed(
    workload: Workload, section: WorkloadSource, seed: int, most_jobs: int | None = None
) -> Workload:
    """Return the workload after the scenario's transforms; see `read_trace`."""
    workload = with_dependencies(workload, section.dependencies)
    if section.window is not None:
        part, jobs = section.window, section.window.jobs
        rank = None if jobs is None else (jobs.first, jobs.last)
        workload = window(workload, start=part.start, end=part.end, jobs=rank)
    if section.load != 1.0:
        workload = scale_load(workload, section.load)
    if section.processors_scale != 1.0:
        workload = scale_processors(workload, section.processors_scale)
    if section.processors_max is not None:
        workload = cap_processors(workload, section.processors_max)
    if section.run_time_scale != 1.0:
        workload = scale_run_times(workload, section.run_time_scale)
    if section.run_time_max is not None:
        workload = cap_run_times(workload, section.run_time_max)
    if section.resample is not None:
        rng = stream(seed, "resample")
        workload = resample(workload, section.resample.weeks, rng, most_jobs=most_jobs)
    if (target := section.target_load) is not None:
        workload = scale_to_load(workload, target.offered_load, target.processors)
    return workload


PRICE: Final = 0.5
"""Price of a unit of any resource for a time unit where the scenario names none: `res_price`."""


def valued(workload: Workload, section: Value, seed: int) -> Workload:
    """Return the workload with QoS, values and deadlines, and with GPUs if they are asked for.

    Draws come from the streams "value.gpu", "value.qos" and "value.deadlines" of the seed: two
    numbers a job in the order of submission. They do not depend on the policy, and what one of
    them decides shifts no other.

    Raises ScenarioError if the section asks for a column that the trace does not have, for GPUs
    where there are some, or for a price of what no job asks for.
    """
    if len(workload.whole_memory):
        raise ScenarioError(
            "value: the memory of some jobs is unknown and has no price; set workload.memory: false"
        )
    if section.gpu is not None:
        workload = _with_gpus(workload, section.gpu, seed)
    workload = _with_qualities(workload, section.qos, seed)
    if section.prices is not None or not len(workload.value):
        prices = section.prices
        if prices is None:
            prices = dict.fromkeys(workload.resources, PRICE)
        workload = with_values(workload, prices, time_unit_s=section.time_unit, knob=section.knob)
    return _with_deadlines(workload, section.deadlines, seed)


def _with_gpus(workload: Workload, section: Gpus, seed: int) -> Workload:
    least, most = section.amount
    amounts = draw_amounts(
        len(workload), stream(seed, "value.gpu"), share=section.share, least=least, most=most
    )
    return with_resource(workload, "gpu", amounts, per=section.per)


def _with_qualities(workload: Workload, section: Any, seed: int) -> Workload:
    if isinstance(section, TwoClasses):
        qos = draw_two_classes(
            len(workload),
            stream(seed, "value.qos"),
            high_share=section.high_share,
            high=section.high,
            low=section.low,
        )
    elif isinstance(section, FixedQuality):
        qos = np.full(len(workload), section.qos)
    else:
        _check_own(workload, "qos", "value.qos")
        return workload
    return workload.with_columns(qos=qos)


def _with_deadlines(workload: Workload, section: Any, seed: int) -> Workload:
    if isinstance(section, QualityDeadlines):
        return with_deadlines(workload, 1 / workload.qos, of=section.of)
    if isinstance(section, SlackDeadlines):
        rng = stream(seed, "value.deadlines")
        factor = draw_factors(len(workload), rng, section.factor)
        return with_deadlines(workload, factor, of=section.of)
    if isinstance(section, NoDeadlines):
        return workload.with_columns(deadline_s=np.empty(0))
    _check_own(workload, "deadline_s", "value.deadlines")
    return workload


def _check_own(workload: Workload, column: str, place: str) -> None:
    if len(workload) and not len(getattr(workload, column)):
        raise ScenarioError(
            f"{place}: the trace has no column {column}; only a table of jobs (type: jobs) that "
            "has one gives it, take another type"
        )
