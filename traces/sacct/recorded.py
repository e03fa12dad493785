"""What Slurm recorded of jobs that ran: when and on what, their attempts, and what they used.

A job that is requeued or preempted, or whose machine fails, keeps its id; ``sacct --duplicates``
prints a row for each attempt. An id also recurs when Slurm's numbers begin again, in another
cluster of a federation, and in tables put together that overlap. An attempt begins after the one
before has ended, and that one has not completed.

A simulation does not need the usage of a job; a log that is converted to SWF keeps it. Slurm gives
the used memory in the rows of a job's steps (``12.batch``, ``12.0``); the largest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, Literal, Protocol, Self

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces import rules
from simkit.traces.rigid_jobs import Column, RigidJobs
from simkit.traces.rules import Tally
from simkit.traces.sacct.resources import ResourceRows
from simkit.traces.sacct.table import LINE, bytes_of, duration_s, number
from simkit.traces.tables.rows import number_names
from simkit.workload import Workload
from simkit.workload.dependencies import slices
from simkit.workload.recorded import GPU, Nodes, Recorded

_ENTRY: Final = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
_NOTHING: Final = ("", "none assigned", "unknown", "(null)", "none", "n/a")
MOST_NAMES: Final = 100_000
"""A text that stands for more machines is not taken for a list."""
MOST_PAIRS: Final = 50_000_000
"""Pairs of jobs and machines above which machines are only counted, not told apart."""


def node_names(text: str) -> tuple[str, ...]:
    """Return the names in a list of machines; empty if there is none, or it has no known form."""
    if text.strip().lower() in _NOTHING:
        return ()
    names: list[str] = []
    if ",".join(_ENTRY.findall(text)) != text:
        return ()
    for entry in _ENTRY.findall(text):
        choices = [_choices(*found) for found in _PART.findall(entry)]
        if not all(choices) or len(names) + np.prod([len(c) for c in choices]) > MOST_NAMES:
            return ()
        names += map("".join, product(*choices))
    return tuple(dict.fromkeys(names))


def _choices(ranges: str, plain: str) -> list[str]:
    """Return what may stand in one place of a name; empty if the ranges have no known form."""
    if plain:
        return [plain]
    found: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return []
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + MOST_NAMES:
            return []
        found += (str(number).zfill(len(match[1])) for number in range(first, last + 1))
    return found


class NodeLists:
    """Collects the machines of jobs block by block; equal texts are read once."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._of_jobs: list[Ints] = []

    def add(self, texts: pl.Series) -> None:
        """Add the lists of some jobs."""
        self._of_jobs.append(number_names(texts.str.strip_chars(), self._texts))

    def nodes(self, order: object) -> Nodes | None:
        """Return the machines of all jobs in this order, none of those whose list tells none.

        None if no job's are known, or there are too many pairs.
        """
        text = np.concatenate(self._of_jobs)[order]  # type: ignore[call-overload]
        known: dict[str, int] = {}
        lists = [[known.setdefault(n, len(known)) for n in names] for names in self._lists()]
        sizes = np.array([len(one) for one in lists], np.int64)
        lists.append([])  # of jobs without a text, whose number is -1
        sizes = np.append(sizes, 0)
        if not 0 < sizes[text].sum() <= MOST_PAIRS:
            return None
        flat = np.fromiter((number for one in lists for number in one), np.int64)
        text = np.where(text < 0, len(sizes) - 1, text)
        first, places = slices(np.concatenate(([0], np.cumsum(sizes))), text)
        return Nodes(tuple(known), first, flat[places])

    def _lists(self) -> Iterator[tuple[str, ...]]:
        return map(node_names, self._texts)


_KEPT: Final = (
    "start_s", "end_s", "run", "requested_time", "machines",
    "allocated_gpus", "requested_gpus", "gpus_untold", "allocated_gib",
)  # fmt: skip


class RecordedRows(ResourceRows):
    """Rows with ``node_list``, the text that names the machines of a job; null if none does."""

    def _add_columns(self, time_zone: str | None, tally: Tally) -> None:
        super()._add_columns(time_zone, tally)
        column = self._name("NodeList")
        self._add("node_list", pl.col(column) if column else pl.lit(None, pl.String))


