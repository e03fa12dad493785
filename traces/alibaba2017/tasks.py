"""The table batch_task: which of its rows become tasks, by rules that are named and counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces import rules
from simkit.traces.alibaba2017 import rules as names
from simkit.traces.alibaba2017.files import LINE, TableFile, lower_text, numbers, table_rows
from simkit.traces.alibaba2017.layout import CPU_PER_CORE, HOLDS, unread
from simkit.traces.alibaba2017.rules import RowRules
from simkit.traces.rigid_jobs import LARGEST, LARGEST_ID, first_that_applies
from simkit.traces.rules import Tally
from simkit.units import LONGEST_S

_COLUMNS: Final = (
    "create_time_s", "end_time_s", "job_id", "task_id", "instances", "status", "plan_cpu",
    "plan_mem",
)  # fmt: skip
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
    tally.unread(unread("batch_task", _COLUMNS), HOLDS)
    blocks = list(table_rows(file, "batch_task", _COLUMNS))
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


class _TaskRows:
    """The columns of batch_task as numbers, NaN where a field is empty."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.line: Ints = rows[LINE].to_numpy()
        self.create, self.end = numbers(rows, "create_time_s"), numbers(rows, "end_time_s")
        self.job, self.task = numbers(rows, "job_id"), numbers(rows, "task_id")
        self.instances = numbers(rows, "instances")
        self.run = self.end - self.create
        self.request = np.column_stack(
            (numbers(rows, "plan_cpu") / CPU_PER_CORE, numbers(rows, "plan_mem"))
        )
        self.status = lower_text(rows, "status")
        self.unusable = self._unusable(rows)

    def has(self, *statuses: str) -> Bools:
        """Return which rows have one of these statuses."""
        mask: Bools = self.status.is_in(list(statuses)).to_numpy()
        return mask

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
