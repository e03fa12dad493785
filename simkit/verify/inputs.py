"""The inputs of a run: where their files may be, that they have not changed, and what they hold.

Logs in the Standard Workload Format and the tables of Alibaba's trace are read again here; tables
of jobs and tasks in `input_tasks`. Fields, numbers and dates are parsed as the readers parse them,
by the same maps of columns. The rules that choose and repair rows are written again, from the
reference of the formats.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.errors import TraceError
from simkit.traces.alibaba2017.tables import find_tables, table_rows
from simkit.traces.files import text_blocks
from simkit.traces.rules import BadLines, Tally
from simkit.traces.swf import SwfHeader, swf_blocks
from simkit.verify.audit import (
    LARGEST,
    LARGEST_ID,
    TICK,
    Bools,
    Check,
    Floats,
    NotApplicableError,
    NotAuditedError,
    requests_on_grid,
    rule,
    times_on_grid,
)
from simkit.verify.folder import LARGE, RunFolder


@rule
def check_inputs(run: RunFolder, check: Check) -> None:
    """Every input file has its recorded sha256."""
    reasons = set()
    for entry in run.manifest["inputs"]:
        try:
            path = find_input(run, entry["path"])
        except NotAuditedError as error:
            reasons.add(str(error))
            continue
        check.examined += 1
        if (size := path.stat().st_size) != entry["bytes"]:
            check.add("the input file does not have its recorded size", {**entry, "found": size})
        found = _sha256_of(path)
        if found != entry["sha256"]:
            check.add("the input file has changed since the run", {**entry, "found": found})
    if reasons and not check.found:
        raise NotAuditedError("; ".join(sorted(reasons)))
    if not check.examined:
        raise NotApplicableError("the run read no input file")


def find_input(run: RunFolder, recorded: str) -> Path:
    """Return the path of a recorded input, links resolved: as recorded, or below the run folder.

    Raises NotAuditedError if there is none, it is not a regular file, or lies outside the
    folders that may be read.
    """
    expanded = Path(os.path.expandvars(recorded))
    problem = "is missing"
    for candidate in (expanded, run.path / expanded):
        try:
            path = candidate.resolve()
            if not path.exists():
                continue
            if not any(path.is_relative_to(place) for place in run.places):
                problem = (
                    "is outside the folders that verify reads; if it is what the run should have "
                    "read, add --inputs with its folder"
                )
            elif not path.is_file():
                problem = "is not a regular file"
            else:
                return path
        except (OSError, RuntimeError, ValueError) as error:
            problem = f"cannot be reached ({error})"
    raise NotAuditedError(f"{recorded} {problem}")


def _sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def log_of(run: RunFolder) -> Path:
    """Return the log of the scenario; raises NotAuditedError unless it is there, unchanged."""
    name = Path(str(run.setting("workload", "path"))).name
    for entry in run.manifest["inputs"]:
        if Path(str(entry["path"])).name == name:
            path = find_input(run, entry["path"])
            if _sha256_of(path) == entry["sha256"]:
                return path
            raise NotAuditedError(f"{name} has changed")
    raise NotAuditedError(f"{name} is not among the recorded inputs")


def compare_with_input(
    check: Check, run: RunFolder, found: pl.DataFrame, wanted: pl.DataFrame, what: str
) -> None:
    """Record rows that only the input has (unless the run is incomplete), or only the run.

    Args:
        check: gets the violations.
        run: the run.
        found: rows of the run.
        wanted: rows of the input, with the same columns.
        what: the name of a row in messages.
    """
    if found.height >= LARGE:
        found, wanted = _different(found, wanted.select(found.columns))
    # Numbering equal rows makes this a comparison of multisets: a row twice is not a row once.
    nth = pl.int_range(pl.len()).over(found.columns).alias("nth")
    found, wanted = found.with_columns(nth), wanted.select(found.columns).with_columns(nth)
    both = ((wanted, found, "input", "run"), (found, wanted, "run", "input"))
    for these, others, here, there in both if run.complete else both[1:]:
        key = found.columns
        rows = these.join(others, on=key, how="anti", nulls_equal=True, maintain_order="left")
        message = f"the {there} does not have this {what} of the {here}, or with other values"
        check.add_rows(message, rows.drop("nth"))


def _different(found: pl.DataFrame, wanted: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows that differ, if both sides have the same jobs, each once; else all rows."""
    found, wanted = found.sort("job_id"), wanted.sort("job_id")
    ids = found["job_id"]
    if not ids.equals(wanted["job_id"]) or ids.n_unique() < len(ids):
        return found, wanted
    differs = pl.Series([False]).new_from_index(0, len(ids))
    for name in found.columns:
        differs |= found[name].ne_missing(wanted[name])
    return found.filter(differs), wanted.filter(differs)


def inputs_below(run: RunFolder, place: str) -> Iterator[Path]:
    """Yield the unchanged input files at `place` or in that folder.

    Raises NotAuditedError if one of them is missing, may not be read, or has changed.
    """
    for entry in run.manifest["inputs"]:
        recorded = Path(str(entry["path"]))
        if Path(place) not in (recorded, recorded.parent):
            continue
        path = find_input(run, str(entry["path"]))
        if _sha256_of(path) != entry["sha256"]:
            raise NotAuditedError(f"{recorded.name} has changed")
        yield path


OF_TASKS: Final = (
    "job_id", "task_id", "submit", "instances", "gang", "run", "requested", "retries", "order",
)  # fmt: skip
"""Columns of tasks that are no resources."""


@dataclass(frozen=True)
class InputTasks:
    """The tasks of the input, or the reason why they are not known."""

    tasks: pl.DataFrame
    """Columns job_id, task_id, submit, instances, gang, run (of every instance, null: unknown),
    requested (null: unknown), retries (null: none of its own), order (of the job among all, from 0)
    and the resources; sorted by order."""
    jobs: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Columns order, job_id and submit, and those of user, group, executable, queue, partition,
    qos, value and deadline_s (infinite: none) that a job may have by the input; sorted by order.
    Users, … are whole numbers, -1 where unknown, or names, empty where unknown."""
    parents: pl.DataFrame | None = None
    """Columns job_id, task_id, parent: one row per dependency; None if there are none."""
    instance_times: tuple[Floats, Floats] | None = None
    """Run times of single instances in s, and their tolerances (for means of the others), each
    (sum of instances,) in the order of `tasks`; None: each instance has the time of its task."""
    epoch_s: float | None = None
    """Unix time of second 0 if the submit times of a table are dates."""
    reason: str = ""
    """Why the input was not read again."""
    problem: str = ""
    """Why the input could not be read."""

    @property
    def known(self) -> bool:
        """Whether the input was read."""
        return not self.reason and not self.problem


# ---- a log in the Standard Workload Format ------------------------------------------------------

OF_JOBS: Final = ("user", "group", "executable", "queue", "partition")
"""Numbers or names of a job: fields 12 to 16 of SWF, columns of a table."""


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


# ---- Alibaba's trace ---------------------------------------------------------------------------

_KEY: Final = ["job_id", "task_id"]
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
    """Return the jobs; the trace says nothing else of them. See `InputTasks.jobs`."""
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
