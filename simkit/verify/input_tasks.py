"""The tasks of a run's input, made again: read from the table, then changed as the scenario says.

The transforms of a workload (window, load, processors, run times) follow each other as the
reference of scenarios says, and times are put on their grid after each of them. A resample is
drawn, and is not made again.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.errors import TraceError
from simkit.scenario.workload import TargetLoad, Window, WorkloadSource
from simkit.traces.columns import JOBS, Column, ColumnMap
from simkit.traces.files import is_parquet
from simkit.traces.rules import BadLines, Tally
from simkit.traces.tables.rows import whole_numbers
from simkit.traces.tables.table import TableColumns, header_of, read_columns
from simkit.verify.audit import (
    LARGEST,
    LARGEST_ID,
    TICK,
    Floats,
    Ints,
    NotAuditedError,
    requests_on_grid,
    times_on_grid,
)
from simkit.verify.folder import RunFolder
from simkit.verify.inputs import OF_JOBS, OF_TASKS, InputTasks, inputs_below, read_batch

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


_KEY: Final = ["job_id", "task_id"]

# ---- columns of tables --------------------------------------------------------------------------


def _read(path: Path, wanted: ColumnMap, rules: Any) -> TableColumns:
    """Return columns of a table; raises TraceError for malformed rows, unless they are skipped."""
    bad = BadLines(path, rules.on_error, rows=is_parquet(path))
    table = read_columns(path, wanted, bad, rules, Tally())
    bad.settle(Tally())
    return table


def epoch_of_table(run: RunFolder) -> float | None:
    """Return the Unix time of second 0 of a table of jobs or tasks; None if it has no dates.

    Raises NotAuditedError for a file that is missing, and TraceError for one that cannot be read.
    """
    names = run.setting("workload", "columns") or {}
    job, submit = (names.get(name, "") for name in ("job_id", "submit_time_s"))
    wanted = Column("job_id", "id", job), Column("submit_time_s", "instant", submit, needed=True)
    return _epoch(_read(table_of(run), ColumnMap(wanted), run.scenario.workload))


def _epoch(table: TableColumns) -> float | None:
    return None if np.isnan(table.epoch_s) else table.epoch_s


def _with_requests(
    table: pl.DataFrame, resources: Sequence[str], *, barriers: bool = False
) -> pl.DataFrame:
    """Read an empty cell among resources as 0; all of a row that asks for nothing as empty.

    With `barriers`, a row of zeros stays.
    """
    asks = pl.any_horizontal(
        pl.col(name).is_not_null() if barriers else pl.col(name).fill_null(0.0) != 0
        for name in resources
    )
    return table.with_columns(pl.when(asks).then(pl.col(name).fill_null(0.0)) for name in resources)


def _with_numbered_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ids as whole numbers, unless one is none."""
    for name in _KEY:
        if name in rows.columns and (numbers := whole_numbers(rows[name])).null_count() == 0:
            rows = rows.with_columns(numbers)
    return rows


def _retries_of(rows: pl.DataFrame) -> pl.Expr:
    """Return how often tasks may start over, null where the table does not say."""
    if "retries" not in rows.columns:
        return pl.lit(None, pl.Int64).alias("retries")
    return pl.when(pl.col("retries") >= 0).then("retries").cast(pl.Int64).alias("retries")


def _job_names(words: pl.Series) -> pl.Series:
    """Return the users, groups, … of jobs: whole numbers, -1 if unknown; names if one is a name."""
    number = words.cast(pl.Float64, strict=False)
    if number.null_count() > words.null_count():
        return words.replace(["-1", "-1.0"], None).fill_null("")
    exact = words.cast(pl.Int64, strict=False)
    if exact.null_count() == words.null_count():
        return exact.fill_null(-1)
    return number.fill_null(-1.0).cast(pl.Int64)


# ---- a table of jobs ----------------------------------------------------------------------------

