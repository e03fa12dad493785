"""The tables batch_task and batch_instance: tasks, and the run times of their instances.

batch_instance has a row for every attempt but no instance ids. A retried attempt is recognised by
its status, or by a seq_no below total_seq_no. The attempts that ended well, in order of start, are
the instances of their task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, model_serializer, model_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.sections import BrokenRulesError, Section
from simkit.traces import rules
from simkit.traces.alibaba2017 import tables as names
from simkit.traces.alibaba2017.tables import (
    LINE,
    RowRules,
    TableFile,
    leave_aside,
    lower_text,
    numbers,
    table_rows,
)
from simkit.traces.columns import ALIBABA2017
from simkit.traces.rigid_jobs import GrowingColumn
from simkit.traces.rules import LARGEST, LARGEST_ID, Tally, first_that_applies
from simkit.units import LONGEST_S

_TASK_COLUMNS: Final = (
    "create_time_s", "end_time_s", "job_id", "task_id", "instances", "status", "plan_cpu",
    "plan_mem",
)  # fmt: skip
CPU: Final = ALIBABA2017["batch_task"]["plan_cpu"]
_STATUS: Final = {"waiting": ("waiting", "ready"), "failed": ("failed", "cancelled", "canceled")}
_KNOWN: Final = ("terminated", "running", *_STATUS["waiting"], *_STATUS["failed"])


@dataclass(frozen=True)
class Tasks:
    """Kept tasks in the order of the file, T of them; times in seconds on the trace's clock."""

    line: Ints
    job: Ints
    task: Ints
    create_s: Floats
    run_s: Floats
    """(T,) end − creation, at least 0: longer than an instance runs, for it holds its waiting."""
    instances: Ints
    request: Floats
    """(T, 2) cores and memory (1 is the largest machine's), an instance."""
    left_out: tuple[Ints, Ints]
    """Job and task ids of the rows that the rules left out."""


def read_tasks(file: TableFile, chosen: RowRules, tally: Tally) -> Tasks:
    """Read batch_task and apply the rules, each row counted in `tally` under the first that holds.

    Raises TraceError, with the line, if the file is no such table.
    """
    leave_aside("batch_task", _TASK_COLUMNS, tally)
    blocks = list(table_rows(file, "batch_task", _TASK_COLUMNS))
    if not blocks:
        none, empty = np.empty(0, np.int64), np.empty(0)
        return Tasks(none, none, none, empty, empty, none, np.empty((0, 2)), (none, none))
    rows = pl.concat(blocks)
    tally.read(rows.height)
    table = _TaskRows(rows)
    left = table.drop(chosen, tally)
    kept = np.flatnonzero(left)
    _count_repairs(table, kept, chosen, tally)
    out = ~left & (np.abs(table.job) < LARGEST_ID) & (np.abs(table.task) < LARGEST_ID)
    create = table.create[kept]
    tasks = Tasks(
        line=table.line[kept],
        job=table.job[kept].astype(np.int64),
        task=table.task[kept].astype(np.int64),
        create_s=np.maximum(create, 0.0) if chosen.early == "zero" else create,
        run_s=np.maximum(table.run[kept], 0.0),
        instances=table.instances[kept].astype(np.int64),
        request=_filled(table.request[kept]),
        left_out=(table.job[out].astype(np.int64), table.task[out].astype(np.int64)),
    )
    _note_oddities(tasks, tally)
    return tasks


class _Statuses:
    """Rows with a status each."""

    status: pl.Series

    def has(self, *statuses: str) -> Bools:
        """Return which rows have one of these statuses."""
        mask: Bools = self.status.is_in(list(statuses)).to_numpy()
        return mask


