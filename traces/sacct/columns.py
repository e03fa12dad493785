"""Numeric columns of a sacct table, and the rows that are not finished jobs."""

from __future__ import annotations

from typing import Final

import polars as pl

from simkit.traces import rules
from simkit.traces.bad_lines import BadLines
from simkit.traces.rules import Tally
from simkit.traces.sacct.table import (
    LINE,
    MACHINES,
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

ARRAY_TASKS: Final = 2.0**22
"""A job's number for sorting is JobID times this, plus the array task's index plus 1 (Slurm allows
four million tasks an array)."""

_UNFINISHED: Final = r"^(RUNNING|SUSPENDED|COMPLETING|RESIZING|STOPPED|SIGNALING|STAGE_OUT)"
_WAITING: Final = r"^(PENDING|CONFIGURING|REQUEUED|REQUEUE_HOLD|REQUEUE_FED|RESV_DEL_HOLD)"
_DURATION_FORM: Final = "1-02:03:04, 02:03:04 or 03:04"
_INSTANT_FORM: Final = "2024-05-01T12:00:00 (SLURM_TIME_FORMAT=standard)"


class SacctRows:
    """Converts rows of text to numbers: adds columns to `frame` one by one.

    Attributes:
        frame: the table's original columns, then ours in lower case.
        bad: gets the rows with values that cannot be read.
    """

    def __init__(self, table: pl.DataFrame, bad: BadLines) -> None:
        """Begin with the original columns; rows with values that cannot be read go to `bad`."""
        self.frame, self.bad = table, bad
        self._names = {name.lower(): name for name in table.columns if name != LINE}

    def parse(self, time_zone: str | None, tally: Tally) -> pl.DataFrame:
        """Add all columns; null (False for rules) where Slurm gives no value.

        Float64: job (for sorting), submit, start, end (Unix seconds), run, requested_time
        (seconds; infinite without a limit), allocated, requested (processors), memory (GiB a
        processor). String: id. Boolean: limit_of_partition, and one for each rule that leaves out
        rows that are not finished jobs.

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
        return next((name for name in found if name is not None), None)

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
        column, shown = self._needed("JobIDRaw", "JobID"), self._needed("JobID", "JobIDRaw")
        self._add(rules.JOB_STEP, pl.col(column).str.contains(".", literal=True))
        self._add(rules.PENDING_ARRAY, pl.col(shown).str.contains("[", literal=True))
        parts = pl.col(column).str.extract_groups(r"^(\d+)(?:[_+](\d+))?$").struct
        job, task = (parts.field(str(i)).cast(pl.Float64, strict=False) for i in (1, 2))
        self._add("job", job * ARRAY_TASKS + (task + 1).fill_null(0))
        self._add("id", pl.col(column))
        job_row = ~(pl.col(rules.JOB_STEP) | pl.col(rules.PENDING_ARRAY))
        self._refuse(pl.col("job").is_null() & job_row, column, "12, 12_3 or 12+1")

    def _instants(self, time_zone: str | None) -> None:
        for name in ("Submit", "Start", "End"):
            if (column := self._name(name)) is None:
                self._nothing(name.lower() + "_s")
                continue
            values = instant_s(pl.col(column), time_zone)
            if time_zone is None:
                self._read(name.lower() + "_s", column, values, _INSTANT_FORM)
            else:  # a time that the zone's clock skips is not a reading error
                self._read(name.lower() + "_s", column, instant_s(pl.col(column), None), "")
                self._add(name.lower() + "_s", values)
        self._add("submit", pl.col("submit_s"))

    def _durations(self) -> None:
        if column := self._name("ElapsedRaw"):
            self._read("run", column, number(pl.col(column)), "3600 (seconds)")
        elif column := self._name("Elapsed"):
            self._read("run", column, duration_s(pl.col(column)), _DURATION_FORM)
        else:
            self._add("run", pl.col("end_s") - pl.col("start_s"))
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

    def _processors(self, tally: Tally) -> None:
        for name, columns, resources in (
            ("allocated", ("AllocCPUS", "NCPUS"), "AllocTRES"),
            ("requested", ("ReqCPUS",), "ReqTRES"),
        ):
            if column := self._name(*columns):
                self._read(name, column, number(pl.col(column)), "16")
            elif column := self._name(resources):
                self._add(name, processors_of_resources(pl.col(column)))
            else:
                self._nothing(name)
        if self._name("AllocCPUS", "NCPUS", "AllocTRES", "ReqCPUS", "ReqTRES") is None:
            column = self._needed(*MACHINES)
            self._read("allocated", column, number(pl.col(column)), "4")
            tally.note(rules.NODES_COUNTED, self.frame[LINE].to_numpy())

    def _memory(self) -> None:
        if (column := self._name("ReqMem")) is None:
            return self._nothing("memory")
        machines = self._name(*MACHINES)
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
        state = pl.col(column) if (column := self._name("State")) else pl.lit("")
        started = pl.col("start_s").is_not_null() if self._name("Start") else pl.lit(value=True)
        ended = pl.col("end_s").is_not_null() if self._name("End") else pl.lit(value=True)
        idle = ~started | (pl.col("run").fill_null(0) == 0)
        self._add(rules.CANCELLED, state.str.starts_with("CANCELLED") & idle)
        self._add(rules.NOT_STARTED, ~started | state.str.contains(_WAITING))
        self._add(rules.STILL_RUNNING, ~ended | state.str.contains(_UNFINISHED))
