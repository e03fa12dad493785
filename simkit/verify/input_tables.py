"""The workload's file, read again: which rows are jobs or tasks, how long they run, what they ask.

Fields, numbers and dates are parsed as the readers parse them, by the same maps of columns. The
rules that choose and repair rows are written again here, from the reference of the formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.errors import TraceError
from simkit.traces.alibaba2017.tables import find_tables, table_rows
from simkit.traces.columns import JOBS, Column, ColumnMap
from simkit.traces.files import is_parquet, text_blocks
from simkit.traces.rules import BadLines, Tally
from simkit.traces.swf import SwfHeader, swf_blocks
from simkit.traces.tables.rows import whole_numbers
from simkit.traces.tables.table import TableColumns, header_of, read_columns
from simkit.verify.audit import NotAuditedError
from simkit.verify.folder import RunFolder
from simkit.verify.inputs import InputTasks, inputs_below
from simkit.verify.numbers import (
    LARGEST,
    LARGEST_ID,
    TICK,
    Bools,
    Floats,
    requests_on_grid,
    times_on_grid,
)

OF_JOBS: Final = ("user", "group", "executable", "queue", "partition")
"""Numbers or names of a job: fields 12 to 16 of SWF, columns of a table."""
_KEY: Final = ["job_id", "task_id"]

# ---- a log in the Standard Workload Format ------------------------------------------------------

_PARTS: Final = (2.0, 3.0, 4.0)
"""Statuses of bursts of a job, whose sum has its own line."""
_NO_ID: Final = -(2**63)
"""Stands for the number of a job that is none."""
_EPOCH_FROM: Final = 1e9
"""Submit times from here on are seconds since 1970, not since the log's start."""


def read_log(path: Path, rules: Any) -> pl.DataFrame:
    """Read a log by the scenario's rules.

    Args:
        path: the log, plain or gzipped.
        rules: the scenario's workload: ``processors``, ``requested_time``, ``keep_zero_run``,
            ``on_error``.

    Returns columns ``job_id, submit, run, processors, requested`` and `OF_JOBS`, sorted by the
    first five. Submit times in seconds since 1970 are counted from the first one.

    Raises TraceError for a line that is not a job, unless such lines are skipped.
    """
    names = ("job_id", "submit", "run", "processors", "requested")
    schema: dict[str, Any] = dict.fromkeys(names, pl.Float64)
    schema |= dict.fromkeys(("job_id", *OF_JOBS), pl.Int64)
    parts = [pl.DataFrame(schema=schema), *(_jobs(v, rules) for v in _lines(path, rules))]
    jobs = pl.concat(parts)
    if jobs.height and float(str(jobs["submit"].min())) >= _EPOCH_FROM:
        jobs = jobs.with_columns(pl.col("submit") - pl.col("submit").min())
    jobs = jobs.with_columns(times_on_grid(pl.col("submit", "run", "requested")))
    return jobs.sort(names, maintain_order=True)


def _lines(path: Path, rules: Any) -> Iterator[dict[str, Any]]:
    """Yield the fields of some lines at a time: name → (n,) numbers."""
    bad = BadLines(path, rules.on_error)
    for block in swf_blocks(path, SwfHeader(), bad):
        yield block.values
    bad.settle(Tally())


def _accepted(lines: dict[str, Any], rules: Any) -> Bools:
    """Return which lines are jobs by the scenario's rules."""
    submit, run, requested = (lines[name] for name in ("submit", "run", "requested_time"))
    sane = (np.abs(requested) < LARGEST) | (requested == np.inf)  # infinite: no limit
    sane &= (np.abs(lines["allocated"]) < LARGEST) & (np.abs(lines["requested"]) < LARGEST)
    sane &= (submit + run <= LARGEST) & (run <= LARGEST / 2)
    sane &= (lines["job"] != _NO_ID) & ~np.isin(lines["status"], _PARTS)
    ran = run >= 0 if rules.keep_zero_run else run > 0
    return np.asarray(sane & ran & (submit >= 0) & (_processors(lines, rules) > 0))


def _processors(lines: dict[str, Any], rules: Any) -> Floats:
    """Return processors: those that were allocated, or requested, or the other."""
    first, second = lines["allocated"], lines["requested"]
    if rules.processors == "requested":
        first, second = second, first
    return np.asarray(np.where(first > 0, first, second), dtype=np.float64)


def _jobs(lines: dict[str, Any], rules: Any) -> pl.DataFrame:
    """Return the jobs of some lines; a fraction of a processor is one."""
    kept = _accepted(lines, rules)
    lines = {name: column[kept] for name, column in lines.items()}
    run, requested = lines["run"], lines["requested_time"]
    longest = np.maximum(requested, run)
    asked = longest if rules.requested_time == "max" else np.where(requested > 0, requested, np.nan)
    return pl.DataFrame({
        "job_id": lines["job"], "submit": lines["submit"], "run": run,
        "processors": np.ceil(_processors(lines, rules)), "requested": asked,
        **{name: lines[name] for name in OF_JOBS},
    }).with_columns(pl.col("requested").fill_nan(None))  # fmt: skip


