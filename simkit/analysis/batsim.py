"""Writes the jobs of a run in the columns of Batsim's jobs file, for evalys and other readers."""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.errors import RunError
from simkit.results.compute_metrics import counted_resource
from simkit.results.output_folder import reason
from simkit.results.run_folder import Run, open_run

# MERGED Gives the processors of a pool numbers after the fact, lowest free numbers first.
# MERGED
# MERGED A pool counts processors and does not tell them apart; Gantt charts need to. Numbers are handed
# MERGED out in order of start, so that no processor has two jobs at once. Each start takes the lowest free
# MERGED numbers, as a list of free intervals keeps them: the work is that of sorting, plus a step for each
# MERGED interval that a job takes or gives back.


Spans = list[tuple[int, int]]
"""Intervals of numbers, both ends included, ascending and apart."""


class FreeNumbers:
    """The free numbers 0, 1, 2, … without end, as intervals."""

    def __init__(self) -> None:
        self._first = [0]
        self._last: list[float] = [float("inf")]
        self.used = 0
        """The highest number ever handed out, plus 1."""

    def take(self, count: int) -> Spans:
        """Hand out the lowest `count` free numbers."""
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
        """Take numbers back, joining intervals that touch."""
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
    """Return the numbers of each allocation's processors, and how many numbers are in use.

    Ends come before starts at one instant, so numbers pass from one job to the next.

    Args:
        start_s: (n,) start of each allocation, in s.
        end_s: (n,) its end; None while it holds on.
        count: (n,) processors that it holds.
    """
    free = FreeNumbers()
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
    """Return intervals sorted, those that touch or overlap made one."""
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


BATSIM_COLUMNS: Final = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources",
    "requested_time", "success", "final_state", "starting_time", "execution_time", "finish_time",
    "waiting_time", "turnaround_time", "stretch", "allocated_resources", "consumed_energy",
    "metadata",
)  # fmt: skip
"""The header of Batsim's ``…_jobs.csv``, in its order (Batsim documentation, "Jobs" output)."""

_BATSIM_STATES: Final = {
    "finished": "COMPLETED_SUCCESSFULLY",
    "killed": "COMPLETED_KILLED",
    "rejected": "REJECTED",
    "running": "RUNNING",
    "waiting": "SUBMITTED",
}


def export_batsim(run: Run | str | PathLike[str], path: str | PathLike[str]) -> None:
    """Write the jobs of a run as a CSV file with Batsim's columns, for evalys and the like.

    One row a job, in order of end. ``execution_time = finish - start`` and ``stretch =
    turnaround / execution_time``, as Batsim has them. ``profile`` is "delay" (a job's run time
    is given), ``consumed_energy`` and ``metadata`` are empty, and so is what is not known: times
    of jobs that have not started or ended. `allocated_resources` holds processor numbers; see
    `processor_numbers`.

    Raises RunError if the file cannot be written.
    """
    opened = run if isinstance(run, Run) else open_run(run)
    frame = batsim_frame(opened)
    with _whole_file(Path(path)) as part:
        frame.write_csv(part, float_precision=6, quote_style="necessary")


def batsim_frame(run: Run) -> pl.DataFrame:
    """Return a run's jobs in Batsim's columns."""
    jobs = run.scan("jobs").collect()
    numbers = processor_numbers(run)
    start, end, submit = (pl.col(f"{name}_time_s") for name in ("start", "end", "submit"))
    status, length = pl.col("status"), end - start
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
        "requested_time": pl.col("requested_time_s"),
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
    return jobs.select(columns[name].alias(name) for name in BATSIM_COLUMNS)


def processor_numbers(run: Run) -> dict[Any, str]:
    """Return job id → the processors that its last attempt held, as Batsim's interval text.

    A pool does not tell its processors apart, so each start gets the lowest numbers that are free
    on its machine then: at no time does a processor have two jobs, and every job gets as many
    numbers as it holds processors. The machines' numbers follow each other, from 0. A job whose
    instances start at different times has the numbers of all of them. Where a placement holds a
    fraction of a processor, or none, nothing can be numbered, and the machines' ids stand for the
    resources instead (Batsim's hosts).
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
    capacity = {m["id"]: m["capacity"].get(resource, 0) for m in run.info["cluster"]["machines"]}
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


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; the file gets its own when it is complete."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            part.chmod(0o666 & ~_umask())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be written: {reason(error)}; choose another place"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
