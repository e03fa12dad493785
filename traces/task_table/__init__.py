"""A table of tasks, one a row, as CSV or Parquet: a map says what its columns are.

Without a map it is the table of jobs that CloudSimPy, the simulator behind DeepJS (Li & Hu,
"DeepJS: Job scheduling based on deep reinforcement learning in cloud data center", 2019), makes of
Alibaba's trace of 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from simkit.arrays import Bools
from simkit.errors import TraceError, did_you_mean
from simkit.scenario.references import File
from simkit.sections import BrokenRulesError, Positive
from simkit.traces.bad_lines import BadLines, LineFormat, OnError
from simkit.traces.files import is_parquet
from simkit.traces.jobs_table import HOLDS, column_names
from simkit.traces.odd_units import odd_units
from simkit.traces.preceding import PRECEDING
from simkit.traces.rigid_jobs import LARGEST, first_that_applies
from simkit.traces.rules import RULES, Tally, summary
from simkit.traces.table_columns import (
    TableColumns,
    WantedColumns,
    factors_of,
    header_of,
    misspelt,
    not_read,
    read_columns,
)
from simkit.traces.tables import rules as of_tables
from simkit.traces.tables.keys import TableKeys
from simkit.traces.task_table import rules as names
from simkit.traces.task_table.dependencies import BrokenJobs
from simkit.traces.task_table.jobs import TableJobs, by_task, note_others
from simkit.units import LONGEST_S
from simkit.workload import Trace

CLOUDSIMPY: Final[Mapping[str, str]] = {
    "job_id": "job_id",
    "task_id": "task_id",
    "submit_time_s": "submit_time",
    "run_time_s": "duration",
    "instances": "instances_num",
    "cpu": "cpu",
    "mem": "memory",
}
"""The map for the tables of CloudSimPy: cores, and memory as a share of the largest machine's."""

NEEDED: Final = ("job_id", "submit_time_s", "run_time_s")
OPTIONAL: Final = (
    "task_id", "instances", "requested_time_s", "retries", "parents", "user", "release_time_s",
    PRECEDING, "think_time_s",
)  # fmt: skip
INSTANTS: Final = ("submit_time_s", "release_time_s")
"""Columns that may be dates."""
_TEXT: Final = ("job_id", "task_id", "parents", "user", PRECEDING)


