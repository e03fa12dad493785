"""Exports a run for other tools: jobs as an SWF log or Batsim's jobs file, power as a table.

A pool counts processors and does not tell them apart; Gantt charts need to. Numbers are given in
order of start, so that no processor has two jobs at once. Each start takes the lowest free
numbers from a list of free intervals: the work is a sort, plus a step for each interval that a job
takes or gives back.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.errors import RunError
from simkit.records import JOBS_RELEASED
from simkit.results.metric import counted_resource
from simkit.results.output_folder import whole_file
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.timeline import power_means
from simkit.text import counted
from simkit.workload import Workload
from simkit.workload.workload import JOB_COLUMNS

_SWF_STATUS: Final = {"finished": 1.0, "killed": 0.0, "rejected": 5.0}


def export_swf(
    run: RunOrFolder,
    path: str | PathLike[str],
    *,
    writer: Callable[..., None] | None = None,
) -> None:
    """Write the jobs of a run as an SWF log with the waits and run times of the simulation.

    Status is 1 for finished, 0 for killed, 5 for rejected jobs and -1 for the others; a wait or
    run time that is not known is -1. Users and other names that are text become the numbers 1, 2,
    … in alphabetical order.

    Args:
        run: a run, or its folder.
        path: the log to write; gzipped if it ends in ``.gz``.
        writer: default: the one installed as "swf" in the group "simkit.writers".

    Raises RunError or TraceError if the jobs do not fit SWF (several tasks, fractions of a
    processor) or the file cannot be written.
    """
    if writer is None:
        from simkit.plugins import find

        writer = find("simkit.writers", "swf")
    opened = open_run(run)
    _refuse_several_tasks(opened)
    jobs, resource = opened.jobs, counted_resource(opened.resources)
    writer(
        os.fspath(path),
        _workload(opened, jobs, resource),
        results={
            "wait_time_s": _floats(jobs["wait_time_s"]),
            "run_time_s": _floats(jobs["run_time_s"]),
            "status": np.array([_SWF_STATUS.get(s, np.nan) for s in jobs["status"]]),
        },
        notes=(f"the schedule of {opened.name}, simulated by simkit, digest {opened.digest}",),
    )


def _workload(run: Run, jobs: pl.DataFrame, resource: str) -> Workload:
    """Return the jobs as a workload of rigid jobs with the trace's run times."""
    size = jobs[resource].to_numpy()
    if (broken := size != np.floor(size)).any():
        job = jobs["job_id"][int(np.flatnonzero(broken)[0])]
        raise RunError(
            f"{run.folder}: job {job} asks for a fraction of {resource}, SWF has whole "
            "processors; export to Batsim's columns, or read jobs.parquet"
        )
    epoch = run.info.get("epoch_s")
    columns = {name: jobs[name].to_numpy() for name in ("job_id", "submit_time_s")}
    return Workload.from_jobs(
        {
            **columns,
            "run_time_s": _floats(jobs["trace_run_time_s"]),
            "requested_time_s": _floats(jobs["requested_time_s"]),
            resource: size,
            **{name: _numbers(jobs[name]) for name in JOB_COLUMNS},
            **{name: _floats(jobs[name]) for name in JOBS_RELEASED if name in jobs.columns},
        },
        resource=resource,
        epoch_s=float("nan") if epoch is None else float(epoch),
        time_zone=run.info.get("time_zone"),
        capacity={resource: run.capacity[resource]} if run.resources else {},
    )


def _refuse_several_tasks(run: Run) -> None:
    counts = run.scan("tasks").group_by("job_id").len().filter(pl.col("len") > 1)
    if len(several := counts.collect()):
        raise RunError(
            f"{run.folder}: {counted(len(several), 'job has', 'jobs have')} several tasks, SWF has "
            "one a job; export to Batsim's columns, or read the Parquet files"
        )


