"""The tasks of a run's input, read again: what each requests, how long it runs, its parents.

The input is a table of tasks, or the batch tables of Alibaba's cluster-trace-v2017 under the
default rules. These leave out rows of batch_task without ids, with impossible values, whose status
is waiting or running, that do not end after their creation, or that have no instances or request;
and every attempt in batch_instance except the last, successful one.
"""

from __future__ import annotations

import csv
import gzip
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.folder import RunFolder
from simkit.verify.inputs import MissingInputError, inputs_below, trace_table, transformation
from simkit.verify.numbers import (
    LARGEST,
    LARGEST_ID,
    TICK,
    Floats,
    requests_on_grid,
    times_on_grid,
)

TASK_TABLES = ("tasks", "alibaba2017")
"""Types of workload whose rows are tasks."""
_ENDED = ("terminated", "failed", "cancelled", "canceled")
_KEY = ["job_id", "task_id"]
_HUNDREDTHS = 100.0
"""plan_cpu counts hundredths of a core."""
_OPTIONAL = ("task_id", "instances", "requested_time_s", "parents", "user")
_TEXT = ("job_id", "task_id", "parents", "user")


@dataclass(frozen=True)
class InputTasks:
    """The tasks of the input, or the reason why they are not known."""

    tasks: pl.DataFrame
    """Columns job_id, task_id, submit, instances, run (of every instance, null: unknown), order (of
    the job among all, from 0) and the resources; sorted by job."""
    parents: pl.DataFrame | None = None
    """Columns job_id, task_id, parent: one row per dependency; None if there are none."""
    instance_times: tuple[Floats, Floats] | None = None
    """Run times of single instances in s, and their tolerances (for means of the others), each
    (sum of instances,) in the order of `tasks`; None: each instance has the time of its task."""
    reason: str = ""
    """Why the input was not read again."""
    problem: str = ""
    """Why the input could not be read."""

    @property
    def known(self) -> bool:
        """Whether the input was read."""
        return not self.reason and not self.problem


def read_input_tasks(run: RunFolder) -> InputTasks:
    """Read the files of the run's workload again."""
    workload = run.setting("workload") or {}
    if reason := _why_not_reread(workload):
        return InputTasks(pl.DataFrame(), reason=reason)
    if run.setting("value", "gpu"):
        return InputTasks(pl.DataFrame(), reason="the scenario adds GPUs to the jobs")
    try:
        if workload["type"] == "tasks":
            path = next(inputs_below(run, str(workload["path"])), None)
            if path is None:
                raise MissingInputError("the table is not among the recorded inputs")
            found = _read_task_table(path, workload)
        else:
            found = _read_batch(run, workload)
    except MissingInputError as error:
        return InputTasks(pl.DataFrame(), reason=str(error))
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
        return InputTasks(pl.DataFrame(), problem=str(error) or type(error).__name__)
    return _in_window(found, (workload.get("window") or {}).get("jobs"))


def _why_not_reread(workload: Mapping[str, Any]) -> str:
    kind = workload.get("type")
    if kind not in TASK_TABLES:
        return f"the workload's type is {kind!r}"
    if changed := transformation(workload):
        return changed
    window = workload.get("window") or {}
    for name in ("start", "end"):
        if window.get(name) is not None:
            return f"the window has {name}: {window[name]}"
    if workload.get("rules"):
        return f"the workload has rules: {workload['rules']}"
    return ""


def _read_task_table(path: Path, rules: Mapping[str, Any]) -> InputTasks:
    """Read a table of tasks by the scenario's rules.

    Args:
        path: CSV, plain or gzipped, or Parquet.
        rules: the scenario's workload: ``columns``, ``factors``, ``submit``, ``negative_run``,
            ``zero_run``, ``parent_separator``, ``on_error``.

    Raises ValueError for a table that cannot be read or lacks a column.
    """
    rows = _kept(_columns(path, rules), rules).with_row_index("nth")
    for name in ("job_id", "task_id"):
        if name in rows.columns and rows[name].cast(pl.Int64, strict=False).null_count() == 0:
            rows = rows.with_columns(pl.col(name).cast(pl.Int64))
    times = pl.col("submit_time_s").sort_by("nth")
    submit = times.last() if rules.get("submit") == "last" else times.first()
    rows = rows.with_columns(
        submit.over("job_id").alias("submit"), pl.col("nth").min().over("job_id").alias("first")
    ).sort("submit", "first", "nth")
    if "task_id" not in rows.columns:
        rows = rows.with_columns(pl.int_range(1, pl.len() + 1).over("job_id").alias("task_id"))
    tasks = rows.select(
        "job_id", "task_id", times_on_grid(pl.col("submit")),
        pl.col("instances").cast(pl.Int64),
        times_on_grid(pl.col("run_time_s").clip(0)).alias("run"),
        (pl.struct("submit", "first").rank("dense").cast(pl.Int64) - 1).alias("order"),
        *(requests_on_grid(pl.col(name)) for name in _resources(rules)),
    )  # fmt: skip
    return InputTasks(tasks, _dependencies(rows, rules))