def links_of_log(path: Path, rules: Any) -> pl.DataFrame:
    """Return ``job_id``, ``before`` and ``think_s`` of the jobs of a log that name another.

    They are in fields 17 and 18; a think time that is unknown, which is negative, counts as 0.
    """
    names = {"job_id": pl.Int64, "before": pl.Int64, "think_s": pl.Float64}
    parts, has_zero = [pl.DataFrame(schema=names)], False
    for lines in _lines(path, rules):
        kept = _accepted(lines, rules)
        has_zero = has_zero or bool((lines["job"][kept] == 0).any())
        kept &= lines["previous_job"] >= 0
        think = lines["think_time"][kept]
        think = np.where((think >= 0) & (think <= LARGEST / 2), think, 0.0)
        columns = (lines["job"][kept], lines["previous_job"][kept], np.round(think / TICK) * TICK)
        parts.append(pl.DataFrame(dict(zip(names, columns, strict=True)), schema=names))
    links = pl.concat(parts)
    return links if has_zero else links.filter(pl.col("before") > 0)


def waits_of_log(path: Path, rules: Any) -> pl.DataFrame:
    """Return ``job_id`` and ``wait_s`` (field 3; null if it is negative) of the lines of a log."""
    parts = [pl.DataFrame(schema={"job_id": pl.Int64, "wait_s": pl.Float64})]
    for lines in _lines(path, rules):
        whole = ~np.isin(lines["status"], _PARTS)
        wait = pl.Series(lines["wait"][whole]).fill_nan(None)
        frame = pl.DataFrame({"job_id": lines["job"][whole], "wait_s": wait})
        parts.append(frame.with_columns(pl.when(wait >= 0).then("wait_s").alias("wait_s")))
    return pl.concat(parts)


def clock_of_log(path: Path) -> tuple[float | None, str | None]:
    """Return the Unix time of a log's zero and its time zone, as header and first line say."""
    header, first = SwfHeader(), None
    for block in text_blocks(path):
        for line in block.text.split(b"\n") if first is None or b";" in block.text else ():
            if line.lstrip().startswith(b";"):
                header.add(line)
            elif first is None and line.strip():
                first = float(line.split()[1])
    epoch: float | None = None if np.isnan(header.epoch_s) else header.epoch_s
    if first is not None and _EPOCH_FROM <= first < LARGEST:
        epoch = first
    return epoch, header.time_zone


# ---- columns of tables --------------------------------------------------------------------------


def _read(path: Path, wanted: ColumnMap, rules: Any) -> TableColumns:
    """Return columns of a table; raises TraceError for malformed rows, unless they are skipped."""
    bad = BadLines(path, rules.on_error, rows=is_parquet(path))
    table = read_columns(path, wanted, bad, rules, Tally())
    bad.settle(Tally())
    return table


def epoch_of_table(path: Path, rules: Any) -> float | None:
    """Return the Unix time of second 0 of a table of jobs or tasks; None if it has no dates."""
    names = getattr(rules, "columns", {})
    job, submit = (names.get(name, "") for name in ("job_id", "submit_time_s"))
    wanted = Column("job_id", "id", job), Column("submit_time_s", "instant", submit, needed=True)
    return _epoch(_read(path, ColumnMap(wanted), rules))


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

_OPTIONAL: Final = (
    "task_id", "instances", "requested_time_s", "retries", "parents", "user", "release_time_s",
    "preceding_job", "think_time_s",
)  # fmt: skip


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


# ---- Alibaba's trace ---------------------------------------------------------------------------

_ENDED: Final = ("terminated", "failed", "cancelled", "canceled")
_PLANS: Final = ("plan_cpu", "plan_mem")
_HUNDREDTHS: Final = 100.0
"""plan_cpu counts hundredths of a core."""


def read_batch(run: RunFolder, rules: Any) -> InputTasks:
    """Return the tasks of Alibaba's cluster-trace-v2017, under the default rules.

    These leave out rows of batch_task without ids, with impossible values, whose status is waiting
    or running, that do not end after their creation, or that have no instances or request; and
    every attempt in batch_instance except the last, successful one.
    """
    place = rules.path
    table = trace_table(run, place, "batch_task")
    if table is None:
        raise NotAuditedError("batch_task is not among the recorded inputs")
    tasks = _batch_tasks(table, known_run=rules.durations.type == "task")
    attempts = None
    if rules.instances:
        attempts = trace_table(run, place, "batch_instance")
    if attempts is None:
        return InputTasks(tasks, _ids_of_jobs(tasks))
    return _with_own_times(tasks, _instances(attempts, tasks))