def _numbers(column: pl.Series) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a column as numbers, -1 where unknown; text becomes its rank from 1."""
    if column.dtype.is_numeric():
        return column.fill_null(-1).to_numpy().astype(np.int64)
    text = column.fill_null("-1")
    known = ~text.is_in(["-1", ""])
    ranks = text.zip_with(known, text.clear(len(text))).rank("dense")
    return ranks.fill_null(-1).to_numpy().astype(np.int64)


def _floats(column: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    return column.fill_null(float("nan")).to_numpy().astype(np.float64)


_BATSIM_STATES: Final = {
    "finished": "COMPLETED_SUCCESSFULLY",
    "killed": "COMPLETED_KILLED",
    "rejected": "REJECTED",
    "running": "RUNNING",
    "waiting": "SUBMITTED",
}


def export_batsim(run: RunOrFolder, path: str | PathLike[str]) -> None:
    """Write the jobs of a run as a CSV file with Batsim's columns, e.g. for evalys.

    One row a job, in order of end. ``execution_time = finish - start`` and ``stretch =
    turnaround / execution_time``, as in Batsim. ``profile`` is "delay" (a job's run time is
    given). ``consumed_energy`` and ``metadata`` are empty, and so are times of jobs that have not
    started or ended. A `requested_time` of -1 means no limit. `allocated_resources` holds the
    numbers of `processor_numbers`.

    Raises RunError if the file cannot be written.
    """
    opened = open_run(run)
    with whole_file(Path(path)) as part:
        _batsim_frame(opened).write_csv(part, float_precision=6, quote_style="necessary")


def _batsim_frame(run: Run) -> pl.DataFrame:
    """Return a run's jobs in Batsim's columns and their order (documentation, "Jobs" output)."""
    jobs = run.scan("jobs").collect()
    if unknown := sorted(set(jobs["status"].to_list()) - _BATSIM_STATES.keys(), key=str):
        raise RunError(
            f"{run.folder}: jobs.parquet has the status {unknown[0]!r}; known: "
            f"{', '.join(_BATSIM_STATES)}; run the scenario again"
        )
    numbers = processor_numbers(run)
    start, end, submit = (pl.col(f"{name}_time_s") for name in ("start", "end", "submit"))
    status, length, requested = pl.col("status"), end - start, pl.col("requested_time_s")
    overrun = (status == "killed") & (pl.col("run_time_s") >= pl.col("requested_time_s"))
    state = status.replace_strict(_BATSIM_STATES, return_dtype=pl.String)
    places = pl.Series([numbers.get(job) for job in jobs["job_id"]], dtype=pl.String)
    columns: dict[str, pl.Expr | pl.Series] = {
        "job_id": pl.col("job_id"),
        "workload_name": pl.lit("w0"),
        "profile": pl.lit("delay"),
        "submission_time": submit,
        "requested_number_of_resources": pl.col(counted_resource(run.resources))
        .ceil()
        .cast(pl.Int64),
        "requested_time": pl.when(requested.is_infinite()).then(-1.0).otherwise(requested),
        "success": (status == "finished").cast(pl.Int8),
        "final_state": pl.when(overrun).then(pl.lit("COMPLETED_WALLTIME_REACHED")).otherwise(state),
        "starting_time": start,
        "execution_time": length,
        "finish_time": end,
        "waiting_time": pl.col("wait_time_s"),
        "turnaround_time": pl.col("turnaround_time_s"),
        "stretch": pl.when(length > 0).then((end - submit) / length),
        "allocated_resources": places,
        "consumed_energy": pl.lit(None, pl.String),
        "metadata": pl.lit(None, pl.String),
    }
    return jobs.select(column.alias(name) for name, column in columns.items())


def export_power(
    run: RunOrFolder,
    path: str | PathLike[str],
    *,
    every: str | float | None = None,
) -> None:
    """Write the table "power" of a run to a file.

    Args:
        run: a run, or its folder.
        path: a ``.csv`` or ``.parquet`` file.
        every: length of the intervals, as for `Run.power_every`; None: the rows as they were
            recorded, each of which lasts as long as nothing changes.

    Raises RunError for another type of file, a run without power, an interval that is not above 0,
    or a file that cannot be written.
    """
    opened, target = open_run(run), Path(path)
    if target.suffix.lower() not in (".csv", ".parquet"):
        raise RunError(f"{target}: a table of power is .csv or .parquet; name it so")
    power: Iterable[pl.DataFrame] = [opened.power]
    if every is not None:
        power = power_means(opened.power, every, opened.stored_at_start_j)
    with whole_file(target) as part:
        if target.suffix.lower() == ".csv":
            with part.open("wb") as file:
                for number, frame in enumerate(power):
                    frame.write_csv(file, include_header=number == 0)
        else:
            _write_parquet(part, power)


def _write_parquet(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    from pyarrow.parquet import ParquetWriter  # slow to import

    frames = iter(frames)
    table = next(frames).to_arrow()
    with ParquetWriter(path, table.schema, compression="zstd") as writer:
        writer.write_table(table)
        for frame in frames:
            writer.write_table(frame.to_arrow())


Spans = list[tuple[int, int]]
"""Intervals of numbers, both ends included, ascending and apart."""


def processor_numbers(run: Run) -> dict[Any, str]:
    """Return job id → the processors that its last attempt held, as Batsim's interval text.

    Each start gets the lowest numbers that are free on its machine then: a processor never has two
    jobs at once, and a job gets as many numbers as it holds processors. The machines' numbers
    follow each other, from 0. A job whose instances start at different times has the numbers of
    all of them. If a placement holds a fraction of a processor, or none, processors cannot be
    numbered: the machines' ids stand in for them (Batsim's hosts).
    """
    resource = counted_resource(run.resources)
    request = run.scan("tasks").select("job_id", "task_id", pl.col(resource).alias("request"))
    held = run.scan("allocations").join(request, on=["job_id", "task_id"], how="left")
    held = held.with_columns((pl.col("count") * pl.col("request")).alias("amount"))
    last = pl.col("attempt") == pl.col("attempt").max().over("job_id")
    order = ("start_time_s", "job_id", "task_id", "first_instance")
    rows = held.with_columns(last.alias("last")).sort(order, maintain_order=True).collect()
    amount = rows["amount"].to_numpy()
    spans: dict[Any, Spans] = defaultdict(list)
    if np.all((amount >= 1) & (amount == np.floor(amount))):
        for job, numbers in _numbered(run, rows, resource):
            spans[job] += numbers
    else:
        for job, machine in rows.filter("last").select("job_id", "machine_id").iter_rows():
            spans[job].append((machine, machine))
    return {job: interval_text(join_spans(numbers)) for job, numbers in spans.items()}


def _numbered(run: Run, rows: pl.DataFrame, resource: str) -> Iterator[tuple[Any, Spans]]:
    """Yield each job's numbers in its last attempt, machine after machine."""
    capacity = {m["id"]: m["capacity"].get(resource, 0) for m in run.machines}
    groups = {key[0]: group for key, group in rows.group_by("machine_id", maintain_order=True)}
    first = 0
    for machine in sorted(capacity.keys() | groups.keys()):
        used = 0
        if machine in groups:
            group = groups[machine]
            start, end = (group[name].to_list() for name in ("start_time_s", "end_time_s"))
            spans, used = number_processors(start, end, [int(n) for n in group["amount"]])
            for job, last, numbers in zip(group["job_id"], group["last"], spans, strict=True):
                if last:
                    yield job, [(first + a, first + b) for a, b in numbers]
        first += max(used, int(capacity.get(machine, 0)))


