"""Makes jobs of the rows of a task table: their order, their submit times, their tasks' parents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.names import number_names, plain_ids, whole_numbers
from simkit.traces.preceding import note_releases, preceding_of_table
from simkit.traces.rules import Tally
from simkit.traces.table_columns import TableColumns
from simkit.traces.task_table import rules as names
from simkit.traces.task_table.dependencies import look_up
from simkit.workload import Workload

_OWN_TIMES: Final = "run times"
"""Column of lists: the run time of each instance of a task."""


def by_task(
    table: TableColumns, resources: Sequence[str], submit: str, tally: Tally, *, gang: bool
) -> TableColumns:
    """Return a row for each task of a table with a row for each instance.

    A task is what has the same ids (without task ids: a job), in the order of its first rows,
    whose other columns count for it. The run times of a bag are in a column of lists, beside
    their mean; a gang runs as long as its longest instance.

    Args:
        table: n rows, each an instance.
        resources: columns of requests.
        submit: whether the first or the last row of a job says when it is submitted.
        tally: notes rows that differ from what counts for them.
        gang: whether the tasks are gangs.
    """
    key = [name for name in ("job_id", "task_id") if name in table.frame]
    asked = pl.struct(resources)
    other = table.frame.select(asked.ne_missing(asked.first().over(key))).to_series()
    tally.note(names.OTHER_REQUEST, table.line[other.to_numpy()])
    note_others(names.OF_TASK, table, table, key, tally)
    at = pl.col("submit_time_s")
    at = (at.last() if submit == "last" else at.first()).over("job_id")
    late = table.frame.select(pl.col("submit_time_s") != at).to_series()
    tally.note(names.OTHER_SUBMIT, table.line[late.to_numpy()])
    run = pl.col("run_time_s").clip(0.0)
    frame = (
        table.frame.with_columns(at, pl.Series("line", table.line))
        .group_by(key, maintain_order=True)
        .agg(
            pl.exclude("run_time_s").first(),
            *([run.max()] if gang else [run.mean(), run.alias(_OWN_TIMES)]),
            pl.len().cast(pl.Float64).alias("instances"),
        )
    )
    return replace(table, frame=frame.drop("line"), line=frame["line"].to_numpy())


def note_others(
    noted: Mapping[str, str],
    table: TableColumns,
    kept: TableColumns,
    key: Sequence[str],
    tally: Tally,
) -> None:
    """Note rows that say something else than what counts: what the first row kept of a key says.

    A row that says nothing differs from none.

    Args:
        noted: column → the rule under which its rows are noted.
        table: n rows.
        kept: those of them that are not left out.
        key: columns of the ids of what a row is part of.
        tally: counts the rows.
    """
    there = [name for name in noted if name in table.frame]
    if not there:
        return
    first = kept.frame.select(*key, *there, pl.lit(value=True).alias("_of_kept"))
    first = first.unique(key, keep="first", maintain_order=True)
    counts = table.frame.select(key).join(first, on=key, how="left", maintain_order="left")
    for name in there:
        said, one = table.frame[name], counts[name]
        if said.dtype == pl.String:
            said, one = plain_ids(said), plain_ids(one)
        differs = counts["_of_kept"].is_not_null() & said.is_not_null()
        differs &= said.ne_missing(one)
        tally.note(noted[name], table.line[differs.to_numpy()])


class TableJobs:
    """The rows of a table, put together by job: sorted by (submit time, first row)."""

    def __init__(
        self, table: TableColumns, submit: str, tally: Tally, left_out: Collection[str | None] = ()
    ) -> None:
        """Put them together; `left_out`: ids of jobs none of whose rows is among them."""
        self._tally, self._left_out = tally, left_out
        ids = table.ids("job_id")
        _, first, which = np.unique(ids, return_index=True, return_inverse=True)
        time = table.numbers("submit_time_s")
        row = first
        if submit == "last":
            row = np.zeros_like(first)
            np.maximum.at(row, which, np.arange(len(which)))
        tally.note(names.OTHER_SUBMIT, table.line[time != time[row][which]])
        tally.note(rules.OUT_OF_ORDER, table.line[time < np.maximum.accumulate(time)])
        jobs = np.lexsort((first, time[row]))
        rank = np.empty_like(jobs)
        rank[jobs] = np.arange(len(jobs))
        self._order: Ints = np.argsort(rank[which], kind="stable")
        self.job_id: npt.NDArray[Any] = ids[first[jobs]]
        self.submit_time_s: Floats = time[row][jobs]
        counts = np.bincount(which, minlength=len(first))[jobs]
        self.first_task: Ints = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self._table, self._first_row = table.take(self._order), first[jobs]
        self._users = table.take(self._first_row)
        self.task_id = self._task_ids()
        tally.note(names.REPEATED_TASK, np.sort(self._table.line[self._repeated()]))

    def workload(
        self, resources: Sequence[str], separator: str, path: Path, *, gang: bool
    ) -> Workload:
        """Return the workload of tasks whose parents exist and form no cycle."""
        table, size = self._table, len(self._table)
        user, labels = self._numbered_users()
        facts: dict[str, Any] = {"labels": labels} if labels else {}
        if "parents" in table.frame:
            facts["first_parent"], facts["parent"] = self._parents(separator)
        if user is not None:
            facts["user"] = user
        facts |= preceding_of_table(self._users, self.job_id, self._tally, self._left_out)
        if "release_time_s" in self._users.frame:
            release = self._users.numbers("release_time_s")
            release = np.where(np.isnan(release), self.submit_time_s, release)
            note_releases(self._tally, self._users.line, release - self.submit_time_s)
            facts["release_time_s"] = release
        if "retries" in table.frame:
            facts["retries"] = table.frame["retries"].fill_null(-1).cast(pl.Int64).to_numpy()
        if _OWN_TIMES in table.frame:
            facts["instance_run_time_s"] = table.frame[_OWN_TIMES].explode().to_numpy()
        instances = table.numbers("instances") if "instances" in table.frame else np.ones(size)
        wanted = np.broadcast_to(np.nan, (size,))
        if "requested_time_s" in table.frame:
            wanted = table.numbers("requested_time_s")
            wanted = np.where(wanted >= 0, wanted, np.nan)
        try:
            return Workload(
                resources=tuple(resources),
                job_id=self.job_id,
                submit_time_s=self.submit_time_s,
                first_task=self.first_task,
                task_id=self.task_id,
                instances=instances.astype(np.int64),
                request=np.column_stack([table.numbers(name) for name in resources]),
                run_time_s=np.maximum(table.numbers("run_time_s"), 0.0),
                requested_time_s=wanted,
                gang=np.broadcast_to(np.bool_(gang), (size,)),
                **facts,
            )
        except TraceError as error:
            raise TraceError(f"{path}: {error}") from None

    def _task_ids(self) -> npt.NDArray[Any]:
        """Return the tasks' ids; without a column they are numbered in their job, from 1."""
        if "task_id" in self._table.frame:
            return self._table.ids("task_id")
        return np.arange(len(self._table)) - self._job_begins() + 1

    def _job_begins(self) -> Ints:
        """Return (T,) the row of the first task of each task's job."""
        begins: Ints = np.repeat(self.first_task[:-1], np.diff(self.first_task))
        return begins

    def _repeated(self) -> Bools:
        """Return which tasks have the id of an earlier task of their job."""
        _, number = np.unique(self.task_id, return_inverse=True)
        pairs = np.column_stack((self._job_begins(), number))
        _, first = np.unique(pairs, axis=0, return_index=True)
        repeated = np.ones(len(self.task_id), dtype=bool)
        repeated[first] = False
        return repeated

    def _numbered_users(self) -> tuple[Ints | None, dict[str, tuple[str, ...]]]:
        """Return each job's user, by its first row: the trace's own numbers, or names by number."""
        if "user" not in self._users.frame:
            return None, {}
        names = self._users.frame["user"].replace(["-1", "-1.0"], None)
        numbers = whole_numbers(names)
        if numbers.null_count() == names.null_count() and not (numbers < 0).any():
            return numbers.fill_null(-1).to_numpy(), {}
        known: dict[str, int] = {}
        return number_names(names, known), {"user": tuple(known)}

    def _parents(self, separator: str) -> tuple[Ints, Ints]:
        """Return the offsets and rows of the tasks' parents, which all exist."""
        job = pl.Series(self._job_begins())
        tasks = pl.Series([str(task) for task in self.task_id.tolist()], dtype=pl.String)
        found = look_up(job, tasks, self._table.frame["parents"], separator)
        assert found.missing.is_empty()  # as `BrokenJobs` has seen to it
        return found.first, found.parent