def _ids_of_jobs(tasks: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs, of which the trace says nothing else; see `InputTasks.jobs`."""
    jobs = tasks.select("order", "job_id", "submit")
    return jobs.unique("order", keep="first", maintain_order=True)


def _batch_tasks(table: pl.DataFrame, *, known_run: bool) -> pl.DataFrame:
    create, end, count = (pl.col(name) for name in ("create_time_s", "end_time_s", "instances"))
    ids = [(pl.col(n).abs() < LARGEST_ID) & (pl.col(n).floor() == pl.col(n)) for n in _KEY]
    amounts = [(pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in _PLANS]
    wanted = pl.all_horizontal(
        *ids, *amounts, create.abs() <= LARGEST / 2, end.abs() < LARGEST, end != 0, end > create,
        end - create <= LARGEST / 2,
        (count >= 1) & (count < LARGEST) & (count.floor() == count),
        pl.col("status").str.to_lowercase().is_in(_ENDED),
    )  # fmt: skip
    rows = table.with_row_index("nth").filter(wanted.fill_null(value=False))
    rows = rows.with_columns(create.min().over("job_id").alias("submit"))
    rows = rows.sort("submit", "job_id", "create_time_s", "task_id", "nth")
    wall = times_on_grid(end - create)
    return rows.select(
        *(pl.col(name).cast(pl.Int64) for name in _KEY), times_on_grid(pl.col("submit")),
        count.cast(pl.Int64),
        (wall if known_run else pl.lit(None, pl.Float64)).alias("run"),
        pl.lit(None, pl.Float64).alias("requested"),
        (pl.struct("submit", "job_id").rank("dense").cast(pl.Int64) - 1).alias("order"),
        pl.lit(value=False).alias("gang"), pl.lit(None, pl.Int64).alias("retries"),
        requests_on_grid(pl.col("plan_cpu") / _HUNDREDTHS).alias("cpu"),
        requests_on_grid(pl.col("plan_mem")).alias("mem"),
    )  # fmt: skip


def _instances(table: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return (task, run): the last, successful attempts, by task and start."""
    start, end = pl.col("start_time_s"), pl.col("end_time_s")
    last = (pl.col("seq_no") < pl.col("total_seq_no")).fill_null(value=False).not_()
    good = pl.all_horizontal(
        pl.col("status").str.to_lowercase() == "terminated", last, start != 0, end != 0,
        end >= start, start.abs() < LARGEST, end.abs() < LARGEST, end - start <= LARGEST / 2,
    )  # fmt: skip
    rows = table.lazy().with_row_index("nth").filter(good.fill_null(value=False))
    index = tasks.with_row_index("task").unique(_KEY, keep="first").select(
        "task", *(pl.col(name).cast(pl.Float64) for name in _KEY), "instances"
    )  # fmt: skip
    rows = rows.select(*_KEY, start.alias("start"), (end - start).alias("run"), "nth").join(
        index.lazy(), on=_KEY
    )
    planned = pl.int_range(pl.len()).over("task") < pl.col("instances")
    return rows.sort("task", "start", "run", "nth").filter(planned).select("task", "run").collect()


def _with_own_times(tasks: pl.DataFrame, instances: pl.DataFrame) -> InputTasks:
    """Add run times of single instances: the known ones first, then the mean of these."""
    if not instances.height:
        return InputTasks(tasks, _ids_of_jobs(tasks))
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
    return InputTasks(tasks, _ids_of_jobs(tasks), instance_times=(run_s, slack_s))


def trace_table(run: RunFolder, place: str, table: str) -> pl.DataFrame | None:
    """Return a table of Alibaba's trace under the names of its layout; None if it was not read.

    Args:
        run: the run.
        place: the folder, archive or single table that the scenario names.
        table: such as ``batch_task``; a single file is this table unless it has another's name.

    Raises TraceError for a table that cannot be read.
    """
    for path in inputs_below(run, place):
        try:
            file = find_tables(path, table)[table]
        except TraceError:
            continue
        stem = path.name.removesuffix(".gz").removesuffix(".csv")
        if file.member is not None or stem == table or Path(place).name == path.name:
            columns = _WANTED[table]
            kinds: dict[str, Any] = dict.fromkeys(columns, pl.Float64)
            empty = pl.DataFrame(schema=kinds | _TEXT_COLUMNS)
            frames = [rows.select(columns) for rows in table_rows(file, table, columns)]
            return pl.concat(frames) if frames else empty.select(columns)
    return None


_WANTED: Final = {
    "batch_task": (
        "create_time_s", "end_time_s", "job_id", "task_id", "instances", "status", *_PLANS,
    ),
    "batch_instance": (
        "start_time_s", "end_time_s", "job_id", "task_id", "status", "seq_no", "total_seq_no",
    ),
    "server_event": ("time_s", "machine_id", "event", "cpu", "mem"),
    "container_event": ("time_s", "event", "container_id", "machine_id", "cpu", "mem"),
}  # fmt: skip
"""Table → the columns that rules need."""
_TEXT_COLUMNS: Final[dict[str, Any]] = {"status": pl.String, "event": pl.String}