class TaskTable(TableKeys, LineFormat):
    """A table of tasks, by default in the columns of CloudSimPy's job table."""

    of_tasks: ClassVar[bool] = True
    path: File
    """A .csv, .csv.gz or .parquet file; relative to the scenario file."""
    columns: dict[str, str] = Field(default_factory=lambda: dict(CLOUDSIMPY))
    """Our name → the table's: job_id, submit_time_s, run_time_s, …; others are resources."""
    factors: dict[str, Positive] = Field(default_factory=dict)
    """Our name → what its column is multiplied by: {cpu: 0.01}."""
    rows: Literal["task", "instance"] = "task"
    """What a row is: a task; or an instance of the task with its ids, with its own run time."""
    gang: bool = False
    """All instances of a task start together and run as long as the longest (a gang); or they
    start one by one as they fit."""
    submit: Literal["first", "last"] = "first"
    """Which of a job's rows says when it is submitted."""
    negative_run: Literal["drop", "zero"] = "drop"
    """Rows with a negative run time are left out, or run 0 s."""
    zero_run: Literal["keep", "drop"] = "keep"
    """Rows with a run time of 0 are kept, or left out."""
    on_error: OnError = "refuse"
    """Malformed lines, and jobs with a task that waits for one that is not there, or with tasks
    that wait for each other: refuse the file, with all of them in one error; or skip and count
    them, such jobs with all their rows."""
    parent_separator: Annotated[str, Field(min_length=1)] = ";"
    """What stands between the parents of a task."""

    meanings = RULES | of_tables.MEANINGS | names.MEANINGS

    @model_validator(mode="after")
    def _has_a_usable_map(self) -> Self:
        problems: list[tuple[tuple[str, ...], str]] = [
            (("columns",), f"{name} is missing; say which column it is")
            for name in NEEDED
            if name not in self.columns
        ]
        if not self.resources:
            problems.append((("columns",), "no resource; name at least one, such as cpu: plan_cpu"))
        numbers = [name for name in self.columns if name not in _TEXT]
        problems += [
            (("factors", name), f"is no column of numbers{did_you_mean(name, numbers)}")
            for name in self.factors
            if name not in numbers
        ]
        if self.rows == "instance" and "parents" in self.columns and "task_id" not in self.columns:
            problems.append((("columns",), "task_id is missing; `parents` name tasks by it"))
        if self.rows == "instance" and "instances" in self.columns:
            place = ("columns", "instances")
            problems.append((place, "does not go with rows: instance, which counts the rows"))
        texts = {self.columns[name] for name in self.columns if name in _TEXT}
        if both := sorted(texts & {self.columns[name] for name in numbers}):
            problems.append((("columns",), f"{', '.join(both)} cannot be both an id and a number"))
        if problems:
            raise BrokenRulesError(problems)
        return self

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the columns that instances ask for."""
        return tuple(name for name in self.columns if name not in (*NEEDED, *OPTIONAL))

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether a table has all columns of CloudSimPy's."""
        return set(CLOUDSIMPY.values()) <= set(column_names(path, head))

    def read(self) -> Trace:
        """Read the table; see `read_task_table`."""
        path, tally = Path(self.path), Tally()
        bad = BadLines(path, self.on_error, rows=is_parquet(path))
        table = self._table(path, bad, tally)
        table = table.with_empty_requests_as_none(
            self.resources, barriers="parents" in self.columns
        )
        if "parents" in self.columns and "task_id" not in self.columns:
            table = self._numbered(table, bad)
        bad.settle(tally)
        numbers = {name: table.numbers(name) for name in self.columns if name not in _TEXT}
        odd = list(odd_units(numbers, self.resources))
        for column in odd:
            tally.note(names.OTHER_UNIT, table.line[column.beyond])
        kept = np.flatnonzero(self._judge(table, tally, bad))
        if not tally.report.read:
            raise TraceError(f"{path}: no tasks: the table has no rows; check it")
        if not len(kept):
            raise TraceError(
                f"{path}: no tasks: all {tally.report.read} rows are left out "
                f"({summary(tally.report)}); `simkit trace check` explains these rules"
                + "".join(f"\n{path}: {column.hint}" for column in odd)
            )
        read, table = table, table.take(kept)
        note_others(names.OF_JOB, read, table, ["job_id"], tally)
        left_out = {*read.frame["job_id"], *read.malformed["job_id"]} - {*table.frame["job_id"]}
        if self.rows == "instance":
            table = by_task(table, self.resources, self.submit, tally, gang=self.gang)
        jobs = TableJobs(table, self.submit, tally, left_out)
        header = header_of(path, _wanted(self.columns).needed, self.dialect)
        self._note_misspelt(header, tally)
        mapped = self.columns.values()
        tally.unread(not_read(header, mapped), HOLDS)
        workload = jobs.workload(self.resources, self.parent_separator, path, gang=self.gang)
        if not np.isnan(table.epoch_s) or self.zone is not None:
            workload = replace(workload, epoch_s=table.epoch_s, time_zone=self.zone)
        return Trace(workload, tally.report, (path,))

    def _table(self, path: Path, bad: BadLines, tally: Tally) -> TableColumns:
        """Return the table's columns under our names, numbers in our units."""
        table = read_columns(path, _wanted(self.columns), bad, self, tally)
        there = [name for name in INSTANTS if name in self.columns]
        factors = factors_of(self.factors, table, there, path, tally)
        frame = table.frame.select(
            (pl.col(column) * factors[name] if name in factors else pl.col(column)).alias(name)
            for name, column in self.columns.items()
        )
        malformed = table.malformed.select(pl.col(self.columns["job_id"]).alias("job_id"))
        table = replace(table, frame=frame, malformed=malformed)
        return table.with_one_form_of_ids([n for n in ("job_id", "task_id") if n in frame])

    def _note_misspelt(self, header: Sequence[str], tally: Tally) -> None:
        """Note what may be an optional column: a resource, or a column that is not read."""
        optional = [name for name in OPTIONAL if name not in self.columns]
        if self.rows == "instance":
            optional.remove("instances")  # which does not go with it
        line = np.ones(1, int)  # the header's
        for name, meant in misspelt(self.resources, (), optional):
            tally.note(f"columns: {name!r} is a resource; did you mean {meant!r}?", line)
        others = [name for name in header if name not in self.columns.values()]
        same = [(name, name) for name in optional if name in others]
        for name, meant in (*same, *misspelt(others, (), optional)):
            tally.note(f"column {name!r} is not read; is it `{meant}`? Add it to `columns`", line)

    def _judge(self, table: TableColumns, tally: Tally, bad: BadLines) -> Bools:
        """Count rows under the first rule that holds; return which are kept, (n,)."""
        frame, line = table.frame, table.line
        run = table.numbers("run_time_s")
        no_id = frame["job_id"].is_null().to_numpy()
        if "task_id" in frame:
            no_id = no_id | frame["task_id"].is_null().to_numpy()
        bad_request = np.zeros(len(table), dtype=bool)
        for name in self.resources:
            amount = table.numbers(name)
            bad_request |= ~((amount >= 0) & (amount < LARGEST))
        drops = {
            names.NO_ID: no_id,
            names.BAD_SUBMIT: ~(np.abs(table.numbers("submit_time_s")) <= LONGEST_S),
            names.BAD_RUN: ~(np.abs(run) <= LONGEST_S),
            names.NEGATIVE_RUN: (run < 0) & (self.negative_run == "drop"),
            names.ZERO_RUN: (run == 0) & (self.zero_run == "drop"),
            names.BAD_INSTANCES: _bad_instances(table),
            names.BAD_RETRIES: _bad_retries(table),
            names.BAD_REQUEST: bad_request,
            names.BAD_RELEASE: _bad_release(table),
        }
        tally.read(len(table))
        left = first_that_applies(drops, line, tally.drop)
        if "parents" in frame:
            left = self._with_parents(table, left, tally, bad)
        repaired = left & (run < 0)
        tally.repair(names.NEGATIVE_RUN, line[repaired])
        tally.accept(int(np.count_nonzero(left & ~repaired)))
        return left

    def _with_parents(self, table: TableColumns, left: Bools, tally: Tally, bad: BadLines) -> Bools:
        """Refuse, or count and leave out, the jobs whose dependencies cannot be kept."""
        joined = self.rows == "instance"
        broken = BrokenJobs(table, left, self.parent_separator, joined=joined)
        if self.on_error == "skip":
            return broken.leave_out(tally)
        broken.refuse(bad)
        return left

    def _numbered(self, table: TableColumns, bad: BadLines) -> TableColumns:
        """Number the tasks of each job, whatever becomes of their rows, as `parents` count them.

        Raises TraceError if malformed lines are left out, which may be of any job.
        """
        if self.on_error == "skip" and bad.any:
            raise TraceError(
                f"{self.path}: `parents` count the rows of a job where tasks have no ids, and "
                "malformed lines, left out by on_error: skip, cannot be counted; correct these "
                "lines, or name a column task_id in `columns`"
            )
        number = pl.int_range(1, pl.len() + 1).over("job_id").cast(pl.String).alias("task_id")
        return replace(table, frame=table.frame.with_columns(number))


