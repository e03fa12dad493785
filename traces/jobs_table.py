"""Tables of rigid jobs, CSV or Parquet: a column map and named rules make jobs of any of them.

`JobsTable` itself reads our own columns, and no rule repairs a row. A format of other columns
derives from it, with a `column_map` and, where it needs any, `row_rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, model_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError, did_you_mean
from simkit.scenario.references import File
from simkit.sections import BrokenRulesError, Many, Positive
from simkit.traces import rules
from simkit.traces.columns import (
    JOBS,
    PLAIN_COLUMNS,
    START_AND_END,
    Column,
    ColumnMap,
    map_of_jobs,
)
from simkit.traces.files import is_parquet
from simkit.traces.rigid_jobs import (
    hint_swapped,
    note_early_starts,
    note_odd_run_times,
    note_releases,
    note_swapped_limits,
    note_swapped_times,
    odd_units,
    preceding_jobs,
    repeats,
)
from simkit.traces.rules import (
    LARGEST,
    LARGEST_ID,
    RULES,
    BadLines,
    LineFormat,
    Tally,
    refuse_empty,
)
from simkit.traces.tables.layout import SEPARATORS, TableKeys, split
from simkit.traces.tables.rows import number_names, whole_numbers
from simkit.traces.tables.table import (
    RowRule,
    TableColumns,
    apply_rules,
    count_kept,
    factors_of,
    header_of,
    misspelt,
    not_read,
    read_columns,
)
from simkit.units import LONGEST_S
from simkit.workload import Trace, Workload
from simkit.workload.recorded import Recorded
from simkit.workload.workload import JOB_COLUMNS

PRECEDING: Final = "preceding_job"
"""A table's column of text: ids of the jobs that precede a job, with ``;`` between them."""
_NOBODY: Final = ("", "-1", "-1.0")
NEEDED: Final = ("job_id", "submit_time_s", "run_time_s", "processors")
"""With `resources`, a table needs these in place of processors."""
PAST: Final = tuple(column.name for column in JOBS if column.record)
"""Columns of the past, which no job is made of, and which are compared with its times."""
STARTS: Final = ("start_time_s", "wait_time_s")
"""When a job started as recorded; the first that is there. Only `JobsTable.recorded` uses it."""
NUMBERS: Final = tuple(
    name for name in JOBS.of_kind("number", "instant", "limit") if name not in (*NEEDED, *PAST)
)
UNKNOWN: Final = dict.fromkeys(NUMBERS, np.nan) | {"deadline_s": np.inf}
"""What stands for an empty cell; -1 in other columns. A QoS or value must not be empty."""
RESOURCES: Final = ("cpu", "mem", "gpu")
"""What jobs ask for where a table has neither `processors` nor `resources` are named."""

Values = npt.NDArray[Any]


