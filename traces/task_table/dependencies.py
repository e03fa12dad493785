"""Dependencies between the rows of a task table, and the jobs whose dependencies cannot be kept.

A job is what its tasks and their order make it. One that lacks a task which another waits for, or
whose tasks wait for each other, is another job or none: it is refused, or left out with all its
rows, and so are the children of the children of a row that is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces.bad_lines import SHOWN, BadLines
from simkit.traces.names import plain_ids, whole_numbers
from simkit.traces.rules import Tally
from simkit.traces.table_columns import TableColumns
from simkit.traces.task_table import rules as names
from simkit.workload.dependencies import find_cycles


@dataclass(frozen=True)
class Parents:
    """The parents of n rows, looked up by job and id."""

    first: Ints
    """(n + 1,) offsets into `parent`."""
    parent: Ints
    """Rows of parents that exist: of several with the same id, the first."""
    missing: pl.DataFrame
    """Parents that do not: columns ``row``, ``job`` and ``word``, in the order of rows."""


def look_up(job: pl.Series, task: pl.Series, parents: pl.Series, separator: str) -> Parents:
    """Return the parents of n rows.

    Args:
        job: (n,) a job's number or name.
        task: (n,) ids, as text.
        parents: (n,) ids of tasks of the same job with `separator` in between; null: none.
        separator: what stands between ids.
    """
    rows = pl.DataFrame({"job": job, "word": task}).with_row_index("parent")
    pairs = (
        pl.DataFrame({"job": job, "word": parents.str.split(separator)})
        .with_row_index("row")
        .explode("word")
        .with_columns(pl.col("word").str.strip_chars())
        .filter(pl.col("word") != "")
        .unique(["row", "word"], keep="first", maintain_order=True)
    )
    if whole_numbers(task).null_count() == 0:  # 01 and 1.0 are 1 then
        rows, pairs = (one.with_columns(plain_ids(one["word"])) for one in (rows, pairs))
    firsts = rows.unique(["job", "word"], keep="first", maintain_order=True)
    found = pairs.join(firsts, on=["job", "word"], how="left", maintain_order="left")
    there = found.filter(pl.col("parent").is_not_null())
    counts = np.bincount(there["row"].to_numpy(), minlength=len(job))
    return Parents(
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        there["parent"].to_numpy().astype(np.int64),
        found.filter(pl.col("parent").is_null()).drop("parent"),
    )


class BrokenJobs:
    """The jobs of a table that lack a parent, or whose tasks wait for each other."""

    def __init__(self, table: TableColumns, kept: Bools, separator: str, *, joined: bool) -> None:
        """Find them.

        Args:
            table: n rows, with ``task_id`` and ``parents``.
            kept: (n,) the rows that their own values leave in.
            separator: what stands between parents.
            joined: whether the first row of a task speaks for all with its ids.
        """
        self._table, self._kept = table, kept
        self._rows = np.flatnonzero(kept)
        good = table.take(self._rows)
        self._job: Ints = np.unique(good.ids("job_id"), return_inverse=True)[1].astype(np.int64)
        job = pl.Series(self._job)
        parents = good.frame["parents"]
        if joined:
            first = good.frame.select(pl.struct("job_id", "task_id").is_first_distinct())
            parents = parents.set(~first.to_series(), None)
        found = look_up(job, good.frame["task_id"], parents, separator)
        self._cycles = find_cycles(found.first, found.parent, self._job)
        self._missing = self._with_line_left_out(found.missing)

    def _with_line_left_out(self, missing: pl.DataFrame) -> pl.DataFrame:
        """Return the parents that are missing with ``left_out``, the line of a row without use.

        That is null where there is no row of the job with this id.
        """
        dropped = pl.DataFrame(
            {"left_out": self._table.line[~self._kept]}, schema={"left_out": pl.Int64}
        ).hstack(self._table.frame.filter(~self._kept).select("job_id", word="task_id"))
        rows = self._rows[missing["row"].to_numpy()]
        return missing.with_columns(job_id=self._table.frame["job_id"].gather(rows)).join(
            dropped.unique(["job_id", "word"], keep="first", maintain_order=True),
            on=["job_id", "word"], how="left", maintain_order="left",
        )  # fmt: skip

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._cycles) or not self._missing.is_empty()

    def leave_out(self, tally: Tally) -> Bools:
        """Count the rows of these jobs, each job under one rule; return which rows stay, (n,)."""
        left_out = self._missing["left_out"].is_not_null().to_numpy()
        lacking = self._missing["job"].to_numpy()
        looped = self._job[[cycle[0] for cycle in self._cycles]]
        stays = self._kept.copy()
        for rule, jobs in (
            (names.NO_PARENT, lacking[~left_out]),
            (names.PARENT_LEFT_OUT, lacking[left_out]),
            (names.LOOP, looped),
        ):
            rows = self._rows[np.isin(self._job, jobs)]
            rows = rows[stays[rows]]
            tally.drop(rule, self._table.line[rows])
            stays[rows] = False
        return stays

    def refuse(self, bad: BadLines) -> None:
        """Raise TraceError, with the first problems in the order of rows, if there is one."""
        if not self.any:
            return
        problems = sorted([*self._lacking(bad), *self._looped()])
        found = [f"{bad.place(line)}: {text}" for line, text in problems[:SHOWN]]
        if more := len(problems) - len(found):
            found.append(f"… and {counted(more, 'more such problem')}")
        jobs = {*self._missing["job"].to_list()} | {self._job[c[0]].item() for c in self._cycles}
        these = "these jobs" if len(jobs) > 1 else "this job"
        raise TraceError(
            "\n".join(found)
            + f"\n{bad.path}: {counted(len(jobs), 'job')} with dependencies that cannot be kept; "
            f"correct `parents`, or leave {these} out with on_error: skip, which counts the rows"
        )

    def _lacking(self, bad: BadLines) -> Iterator[tuple[int, str]]:
        """Yield line and problem of each row and parent that is missing."""
        shown = self._missing.select("row", "word", "left_out", "job_id")
        for row, word, left_out, job in shown.iter_rows():
            place = int(self._rows[row])
            why = "which the job does not have"
            if left_out is not None:
                why = f"whose row, {bad.place(left_out)}, is left out by a rule"
            task = self._table.frame["task_id"][place]
            yield int(self._table.line[place]), f"task {task} of job {job} waits for {word}, {why}"

    def _looped(self) -> Iterator[tuple[int, str]]:
        """Yield line and problem of the first row of each cycle."""
        tasks: npt.NDArray[np.object_] = self._table.frame["task_id"].to_numpy()
        for cycle in self._cycles:
            places = self._rows[[*cycle, cycle[0]]]
            first = int(places.min())
            yield (
                int(self._table.line[first]),
                (
                    f"tasks of job {self._table.frame['job_id'][first]} wait for each other: "
                    + " -> ".join(map(str, tasks[places]))
                ),
            )
