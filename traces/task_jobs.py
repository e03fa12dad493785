"""Makes jobs of the rows of a task table: rules, order, submit times, dependencies of tasks.

A job is what its tasks and their order make it. One that lacks a task which another waits for, or
whose tasks wait for each other, is another job or none: it is refused, or left out with all its
rows, and so are the children of the children of a row that is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces import rules
from simkit.traces.jobs_table import preceding_of_table
from simkit.traces.rigid_jobs import note_releases
from simkit.traces.rules import SHOWN, BadLines, Tally
from simkit.traces.tables.rows import number_names, plain_ids, whole_numbers
from simkit.traces.tables.table import TableColumns
from simkit.workload import Workload
from simkit.workload.dependencies import find_cycles

NO_ID: Final = "id missing"
BAD_SUBMIT: Final = "no usable submit time"
BAD_RUN: Final = "no usable run time"
NEGATIVE_RUN: Final = "run time negative"
ZERO_RUN: Final = "run time zero"
BAD_INSTANCES: Final = "no usable number of instances"
BAD_REQUEST: Final = "no usable request"
BAD_RETRIES: Final = "no usable number of retries"
BAD_RELEASE: Final = "no usable release time"
OTHER_UNIT: Final = "looks like another unit"
OTHER_REQUEST: Final = "request differs within the task"
OTHER_SUBMIT: Final = "submit time differs within the job"
OF_JOB: Final = {
    "release_time_s": "release time differs within the job",
    "preceding_job": "preceding job differs within the job",
    "think_time_s": "think time differs within the job",
    "user": "user differs within the job",
}
"""Column in which a job's first row counts for all → what is noted of a row that differs."""
OF_TASK: Final = {
    "requested_time_s": "requested time differs within the task",
    "retries": "retries differ within the task",
    "parents": "parents differ within the task",
}
"""The same of an instance's row, with `rows: instance`, and the first of its task."""
NO_PARENT: Final = "parent does not exist"
PARENT_LEFT_OUT: Final = "parent left out"
LOOP: Final = "tasks wait for each other"
REPEATED_TASK: Final = "task id repeats within the job"

RULES: Final[dict[str, str]] = {
    NO_ID: "The id of the job or of the task is empty; the row is left out.",
    BAD_SUBMIT: "The submit time is empty, nan, infinite or beyond 2^32 s; left out.",
    BAD_RUN: "The run time is empty, nan, infinite or beyond 2^32 s; left out.",
    NEGATIVE_RUN: "The run time is below 0 (rule `negative_run`).",
    ZERO_RUN: "The run time is 0; left out (rule `zero_run`).",
    BAD_INSTANCES: "The number of instances is empty, below 1 or not whole; left out.",
    BAD_REQUEST: "All resources are empty or 0, or one is negative, nan, infinite or beyond 2^33; "
    "left out. One that is empty beside others is a request for none of it, as 0 is. In a table "
    "with `parents` a row of zeros is kept: it is a barrier, for which others may wait.",
    BAD_RETRIES: "The number of retries is negative, beyond 2^33 or not whole; left out.",
    BAD_RELEASE: "The release time is nan, infinite or beyond 2^32 s; left out. Empty: there is "
    "none.",
    OTHER_UNIT: "A submit time beyond 2^32 s that would be a date in milliseconds, or a request "
    "beyond 2^33, as memory in bytes is: the key `factors` brings a column into our unit.",
    OTHER_REQUEST: "With `rows: instance`: the row asks for something else than the first one of "
    "its task, whose request counts for all.",
    OTHER_SUBMIT: "The row's submit time is not the one of its job, which the rule `submit` takes "
    "from the job's first or last row.",
    NO_PARENT: "A task of the job waits for one that the job does not have, or whose line is "
    "malformed; all rows of the job are left out (on_error: skip). With on_error: refuse an error "
    "names each, as it does with the next two.",
    PARENT_LEFT_OUT: "A task of the job waits for one whose row is left out under another rule; "
    "all rows of the job are left out (on_error: skip).",
    LOOP: "Tasks of the job wait for each other in a circle, so that none could start; all rows "
    "of the job are left out (on_error: skip).",
    REPEATED_TASK: "An earlier row of the job has the same task id; both are kept, and parents "
    "mean the first.",
    **{
        rule: f"The row has another {column} than the first of its job that is not left out, which "
        "counts for the job; a row that is left out is noted, too."
        for column, rule in OF_JOB.items()
    },
    **{
        rule: f"With `rows: instance`: the row has another {column} than the first one of its "
        "task, which counts for all."
        for column, rule in OF_TASK.items()
    },
}
"""What each rule or note means, in a sentence."""


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
            (NO_PARENT, lacking[~left_out]),
            (PARENT_LEFT_OUT, lacking[left_out]),
            (LOOP, looped),
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
    tally.note(OTHER_REQUEST, table.line[other.to_numpy()])
    note_others(OF_TASK, table, table, key, tally)
    at = pl.col("submit_time_s")
    at = (at.last() if submit == "last" else at.first()).over("job_id")
    late = table.frame.select(pl.col("submit_time_s") != at).to_series()
    tally.note(OTHER_SUBMIT, table.line[late.to_numpy()])
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
        tally.note(OTHER_SUBMIT, table.line[time != time[row][which]])
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
        tally.note(REPEATED_TASK, np.sort(self._table.line[self._repeated()]))

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
