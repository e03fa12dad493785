"""A table of tasks, one a row, as CSV or Parquet: a map says what its columns are.

Without a map it is the table of jobs that CloudSimPy, the simulator behind DeepJS (Li & Hu,
"DeepJS: Job scheduling based on deep reinforcement learning in cloud data center", 2019), makes of
Alibaba's trace of 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from simkit.traces import task_jobs as names
from simkit.traces.columns import CLOUDSIMPY, JOBS, PLAIN_COLUMNS, TASKS, Column, ColumnMap
from simkit.traces.files import is_parquet
from simkit.traces.jobs_table import column_names, kept_by_rule
from simkit.traces.rigid_jobs import odd_units
from simkit.traces.rules import (
    LARGEST,
    RULES,
    BadLines,
    LineFormat,
    OnError,
    Tally,
    first_that_applies,
    summary,
)
from simkit.traces.tables.layout import TableKeys
from simkit.traces.tables.table import (
    TableColumns,
    factors_of,
    header_of,
    misspelt,
    not_read,
    read_columns,
)
from simkit.traces.task_jobs import BrokenJobs, TableJobs, by_task, note_others
from simkit.units import LONGEST_S
from simkit.workload import Trace

NEEDED: Final = tuple(column.name for column in TASKS if column.needed)
OPTIONAL: Final = tuple(column.name for column in TASKS if not column.needed)
_TEXT: Final = TASKS.of_kind("id", "text")


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

    meanings = RULES | names.RULES

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
        header = header_of(path, self.column_map.needed, self.dialect)
        self._note_misspelt(header, tally)
        mapped = self.columns.values()
        tally.unread(not_read(header, mapped), PLAIN_COLUMNS | JOBS.holds)
        workload = jobs.workload(self.resources, self.parent_separator, path, gang=self.gang)
        if not np.isnan(table.epoch_s) or self.zone is not None:
            workload = replace(workload, epoch_s=table.epoch_s, time_zone=self.zone)
        return Trace(workload, tally.report, (path,))

    @property
    def column_map(self) -> ColumnMap:
        """The map of the key `columns`: the table must have all of them."""
        own = [replace(c, theirs=self.columns[c.name], needed=True) for c in TASKS
               if c.name in self.columns]  # fmt: skip
        own.sort(key=lambda column: column.name not in _TEXT)
        asked = [Column(n, "amount", self.columns[n], needed=True) for n in self.resources]
        return ColumnMap((*own, *asked))

    def _table(self, path: Path, bad: BadLines, tally: Tally) -> TableColumns:
        """Return the table's columns under our names, numbers in our units."""
        table = read_columns(path, self.column_map, bad, self, tally)
        there = [name for name in TASKS.of_kind("instant") if name in table.frame]
        table = table.scaled(factors_of(self.factors, table, there, path, tally))
        return table.with_one_form_of_ids([n for n in ("job_id", "task_id") if n in table.frame])

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
        requests = [table.numbers(name) for name in self.resources]

        def breaks(name: str) -> Bools:
            if name not in frame:
                return np.zeros(len(table), dtype=bool)
            return ~kept_by_rule(name, table.numbers(name))[1]

        drops = {
            names.NO_ID: no_id,
            names.BAD_SUBMIT: breaks("submit_time_s"),
            names.BAD_RUN: ~(np.abs(run) <= LONGEST_S),
            names.NEGATIVE_RUN: (run < 0) & (self.negative_run == "drop"),
            names.ZERO_RUN: (run == 0) & (self.zero_run == "drop"),
            names.BAD_INSTANCES: breaks("instances"),
            names.BAD_RETRIES: breaks("retries"),
            names.BAD_REQUEST: ~np.all([(a >= 0) & (a < LARGEST) for a in requests], axis=0),
            names.BAD_RELEASE: breaks("release_time_s"),
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
