"""The jobs of a scenario: its log or model, then the transforms, then the jobs' worth."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from simkit.arrays import stream
from simkit.errors import PluginError, ScenarioError, TraceError
from simkit.scenario.workload import TraceFormat, WorkloadModel, WorkloadSource
from simkit.workload import Trace
from simkit.workload.recorded import with_recorded_starts

if TYPE_CHECKING:
    from simkit.scenario.value import Value


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
            f"policy.recorded: jobs of the type {section.type} are drawn, so nothing was recorded; "
            "use a log, or another policy"
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
    workload, report = section.transformed(trace.workload, seed, most_jobs), trace.report
    if missing := workload.preceding_left_out:
        report = replace(report, notes={**report.notes, PRECEDING_LEFT_OUT: missing})
    if value is not None:
        workload = value.build(workload, seed)
    return Trace(workload, report, trace.inputs, trace.tables)


PRECEDING_LEFT_OUT: Final = "preceding job outside the window or resample, taken as ended"
"""Note of a trace's report: how often a transform left out a job that precedes one."""
