"""The tasks of a run's input, made again: read from the file, then changed as the scenario says.

The transforms of a workload (window, load, processors, run times) follow each other as the
reference of scenarios says, and times are put on their grid after each of them. A resample is
drawn, and is not made again.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.errors import TraceError
from simkit.scenario.workload import TargetLoad, Window, WorkloadSource
from simkit.verify.audit import NotAuditedError
from simkit.verify.folder import RunFolder
from simkit.verify.input_tables import epoch_of_table, read_batch, read_job_table, read_task_table
from simkit.verify.inputs import OF_TASKS, InputTasks, inputs_below
from simkit.verify.numbers import TICK, Floats, Ints

UNREADABLE: Final = (OSError, EOFError, ValueError, TraceError, zlib.error, tarfile.TarError)
"""What reading a damaged input raises."""
TASK_TABLES = ("jobs", "tasks", "alibaba2017")
"""Types of workload whose rows are tasks, or jobs of one task."""


def read_input_tasks(run: RunFolder) -> InputTasks:
    """Read the files of the run's workload again."""
    workload: Any = run.scenario.workload
    if reason := _why_not_reread(workload):
        return InputTasks(pl.DataFrame(), reason=reason)
    if run.setting("value", "gpu") is not None:
        return InputTasks(pl.DataFrame(), reason="the scenario adds GPUs to the jobs")
    try:
        if workload.type == "alibaba2017":
            found = read_batch(run, workload)
        else:
            read = read_job_table if workload.type == "jobs" else read_task_table
            found = read(table_of(run), workload)
        return transformed(found, workload, run.manifest["epoch_s"])
    except NotAuditedError as error:
        return InputTasks(pl.DataFrame(), reason=str(error))
    except UNREADABLE as error:
        return InputTasks(pl.DataFrame(), problem=str(error) or type(error).__name__)


def table_of(run: RunFolder) -> Path:
    """Return the table of the run's workload; raises NotAuditedError unless it was recorded."""
    path = next(inputs_below(run, run.setting("workload", "path")), None)
    if path is None:
        raise NotAuditedError("the table is not among the recorded inputs")
    return path


def table_epoch(run: RunFolder) -> float | None:
    """Return the Unix time of second 0 of a table of jobs or tasks; None if it has no dates.

    Raises NotAuditedError for a file that is missing, and TraceError for one that cannot be read.
    """
    return epoch_of_table(table_of(run), run.scenario.workload)


def _why_not_reread(workload: Any) -> str:
    if workload.type not in TASK_TABLES:
        return f"the workload's type is {workload.type!r}"
    if workload.type == "alibaba2017" and workload.rules != type(workload.rules)():
        return f"the workload has rules: {workload.rules.model_dump(exclude_defaults=True)}"
    return ""


# ---- transforms ---------------------------------------------------------------------------------

_ORDER: Final = (
    "load", "processors_scale", "processors_max", "run_time_scale", "run_time_max", "resample",
    "target_load",
)  # fmt: skip
"""Keys that change jobs, in the order in which they do."""


def changes_of(workload: WorkloadSource) -> list[str]:
    """Return the keys that change the jobs of a workload's input, but for a window."""
    keys = type(workload).model_fields
    return [name for name in _ORDER if getattr(workload, name) != keys[name].default]


def transformed(found: InputTasks, workload: WorkloadSource, epoch_s: float | None) -> InputTasks:
    """Return the tasks of the input after the transforms of the scenario's workload.

    Args:
        found: tasks in the order of the workload.
        workload: section of the scenario.
        epoch_s: Unix time of second 0, for a window of dates; None if it is not known.

    Raises NotAuditedError for what cannot be made again.
    """
    if workload.window is not None:
        found = _in_window(found, workload.window, epoch_s)
    for name in changes_of(workload):
        if name == "resample":
            raise NotAuditedError("the workload has a resample")
        found = _TRANSFORMS[name](found, getattr(workload, name))
    return found


def _in_window(found: InputTasks, window: Window, epoch_s: float | None) -> InputTasks:
    """Return the tasks of the jobs submitted in a window, and of these some by number."""
    begins = np.flatnonzero(np.diff(found.tasks["order"].to_numpy(), prepend=-1))
    submit = found.tasks["submit"].to_numpy()[begins]
    since, low, high = submit - submit[:1], 0, len(submit)
    if window.start is not None:
        low = int(np.searchsorted(since, _since(window.start, submit, epoch_s), side="left"))
    if window.end is not None:
        high = int(np.searchsorted(since, _since(window.end, submit, epoch_s), side="left"))
    if window.jobs is not None:
        low, high = low + window.jobs.first, min(high, low + window.jobs.last + 1)
    inside = found.tasks["order"].is_between(low, high - 1)
    times = found.instance_times
    if times is not None:
        chosen = np.repeat(inside.to_numpy(), found.tasks["instances"].to_numpy())
        times = times[0][chosen], times[1][chosen]
    jobs = found.jobs.filter(pl.col("order").is_between(low, high - 1))
    return replace(found, tasks=found.tasks.filter(inside), jobs=jobs, instance_times=times)