_NEEDED: Final = ("job_id", "submit_time_s", "run_time_s")
_STARTS: Final = ("start_time_s", "wait_time_s")
"""Columns that tell of recorded starts; the first that is there counts."""


def _job_rows(path: Path, rules: Any) -> tuple[pl.DataFrame, list[str], float | None]:
    """Return the rows of a table of jobs under our names, the resources, and its epoch.

    Without resources, jobs ask for processors, an instance each.
    """
    names = header_of(path, _NEEDED, rules.dialect)
    resources = list(rules.resources or ())
    if rules.resources is None and "processors" not in names:
        resources = [name for name in ("cpu", "mem", "gpu") if name in names]
    wanted = JOBS
    if resources:
        own = [column for column in JOBS if column.name not in (*resources, "processors")]
        amounts = [Column(name, "amount", needed=True) for name in resources]
        wanted = ColumnMap((*own, *amounts, Column("instances")))
    table = _read(path, wanted, rules)
    of_starts = dict.fromkeys(_STARTS, rules.factors.get("submit_time_s", 1.0))
    factors = {**of_starts, **rules.factors}
    there = [pl.col(name) * by for name, by in factors.items() if name in table.frame.columns]
    return table.frame.with_columns(there), resources, _epoch(table)


def read_job_table(path: Path, rules: Any) -> InputTasks:
    """Read a table of jobs, each of which is a gang, by the scenario's workload.

    Raises TraceError for a table that cannot be read or lacks a column.
    """
    rows, resources, epoch_s = _job_rows(path, rules)
    size = "instances" if resources else "processors"
    rows = _with_requests(rows, resources) if resources else rows
    if rules.on_error == "skip":
        rows = rows.filter(_is_sound(rows, resources))
    if size not in rows.columns:
        rows = rows.with_columns(pl.lit(1.0).alias(size))
    asked = resources or [size]
    rows = _with_numbered_ids(rows).sort("submit_time_s", "job_id", maintain_order=True)
    requested = pl.lit(None, pl.Float64)
    if "requested_time_s" in rows.columns:
        requested = times_on_grid(pl.col("requested_time_s"))
    tasks = rows.select(
        "job_id", pl.lit(0, pl.Int64).alias("task_id"),
        times_on_grid(pl.col("submit_time_s")).alias("submit"),
        pl.col(size).cast(pl.Int64).alias("instances"),
        times_on_grid(pl.col("run_time_s")).alias("run"), requested.alias("requested"),
        pl.int_range(pl.len()).alias("order"), pl.lit(value=True).alias("gang"), _retries_of(rows),
        *(requests_on_grid(pl.col(name) if resources else pl.lit(1.0)).alias(name)
          for name in asked),
    )  # fmt: skip
    return InputTasks(tasks, _said_of_jobs(rows, tasks), epoch_s=epoch_s)