class _TaskRows(_Statuses):
    """The columns of batch_task as numbers, NaN where a field is empty."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.line: Ints = rows[LINE].to_numpy()
        self.create, self.end = numbers(rows, "create_time_s"), numbers(rows, "end_time_s")
        self.job, self.task = numbers(rows, "job_id"), numbers(rows, "task_id")
        self.instances = numbers(rows, "instances")
        self.run = self.end - self.create
        self.request = np.column_stack(
            (numbers(rows, "plan_cpu") / CPU.per, numbers(rows, "plan_mem"))
        )
        self.status = lower_text(rows, "status")
        self.unusable = self._unusable(rows)

    def _unusable(self, rows: pl.DataFrame) -> Bools:
        """Return which rows hold values that no rule can use; empty fields do not count."""
        bad = ~(np.abs(self.create) <= LARGEST / 2)  # as late as a workload may submit
        for values in (self.end, self.instances, *self.request.T):
            bad |= np.abs(values) >= LARGEST
        bad |= self.end - self.create > LONGEST_S
        for name in ("end_time_s", "job_id", "task_id", "instances", "plan_cpu", "plan_mem"):
            bad |= rows[name].is_nan().fill_null(value=False).to_numpy()
        for ids in (self.job, self.task):
            bad |= (np.abs(ids) >= LARGEST_ID) | (np.floor(ids) < ids)
        bad |= (self.request < 0).any(axis=1)
        return bad

    def drop(self, chosen: RowRules, tally: Tally) -> Bools:
        """Count the rows to leave out, and return which are left."""
        nothing = np.zeros(len(self.line), dtype=bool)
        no_end = np.isnan(self.end) | (self.end == 0)
        whole = (self.instances >= 1) & (np.floor(self.instances) == self.instances)
        waiting, failed = self.has(*_STATUS["waiting"]), self.has(*_STATUS["failed"])
        masks = {
            names.NO_IDS: np.isnan(self.job) | np.isnan(self.task),
            names.NOT_A_NUMBER: self.unusable,
            names.UNKNOWN_STATUS: ~self.has(*_KNOWN),
            names.WAITING: waiting if chosen.waiting == "drop" else nothing,
            names.RUNNING: self.has("running") if chosen.running == "drop" else nothing,
            names.FAILED: failed if chosen.failed == "drop" else nothing,
            names.EARLY: self.create < 0 if chosen.early == "drop" else nothing,
            names.NO_END: no_end,
            names.NEGATIVE_RUN: self.run < 0 if chosen.negative_run == "drop" else nothing,
            names.ZERO_RUN: self.run == 0 if chosen.zero_run == "drop" else nothing,
            names.NO_INSTANCES: ~whole,
        }
        unknown = np.isnan(self.request).any(axis=1)
        masks[names.NO_REQUEST] = unknown if chosen.no_request == "drop" else nothing
        left = first_that_applies(masks, self.line, tally.drop)
        if np.isnan(self.request[left]).all(axis=0).any():  # nothing to take a median of
            left &= first_that_applies({names.NO_REQUEST: unknown & left}, self.line, tally.drop)
        return left


def _count_repairs(table: _TaskRows, kept: Ints, chosen: RowRules, tally: Tally) -> None:
    early = table.create[kept] < 0
    repairs = {
        names.EARLY: early & (chosen.early == "zero"),
        names.NEGATIVE_RUN: table.run[kept] < 0,
        names.NO_REQUEST: np.asarray(np.isnan(table.request[kept]).any(axis=1)),
    }
    unchanged = first_that_applies(repairs, table.line[kept], tally.repair)
    tally.accept(int(np.count_nonzero(unchanged)))
    if chosen.early == "keep":
        tally.note(names.EARLY, table.line[kept][early])


def _filled(request: Floats) -> Floats:
    """Put the median of a resource where a request is empty."""
    for column in request.T:
        if (empty := np.isnan(column)).any():
            column[empty] = np.median(column[~empty])
    return request


def _note_oddities(tasks: Tasks, tally: Tally) -> None:
    """Note rows out of order, tasks created after their job, and ids that repeat."""
    late = tasks.create_s < np.maximum.accumulate(tasks.create_s)
    tally.note(rules.OUT_OF_ORDER, tasks.line[late])
    order = np.lexsort((tasks.line, tasks.task, tasks.job))
    job, task = tasks.job[order], tasks.task[order]
    again = (job[1:] == job[:-1]) & (task[1:] == task[:-1])
    tally.note(names.REPEATED_TASK, np.sort(tasks.line[order[1:][again]]))
    _, which = np.unique(tasks.job, return_inverse=True)
    first = np.full(int(which.max()) + 1 if len(which) else 0, np.inf)
    np.minimum.at(first, which, tasks.create_s)
    tally.note(names.LATER_TASK, tasks.line[tasks.create_s > first[which]])


_INSTANCE_COLUMNS: Final = (
    "start_time_s", "end_time_s", "job_id", "task_id", "machine_id", "status", "seq_no",
    "total_seq_no",
)  # fmt: skip
_LEFT_OUT, _UNKNOWN = -1, -2
_KEPT_COLUMNS: Final = ("task", "start", "run", "line")


@dataclass(frozen=True)
class InstanceRuns:
    """Run times of the instances that the table shows; T tasks."""

    known: Ints
    """(T,) number of instances that the table shows."""
    run_s: Floats
    """(sum of known,) their run times, by task, then by start."""
    start_s: Floats
    """(sum of known,) when they started."""


def read_instance_times(
    file: TableFile,
    index: pl.DataFrame,
    instances: Ints,
    chosen: RowRules,
    machines: npt.NDArray[Any] | None,
    tally: Tally,
) -> InstanceRuns:
    """Read batch_instance and apply the rules; each row counts under the first that applies.

    A row takes about 16 bytes, so 12 million rows take a few hundred megabytes.

    Args:
        file: the table.
        index: what `task_index` returns.
        instances: (T,) planned instances of each task.
        chosen: the rules.
        machines: ids of the known machines; None: not known.
        tally: counts the rows.

    Raises TraceError, with the line, if the file is no such table.
    """
    columns = {name: GrowingColumn() for name in _KEPT_COLUMNS}
    leave_aside("batch_instance", _INSTANCE_COLUMNS, tally)
    for rows in table_rows(file, "batch_instance", _INSTANCE_COLUMNS):
        attempts = _InstanceRows(rows, index)
        kept = attempts.judge(chosen, tally)
        for name in _KEPT_COLUMNS:
            columns[name].append(getattr(attempts, name)[kept])
        if machines is not None:
            strange = ~np.isin(attempts.machine, machines) & ~np.isnan(attempts.machine)
            tally.note(names.UNKNOWN_MACHINE, attempts.line[strange])
    return _by_task({name: column.values() for name, column in columns.items()}, instances, tally)


def task_index(kept: tuple[Ints, Ints], left_out: tuple[Ints, Ints]) -> pl.DataFrame:
    """Return (job_id, task_id, task): the row of each kept task, -1 for a task left out."""
    rows = np.concatenate((np.arange(len(kept[0])), np.full(len(left_out[0]), _LEFT_OUT)))
    frame = pl.DataFrame(
        {
            "job_id": np.concatenate((kept[0], left_out[0])).astype(np.float64),
            "task_id": np.concatenate((kept[1], left_out[1])).astype(np.float64),
            "task": rows.astype(np.int64),
        }
    )
    return frame.unique(["job_id", "task_id"], keep="first", maintain_order=True)


class _InstanceRows(_Statuses):
    """The columns of a block of batch_instance, NaN where a field is empty."""

    def __init__(self, rows: pl.DataFrame, index: pl.DataFrame) -> None:
        self.line: Ints = rows[LINE].to_numpy()
        self.start, self.end = numbers(rows, "start_time_s"), numbers(rows, "end_time_s")
        self.job, self.task_id = numbers(rows, "job_id"), numbers(rows, "task_id")
        self.machine = numbers(rows, "machine_id")
        self.seq, self.total = numbers(rows, "seq_no"), numbers(rows, "total_seq_no")
        self.run = self.end - self.start
        self.status = lower_text(rows, "status")
        found = rows.select("job_id", "task_id").join(
            index, on=["job_id", "task_id"], how="left", maintain_order="left"
        )
        self.task: Ints = found["task"].fill_null(_UNKNOWN).to_numpy()

    def judge(self, chosen: RowRules, tally: Tally) -> Ints:
        """Count the rows to leave out; return those that are instances of kept tasks."""
        unusable = (np.abs(self.start) >= LARGEST) | (np.abs(self.end) >= LARGEST)
        unusable |= self.end - self.start > LONGEST_S
        unusable |= (np.abs(self.job) >= LARGEST_ID) | (np.abs(self.task_id) >= LARGEST_ID)
        retried = (self.seq < self.total) & (chosen.retries == "last")
        masks = {
            names.NO_IDS: np.isnan(self.job) | np.isnan(self.task_id),
            names.NOT_A_NUMBER: unusable,
            names.UNKNOWN_TASK: self.task == _UNKNOWN,
            names.TASK_LEFT_OUT: self.task == _LEFT_OUT,
            names.INSTANCE_WAITING: self.has(*_STATUS["waiting"]),
            names.INSTANCE_RUNNING: self.has("running"),
            names.INSTANCE_FAILED: self.has(*_STATUS["failed"], "interrupted", "interupted"),
            names.UNKNOWN_STATUS: ~self.has("terminated"),
            names.RETRIED: retried,
            names.NO_START: np.isnan(self.start) | (self.start == 0),
            names.NO_END: np.isnan(self.end) | (self.end == 0),
            names.NEGATIVE_ATTEMPT: self.run < 0,
        }
        tally.read(len(self.line))
        return np.flatnonzero(first_that_applies(masks, self.line, tally.drop))


def _by_task(columns: dict[str, npt.NDArray[Any]], instances: Ints, tally: Tally) -> InstanceRuns:
    """Sort the instances by task and start; leave out more instances than a task planned."""
    frame = pl.DataFrame({name: columns.pop(name) for name in _KEPT_COLUMNS}).sort(_KEPT_COLUMNS)
    task, line = frame["task"].to_numpy(), frame["line"].to_numpy()
    counts = np.bincount(task, minlength=len(instances)).astype(np.int64)
    begin = np.cumsum(counts) - counts
    planned = np.arange(len(task)) - begin[task] < instances[task]
    tally.drop(names.SURPLUS, np.sort(line[~planned]).astype(np.int64))
    tally.accept(int(np.count_nonzero(planned)))
    run = frame["run"].to_numpy()[planned].astype(np.float64)
    start = frame["start"].to_numpy()[planned].astype(np.float64)
    return InstanceRuns(np.minimum(counts, instances), run, start)


SHARES: Final = (
    (1, 0.93), (4, 0.86), (16, 0.79), (64, 0.73), (128, 0.65), (256, 0.47), (512, 0.22),
    (1024, 0.13),
)  # fmt: skip
"""Least number of instances → mean run time of an instance as a share of its task's wall time.