def _since(when: float | datetime, submit: Floats, epoch_s: float | None) -> float:
    """Return a bound of a window in s since the first submission: a duration, or a date."""
    if not isinstance(when, datetime):
        return when
    if epoch_s is None or not len(submit):
        raise NotAuditedError(f"the window has {when}, but the trace's epoch is not known")
    return when.timestamp() - epoch_s - float(submit[0])


def _at_load(found: InputTasks, factor: float) -> InputTasks:
    """Divide the times between arrivals; deadlines stay as long after them."""
    tasks, jobs = found.tasks, found.jobs
    submit = tasks["submit"].to_numpy()
    if "deadline_s" in jobs.columns:
        before = jobs["submit"].to_numpy()
        later = _denser(before, factor) - before
        due = jobs["deadline_s"].fill_null(np.inf).to_numpy() + later
        jobs = jobs.with_columns(deadline_s=pl.Series(_grid(due)))
    moved = _grid(_denser(jobs["submit"].to_numpy(), factor))
    return replace(
        found,
        tasks=tasks.with_columns(submit=pl.Series(_grid(_denser(submit, factor)))),
        jobs=jobs.with_columns(submit=pl.Series(moved)),
    )


def _denser(submit: Floats, factor: float) -> Floats:
    first = submit[:1]
    return np.asarray(first + (submit - first) / factor)


def _at_target_load(found: InputTasks, target: TargetLoad) -> InputTasks:
    tasks = found.tasks
    if tasks["run"].null_count():
        raise NotAuditedError("run times come from a model of durations")
    resources = [name for name in tasks.columns if name not in OF_TASKS]
    name = "processors" if "processors" in resources else resources[0]
    held = tasks["run"].to_numpy()
    if found.instance_times is not None and len(held):
        counts = tasks["instances"].to_numpy()
        longest = np.maximum.reduceat(found.instance_times[0], np.cumsum(counts) - counts)
        held = np.where(tasks["gang"].to_numpy(), longest, held)
    area = float((tasks[name].to_numpy() * tasks["instances"].to_numpy() * held).sum())
    submit = tasks["submit"].to_numpy()
    span = float(submit[-1] - submit[0])
    return _at_load(found, target.offered_load * target.processors * span / area)


def _with_processors(found: InputTasks, factor: float, most: int | None = None) -> InputTasks:
    count = found.tasks["instances"].to_numpy()
    scaled = np.maximum(np.floor(count * factor + 0.5), 1)
    return _with_instances(found, scaled if most is None else np.minimum(scaled, most))


def _with_at_most(found: InputTasks, most: int) -> InputTasks:
    """Return tasks with no more processors; where none asks for these, with no more instances."""
    if "processors" not in found.tasks.columns:
        return _with_processors(found, 1.0, most)
    each = found.tasks["processors"].to_numpy()
    fit = np.maximum(np.floor(most / np.where(each > 0, each, 1.0)), 1)
    return _with_instances(found, np.minimum(found.tasks["instances"].to_numpy(), fit))


def _with_instances(found: InputTasks, count: Floats | Ints) -> InputTasks:
    if found.instance_times is not None and (count != found.tasks["instances"].to_numpy()).any():
        raise NotAuditedError("the number of instances changes, each with its own run time")
    instances = pl.Series(count).cast(pl.Int64)
    return replace(found, tasks=found.tasks.with_columns(instances=instances))


def _with_run_times(found: InputTasks, change: Callable[[Floats], Floats]) -> InputTasks:
    """Change run times and requests; single run times may then be off by some steps."""
    columns = {
        name: pl.Series(_grid(change(_floats(found.tasks[name])))).fill_nan(None)
        for name in ("run", "requested")
    }
    times = found.instance_times
    if times is not None:
        own, slack = times
        times = _grid(change(own)), np.maximum(change(own + slack) - change(own), 0.0) + TICK
    return replace(found, tasks=found.tasks.with_columns(**columns), instance_times=times)


_TRANSFORMS: Final[Mapping[str, Callable[[InputTasks, Any], InputTasks]]] = {
    "load": _at_load,
    "processors_scale": _with_processors,
    "processors_max": _with_at_most,
    "run_time_scale": lambda found, factor: _with_run_times(found, lambda s: s * factor),
    "run_time_max": lambda found, most: _with_run_times(found, lambda s: np.minimum(s, most)),
    "target_load": _at_target_load,
}


def _floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _grid(times: Floats) -> Floats:
    return np.asarray(np.rint(times / TICK) * TICK)
