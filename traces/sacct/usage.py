"""Usage of jobs in sacct's log, as SWF has it: wait, status, processor time, memory.

A simulation does not need it; a log that is converted to SWF keeps it. Slurm gives the used memory
in the rows of a job's steps (``12.batch``, ``12.0``); the largest counts.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, Self

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.traces import rules
from simkit.traces.rules import Tally
from simkit.traces.sacct.resources import ResourceRows
from simkit.traces.sacct.table import LINE, bytes_of, duration_s, number

USAGE: Final = (
    "wait_time_s", "status", "cpu_time_s", "requested_processors", "requested_memory_kb",
)  # fmt: skip
"""Columns that the job's row gives."""

_FAILED: Final = (
    "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "LAUNCH_FAILED", "DEADLINE",
    "PREEMPTED", "RECONFIG_FAIL",
)  # fmt: skip
_CANCELLED: Final = r"^(CANCELLED|REVOKED)"
_KIB_A_GIB: Final = 2.0**20


class UsageRows(ResourceRows):
    """Rows with the columns of `USAGE`, and ``owner`` and ``used_kb``, also of steps."""

    def leave_aside(self, column: str) -> None:
        """Do nothing: what no job asks for has a field of SWF."""

    def _add_columns(self, time_zone: str | None, tally: Tally) -> None:
        super()._add_columns(time_zone, tally)
        start = pl.coalesce("start_s", pl.col("end_s") - pl.col("run"))
        wait = start - pl.col("submit")
        self._add("wait_time_s", pl.when(wait >= 0).then(wait))
        self._add_status()
        self._add_cpu_time()
        self._add("requested_processors", pl.col("requested"))
        memory = pl.col("memory") * _KIB_A_GIB
        self._add("requested_memory_kb", pl.when(memory > 0).then(memory))  # 0: all there is
        self._add_used_memory()

    def _add_status(self) -> None:
        if (column := self._name("State")) is None:
            return self._nothing("status")
        state = pl.col(column).str.strip_chars().str.to_uppercase()
        status = (
            pl.when(state == "COMPLETED")
            .then(1.0)
            .when(state.str.contains(_CANCELLED))
            .then(5.0)
            .when(state.is_in(list(_FAILED)))
            .then(0.0)
        )
        return self._add("status", status)

    def _add_cpu_time(self) -> None:
        if (column := self._name("TotalCPU")) is None:
            return self._nothing("cpu_time_s")
        self._read("cpu_time_s", column, duration_s(pl.col(column)), "1-02:03:04 or 03:04.500")
        return self._add("cpu_time_s", pl.col("cpu_time_s") / self._count())

    def _count(self) -> pl.Expr:
        """Return the processors of a job, null where neither number is above 0."""
        return pl.coalesce(pl.when(pl.col(n) > 0).then(n) for n in ("allocated", "requested"))

    def _add_used_memory(self) -> None:
        self._add("count", self._count())
        self._add("owner", pl.col("id").str.extract(r"^([^.]*)"))
        if (column := self._name("AveRSS", "MaxRSS")) is None:
            return self._nothing("used_kb")
        self._read("used_kb", column, bytes_of(pl.col(column)) / 1024, "1234K or 1.5G")
        tasks = self._name("NTasks")
        times = number(pl.col(tasks)).fill_null(1.0) if tasks else pl.lit(1.0)
        return self._add("used_kb", pl.col("used_kb") * times)


_JOB: Final = ("cluster_name", "owner")
"""What a job's row and those of its steps have in common; attempts are told apart by time."""


class Gatherer(Protocol):
    """Collects what rows tell besides the workload, block by block."""

    def restart(self) -> Self:
        """Forget all blocks, as the table is read again."""

    def add(self, rows: pl.DataFrame, kept: pl.DataFrame) -> None:
        """Add a block: all its rows, and those that became jobs."""


class Gathered:
    """Collects the usage of kept jobs, and what all rows tell of memory, block by block."""

    def __init__(self) -> None:
        self._jobs: list[pl.DataFrame] = []
        self._spans: list[pl.DataFrame] = []
        self._used: list[pl.DataFrame] = []

    def restart(self) -> Self:
        """Forget all blocks, as the table is read again."""
        for blocks in (self._jobs, self._spans, self._used):
            blocks.clear()
        return self

    def add(self, rows: pl.DataFrame, kept: pl.DataFrame) -> None:
        """Add a block: all its rows, and those that became jobs."""
        self._jobs.append(kept.select(LINE, *USAGE, "count"))
        rows = rows.filter(~pl.col(rules.PENDING_ARRAY))
        times = ("start_s", "end_s")
        self._spans.append(rows.filter(~pl.col(rules.JOB_STEP)).select(LINE, *_JOB, *times))
        used = rows.filter(pl.col("used_kb").is_not_null())
        self._used.append(used.select(*_JOB, "start_s", "used_kb"))

    def columns(self, order: Any) -> dict[str, Floats]:
        """Return (J,) columns of the jobs in this order, NaN where unknown.

        ``wait_time_s`` (start, else end - run time, less submit), ``status`` (SWF: 1 completed, 0
        failed, timed out or preempted, 5 cancelled), ``cpu_time_s`` (TotalCPU a processor),
        ``requested_processors``, and in kilobytes of 1024 bytes a processor ``requested_memory_kb``
        (ReqMem) and ``used_memory_kb`` (AveRSS, else MaxRSS, times NTasks of the largest step;
        MaxRSS gives an upper bound).

        A step belongs to the row of its cluster and job within whose times it starts. Where an id
        occurs once, times are not needed; where it recurs and they do not tell, or jobs of one id
        ran at the same time, the memory is unknown.
        """
        used = _memory_by_job(pl.concat(self._spans), pl.concat(self._used))
        jobs = pl.concat(self._jobs).join(
            used, left_on=LINE, right_on="job_line", how="left", maintain_order="left"
        )
        table = jobs.with_columns((pl.col("used_kb") / pl.col("count")).alias("used_memory_kb"))
        names = (*USAGE, "used_memory_kb")
        return {name: table[name].fill_null(np.nan).to_numpy()[order] for name in names}


def _memory_by_job(spans: pl.DataFrame, used: pl.DataFrame) -> pl.DataFrame:
    """Return the largest ``used_kb`` of a job's steps, by the line of its row, ``job_line``."""
    spans = spans.rename({LINE: "job_line"}).unique((*_JOB, "start_s", "end_s"), keep="first")
    once = pl.len().over(_JOB) == 1
    of_one = used.join(spans.filter(once).select("job_line", *_JOB), on=_JOB)
    several = spans.filter(~once & pl.col("start_s").is_not_null()).sort("start_s")
    others_end = pl.col("end_s").shift(1).cum_max().over(_JOB)  # of those that began before
    several = several.with_columns(others_end.alias("others_end_s"))
    steps = used.filter(pl.col("start_s").is_not_null()).sort("start_s")
    within = steps.join_asof(
        several, on="start_s", by=_JOB, strategy="backward", check_sortedness=False
    ).filter(
        pl.col("job_line").is_not_null()
        & (pl.col("start_s") <= pl.col("end_s"))
        & ~(pl.col("start_s") < pl.col("others_end_s")).fill_null(value=False)
    )
    found = [frame.select("job_line", "used_kb") for frame in (of_one, within)]
    return pl.concat(found).group_by("job_line").agg(pl.col("used_kb").max())