class JobsTable(TableKeys, LineFormat):
    """A table of jobs in simkit's own column names."""

    path: File
    """A .csv, .csv.gz or .parquet file; relative to the scenario file."""
    resources: Many[str] | None = None
    """Columns of what each of a job's `instances` asks for: [cpu, mem, gpu]. null: processors, an
    instance each; or, if there is no such column, those of cpu, mem and gpu that there are."""
    factors: dict[str, Positive] = Field(default_factory=dict)
    """Column → what it is multiplied by: {cpu: 0.01, run_time_s: 0.001}."""

    suffixes = (".csv", ".parquet")
    meanings = RULES
    column_map: ClassVar[ColumnMap] = JOBS
    """The columns of the format: those of `JOBS` under its own names, and others for `row_rules`;
    columns of kind ``amount`` are what a job asks for in place of processors. Without a column
    ``run_time_s``, jobs run from their start to their end."""

    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """Raise TraceError for a map of which no jobs can be made."""
        super().__pydantic_init_subclass__(**arguments)
        if cls.column_map is not JOBS:
            cls.column_map = map_of_jobs(cls.column_map, cls.__name__)

    def row_rules(self, rows: TableColumns) -> Sequence[RowRule]:
        """Return the rules of the format, by which rows are left out or repaired."""
        del rows
        return ()

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether the file has a column that only tables of jobs have.

        A format of other columns is recognised by all those that it needs.
        """
        names = set(column_names(path, head))
        if cls.column_map is JOBS:
            return bool({"submit_time_s", "run_time_s", "processors"} & names)
        return cls.column_map.needed <= names

    def source_of(self, resource: str) -> str:
        """Return how a column of the table becomes a resource."""
        return f"name its column in workload.resources: [cpu, {resource}]"

    def read(self) -> Trace:
        """Read the table; see `read_jobs_table`."""
        return self._scan()[0]

    def recorded(self) -> tuple[Trace, Recorded]:
        """Read the table with its recorded starts or waits, if it has such a column."""
        header, named = {*self._header()}, self.column_map.in_file
        column = next((name for name in STARTS if header & {*named([name])}), None)
        trace, past = self._scan(() if column is None else (column,))
        load = trace.workload
        if column is None:
            return trace, Recorded.without_starts(load)
        start = past[column]
        if column == "wait_time_s":
            start = np.where(start >= 0, load.submit_time_s + start, np.nan)
        return trace, Recorded.started(load, start)

    def _scan(self, used: Sequence[str] = ()) -> tuple[Trace, dict[str, Floats]]:
        """Read the table; return it, and its columns of `PAST`, in s, in the workload's order.

        Those that are not `used` are named as not read.
        """
        path, tally = Path(self.path), Tally()
        bad = BadLines(path, self.on_error, rows=is_parquet(path))
        header = self._header()
        resources = self._resources(header)
        wanted = _wanted(self.column_map, resources)
        table = read_columns(path, wanted, bad, self, tally, remedy=_remedy(wanted))
        past_there = [name for name in PAST if name in table.columns]
        there = [name for name in JOBS.of_kind("instant") if name in table.frame]
        derived = () if "run_time_s" in wanted else START_AND_END
        if derived:
            table = self._with_run_times(table)
        factors = factors_of(self.factors, table, there, path, tally, PAST)
        table = table.scaled({name: by for name, by in factors.items() if name not in PAST})
        table = table.with_one_form_of_ids(["job_id"])
        read = {*table.frame["job_id"], *table.malformed["job_id"]}
        table, repaired = apply_rules(table, self.row_rules(table), tally)
        table = table.only([*JOBS.names, "instances", *resources])
        if resources:
            table = table.with_empty_requests_as_none(resources)
        table = _valid(table, resources, bad)
        bad.settle(tally)
        if not tally.report.read and not len(table):
            raise TraceError(f"{path}: no jobs: the table has no rows; check it")
        count_kept(table, repaired, tally)
        refuse_empty(path, tally, len(table))
        columns, labels = _columns(table)
        past: dict[str, Floats] = {
            name: _finite_or_nan(table, name) * self._past_factor(name) for name in past_there
        }
        if "requested_time_s" in columns:
            tally.note(rules.NO_LIMIT, table.line[np.isinf(columns["requested_time_s"])])
        _note_oddities(columns, past, table.line, tally)
        _note_misspelt(header, wanted, resources, tally)
        left_aside = {*PAST} - {*used, *derived}
        made_of = table.columns.in_file({*table.columns.names} - left_aside)
        tally.unread(not_read(header, made_of), PLAIN_COLUMNS | self.column_map.holds)
        links = _preceding(table, columns, read, tally)
        workload = Workload.from_jobs(
            columns, request=resources, labels=labels, epoch_s=table.epoch_s,
            time_zone=self.zone, **links,
        )  # fmt: skip
        order = np.lexsort((columns["job_id"], columns["submit_time_s"]))
        trace = Trace(workload, tally.report, (path,))
        return trace, {name: column[order] for name, column in past.items()}

    def _past_factor(self, name: str) -> float:
        """Return the factor of a column of `PAST`, which is in the unit of submissions."""
        return self.factors.get(name, self.factors.get("submit_time_s", 1.0))

    def _with_run_times(self, table: TableColumns) -> TableColumns:
        """Return the table with a column of the times from the recorded starts to the ends."""
        start, end = (pl.col(name) * self._past_factor(name) for name in START_AND_END)
        begun, ended = (table.columns[name].in_file for name in START_AND_END)
        run = Column("run_time_s", theirs=f"{ended} - {begun}")  # for messages
        return replace(
            table,
            frame=table.frame.with_columns((end - start).alias(run.name)),
            columns=ColumnMap((*table.columns, run)),
        )

    def _header(self) -> list[str]:
        """Return the table's columns."""
        needed = self.column_map.in_file(NEEDED[:3])
        return header_of(Path(self.path), needed, self.dialect)

    def _resources(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of what an instance asks for; empty: processors, an instance each."""
        if self.resources is not None:
            return self.resources
        amounts = [column for column in self.column_map if column.kind == "amount"]
        if amounts:
            there = [column for column in amounts if column.needed or column.in_file in names]
            return tuple(column.name for column in there or amounts)
        if {*self.column_map.in_file(["processors"])} & {*names}:
            return ()
        return tuple(name for name in RESOURCES if name in names)

    @model_validator(mode="after")
    def _names_columns(self) -> Self:
        problems: list[tuple[tuple[str, ...], str]] = []
        if self.resources is not None:
            taken = {*NEEDED[:3], *NUMBERS, *JOB_COLUMNS, "instances", PRECEDING}
            if not self.resources:
                problems.append((("resources",), "is empty; name a column, such as cpu"))
            problems += [
                (("resources",), f"{name} is a column of its own, not a resource")
                for name in self.resources
                if name in taken
            ]
        asked = RESOURCES if self.resources is None else self.resources
        own = self.column_map.of_kind("number", "instant", "amount", "limit")
        numbers = {*NEEDED[1:], "instances", *NUMBERS, *PAST, *asked, *own}
        problems += [
            (("factors", name), f"is no column of numbers{did_you_mean(name, numbers)}")
            for name in self.factors
            if name not in numbers
        ]
        if problems:
            raise BrokenRulesError(problems)
        return self


def read_jobs_table(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read a table of rigid jobs: CSV, gzipped CSV or Parquet, told by content, not by name.

    Columns: ``job_id`` (whole numbers or text), ``submit_time_s`` (seconds from the trace's zero),
    ``run_time_s`` (at least 0), ``processors`` (whole, at least 1); optionally
    ``requested_time_s`` (empty where unknown, ``inf`` or ``unlimited`` without a limit), ``qos``
    (quality of service, above 0 and at most 1), ``value`` (what the job is worth if it finishes,
    at least 0), ``deadline_s`` (seconds from the trace's zero, empty where there is none),
    ``retries`` (how often the job may start over after its work was lost before it is killed,
    whole; empty: as often as the scenario lets it), ``release_time_s`` (seconds from the trace's
    zero from when on it may run; empty: from its submission on), ``preceding_job`` (id of a job
    that must have ended before it may run; several with ``;`` between them; empty or -1: none),
    ``think_time_s`` (seconds since that end; empty: 0) and ``user``, ``group``, ``executable``,
    ``queue``, ``partition``: whole numbers (-1 or empty where unknown), or, as soon as one of a
    column is text, names, which become the workload's `labels` and are numbered in order of
    appearance. `JobsTable.recorded` also takes ``start_time_s`` (seconds from the trace's zero) or
    ``wait_time_s`` (after submission), when a job started as recorded; no simulation uses it. Where
    these or ``end_time_s`` contradict the other times, a note says so. Other columns are ignored,
    and noted if their name looks like a misspelt one. Rows may be in any order. Instants
    (submission, release, deadline, recorded start and end) may be dates, or numbers in another
    unit: all of them are written alike, as `time_format`, `zone` and `zero` say. Ids may be
    written as whole floats (1.0), as data frames do beside empty cells.

    With `resources`, or without a column ``processors``, a job is a gang of ``instances`` (a
    column, or 1), each of which asks for several resources, say ``cpu``, ``mem`` and ``gpu``. An
    empty cell is a request for none, as 0 is; one of a row must be more.

    Args:
        path: the table.
        arguments: the other fields of `JobsTable`.

    Returns:
        The workload, sorted by (submit time, job id), and the report of its rows: every row is
        accepted, or malformed. Job ids that repeat are noted and kept, in the order of the file.

    Raises TraceError, with the row, for missing columns and values that are no numbers or break a
    rule: all of them, unless `on_error` is ``skip``.
    """
    return JobsTable.of(path=path, **arguments).read()


def column_names(path: Path, head: str) -> list[str]:
    """Return the columns of a table: those of a Parquet file, else of the first line."""
    if not is_parquet(path):
        return next(
            (names for mark in SEPARATORS if len(names := split(head, mark)) > 1), [head.strip()]
        )
    with suppress(pl.exceptions.PolarsError, OSError):  # the reader says what is wrong
        return list(pl.read_parquet_schema(path))
    return []


def _note_oddities(
    columns: Mapping[str, Values], past: Mapping[str, Floats], line: Ints, tally: Tally
) -> None:
    """Note job ids that repeat, as in SWF, columns that look swapped, times that contradict."""
    tally.note(rules.REPEATED_ID, line[repeats(columns["job_id"])])
    run = columns["run_time_s"]
    note_swapped_times(tally, line, columns["submit_time_s"], run)
    if "release_time_s" in columns:
        note_releases(tally, line, columns["release_time_s"] - columns["submit_time_s"])
    if "requested_time_s" in columns:
        note_swapped_limits(tally, run, columns["requested_time_s"])
    _note_contradictions(columns, past, line, tally)


def _note_contradictions(
    columns: Mapping[str, Values], past: Mapping[str, Floats], line: Ints, tally: Tally
) -> None:
    """Note recorded starts, waits and ends that cannot be; a wait of -1 is unknown."""
    submit, unknown = columns["submit_time_s"], np.full(len(line), np.nan)
    wait = past.get("wait_time_s", unknown)
    wait = np.where(wait == -1, np.nan, wait)
    start = past.get("start_time_s", submit + wait)
    note_early_starts(tally, line, np.fmin(start - submit, wait))
    note_odd_run_times(tally, line, past.get("end_time_s", unknown) - start, columns["run_time_s"])


def _preceding(
    table: TableColumns, columns: Mapping[str, Values], read: set[str | None], tally: Tally
) -> dict[str, Any]:
    """Return the links between the jobs of a table; `read`: the ids of all rows that it has."""
    order = np.lexsort((columns["job_id"], columns["submit_time_s"]))  # that of the workload
    left_out = read - {*table.frame["job_id"]}
    return preceding_of_table(table.take(order), columns["job_id"][order], tally, left_out)


def _note_misspelt(
    names: Sequence[str], wanted: ColumnMap, resources: tuple[str, ...], tally: Tally
) -> None:
    """Note columns that nearly have the name of an optional one; theirs is the header's line."""
    own = ColumnMap(tuple(column for column in wanted if not column.record))
    optional = [c.in_file for c in own if not c.needed]
    optional += RESOURCES if resources else ()
    for name, meant in misspelt(names, own.in_file(own.names), optional):
        tally.note(f"column {name!r} is not read; did you mean {meant!r}?", np.ones(1, int))


def _wanted(columns: ColumnMap, resources: tuple[str, ...]) -> ColumnMap:
    """Return the columns to read of jobs that ask for these resources; of none: for processors.

    Ours come first, in our order: the id leads, and submit times tell when other instants are.
    """
    order = {name: number for number, name in enumerate(JOBS.names)}
    ours = sorted(columns, key=lambda column: order.get(column.name, len(order)))
    if not resources:
        return ColumnMap(tuple(ours))
    own = [column for column in ours if column.name not in (*resources, "processors")]
    own = [column for column in own if column.kind != "amount"]
    amounts = [columns[name] if name in columns else Column(name) for name in resources]
    amounts = [replace(column, kind="amount", needed=True) for column in amounts]
    last = "run_time_s" if "run_time_s" in columns else "submit_time_s"
    at = 1 + [column.name for column in own].index(last)
    counted = () if "instances" in columns else (Column("instances"),)
    return ColumnMap((*own[:at], *amounts, *counted, *own[at:]))


def _remedy(wanted: ColumnMap) -> str:
    names = [column.in_file for column in wanted if column.needed]
    other = ", or name what they ask for in `resources`" if "processors" in wanted else ""
    return f"a table of jobs needs {', '.join(names)}{other}"


def _columns(table: TableColumns) -> tuple[dict[str, Values], dict[str, tuple[str, ...]]]:
    """Return the columns of jobs, and the names behind the numbers of those that hold names."""
    columns: dict[str, Values] = {"job_id": table.ids("job_id")}
    labels: dict[str, tuple[str, ...]] = {}
    for name in table.frame.columns[1:]:
        if name in (PRECEDING, "think_time_s", *PAST):
            continue
        if _holds_names(table, name):
            known: dict[str, int] = {}
            names = table.frame[name].replace(
                ["-1", "-1.0"], None
            )  # unknown in a column of numbers, too
            columns[name] = number_names(names, known)
            labels[name] = tuple(known)
        else:
            whole = _whole_numbers(table, name) if name in JOB_COLUMNS else None
            columns[name] = _filled(table, name) if whole is None else whole
    if "retries" in columns:  # a workload's own number for none, which a table must not write
        columns["retries"] = np.nan_to_num(columns["retries"], nan=-1.0)
    return columns, labels


def _holds_names(table: TableColumns, name: str) -> bool:
    """Return whether a column of users, queues, … has a cell that is text."""
    words = table.frame[name]
    numbers = words.cast(pl.Float64, strict=False)
    return name in JOB_COLUMNS and bool((numbers.is_null() & words.is_not_null()).any())


def _whole_numbers(table: TableColumns, name: str) -> Ints | None:
    """Return a column of ids exactly, -1 for an empty cell; None if one is no whole number."""
    numbers = whole_numbers(table.frame[name])
    if numbers.null_count() > table.frame[name].null_count():
        return None
    return numbers.fill_null(-1).to_numpy()


def _finite_or_nan(table: TableColumns, name: str) -> Floats:
    """Return the numbers of a column; NaN where a cell holds none, or an infinite one."""
    numbers = table.numbers(name)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _filled(table: TableColumns, name: str) -> Floats:
    """Return a column of numbers with its own value for an empty cell."""
    return table.frame[name].cast(pl.Float64).fill_null(UNKNOWN.get(name, -1)).to_numpy()


def _valid(table: TableColumns, resources: tuple[str, ...], bad: BadLines) -> TableColumns:
    """Return the rows whose values keep the rules; the others go to `bad`."""

    def judge(name: str, values: Floats) -> tuple[str, Bools]:
        if name in resources:
            return "at least 0 and below 2^33, or empty", (values >= 0) & (values < LARGEST)
        return kept_by_rule(name, values)

    numbers = {
        name: _filled(table, name)
        for name in table.frame.columns
        if name not in ("job_id", PRECEDING, *PAST) and not _holds_names(table, name)
    }
    telling = {name: column for name, column in numbers.items() if name != "submit_time_s"}
    hint_swapped(telling, lambda name, values: judge(name, values)[1], bad)  # any time is a submit
    for odd in odd_units(numbers, resources):
        bad.hint(odd.hint)
    needed = (*NEEDED[:3], "instances") if resources else NEEDED
    problems = {name: f"{table.said(name)} is empty; every job needs one" for name in needed}
    if resources:  # where the first one is empty still, all are
        problems[resources[0]] = _asks_for_nothing(resources)
    for name in table.frame.columns:
        empty = table.frame[name].is_null().to_numpy() & (name in {*problems, *resources})
        for line in table.line[empty].tolist() if name in problems else ():
            bad.add(line, problems[name])
        if name not in numbers:
            continue
        rule, kept = judge(name, numbers[name])
        if name in JOB_COLUMNS and (whole := _whole_numbers(table, name)) is not None:
            kept = whole >= -1  # not as doubles, which are exact up to 2^53 alone
        for row in np.flatnonzero(~kept & ~empty).tolist():
            said = f"{table.said(name)} is {numbers[name][row]:.10g}, it must be {rule}"
            bad.add(int(table.line[row]), said)
    return table.take(bad.good(table.line))


def _asks_for_nothing(resources: Sequence[str]) -> str:
    if len(resources) == 1:
        return f"the job asks for nothing: {resources[0]} is 0 or empty, it must be more than 0"
    names = f"{', '.join(resources[:-1])} and {resources[-1]}"
    return f"the job asks for nothing: {names} are 0 or empty, one must be more than 0"


def kept_by_rule(name: str, values: Floats) -> tuple[str, Bools]:
    """Return what must hold of a column, in words and row by row; empty cells are NaN."""
    if name == "submit_time_s":
        rule = "finite, in seconds from the trace's zero, at most 2^32 (136 years)"
        return rule, np.abs(values) <= LONGEST_S
    if name == "run_time_s":
        rule = "finite and at least 0, in seconds, at most 2^32 (136 years)"
        return rule, (values >= 0) & (values <= LONGEST_S)
    if name == "requested_time_s":
        return "at least 0, unlimited, or empty where it is unknown", ~(values < 0)
    if name == "qos":
        return "above 0 and at most 1", (values > 0) & (values <= 1)
    if name == "value":
        return "finite and at least 0", np.isfinite(values) & (values >= 0)
    if name == "release_time_s":
        return "finite and at most 2^32 (136 years), or empty", ~(np.abs(values) > LONGEST_S)
    if name == "think_time_s":
        rule = "finite, at least 0 and at most 2^32, or empty"
        return rule, np.isnan(values) | (values >= 0) & (values <= LONGEST_S)
    if name == "deadline_s":
        return "a time, or empty", ~(np.isnan(values) | (values == -np.inf))
    whole = values == np.floor(values)
    if name == "retries":
        rule = "whole and at least 0, or empty, below 2^33"
        return rule, np.isnan(values) | whole & (values >= 0) & (values < LARGEST)
    if name in ("processors", "instances"):
        return "whole and at least 1, below 2^33", whole & (values >= 1) & (values < LARGEST)
    rule = "whole and at least -1, below 2^63 (2^53 with a decimal point)"
    return rule, whole & (values >= -1) & (values < LARGEST_ID)


def preceding_of_table(
    table: TableColumns, job_id: npt.NDArray[Any], tally: Tally, left_out: Collection[str | None]
) -> dict[str, Any]:
    """Return the fields of a workload that the columns of a table say precede its jobs.

    Args:
        table: J rows, one a job, sorted by submission; `PRECEDING` and ``think_time_s`` count,
            where an empty cell is none, and 0 s.
        job_id: (J,) whole numbers, or text.
        tally: counts jobs by rule.
        left_out: ids of jobs in rows that are no part of the workload, as text.
    """
    frame, size = table.frame, len(table)
    think, rows, wanted = np.zeros(size), np.empty(0, np.int64), pl.Series(dtype=pl.String)
    if "think_time_s" in frame:
        think = frame["think_time_s"].fill_null(0.0).to_numpy()
    if PRECEDING in frame:
        word = pl.element().str.strip_chars()
        lists = frame[PRECEDING].str.split(";").list.eval(word.filter(~word.is_in(_NOBODY)))
        rows = np.repeat(np.arange(size), lists.list.len().fill_null(0).to_numpy())
        wanted = lists.explode().drop_nulls()
    named = np.zeros(size, dtype=bool)
    named[rows] = True
    tally.note(rules.ONLY_THINK_TIME, np.sort(table.line[~named & (think > 0)]))
    others = pl.Series(sorted(word for word in left_out if word is not None), dtype=pl.String)
    if job_id.dtype.kind == "i":  # what is no whole number is the id of none
        known = whole_numbers(wanted).fill_null(np.iinfo(np.int64).min).to_numpy()
        gone = whole_numbers(others).drop_nulls().to_list()
    else:
        known, gone = _as_named(wanted, [*job_id, *others]), others.to_list()
    return preceding_jobs(job_id, table.line, rows, known, think[rows], tally, gone)


def _as_named(wanted: pl.Series, names: Sequence[str]) -> npt.NDArray[Any]:
    """Return ids as jobs have them that are text: 1.0 stands for 1 if no job is called 1.0."""
    plain = whole_numbers(wanted).cast(pl.String)
    other = (plain != wanted).fill_null(value=False)
    if other.any():
        other &= ~wanted.is_in(names)
        wanted = wanted.set(other, None).fill_null(plain)
    return wanted.to_numpy().astype(object)