def _bad_instances(table: TableColumns) -> Bools:
    if "instances" not in table.frame:
        return np.zeros(len(table), dtype=bool)
    count = table.numbers("instances")
    bad: Bools = ~((count >= 1) & (count < LARGEST)) | (np.floor(count) != count)
    return bad


def _bad_release(table: TableColumns) -> Bools:
    if "release_time_s" not in table.frame:
        return np.zeros(len(table), dtype=bool)
    there = table.frame["release_time_s"].is_not_null().to_numpy()
    return there & ~(np.abs(table.numbers("release_time_s")) <= LONGEST_S)


def _bad_retries(table: TableColumns) -> Bools:
    if "retries" not in table.frame:
        return np.zeros(len(table), dtype=bool)
    own = table.numbers("retries")
    bad: Bools = ~((own >= 0) & (own < LARGEST)) | (np.floor(own) != own)
    bad &= table.frame["retries"].is_not_null().to_numpy()
    return bad


def read_task_table(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read a table of tasks as a workload of bags of instances, or of gangs.

    Jobs are sorted by submit time, those of one instant in the order of their first rows; a job's
    tasks keep the order of their rows, which need not stand together. Ids are whole numbers, or
    text as soon as one is text.

    Args:
        path: the table, with a header line: CSV, gzipped CSV or Parquet, told by content.
        arguments: the other fields of `TaskTable`. Its `columns` need ``job_id``,
            ``submit_time_s`` and ``run_time_s`` (of an instance); optional are ``task_id`` (else
            numbered in the job; with ``parents``, rows that are left out have numbers, too),
            ``instances`` (else 1), ``requested_time_s`` (``inf`` or ``unlimited`` without a
            limit), ``retries`` (how often the task may start over after its work was lost before
            it is killed, whole; empty: as often as the scenario lets it), ``parents`` (ids of
            tasks of the same job that must have ended before) and ``user``; and of a job's first
            row that is not left out ``release_time_s``, ``preceding_job`` and ``think_time_s``, as
            in a table of jobs; rows that differ are noted.
            Every other name is a resource: what an instance asks of it, 0 or empty for none; at
            least one. A row that asks for nothing is left out; with ``parents``, one that says 0
            throughout is kept, as a barrier.

    Returns:
        The workload and the report of its rows.

    Raises TraceError, with file and line, for missing columns, malformed lines, and jobs with
    parents that do not exist, whose rows are left out or that wait for each other (all are named;
    with ``on_error="skip"`` lines and such jobs are left out and counted), unknown choices, and if
    no row is left.
    """
    return TaskTable.of(path=path, **arguments).read()


def _wanted(columns: Mapping[str, str]) -> WantedColumns:
    """Return the table's columns that a map names."""
    text = list(dict.fromkeys(columns[name] for name in columns if name in _TEXT))
    numbers = list(dict.fromkeys(columns[name] for name in columns if name not in _TEXT))
    amounts = [columns[name] for name in columns if name not in (*NEEDED, *OPTIONAL)]
    limits = [columns[name] for name in ("requested_time_s",) if name in columns]
    instants = [columns[name] for name in INSTANTS if name in columns]
    return WantedColumns(text, numbers, instants=instants, amounts=amounts, limits=limits)