class RecordedJobs:
    """Collects times, machines, gpus and memory of the rows that became jobs, block by block."""

    def __init__(self, first: Literal["allocated", "requested"]) -> None:
        """Begin a table; of its two numbers of gpus the `first` counts, the other if missing."""
        self._gpus = [f"{side}_gpus" for side in sorted({"allocated", "requested"} - {first})]
        self._gpus.insert(0, f"{first}_gpus")
        self._jobs: list[pl.DataFrame] = []
        self._lists = NodeLists()

    def restart(self) -> Self:
        """Forget all blocks, as the table is read again."""
        self._jobs.clear()
        self._lists = NodeLists()
        return self

    def add(self, rows: pl.DataFrame, kept: pl.DataFrame) -> None:
        """Add a block: all its rows, and those that became jobs."""
        self._jobs.append(kept.select(_KEPT))
        self._lists.add(kept["node_list"])

    def recorded(self, workload: Workload, order: Any) -> Recorded:
        """Return the columns for the jobs of a workload; `order` puts them into its order.

        A job without a start ran until its end, and the other way round. Gpus are told of if any
        job had one, memory if Slurm says how much any job was given: ReqMem is a request.
        """
        start = pl.coalesce("start_s", pl.col("end_s") - pl.col("run"))
        jobs = pl.concat(self._jobs).select(
            start.alias("start"),
            pl.max_horizontal("end_s", start + pl.col("run")).alias("end"),
            pl.when(pl.col("requested_time") > 0).then("requested_time").alias("limit"),
            pl.when(pl.col("machines") > 0).then("machines").alias("machines"),
            pl.when(~pl.col("gpus_untold")).then(pl.coalesce(self._gpus)).alias(GPU),
            pl.when(pl.col("allocated_gib") > 0).then("allocated_gib").alias("mem"),
        )
        column = {name: jobs[name].fill_null(np.nan).to_numpy()[order] for name in jobs.columns}
        held = {"processors": workload.job_request()[:, 0]}
        held |= {name: column[name] for name in ("mem", GPU) if (column[name] > 0).any()}
        nodes = self._lists.nodes(order)
        machines = column["machines"]
        if nodes is not None:
            named = np.diff(nodes.first)
            machines = np.where(named > 0, named, machines)
        return Recorded(
            column["start"] - workload.epoch_s,
            column["end"] - workload.epoch_s,
            held,
            column["limit"],
            machines,
            nodes,
        )


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


Which = Literal["all", "last"]

LATEST_S: Final = 86_400.0
"""An attempt is submitted at most this long after the end of the one before."""
COLUMNS: Final = ("task", "cluster", "start", "end", "again", "completed")
"""Columns that a job's row gives for this alone: number of the array's task, number of the cluster,
times (NaN where unknown), whether its state says that Slurm starts it again (0 or 1), and that it
completed (0 or 1)."""
_PERSON: Final = ("user", "group", "executable")
_TIMES: Final = ("submit", "start", "end", "run")


class _Pairs:
    """Rows of one id and cluster, each with the one before it in order of time."""

    def __init__(self, jobs: RigidJobs, rows: Ints) -> None:
        self._jobs = jobs
        names = ("line", "start", "submit", "task", "job", "cluster")  # the last is sorted by first
        order = rows[np.lexsort([self._column(name)[rows] for name in names])]
        self.before, self.after = order[:-1], order[1:]
        same = self._equal(("task", "job", "cluster"))
        self.before, self.after = self.before[same], self.after[same]

    def _column(self, name: str) -> Column:
        return self._jobs.column(name)

    def _both(self, name: str) -> tuple[Column, Column]:
        column = self._column(name)
        return column[self.before], column[self.after]

    def _equal(self, names: tuple[str, ...]) -> Bools:
        equal = np.ones(len(self.after), dtype=bool)
        for before, after in map(self._both, names):
            equal &= (before == after) | (np.isnan(before) & np.isnan(after))
        return equal

    def twice(self) -> Ints:
        """Return the rows that repeat the one before."""
        return self.after[self._equal(_TIMES)]

    def started_again(self) -> Bools:
        """Return which pairs are attempts of one job, the second after the first."""
        alike = self._column("completed")[self.before] == 0
        for before, after in map(self._both, _PERSON):
            alike &= (before == after) | (before < 0) | (after < 0)
        end, submit = self._column("end")[self.before], self._column("submit")[self.after]
        soon = np.where(
            np.isfinite(end), submit <= end + LATEST_S, self._column("again")[self.before]
        )
        again: Bools = alike & soon.astype(bool) & ~self._overlap()
        return again

    def _overlap(self) -> Bools:
        """Return which pairs ran at the same time: the second began before the end of the first.

        A missing start or end is reckoned by the run time; without both they do not overlap.
        """
        (first, second), (ended, ends), (ran, runs) = map(self._both, ("start", "end", "run"))
        end = np.where(np.isfinite(ended), ended, first + ran)
        start = np.where(np.isfinite(second), second, ends - runs)
        overlap: Bools = start < end
        return overlap


def rows_left_out(jobs: RigidJobs, which: Which) -> dict[str, Ints]:
    """Return rule → the lines of rows that it leaves out; empty where every row counts."""
    line, every = jobs.column("line"), np.arange(len(jobs))
    twice = _Pairs(jobs, every).twice()
    found = {rules.REPEATED_ROW: twice}
    if which == "last":
        pairs = _Pairs(jobs, np.delete(every, twice))
        found[rules.EARLIER_ATTEMPT] = pairs.before[pairs.started_again()]
    return {rule: np.sort(line[rows]) for rule, rows in found.items() if len(rows)}


def note_repeated_ids(jobs: RigidJobs, tally: Tally) -> None:
    """Note further attempts of a job, and other jobs that have the id of an earlier row."""
    line, job, task = (jobs.column(name) for name in ("line", "job", "task"))
    order = np.lexsort((line, task, job))
    same = (job[order][1:] == job[order][:-1]) & (task[order][1:] == task[order][:-1])
    if not same.any():
        return
    pairs = _Pairs(jobs, np.arange(len(jobs)))
    again = pairs.after[pairs.started_again()]
    tally.note(rules.FURTHER_ATTEMPT, np.sort(line[again]))
    tally.note(rules.REPEATED_ID, np.sort(line[np.setdiff1d(order[1:][same], again)]))
