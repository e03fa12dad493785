"""Where a scenario's jobs come from: its reader or model, then the transforms it asks for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from simkit import plugins
from simkit.construct import construct
from simkit.errors import PluginError
from simkit.scenario_workload import Resample, Window, WorkloadBase
from simkit.seeds import stream
from simkit.transform import resample, scale_load, scale_processors, window
from simkit.workload import Trace, Workload


def read_trace(section: WorkloadBase, seed: int) -> Trace:
    """Read or generate the jobs of a scenario, and transform them.

    The transforms are applied in the order window, load, processors_scale, resample. Models draw
    from the stream "workload" of the seed, a resample from "resample": neither depends on the
    policy, so that runs with the same seed are paired.

    Raises TraceError if the trace cannot be read, PluginError if the reader is none.
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
    return Trace(workload, trace.report, trace.inputs, trace.tables)


def transformed(workload: Workload, section: WorkloadBase, seed: int) -> Workload:
    """Return the workload after the scenario's transforms; see `read_trace`."""
    if section.window is not None:
        workload = window(workload, **_bounds(section.window))
    if section.load != 1.0:
        workload = scale_load(workload, section.load)
    if section.processors_scale != 1.0:
        workload = scale_processors(workload, section.processors_scale)
    if section.resample is not None:
        workload = _resampled(workload, section.resample, seed)
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