def _resources(rules: Mapping[str, Any]) -> list[str]:
    needed = ("job_id", "submit_time_s", "run_time_s", *_OPTIONAL)
    return [name for name in rules["columns"] if name not in needed]


def _columns(path: Path, rules: Mapping[str, Any]) -> pl.DataFrame:
    """Return the table's columns under our names: ids as text, others as scaled numbers."""
    columns, factors = rules["columns"], rules.get("factors") or {}
    with path.open("rb") as file:
        parquet = file.read(4) == b"PAR1"
    skip = rules.get("on_error") == "skip"
    try:
        if parquet:
            table = pl.read_parquet(path)
        else:
            table = _whole_rows(path) if skip else pl.read_csv(path, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    table = table.rename(lambda name: name.strip(' "'))
    if missing := [name for name in columns.values() if name not in table.columns]:
        raise ValueError(f"no column {', '.join(missing)}")
    chosen, readable = [], [pl.lit(value=True)]
    for ours, theirs in columns.items():
        text = pl.col(theirs).cast(pl.String).str.strip_chars(" \t\r").replace("", None)
        number = text.cast(pl.Float64, strict=False) * factors.get(ours, 1.0)
        chosen.append((text if ours in _TEXT else number).alias(ours))
        if skip and ours not in _TEXT:
            readable.append(text.is_null() | number.is_not_null())
    return table.filter(pl.all_horizontal(readable)).select(chosen)


def _whole_rows(path: Path) -> pl.DataFrame:
    """Read the lines of a CSV table, plain or gzipped, that have as many fields as its header."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as file:
        text = file.read().decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    rows = [next(csv.reader([line])) for line in lines if line and line.count('"') % 2 == 0]
    names, *rows = rows or [[]]
    kept = [row for row in rows if len(row) == len(names)]
    return pl.DataFrame(kept, schema=dict.fromkeys(names, pl.String), orient="row")


def _kept(table: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows that are tasks by the scenario's rules."""
    if "instances" not in table.columns:
        table = table.with_columns(pl.lit(1.0).alias("instances"))
    run, count = pl.col("run_time_s"), pl.col("instances")
    wanted = [pl.col(name).is_not_null() for name in ("job_id", "task_id") if name in table.columns]
    wanted += [pl.col("submit_time_s").abs() <= LARGEST / 2, run.abs() <= LARGEST / 2]
    wanted += [(pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in _resources(rules)]
    wanted += [(count >= 1) & (count < LARGEST) & (count.floor() == count)]
    if rules.get("negative_run", "drop") == "drop":
        wanted.append(run >= 0)
    if rules.get("zero_run", "keep") == "drop":
        wanted.append(run != 0)
    return table.filter(pl.all_horizontal(wanted).fill_null(value=False))


def _dependencies(rows: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame | None:
    if "parents" not in rows.columns:
        return None
    separator = rules.get("parent_separator", ";")
    parent = pl.col("parents").fill_null("").str.split(separator).alias("parent")
    pairs = rows.select("job_id", "task_id", parent).explode("parent")
    pairs = pairs.with_columns(pl.col("parent").str.strip_chars()).filter(pl.col("parent") != "")
    return pairs.with_columns(pl.col("parent").cast(rows.schema["task_id"]))


def _in_window(found: InputTasks, jobs: Any) -> InputTasks:
    """Return the tasks of the jobs ``first..last`` in order of submission."""
    if jobs is None:
        return found
    first, _, last = str(jobs).partition("..")
    inside = found.tasks.select(pl.col("order").is_between(int(first), int(last))).to_series()
    times = found.instance_times
    if times is not None:
        chosen = np.repeat(inside.to_numpy(), found.tasks["instances"].to_numpy())
        times = times[0][chosen], times[1][chosen]
    return replace(found, tasks=found.tasks.filter(inside), instance_times=times)


def _read_batch(run: RunFolder, rules: Mapping[str, Any]) -> InputTasks:
    """Return the tasks of Alibaba's trace.

    Raises ValueError for a table that cannot be read.
    """
    place = str(rules["path"])
    table = trace_table(run, place, "batch_task")
    if table is None:
        raise MissingInputError("batch_task is not among the recorded inputs")
    tasks = _tasks(table, known_run=rules.get("durations", "task") == "task")
    attempts = None
    if rules.get("instances", True):
        attempts = trace_table(run, place, "batch_instance")
    if attempts is None:
        return InputTasks(tasks)
    return _with_instances(tasks, _instances(attempts, tasks))


def _tasks(table: pl.DataFrame, *, known_run: bool) -> pl.DataFrame:
    create, end, count = pl.col("create"), pl.col("end"), pl.col("instances")
    ids = [(pl.col(n).abs() < LARGEST_ID) & (pl.col(n).floor() == pl.col(n)) for n in _KEY]
    amounts = [(pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in ("cpu", "mem")]
    wanted = pl.all_horizontal(
        *ids, *amounts, create.abs() <= LARGEST / 2, end.abs() < LARGEST, end != 0, end > create,
        end - create <= LARGEST / 2,
        (count >= 1) & (count < LARGEST) & (count.floor() == count),
        pl.col("status").str.to_lowercase().is_in(_ENDED),
    )  # fmt: skip
    rows = table.with_row_index("nth").filter(wanted.fill_null(value=False))
    rows = rows.with_columns(create.min().over("job_id").alias("submit"))
    rows = rows.sort("submit", "job_id", "create", "task_id", "nth")
    wall = times_on_grid(end - create)
    return rows.select(
        *(pl.col(name).cast(pl.Int64) for name in _KEY), times_on_grid(pl.col("submit")),
        count.cast(pl.Int64),
        (wall if known_run else pl.lit(None, pl.Float64)).alias("run"),
        (pl.struct("submit", "job_id").rank("dense").cast(pl.Int64) - 1).alias("order"),
        requests_on_grid(pl.col("cpu") / _HUNDREDTHS), requests_on_grid(pl.col("mem")),
    )  # fmt: skip


def _instances(table: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return (task, run): the last, successful attempts, by task and start."""
    start, end = pl.col("start"), pl.col("end")
    last = (pl.col("seq") < pl.col("total")).fill_null(value=False).not_()
    good = pl.all_horizontal(
        pl.col("status").str.to_lowercase() == "terminated", last, start != 0, end != 0,
        end >= start, start.abs() < LARGEST, end.abs() < LARGEST, end - start <= LARGEST / 2,
    )  # fmt: skip
    rows = table.lazy().with_row_index("nth").filter(good.fill_null(value=False))
    index = tasks.with_row_index("task").unique(_KEY, keep="first").select(
        "task", *(pl.col(name).cast(pl.Float64) for name in _KEY), "instances"
    )  # fmt: skip
    rows = rows.select(*_KEY, "start", (end - start).alias("run"), "nth").join(
        index.lazy(), on=_KEY
    )
    planned = pl.int_range(pl.len()).over("task") < pl.col("instances")
    return rows.sort("task", "start", "run", "nth").filter(planned).select("task", "run").collect()


def _with_instances(tasks: pl.DataFrame, instances: pl.DataFrame) -> InputTasks:
    """Add run times of single instances: the known ones first, then the mean of these."""
    if not instances.height:
        return InputTasks(tasks)
    task, own = instances["task"].to_numpy().astype(np.int64), instances["run"].to_numpy()
    counts = tasks["instances"].to_numpy()
    known = np.bincount(task, minlength=len(counts))
    mean = tasks["run"].fill_null(np.nan).to_numpy().copy()
    has = known > 0
    mean[has] = np.bincount(task, own, len(counts))[has] / known[has]
    mean = np.round(mean / TICK) * TICK
    run_s, slack_s = np.repeat(mean, counts), np.full(int(counts.sum()), TICK)
    slack_s[np.repeat(~has, counts)] = 0.0
    begun, first = np.cumsum(counts) - counts, np.cumsum(known) - known
    places = np.arange(len(own)) + np.repeat(begun - first, known)
    run_s[places], slack_s[places] = np.round(own / TICK) * TICK, 0.0
    tasks = tasks.with_columns(pl.Series("run", mean).fill_nan(None))
    return InputTasks(tasks, instance_times=(run_s, slack_s))