def _said_of_jobs(rows: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return what the table says of each job besides its task; see `InputTasks.jobs`."""
    own = [_job_names(rows[name]) for name in OF_JOBS if name in rows.columns]
    own += [rows[name] for name in ("qos", "value") if name in rows.columns]
    jobs = tasks.select("order", "job_id", "submit").with_columns(own)
    if "deadline_s" in rows.columns:
        jobs = jobs.with_columns(rows["deadline_s"].fill_null(float("inf")))
        jobs = jobs.with_columns(times_on_grid(pl.col("deadline_s")))
    return jobs


def _is_sound(rows: pl.DataFrame, resources: Sequence[str]) -> pl.Expr:
    """Return which rows have values that keep the rules of their columns."""
    rules: dict[str, pl.Expr] = {
        "job_id": pl.lit(value=True),
        "submit_time_s": pl.col("submit_time_s").abs() <= LARGEST / 2,
        "run_time_s": pl.col("run_time_s").is_between(0, LARGEST / 2),
        "qos": (pl.col("qos") > 0) & (pl.col("qos") <= 1),
        "value": (pl.col("value") >= 0) & pl.col("value").is_finite(),
    }
    rules |= {name: _is_whole(name, 1) for name in ("processors", "instances")}
    rules |= {name: (pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in resources}
    or_empty: dict[str, pl.Expr] = {
        "requested_time_s": ~(pl.col("requested_time_s") < 0),
        "retries": _is_whole("retries", 0),
        "release_time_s": pl.col("release_time_s").is_nan()
                          | (pl.col("release_time_s").abs() <= LARGEST / 2),
        "think_time_s": pl.col("think_time_s").is_nan()
                        | pl.col("think_time_s").is_between(0, LARGEST / 2),
        "deadline_s": pl.col("deadline_s").is_not_nan() & (pl.col("deadline_s") > -float("inf")),
    }  # fmt: skip
    for name in set(OF_JOBS) & set(rows.columns):
        numbers = rows[name].cast(pl.Float64, strict=False)
        if numbers.null_count() == rows[name].null_count():  # no cell has a name
            number = pl.col(name).cast(pl.Float64)
            whole = pl.col(name).cast(pl.Int64, strict=False) >= -1
            exact = (number >= -1) & (number < LARGEST_ID) & (number.floor() == number)
            or_empty[name] = whole.fill_null(value=False) | exact
    kept = [pl.col(n).is_not_null() & rule for n, rule in rules.items() if n in rows.columns]
    kept += [pl.col(n).is_null() | rule for n, rule in or_empty.items() if n in rows.columns]
    return pl.all_horizontal(kept).fill_null(value=False)


def _is_whole(name: str, least: int) -> pl.Expr:
    number = pl.col(name)
    return (number >= least) & (number < LARGEST) & (number.floor() == number)


def releases_of_table(path: Path, rules: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what holds the jobs of a table back after their submission.

    Returns ``job_id`` and ``held_s``, from submission to release time, null without one; and
    ``job_id``, ``before`` (id of a preceding job) and ``think_s``.
    """
    rows, _, _ = _job_rows(path, rules)
    missing = {"release_time_s": pl.Float64, "preceding_job": pl.String, "think_time_s": pl.Float64}
    rows = _with_numbered_ids(rows).with_columns(
        pl.lit(None, kind).alias(name) for name, kind in missing.items() if name not in rows.columns
    )
    held = times_on_grid(pl.col("release_time_s")) - times_on_grid(pl.col("submit_time_s"))
    before = pl.col("preceding_job").str.split(";").alias("before")
    think = times_on_grid(pl.col("think_time_s").fill_null(0.0))
    links = rows.select("job_id", before, think.alias("think_s")).explode("before")
    links = links.with_columns(pl.col("before").str.strip_chars())
    links = links.filter(
        pl.col("before").is_not_null() & ~pl.col("before").is_in(["", "-1", "-1.0"])
    )
    numbers = whole_numbers(links["before"])
    if rows.schema["job_id"] == pl.Int64:
        links = links.with_columns(numbers).drop_nulls("before")
    else:
        named = pl.col("before").is_in(rows["job_id"].implode())
        plain = pl.coalesce(numbers.cast(pl.String), "before")
        links = links.with_columns(pl.when(named).then("before").otherwise(plain).alias("before"))
    return rows.select("job_id", held.alias("held_s")), links


def starts_of_table(path: Path, rules: Any) -> pl.DataFrame:
    """Return ``job_id``, ``wait_s`` and ``recorded_start_s``, one of which is null.

    Raises NotAuditedError for a table without a column of recorded starts or waits.
    """
    rows, _, _ = _job_rows(path, rules)
    found = next((name for name in _STARTS if name in rows.columns), None)
    if found is None:
        raise NotAuditedError("the table has no column of recorded starts or waits")
    value, unknown = pl.col(found).fill_nan(None), pl.lit(None, pl.Float64)
    wait, start = unknown, value
    if found == "wait_time_s":
        wait, start = pl.when(value >= 0).then(value), unknown
    return _with_numbered_ids(rows).select(
        "job_id", wait.alias("wait_s"), start.alias("recorded_start_s")
    )


# ---- a table of tasks ---------------------------------------------------------------------------


def read_task_table(path: Path, rules: Any) -> InputTasks:
    """Read a table of tasks by the scenario's workload.

    Raises TraceError for a table that cannot be read or lacks a column.
    """
    table, epoch_s = _task_rows(path, rules)
    if "parents" in table.columns and "task_id" not in table.columns:
        number = pl.int_range(1, pl.len() + 1).over("job_id").cast(pl.String)
        table = table.with_columns(number.alias("task_id"))
    rows = _with_numbered_ids(_kept(table, rules)).with_row_index("nth")
    if rules.on_error == "skip" and "parents" in rows.columns:
        rows = _without_broken_jobs(rows, rules)
    times = pl.col("submit_time_s").sort_by("nth")
    submit = times.last() if rules.submit == "last" else times.first()
    rows = rows.with_columns(
        submit.over("job_id").alias("submit"), pl.col("nth").min().over("job_id").alias("first")
    ).sort("submit", "first", "nth")
    own_times = None
    if rules.rows == "instance":
        rows, own_times = _joined(rows, gang=rules.gang)
    if "task_id" not in rows.columns:
        rows = rows.with_columns(pl.int_range(1, pl.len() + 1).over("job_id").alias("task_id"))
    requested = pl.lit(None, pl.Float64)
    if "requested_time_s" in rows.columns:
        known = pl.col("requested_time_s") >= 0
        requested = pl.when(known).then(times_on_grid(pl.col("requested_time_s")))
    tasks = rows.select(
        "job_id", "task_id", times_on_grid(pl.col("submit")),
        pl.col("instances").cast(pl.Int64),
        times_on_grid(pl.col("run_time_s").clip(0)).alias("run"), requested.alias("requested"),
        (pl.struct("submit", "first").rank("dense").cast(pl.Int64) - 1).alias("order"),
        pl.lit(rules.gang).alias("gang"), _retries_of(rows),
        *(requests_on_grid(pl.col(name)) for name in rules.resources),
    )  # fmt: skip
    parents = _dependencies(rows, rules)
    return InputTasks(tasks, _users_of_jobs(rows, tasks), parents, own_times, epoch_s)


def _task_rows(path: Path, rules: Any) -> tuple[pl.DataFrame, float | None]:
    """Return the rows of a table of tasks under our names, and its epoch."""
    table = _read(path, rules.column_map, rules)
    factors = rules.factors.items()
    there = [pl.col(name) * by for name, by in factors if name in table.frame.columns]
    return table.frame.with_columns(there), _epoch(table)


def _users_of_jobs(rows: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return the user of each job, by its first row; see `InputTasks.jobs`."""
    jobs = tasks.select("order", "job_id", "submit")
    if "user" in rows.columns:
        jobs = jobs.with_columns(rows["user"])
    jobs = jobs.unique("order", keep="first", maintain_order=True)
    if "user" not in rows.columns:
        return jobs
    users = jobs["user"]
    known = users.drop_nulls()
    if (
        known.str.contains(r"^[0-9]+$").all()
        and known.cast(pl.Int64, strict=False).is_not_null().all()
    ):
        return jobs.with_columns(users.cast(pl.Int64).fill_null(-1))
    return jobs.with_columns(users.fill_null(""))


def _joined(rows: pl.DataFrame, *, gang: bool) -> tuple[pl.DataFrame, tuple[Floats, Floats] | None]:
    """Return the first row of each task, its instances counted, and the run times of all.

    A gang runs as long as its longest instance, and single run times do not matter.

    Args:
        rows: a row for each instance, sorted by job.
        gang: whether all tasks are gangs.
    """
    key = [name for name in _KEY if name in rows.columns]
    rows = rows.with_columns(
        pl.col("run_time_s").clip(0), pl.col("nth").min().over(key).alias("begins")
    ).sort("submit", "first", "begins", "nth")
    own = rows["run_time_s"].to_numpy()
    run = pl.col("run_time_s")
    rows = rows.with_columns(
        (run.max() if gang else run.mean()).over(key), pl.len().over(key).alias("instances")
    ).filter(pl.col("nth") == pl.col("begins"))
    return rows, None if gang else (np.round(own / TICK) * TICK, np.zeros(len(own)))


def _kept(table: pl.DataFrame, rules: Any) -> pl.DataFrame:
    """Return the rows that are tasks by the scenario's rules."""
    if "instances" not in table.columns:
        table = table.with_columns(pl.lit(1.0).alias("instances"))
    table = _with_requests(table, rules.resources, barriers="parents" in rules.columns)
    run, count = pl.col("run_time_s"), pl.col("instances")
    wanted = [pl.col(name).is_not_null() for name in ("job_id", "task_id") if name in table.columns]
    wanted += [pl.col("submit_time_s").abs() <= LARGEST / 2, run.abs() <= LARGEST / 2]
    wanted += [(pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in rules.resources]
    wanted += [(count >= 1) & (count < LARGEST) & (count.floor() == count)]
    if "retries" in table.columns:
        own = pl.col("retries")
        wanted.append(own.is_null() | ((own >= 0) & (own < LARGEST) & (own.floor() == own)))
    if "release_time_s" in table.columns:
        release = pl.col("release_time_s")
        wanted.append(release.is_null() | (release.abs() <= LARGEST / 2))
    if rules.negative_run == "drop":
        wanted.append(run >= 0)
    if rules.zero_run == "drop":
        wanted.append(run != 0)
    return table.filter(pl.all_horizontal(wanted).fill_null(value=False))


def _without_broken_jobs(rows: pl.DataFrame, rules: Any) -> pl.DataFrame:
    """Leave out the jobs with a parent that is not among the rows, or with a circle of parents.

    If rows have the same ids, others wait for the first; a later one has no name here.
    """
    is_head, name = pl.struct(_KEY).is_first_distinct(), pl.col("task_id").cast(pl.String)
    heads = rows.filter(is_head)
    asking = heads if rules.rows == "instance" else rows
    pairs = _pairs(asking.with_columns(pl.when(is_head).then(name).alias("task_id")), rules)
    if rows.schema["task_id"].is_integer():
        number = whole_numbers(pairs["parent"]).cast(pl.String)
        pairs = pairs.with_columns(pl.coalesce(number, "parent").alias("parent"))
    tasks = heads.select("job_id", name.alias("parent"))
    lacking = pairs.join(tasks, on=["job_id", "parent"], how="anti")["job_id"].unique()
    left = pairs.filter(~pl.col("job_id").is_in(lacking.implode()))
    while left.height:  # edges whose parent waits for nothing, again and again
        waiting = left.select("job_id", pl.col("task_id").alias("parent")).unique()
        fewer = left.join(waiting, on=["job_id", "parent"], how="semi")
        if fewer.height == left.height:
            break
        left = fewer
    broken = pl.concat([lacking, left["job_id"].unique()]).implode()
    return rows.filter(~pl.col("job_id").is_in(broken))


def _dependencies(rows: pl.DataFrame, rules: Any) -> pl.DataFrame | None:
    if "parents" not in rows.columns:
        return None
    pairs = _pairs(rows, rules)
    numbered = rows.schema["task_id"].is_integer()
    return pairs.with_columns(whole_numbers(pairs["parent"])) if numbered else pairs


def _pairs(rows: pl.DataFrame, rules: Any) -> pl.DataFrame:
    """Return job_id, task_id and parent, as text, of every dependency that the rows state."""
    separator = rules.parent_separator
    parent = pl.col("parents").fill_null("").str.split(separator).alias("parent")
    pairs = rows.select("job_id", "task_id", parent).explode("parent")
    return pairs.with_columns(pl.col("parent").str.strip_chars()).filter(pl.col("parent") != "")