Measured from the durations in CloudSimPy's job table for 31,735 tasks of the trace (apparently
means over batch_instance: 37 % are not whole), summed over instances and divided by the same sum of
end − creation in batch_task. A task with many instances does not run them all at once. With
these shares the sum of all run times is within 1 % of the measured one; with ``task`` it is 4.4
times as large.
"""


class Durations(Section):
    """Run times of instances without a row, from the wall time of their task.

    The wall time is end − creation. ``task``: every instance runs for the task's wall time, an
    upper bound; instances that start together end together. ``share``: every instance runs for a
    share of it, either the given one or the one that `SHARES` has for the number of instances.
    """

    type: Literal["task", "share"] = "task"
    """task: the task's wall time; share: a share of it."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share; null: as measured for the task's number of instances."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"type": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_a_share_if_it_is_one(self) -> Self:
        if self.share is not None and self.type != "share":
            raise BrokenRulesError([(("share",), "belongs to the type share; add `type: share`")])
        return self

    @model_serializer(mode="plain")
    def _shortest_form(self) -> str | dict[str, Any]:
        return self.type if self.share is None else {"type": self.type, "share": self.share}

    def run_time_s(self, wall_s: Floats, instances: Ints) -> Floats:
        """Return (T,) run times of an instance of each task, in s.

        Args:
            wall_s: (T,) end − creation of the tasks.
            instances: (T,) their numbers of instances.
        """
        if self.type == "task":
            return wall_s
        if self.share is not None:
            return wall_s * self.share
        sizes, shares = np.array(SHARES).T
        row = np.searchsorted(sizes, instances, side="right") - 1
        return np.asarray(wall_s * shares[row])
