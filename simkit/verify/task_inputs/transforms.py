"""The transforms of a workload, made again: a window, the load, processors and run times.

They follow each other as the reference of scenarios says, and times are put on their grid after
each of them. A resample is drawn, and is not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.verify.inputs import MissingInputError
from simkit.verify.numbers import TICK, Floats, Ints, seconds
from simkit.verify.task_inputs.input_tasks import OF_TASKS, InputTasks

_NEUTRAL: Final = {
    "load": 1.0, "processors_scale": 1.0, "processors_max": None, "run_time_scale": 1.0,
    "run_time_max": None, "resample": None, "target_load": None,
}  # fmt: skip
"""Keys that change jobs, in the order in which they do → what changes nothing."""


def changes_of(workload: Mapping[str, Any]) -> list[str]:
    """Return the keys that change the jobs of a workload's input, but for a window."""
    return [
        name
        for name, value in _NEUTRAL.items()
        if workload.get(name) is not None and workload[name] != value
    ]


def transformed(
    found: InputTasks, workload: Mapping[str, Any], epoch_s: float | None
) -> InputTasks:
    """Return the tasks of the input after the transforms of the scenario's workload.

    Args:
        found: tasks in the order of the workload.
        workload: section of the scenario.
        epoch_s: Unix time of second 0, for a window of dates; None if it is not known.

    Raises MissingInputError for what cannot be made again.
    """
    if window := workload.get("window"):
        found = _in_window(found, window, epoch_s)
    for name in changes_of(workload):
        if name == "resample":
            raise MissingInputError(f"the workload has resample: {workload[name]}")
        found = _TRANSFORMS[name](found, workload[name])
    return found


def _in_window(found: InputTasks, window: Mapping[str, Any], epoch_s: float | None) -> InputTasks:
    """Return the tasks of the jobs submitted in a window, and of these some by number."""
    begins = np.flatnonzero(np.diff(found.tasks["order"].to_numpy(), prepend=-1))
    submit = found.tasks["submit"].to_numpy()[begins]
    since, low, high = submit - submit[:1], 0, len(submit)
    if window.get("start") is not None:
        low = int(np.searchsorted(since, _since(window["start"], submit, epoch_s), side="left"))
    if window.get("end") is not None:
        high = int(np.searchsorted(since, _since(window["end"], submit, epoch_s), side="left"))
    if window.get("jobs") is not None:
        first, dots, last = str(window["jobs"]).partition("..")
        ranks = (int(first), int(last)) if dots else (0, int(first) - 1)
        low, high = low + ranks[0], min(high, low + ranks[1] + 1)
    inside = found.tasks["order"].is_between(low, high - 1)
    times = found.instance_times
    if times is not None:
        chosen = np.repeat(inside.to_numpy(), found.tasks["instances"].to_numpy())
        times = times[0][chosen], times[1][chosen]
    jobs = found.jobs.filter(pl.col("order").is_between(low, high - 1))
    return replace(found, tasks=found.tasks.filter(inside), jobs=jobs, instance_times=times)


def _since(when: Any, submit: Floats, epoch_s: float | None) -> float:
    """Return a bound of a window in s since the first submission: a duration, or a date."""
    try:
        return seconds(when)
    except ValueError:
        date = datetime.fromisoformat(str(when).strip())
    if date.tzinfo is None or epoch_s is None or not len(submit):
        raise MissingInputError(f"the window has {when}, and the trace's epoch is not known")
    return date.timestamp() - epoch_s - float(submit[0])


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


def _at_target_load(found: InputTasks, target: Mapping[str, Any]) -> InputTasks:
    tasks = found.tasks
    if tasks["run"].null_count():
        raise MissingInputError("run times come from a model of durations")
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
    return _at_load(found, target["offered_load"] * target["processors"] * span / area)


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
        raise MissingInputError("the number of instances changes, each with its own run time")
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
    "run_time_max": lambda found, most: _with_run_times(
        found, lambda s: np.minimum(s, seconds(most))
    ),
    "target_load": _at_target_load,
}


def _floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _grid(times: Floats) -> Floats:
    return np.asarray(np.rint(times / TICK) * TICK)
