"""Numeric columns of a sacct table, rows that are no finished jobs, and fields left aside."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import polars as pl

from simkit.traces import rules
from simkit.traces.columns import SACCT, SACCT_SAME
from simkit.traces.rules import BadLines, Tally
from simkit.traces.sacct.table import (
    LINE,
    PARTITION_LIMIT,
    duration_s,
    instant_s,
    is_any,
    is_nothing,
    limit_s,
    memory_gib,
    number,
    processors_of_resources,
)

_UNFINISHED: Final = r"^(RUNNING|SUSPENDED|COMPLETING|RESIZING|STOPPED|SIGNALING|STAGE_OUT)"
_WAITING: Final = r"^(PENDING|CONFIGURING|REQUEUED|REQUEUE_HOLD|REQUEUE_FED|RESV_DEL_HOLD)"
_STARTED_AGAIN: Final = (
    r"^(REQUEUE|PREEMPTED|NODE_FAIL|BOOT_FAIL|LAUNCH_FAILED|RESIZING|SPECIAL_EXIT)"
)
_COMPLETED: Final = r"^(COMPLETED|CD$)"
_DURATION_FORM: Final = "1-02:03:04, 02:03:04 or 03:04"
_INSTANT_FORM: Final = "2024-05-01T12:00:00 (SLURM_TIME_FORMAT=standard)"


class SacctRows:
    """Converts rows of text to numbers: adds columns to `frame` one by one.

    Attributes:
        frame: the table's original columns, then ours in lower case.
        bad: gets the rows with values that cannot be read.
        read: the original columns that were looked at.
    """

    def __init__(self, table: pl.DataFrame, bad: BadLines) -> None:
        """Begin with the original columns; rows with values that cannot be read go to `bad`."""
        self.frame, self.bad = table, bad
        self.read: set[str] = set()
        self._names = {name.lower(): name for name in table.columns if name != LINE}

    def parse(self, time_zone: str | None, tally: Tally) -> pl.DataFrame:
        """Add all columns; null (False for rules) where Slurm gives no value.

        Int64: job, and task: the index in its array plus 1, 0 for a job of its own. Float64:
        submit, eligible_s, start_s, end_s (Unix seconds), run, paused, requested_time (seconds;
        infinite without a limit), allocated, requested (processors), memory (GiB a processor).
        String: id, cluster_name. Boolean: again, whether the state says that Slurm starts the job
        again; completed, whether it says that the job did; skipped and twice, whether a time is one
        that the clock skips or shows twice;
        limit_of_partition; one for each rule that leaves out rows that are not finished jobs.

        Returns the rows all of whose values can be read.
        """
        self._add_columns(time_zone, tally)
        return self.frame.filter(self.bad.good(self.frame[LINE].to_numpy()))

    def _add_columns(self, time_zone: str | None, tally: Tally) -> None:
        self._identity()
        self._instants(time_zone)
        self._durations()
        self._processors(tally)
        self._memory()
        self._state()

    def _name(self, *choices: str) -> str | None:
        """Return the first of these columns that the table has."""
        found = (self._names.get(choice.lower()) for choice in choices)
        name = next((name for name in found if name is not None), None)
        self.read.update(() if name is None else (name,))
        return name

    def _needed(self, *choices: str) -> str:
        """Return the first of these columns that the table has; the header was checked for one."""
        name = self._name(*choices)
        assert name is not None, f"the header was let through without {choices}"
        return name

    def _add(self, name: str, values: pl.Expr) -> None:
        self.frame = self.frame.with_columns(values.alias(name))

    def _read(self, name: str, column: str, values: pl.Expr, form: str) -> None:
        """Add a column read from text; refuse text that is neither a value nor stands for none."""
        self._add(name, values.cast(pl.Float64))
        self._refuse(pl.col(name).is_null() & ~is_nothing(pl.col(column)), column, form)

    def _refuse(self, broken: pl.Expr, column: str, form: str) -> None:
        for line, text in self.frame.filter(broken).select(LINE, column).iter_rows():
            self.bad.add(line, f"{column} is {text!r}; it should look like {form}")

    def _nothing(self, name: str) -> None:
        self._add(name, pl.lit(None, pl.Float64))

    def _identity(self) -> None:
        column, shown = self._needed(*SACCT["job"]), self._needed("JobID", "JobIDRaw")
        self._add(rules.JOB_STEP, pl.col(column).str.contains(".", literal=True))
        self._add(rules.PENDING_ARRAY, pl.col(shown).str.contains("[", literal=True))
        parts = pl.col(column).str.extract_groups(r"^(\d+)(?:[_+](\d+))?$").struct
        job, task = (parts.field(str(i)).cast(pl.Int64, strict=False) for i in (1, 2))
        self._add("job", job)
        self._add("task", (task + 1).fill_null(0))
        self._add("id", pl.col(column))
        cluster = self._name("Cluster")
        self._add("cluster_name", pl.col(cluster) if cluster else pl.lit(""))
        job_row = ~(pl.col(rules.JOB_STEP) | pl.col(rules.PENDING_ARRAY))
        self._refuse(pl.col("job").is_null() & job_row, column, "12, 12_3 or 12+1")

    def _instants(self, time_zone: str | None) -> None:
        skipped, twice = pl.lit(value=False), pl.lit(value=False)
        for name in ("Submit", "Eligible", "Start", "End"):
            ours = name.lower() + "_s"
            if (column := self._name(name)) is None:
                self._nothing(ours)
                continue
            self._read(ours, column, instant_s(pl.col(column), None), _INSTANT_FORM)
            self._add(name.lower() + "_shown", pl.col(ours).is_not_null())
            if time_zone is None:
                continue
            first, last = (instant_s(pl.col(column), time_zone, e) for e in ("earliest", "latest"))
            self._add(ours, first)
            skipped |= pl.col(name.lower() + "_shown") & pl.col(ours).is_null()
            twice |= (last != pl.col(ours)).fill_null(value=False)
        self._add("skipped", skipped)
        self._add("twice", twice)
        self._add("submit", pl.col("submit_s"))

    def _durations(self) -> None:
        if column := self._name("ElapsedRaw"):
            self._read("run", column, number(pl.col(column)), "3600 (seconds)")
        elif column := self._name("Elapsed"):
            self._read("run", column, duration_s(pl.col(column)), _DURATION_FORM)
        self._suspended(counts=column is None)
        if column is None:
            span = pl.col("end_s") - pl.col("start_s")
            self._add("run", span - pl.col("paused").fill_null(0.0))
        self._time_limit()

    def _time_limit(self) -> None:
        if column := self._name("TimelimitRaw"):
            values, form = number(pl.col(column)) * 60, "120 (minutes)"
        elif column := self._name("Timelimit"):
            values, form = duration_s(pl.col(column)), _DURATION_FORM
        else:
            self._add("limit_of_partition", pl.lit(value=False))
            return self._nothing("requested_time")
        self._add("limit_of_partition", is_any(pl.col(column), PARTITION_LIMIT))
        limit = limit_s(pl.col(column), values)
        return self._read("requested_time", column, limit, f"{form}, UNLIMITED or Partition_Limit")

    def _suspended(self, *, counts: bool) -> None:
        """Add the seconds in which jobs did not run between start and end, null where unknown.

        Args:
            counts: run times follow from it; else other times are only compared with it.
        """
        column = self._names.get("suspended")
        if column is None:
            self._nothing("paused")
        elif counts:
            self._read("paused", column, _seconds(pl.col(column)), _DURATION_FORM)
            self.read.add(column)
        else:
            self._add("paused", _seconds(pl.col(column)))

    def _processors(self, tally: Tally) -> None:
        for name, columns, resources in (
            ("allocated", SACCT["allocated"], "AllocTRES"),
            ("requested", SACCT["requested"], "ReqTRES"),
        ):
            if column := self._name(*columns):
                self._read(name, column, number(pl.col(column)), "16")
            elif column := self._name(resources):
                self._add(name, processors_of_resources(pl.col(column)))
            else:
                self._nothing(name)
        if self._name("AllocCPUS", "NCPUS", "AllocTRES", "ReqCPUS", "ReqTRES") is None:
            column = self._needed(*SACCT["machines"])
            self._read("allocated", column, number(pl.col(column)), "4")
            tally.note(rules.NODES_COUNTED, self.frame[LINE].to_numpy())

    def _memory(self) -> None:
        if (column := self._name("ReqMem")) is None:
            return self._nothing("memory")
        machines = self._name(*SACCT["machines"])
        count = number(pl.col(machines)).fill_null(1.0) if machines else pl.lit(1.0)
        processors = (
            pl.when(pl.col("allocated") > 0)
            .then("allocated")
            .when(pl.col("requested") > 0)
            .then("requested")
            .otherwise(1.0)  # the row will be left out
        )
        values = memory_gib(pl.col(column), processors, count)
        return self._read("memory", column, values, "4000M, 4Gc or 16Gn")

    def _state(self) -> None:
        """Add the rules for rows that are not finished jobs.

        Times decide: what has a start, an end and a run time ran, whatever its state says. The
        state counts where the table lacks these columns.
        """
        state = pl.col(column) if (column := self._name("State")) else pl.lit("")
        state = state.str.strip_chars().str.to_uppercase()
        ran = pl.col("run").fill_null(0) > 0
        start, end = self._name("Start") is not None, self._name("End") is not None
        waiting, unfinished = state.str.contains(_WAITING), state.str.contains(_UNFINISHED)
        ended = pl.col("end_shown") if end else ~unfinished
        begun = pl.col("start_shown") if start else ~waiting | ran
        waits = waiting & ~ran & ~(pl.col("end_shown") if end else pl.lit(value=False))
        idle = ~begun | (pl.col("run") == 0).fill_null(value=False)
        self._add(rules.CANCELLED, state.str.starts_with("CANCELLED") & idle)
        self._add(rules.NOT_STARTED, ~begun | waits)
        self._add(rules.STILL_RUNNING, ~ended)
        hangs = pl.col("submit_s").is_null() | pl.col("run").is_null()
        self._add(rules.SKIPPED_TIME, pl.col("skipped") & hangs)
        self._add("again", state.str.contains(_STARTED_AGAIN))
        self._add("completed", state.str.contains(_COMPLETED))


def _seconds(text: pl.Expr) -> pl.Expr:
    """Return seconds of ``01:00:00`` or ``3600``."""
    return pl.coalesce(duration_s(text), number(text))


def left_aside(columns: Collection[str], read: Collection[str]) -> Iterator[str]:
    """Yield the columns that say something that no column which was read says.

    Args:
        columns: those of the table.
        read: those of them that were read.
    """
    lower = {name.lower() for name in read}
    covered = {name for group in SACCT_SAME if lower & set(group) for name in group}
    # ``--parsable`` ends lines in a delimiter: the last column has no name, and nothing in it
    yield from (name for name in columns if name and name.lower() not in lower | covered)
