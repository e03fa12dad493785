"""Where a scenario's jobs come from: its reader or model, then the transforms it asks for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from simkit import plugins
from simkit.construct import construct
from simkit.errors import PluginError
from simkit.scenario_value import Value
from simkit.scenario_workload import Resample, Window, WorkloadBase
from simkit.seeds import stream
from simkit.transform import (
    cap_processors,
    cap_run_times,
    resample,
    scale_load,
    scale_processors,
    scale_run_times,
    scale_to_load,
    window,
)
from simkit.value_source import valued
from simkit.workload import Trace, Workload


def read_trace(section: WorkloadBase, seed: int, value: Value | None = None) -> Trace:
    """Read or generate the jobs of a scenario, transform them, and give them their worth.

    The transforms are applied in the order window, load, processors_scale, processors_max,
    run_time_scale, run_time_max, resample, target_load, and `value` after them. Models draw from
    the stream "workload" of the seed, a resample from "resample", worths from streams of their
    own: none depends on the policy, so that runs with the same seed are paired.

    Raises TraceError if the trace cannot be read, PluginError if the reader is none, ScenarioError
    if the jobs cannot be given such a worth.
    """
    reader = plugins.find("simkit.readers", section.reader_name)
    arguments = section.reader_arguments()
    if _takes_generator(reader):
        arguments["rng"] = stream(seed, "workload")
    trace = construct(f"workload: the reader {section.reader_name!r}", reader, arguments)
    if not isinstance(trace, Trace):
        raise PluginError(
            f"workload: the reader {section.reader_name!r} returned a {type(trace).__name__}; "
            "a reader returns a simkit.workload.Trace"
        )
    workload = transformed(trace.workload, section, seed)
    if value is not None:
        workload = valued(workload, value, seed)
    return Trace(workload, trace.report, trace.inputs, trace.tables)


def transformed(workload: Workload, section: WorkloadBase, seed: int) -> Workload:
    """Return the workload after the scenario's transforms; see `read_trace`."""
    if section.window is not None:
        workload = window(workload, **_bounds(section.window))
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
        workload = _resampled(workload, section.resample, seed)
    if (target := section.target_load) is not None:
        workload = scale_to_load(workload, target.offered_load, target.processors)
    return workload


def _bounds(section: Window) -> Mapping[str, Any]:
    jobs = None if section.jobs is None else (section.jobs.first, section.jobs.last)
    return {"start": section.start, "end": section.end, "jobs": jobs}


def _resampled(workload: Workload, section: Resample, seed: int) -> Workload:
    return resample(workload, section.weeks, stream(seed, "resample"))


def _takes_generator(reader: Any) -> bool:
    try:
        return "rng" in inspect.signature(reader).parameters
    except (TypeError, ValueError):  # built in: no signature to look at
        return False