class _FreeNumbers:
    """The free numbers, at first 0, 1, 2, … without end, as intervals."""

    def __init__(self) -> None:
        self._first = [0]
        self._last: list[float] = [float("inf")]
        self.used = 0
        """The highest number ever taken, plus 1."""

    def take(self, count: int) -> Spans:
        """Take the lowest `count` free numbers."""
        spans: Spans = []
        whole = 0  # intervals that are used up
        while count > 0:
            first, last = self._first[whole], self._last[whole]
            if last - first + 1 <= count:
                spans.append((first, int(last)))
                count -= int(last) - first + 1
                whole += 1
            else:
                spans.append((first, first + count - 1))
                self._first[whole] = first + count
                count = 0
        del self._first[:whole], self._last[:whole]
        if spans:
            self.used = max(self.used, spans[-1][1] + 1)
        return spans

    def give_back(self, spans: Spans) -> None:
        """Return numbers, joining intervals that touch."""
        for first, last in spans:
            at = bisect_left(self._first, first)
            joins_right = at < len(self._first) and self._first[at] == last + 1
            joins_left = at > 0 and self._last[at - 1] == first - 1
            if joins_left and joins_right:
                self._last[at - 1] = self._last[at]
                del self._first[at], self._last[at]
            elif joins_left:
                self._last[at - 1] = last
            elif joins_right:
                self._first[at] = first
            else:
                self._first.insert(at, first)
                self._last.insert(at, last)


def number_processors(
    start_s: Sequence[float], end_s: Sequence[float | None], count: Sequence[int]
) -> tuple[list[Spans], int]:
    """Return the numbers of each allocation's processors, and how many numbers are used in all.

    Ends come before starts at one instant, so numbers pass from one job to the next.

    Args:
        start_s: (n,) start of each allocation, in s.
        end_s: (n,) its end; None while it runs.
        count: (n,) its processors.
    """
    free = _FreeNumbers()
    spans: list[Spans] = [[] for _ in start_s]
    starts = sorted(range(len(start_s)), key=lambda row: start_s[row])
    ends = sorted((end, row) for row, end in enumerate(end_s) if end is not None)
    ended = 0
    for row in starts:
        while ended < len(ends) and ends[ended][0] <= start_s[row]:
            end, other = ends[ended]
            if start_s[other] < end:
                free.give_back(spans[other])
            ended += 1
        spans[row] = free.take(count[row])
        if end_s[row] == start_s[row]:  # held for no time: free again at once
            free.give_back(spans[row])
    return spans, free.used


def join_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    """Return intervals sorted, and merged if they touch or overlap."""
    joined: Spans = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def interval_text(spans: Iterable[tuple[int, int]]) -> str:
    """Return ``0-3 5 8-9``: Batsim's text of an interval set."""
    return " ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in spans)
