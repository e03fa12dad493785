"""The recorder: takes the engine's facts as plain rows and turns them into the tables of records.

Rows are collected as numbers and turned into columns a chunk at a time, so that a long replay
holds a chunk of them and no more.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.policy.estimates import CORRECTIONS, Correction, corrected
from simkit.records import EVENTS, OUTCOMES, STATUSES, TABLES, TableSink
from simkit.units import TIME_GRID
from simkit.workload import Workload
from simkit.workload.workload import JOB_COLUMNS, OF_JOBS

if TYPE_CHECKING:
    import polars as pl

CHUNK = 32_768
"""Rows of a table that are held before they are handed on."""
FLUSH_EVERY = 4096
"""Decisions between two calls of `flush`."""


EventRow = tuple[float, str, int, int, int, str]
"""(time, kind, job row, task row, machine, detail); a row of -1 means none."""


class Outcome(IntEnum):
    """How an allocation ended; see `records.OUTCOMES`."""

    FINISHED = 0
    KILLED = 1
    SUSPENDED = 2
    LOST = 3
    RUNNING = 4


class Status(IntEnum):
    """Where a job or task stands; see `records.STATUSES`."""

    FINISHED = 0
    KILLED = 1
    REJECTED = 2
    RUNNING = 3
    WAITING = 4


class Recorder:
    """Rows of a run. The engine appends to the arrays and calls `flush` now and then.

    All but events are plain arrays of doubles, row after row: no object stays alive for a row.
    (`fromlist` appends a row twice as fast as `extend` does.)
    """

    keeps_timeline = True
    """Whether the engine appends to `timeline`."""
    routed: tuple[list[str], Ints] | None = None
    """Names of the scenario's partitions, and (J,) the row of that of each job, -1: none."""
    released_s: Floats | None = None
    """(J,) when each job was released, NaN before; None: at its submission. With it, jobs have a
    further column."""
    correction: Correction = "none"
    """How estimates are corrected; with one, jobs have a further column."""

    def __init__(
        self,
        workload: Workload,
        resources: tuple[str, ...],
        sink: TableSink,
        tables: Collection[str] = TABLES,
    ) -> None:
        """Begin with no rows; the sink gets those of `tables`."""
        self._tables = frozenset(tables)
        self._workload = workload
        self._resources = resources
        self.sink = sink
        self._reasons: dict[str, int] = {"": 0}
        self._job_request = None if workload.tasks == len(workload) else workload.job_request()
        self._longest_task_s = longest = workload.longest_run_time_s()
        if workload.tasks != len(workload):
            longest = np.maximum.reduceat(longest, workload.first_task[:-1])
        self._longest_run_s = longest
        self._held_s = workload.held_time_s()
        self.jobs = array("d")
        """11 a row: (row, start, end, run, estimate, suspended, lost, attempts, status, number of
        the reason, ideal)"""
        self.tasks = array("d")
        """5 a row: (row, ready, start, end, status)"""
        self.allocations = array("d")
        """6 for what started and ends together: (job row, task row, start, end, outcome, number of
        its pieces); each piece is a row of the table"""
        self.pieces = array("d")
        """4 a piece of `allocations`: (machine, first, count, attempt)"""
        self.simple = array("d")
        """5 a row, for the usual case in which one end makes a row in each of the three tables:
        (task row, machine, start, end, estimate)"""
        self.timeline = array("d")
        """4 + R a row: (time, waiting, backlog, running, free…)"""
        self.capacity = [0.0] * len(resources)
        """Present capacity of each resource."""
        self._capacities: list[tuple[int, list[float]]] = []
        """(length of `timeline` until which it held, an earlier capacity), since it was flushed"""
        self.events: list[EventRow] = []

    def reason(self, text: str) -> int:
        """Return the number that stands for a reason."""
        return self._reasons.setdefault(text, len(self._reasons))

    def change_capacity(self, capacity: list[float]) -> None:
        """Take note of new totals, which hold for the rows of the timeline from now on."""
        self._capacities.append((len(self.timeline), self.capacity))
        self.capacity = capacity

    def power(self, rows: Mapping[str, Floats]) -> None:
        """Hand on finished rows of the power ledger, given as columns of equal length."""
        import polars as pl

        self.sink.write("power", pl.DataFrame(dict(rows)))

    def spilled(self) -> Recorder:
        """Write `simple` rows out into the three tables, so that others can follow in order."""
        if self.simple:
            task, machine, start, end, estimate = _columns(self.simple, 5)
            at = task.astype(np.int64)
            job, count = self._job_of(at).astype(np.float64), self._workload.instances[at]
            run = self._longest_task_s[at]
            none, one = np.zeros(len(task)), np.ones(len(task))
            at_once = self._workload.submit_time_s
            ready = (at_once if self.released_s is None else self.released_s)[job.astype(np.int64)]
            append_rows(self.allocations, job, task, start, end, none, one)
            append_rows(self.pieces, machine, none, count, one)
            append_rows(self.tasks, task, ready, start, end, none)
            ideal = np.full(len(task), np.nan)
            append_rows(
                self.jobs, job, start, end, run, estimate, none, none, one, none, none, ideal
            )
            del self.simple[:]
        return self

    def flush(self) -> None:
        """Hand on every table that holds a chunk of rows."""
        self.spilled()
        width = len(self._resources)
        for name, rows, columns in (("jobs", self.jobs, 11), ("tasks", self.tasks, 5),
                                    ("allocations", self.pieces, 4), ("events", self.events, 1),
                                    ("timeline", self.timeline, 4 + width)):  # fmt: skip
            if len(rows) >= CHUNK * columns // 2:
                self._hand_on(name)

    def close(self) -> None:
        """Hand on all that is left; every table is written, if only its header."""
        self.spilled()
        for name in TABLES:
            self._hand_on(name)

    def write(self, name: str, *columns: Any) -> None:
        """Hand on finished rows of a table other than events, given as columns of equal length.

        Those of `allocations` are those of its pieces: job row, task row, start, end, outcome,
        machine, first, count, attempt.
        """
        if name in self._tables:
            self.sink.write(name, getattr(self, f"_{name}_frame")(*columns))

    def _hand_on(self, name: str) -> None:
        rows = getattr(self, name)
        if name == "events":
            self.write(name, rows)
        elif name == "allocations":
            *of_all, pieces = _columns(rows, 6)
            of_each = np.repeat(of_all, pieces.astype(np.int64), axis=1)
            self.write(name, *of_each, *_columns(self.pieces, 4))
            del self.pieces[:]
        else:
            width = {"jobs": 11, "tasks": 5, "timeline": 4 + len(self._resources)}[name]
            self.write(name, *_columns(rows, width))
        del rows[:]

    def _jobs_frame(
        self, row: Any, start: Floats, end: Floats, run: Floats, estimate: Floats,
        suspended: Floats, lost: Floats, attempts: Any, status: Any, reason: Any, ideal: Floats,
    ) -> pl.DataFrame:  # fmt: skip
        load = self._workload
        at = row.astype(np.int64, copy=False)
        submit = load.submit_time_s[at]
        first = load.first_task[at]
        columns = {
            "job_id": load.job_id[at],
            **{name: self._named(name, getattr(load, name)[at]) for name in JOB_COLUMNS},
            "submit_time_s": submit,
            "start_time_s": start,
            "end_time_s": end,
            "wait_time_s": start - submit,
            "turnaround_time_s": end - submit,
            "run_time_s": run,
            "ideal_time_s": ideal,
            "requested_time_s": load.requested_time_s[first],
            "estimate_s": estimate,
            "trace_run_time_s": self._longest_run_s[at],
            "suspended_time_s": suspended,
            "lost_time_s": lost,
            "attempts": attempts.astype(np.int64, copy=False),
            "status": _texts(status, STATUSES),
            "reason": _texts(reason, tuple(self._reasons)),
            **{name: getattr(load, name)[at] for name in OF_JOBS if len(getattr(load, name))},
        }
        if self.released_s is not None:
            columns["release_time_s"] = self.released_s[at]
        if self.correction != "none":
            columns["corrected_estimate_s"] = self._corrected(at, estimate, run)
        if self.routed is not None:
            names, partition = self.routed
            none = len(names)  # -1, where no partition took the job
            columns["site_partition"] = _texts(partition[at] % (none + 1), (*names, ""))
        if "deadline_s" in columns:
            due = columns["deadline_s"]
            columns["deadline_s"] = np.where(np.isfinite(due), due, np.nan)
        demand = (
            load.request[first] * load.instances[first][:, None]
            if self._job_request is None
            else self._job_request[at]
        )
        return _frame(columns | self._of_resources(demand))

    def _corrected(self, jobs: Ints, estimate: Floats, run: Floats) -> Floats:
        """Return (jobs,) the estimates after their last correction; NaN unless of one gang."""
        load = self._workload
        first = load.first_task[jobs]
        requested, executed = load.requested_time_s[first], run - TIME_GRID
        additions = CORRECTIONS[self.correction]  # none if a task ends just at its estimate
        rows = zip(estimate.tolist(), requested.tolist(), executed.tolist(), strict=True)
        result = [corrected(*row, additions) for row in rows]
        known = load.gang[first] & (load.first_task[jobs + 1] - first == 1) & ~np.isnan(run)
        return np.where(known, result, np.nan)

    def _of_resources(self, amounts: Floats) -> dict[str, Floats]:
        """Return a column a resource, 0 for those of the cluster that no job asks for."""
        names = self._workload.resources
        unused = (name for name in self._resources if name not in names)
        return dict(zip(names, amounts.T, strict=True)) | {
            name: np.zeros(len(amounts)) for name in unused
        }

    def _named(self, column: str, numbers: Any) -> Any:
        """Return the trace's names for numbers, where it has names."""
        names = self._workload.labels.get(column)
        if names is None:
            return numbers
        return np.array([*names, ""], dtype=object)[numbers]  # -1 finds the empty name

    def _tasks_frame(
        self, row: Any, ready: Floats, start: Floats, end: Floats, status: Any
    ) -> pl.DataFrame:
        load = self._workload
        at = row.astype(np.int64, copy=False)
        columns = {
            "job_id": load.job_id[self._job_of(at)],
            "task_id": load.task_id[at],
            "instances": load.instances[at],
            "gang": load.gang[at],
            "ready_time_s": ready,
            "start_time_s": start,
            "end_time_s": end,
            "trace_run_time_s": self._held_s[at],
            "status": _texts(status, STATUSES),
        }
        return _frame(columns | self._of_resources(load.request[at]))

    def _job_of(self, tasks: Any) -> Any:
        if self._workload.tasks == len(self._workload):
            return tasks
        return np.searchsorted(self._workload.first_task, tasks, side="right") - 1

    def _allocations_frame(
        self, job: Any, task: Any, start: Floats, end: Floats, outcome: Any, machine: Any,
        first: Any, count: Any, attempt: Any,
    ) -> pl.DataFrame:  # fmt: skip
        load = self._workload
        numbers = {"machine_id": machine, "first_instance": first, "count": count,
                   "attempt": attempt}  # fmt: skip
        columns = {
            "job_id": load.job_id[job.astype(np.int64, copy=False)],
            "task_id": load.task_id[task.astype(np.int64, copy=False)],
            **{name: column.astype(np.int64, copy=False) for name, column in numbers.items()},
            "start_time_s": start,
            "end_time_s": end,
            "outcome": _texts(outcome, OUTCOMES),
        }
        return _frame(columns)

    def _timeline_frame(
        self, time: Floats, waiting: Any, backlog: Any, running: Any, *free: Floats
    ) -> pl.DataFrame:
        width = len(self._resources)
        counts = {"waiting": waiting, "backlog": backlog, "running": running}
        columns = {"time_s": time}
        columns |= {name: count.astype(np.int64, copy=False) for name, count in counts.items()}
        totals = dict(zip(self._resources, self._totals_of(len(time), 4 + width).T, strict=True))
        for (name, total), left in zip(totals.items(), free, strict=True):
            columns[f"allocated_{name}"] = total - left
        columns |= {f"capacity_{name}": total for name, total in totals.items()}
        return _frame(columns)

    def _totals_of(self, rows: int, width: int) -> Any:
        """Return (rows, R): the capacities that held in the rows of the timeline."""
        until = [length // width for length, _ in self._capacities] + [rows]
        held = np.array([totals for _, totals in self._capacities] + [self.capacity])
        self._capacities.clear()
        return np.repeat(held, np.diff(until, prepend=0), axis=0)

    def _events_frame(self, rows: list[EventRow]) -> pl.DataFrame:
        import polars as pl

        load = self._workload
        ids = pl.String if load.job_id.dtype == object else pl.Int64
        task_ids = pl.String if load.task_id.dtype == object else pl.Int64
        kinds = [pl.Float64, pl.String, ids, task_ids, pl.Int64, pl.String]
        data = [
            (time, kind, None if job < 0 else _plain(load.job_id[job]),
             None if task < 0 else _plain(load.task_id[task]),
             None if machine < 0 else machine, detail)
            for time, kind, job, task, machine, detail in rows
        ]  # fmt: skip
        return pl.DataFrame(data, schema=dict(zip(EVENTS, kinds, strict=True)), orient="row")


def _columns(rows: array[float], width: int) -> list[Any]:
    table = np.array(rows).reshape(-1, width)
    return [np.ascontiguousarray(column) for column in table.T]


def append_rows(rows: array[float], *columns: Any) -> None:
    """Append rows, given as columns of equal length."""
    rows.frombytes(np.column_stack(columns).tobytes())


def _texts(numbers: Any, texts: tuple[str, ...]) -> Any:
    import polars as pl

    known = pl.Series(texts, dtype=pl.String)
    if len(numbers) and (numbers == numbers[0]).all():  # as are most statuses, and all of a chunk
        return known.new_from_index(int(numbers[0]), len(numbers))
    return known.gather(pl.Series(numbers).cast(pl.UInt32))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _frame(columns: dict[str, Any]) -> pl.DataFrame:
    """Make a frame; NaN, which in numbers stands for "not yet" or "unknown", becomes null."""
    import polars as pl

    text = {"job_id", "task_id", *JOB_COLUMNS}
    return pl.DataFrame(
        [
            column.alias(name)
            if isinstance(column, pl.Series)
            else pl.Series(name, column, dtype=pl.String)
            if name in text and column.dtype == object
            else pl.Series(name, column, nan_to_null=column.dtype == np.float64)
            for name, column in columns.items()
        ]
    )
