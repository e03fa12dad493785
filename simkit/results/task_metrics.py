"""Metrics of tasks and instances: completion, turnaround, throughput, retries and lost time.

Also `starts_past_suspended`: how often others started on a suspended task's machines meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools
from simkit.results.machine_records import MachineRecords, Requests
from simkit.results.metric import (
    MAIN,
    Better,
    Found,
    Metric,
    MetricRow,
    RunWindow,
    batches,
    counted_distribution,
    counts_row,
    distribution,
    metrics_of,
    share,
    status_counts,
    throughput,
    throughput_row,
)

_ALL_ALLOCATIONS: Final = "all allocations"


def task_metrics(
    records: MachineRecords, requests: Requests, jobs: pl.LazyFrame, window: RunWindow
) -> list[Metric]:
    """Return completion, turnaround and throughput of tasks and instances, and what was lost.

    Args:
        records: the run's allocations and tasks.
        requests: what the tasks ask for.
        jobs: columns of `records.JOBS`.
        window: its jobs count in turnarounds, its stretch of time in throughputs; all other
            metrics are those of the whole run.
    """
    sums = TaskRecords(records, jobs, window, OutcomeTotals(records, requests, window))
    known = () if records.tasks.select(pl.col("gang").all()).collect().item() else ("bags",)
    return metrics_of(TASK_METRICS, sums, window, resources=records.resources, known=known)


def _completed(what: str, sums: TaskRecords) -> Found:
    """Return the completed share of jobs, tasks or instances."""
    columns = [(pl.col("status") == "finished").sum(), pl.len().alias("all")]
    if what == "instances":
        planned = sums.records.tasks.select(pl.col("instances").sum()).collect().item()
        finished, total = sums.totals.finished, planned
    else:
        table = sums.jobs if what == "jobs" else sums.records.tasks
        finished, total = table.select(columns).collect().row(0)
    return Found(share(finished, total), finished, total - finished)


def _turnaround(sums: TaskRecords) -> Found:
    """Return the distribution of the time from a job's submission to the end of its tasks."""
    tasks, jobs, window = sums.records.tasks, sums.jobs, sums.window
    submitted = window.jobs(jobs).select("job_id", "submit_time_s").unique("job_id").collect()
    turnaround = (pl.col("end_time_s") - pl.col("submit_time_s")).alias("value")
    parts, seen = [np.empty(0)], 0
    for rows in batches(tasks, ["job_id", "end_time_s"]):
        known = rows.join(submitted, on="job_id", how="inner", maintain_order="left")
        seen += len(known)
        parts.append(known.select(turnaround)["value"].drop_nulls().to_numpy())
    values = np.concatenate(parts)
    return Found(distribution(values), len(values), seen - len(values))


def _instance_waits(sums: TaskRecords) -> Found:
    """Return the distribution of the time until instances first started, once they could."""
    records, jobs, window = sums.records, sums.jobs, sums.window
    key = ["job_id", "task_id"]
    tasks = records.tasks.select(*key, "instances", "ready_time_s").collect()
    if window.trimmed:
        submitted = window.jobs(jobs).select("job_id").collect()
        tasks = tasks.join(submitted, on="job_id", how="semi", maintain_order="left")
    submitted_instances = int(tasks["instances"].sum())
    tasks = tasks.unique(key, keep="first", maintain_order=True)
    begins, parts = pl.col("attempt") == 1, []
    halted = records.allocations.filter(begins & (pl.col("outcome") == "suspended"))
    resumed = halted.select(key).unique().collect()  # more than their first start is an attempt 1
    several = []
    columns = [*key, "first_instance", "count", "attempt", "start_time_s"]
    for batch in batches(records.allocations, columns):
        rows = batch.filter(begins).join(tasks, on=key, how="inner", maintain_order="left")
        if len(resumed):
            several.append(rows.join(resumed, on=key, how="semi", maintain_order="left"))
            rows = rows.join(resumed, on=key, how="anti", maintain_order="left")
        parts.append(_waits(rows))
    if several:
        parts.append(_waits(_first_starts(pl.concat(several))))
    waits = (
        pl.concat(parts) if parts else pl.DataFrame(schema={"wait": pl.Float64, "count": pl.Int64})
    )
    started = int(waits["count"].sum())
    values = counted_distribution(waits["wait"].to_numpy(), waits["count"].to_numpy())
    return Found(values, started, submitted_instances - started)


def _waits(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the different waits among first starts, and how many instances waited so long."""
    wait = (pl.col("start_time_s") - pl.col("ready_time_s")).alias("wait")
    return rows.group_by(wait).agg(pl.col("count").sum()).sort("wait")


def _first_starts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row an instance, with its first start."""
    first, count = pl.col("first_instance"), pl.col("count")
    single = rows.with_columns(instance=pl.int_ranges(first, first + count)).explode("instance")
    instances = single.group_by("job_id", "task_id", "instance", maintain_order=True).agg(
        pl.col("start_time_s").min(), pl.col("ready_time_s").first()
    )
    return instances.with_columns(pl.lit(1, pl.Int64).alias("count"))


class OutcomeTotals:
    """Sums over all allocations, by outcome."""

    def __init__(self, records: MachineRecords, requests: Requests, window: RunWindow) -> None:
        """Read the allocations once; the window of time counts for `finished_inside` alone."""
        self.resources = records.resources
        self.rows, self.running = 0, 0
        """Number of allocations, and of those that had not ended."""
        self.finished, self.finished_inside = 0, 0
        """Instances that finished: all, and those within the window of time."""
        self.last_attempts, self.most_attempts = 0, 0
        """Sum and maximum of the attempts at which instances finished."""
        self.instances = {"lost": 0, "killed": 0}
        """Instances by outcome; one that is lost twice counts twice."""
        self.seconds = {outcome: np.zeros(1 + len(self.resources)) for outcome in self.instances}
        """By outcome: instance-seconds, then the resource-seconds of each resource."""
        self._requests = requests
        columns = ("job_id", "task_id", "count", "attempt", "start_time_s", "end_time_s", "outcome")
        for rows in batches(records.allocations, columns):
            self._add(rows, window)

    def _add(self, rows: pl.DataFrame, window: RunWindow) -> None:
        self.rows += len(rows)
        self.running += rows["end_time_s"].null_count()
        outcome, count = pl.col("outcome"), pl.col("count")
        done = rows.filter(outcome == "finished")
        inside = pl.col("end_time_s").is_between(window.start_s, window.end_s)
        self.finished += int(done["count"].sum())
        self.finished_inside += int(done.filter(inside)["count"].sum())
        self.last_attempts += int(done.select((count * pl.col("attempt")).sum()).item())
        self.most_attempts = max(self.most_attempts, int(done["attempt"].max() or 0))  # type: ignore[arg-type]
        for name in self.instances:
            self._add_unsuccessful(name, rows.filter(outcome == name))

    def _add_unsuccessful(self, outcome: str, rows: pl.DataFrame) -> None:
        """Add the time and resources of lost or killed allocations."""
        if not len(rows):
            return
        self.instances[outcome] += int(rows["count"].sum())
        known = rows.join(
            self._requests.of_task, on=["job_id", "task_id"], how="inner", maintain_order="left"
        )
        held = (known["count"] * (known["end_time_s"] - known["start_time_s"])).fill_null(0.0)
        seconds, asked = held.to_numpy(), self._requests.amounts[known["request"].to_numpy()]
        self.seconds[outcome][0] += float(seconds.sum())
        self.seconds[outcome][1:] += (asked * seconds[:, None]).sum(axis=0)


class TaskRecords(NamedTuple):
    """What metrics of tasks and instances are made of."""

    records: MachineRecords
    jobs: pl.LazyFrame
    window: RunWindow
    totals: OutcomeTotals


def _tasks_per_h(sums: TaskRecords) -> Found:
    inside = pl.col("end_time_s").is_between(sums.window.start_s, sums.window.end_s)
    ended = ((pl.col("status") == "finished") & inside).sum()
    return throughput(sums.records.tasks.select(ended).collect().item(), sums.window)


def _attempts(sums: TaskRecords) -> Found:
    totals = sums.totals
    values = {
        "mean": share(totals.last_attempts, totals.finished),
        "max": totals.most_attempts if totals.finished else None,
    }
    return Found(values, totals.finished, sum(totals.instances.values()))


def _unsuccessful(outcome: str) -> tuple[MetricRow[TaskRecords], ...]:
    """Return the rows of the time and resources of allocations that were lost, or killed."""

    def found(sums: TaskRecords, resource: str = "") -> Found:
        totals = sums.totals
        place = 1 + totals.resources.index(resource) if resource else 0
        ended = totals.rows - totals.running
        return Found(float(totals.seconds[outcome][place]), ended, totals.running)

    better: Better | None = "low" if outcome == "lost" else None
    formula = f"-seconds of allocations that were {outcome}, from start to end"
    return (
        MetricRow(
            f"{outcome}_instance_s", "s", f"instance{formula}", found, _ALL_ALLOCATIONS,
            better=better,
        ),
        MetricRow(
            f"{outcome}_{{resource}}_s", "{resource} s", f"{{resource}}{formula}", found,
            _ALL_ALLOCATIONS, better=better,
        ),
    )  # fmt: skip


TASK_METRICS: Final[tuple[MetricRow[TaskRecords], ...]] = (
    counts_row("tasks", lambda sums: status_counts(sums.records.tasks)),
    *(
        MetricRow(
            f"completed_{what}",
            "1",
            f"{what} that finished / all {what} of the run, rejected ones included",
            partial(_completed, what),
            f"all {what} submitted",
            better="high",
            share=True,
        )
        for what in ("jobs", "tasks", "instances")
    ),
    MetricRow(
        "task_turnaround_time_s",
        "s",
        "end of the task - submit of its job, killed tasks included; count: tasks",
        _turnaround,
        better="low",
    ),
    MetricRow(
        "instance_wait_time_s",
        "s",
        "first start of an instance - when its task was ready (submit of the job, or the end of "
        "the last task that it depends on); starting over does not count again; count: instances",
        _instance_waits,
        better="low",
        shown={"comparison": MAIN, "report": MAIN},
        needs=("bags",),
    ),
    throughput_row("tasks", _tasks_per_h),
    throughput_row("instances", lambda sums: throughput(sums.totals.finished_inside, sums.window)),
    MetricRow(
        "retries",
        "instances",
        "instances of allocations that were lost, each time they were; count: allocations",
        lambda sums: Found(sums.totals.instances["lost"], sums.totals.rows),
        _ALL_ALLOCATIONS,
        better="low",
    ),
    MetricRow(
        "attempts",
        "1",
        "the attempt at which an instance finished, 1 for the first: mean over instances, and the "
        "most; censored: instances of allocations that were lost or killed",
        _attempts,
        _ALL_ALLOCATIONS,
    ),
    *_unsuccessful("lost"),
    *_unsuccessful("killed"),
)
"""``bags``: some task's instances start one by one; a gang's wait as long as its task."""


_TASK: Final = ("job_id", "task_id")
_PIECE: Final = (*_TASK, "attempt", "part")
"""What goes on together: all of a gang, what stands in a row of a bag."""
_MOMENT: Final = ("start_time_s", "nth")
"""When it starts; ``nth`` counts earlier starts at that instant."""


def suspension_metrics(
    allocations: pl.LazyFrame,
    tasks: pl.LazyFrame,
    jobs: pl.LazyFrame,
    priorities: Mapping[str, float],
    window: RunWindow,
) -> list[Metric]:
    """Return ``starts_past_suspended``; nothing for a run in which no task was suspended.

    Args:
        allocations: columns of `records.ALLOCATIONS`.
        tasks: columns of `records.TASKS`.
        jobs: columns of `records.JOBS`.
        priorities: name of each partition → its priority.
        window: the run's; nothing is trimmed.
    """
    halted = allocations.filter(pl.col("outcome") == "suspended").select(pl.len()).collect().item()
    if not halted:
        return []
    rows = _begun(_with_facts(allocations, tasks, jobs, priorities))
    waits = rows.filter(pl.col("outcome") == "suspended")
    starts = rows.filter(~pl.col("goes_on").fill_null(value=False))
    passed = [
        of_machine.filter(_passes(of_machine, mine)).select(*_TASK, "start_time_s")
        for (machine,), of_machine in starts.partition_by("machine_id", as_dict=True).items()
        if len(mine := waits.filter(pl.col("machine_id") == machine))
    ]
    found = pl.concat(passed).n_unique() if passed else 0
    sums = Found(found, waits.select(*_PIECE, *_MOMENT).n_unique())
    return metrics_of(SUSPENSION_METRICS, sums, window)


SUSPENSION_METRICS: Final[tuple[MetricRow[Found], ...]] = (
    MetricRow(
        "starts_past_suspended",
        "starts",
        "starts of tasks on a machine of a suspended one, of a partition with no higher priority, "
        "from its suspension until it goes on; count: suspensions",
        lambda found: found,
        "all allocations",
        better="low",
    ),
)


def _with_facts(
    allocations: pl.LazyFrame,
    tasks: pl.LazyFrame,
    jobs: pl.LazyFrame,
    priorities: Mapping[str, float],
) -> pl.DataFrame:
    """Return the allocations with ``gang`` and ``priority`` of their task."""
    columns = (*_TASK, "machine_id", "first_instance", "attempt", "start_time_s", "end_time_s")
    rows = allocations.select(*columns, "outcome").collect()
    gangs = tasks.select(*_TASK, "gang").collect().unique(_TASK, keep="first")
    rows = rows.join(gangs, on=_TASK, how="left", maintain_order="left")
    if "site_partition" not in jobs.collect_schema():
        return rows.with_columns(priority=pl.lit(0.0))
    names = jobs.select("job_id", "site_partition").collect().unique("job_id", keep="first")
    rows = rows.join(names, on="job_id", how="left", maintain_order="left")
    of = pl.col("site_partition").replace_strict(
        list(priorities), list(priorities.values()), default=0.0, return_dtype=pl.Float64
    )
    return rows.with_columns(priority=of)


def _begun(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``goes_on``, whether a row continues a suspended one, and ``resumed_s``, when it does."""
    place = pl.struct("machine_id", "first_instance")
    part = pl.when("gang").then(None).otherwise(place)
    # What is suspended at the instant of its start, in an earlier row, may go on at that instant.
    nth = pl.int_range(pl.len()).over(*_TASK, "attempt", "start_time_s", place)
    rows = rows.with_columns(part=part, nth=nth)
    once = rows.unique([*_PIECE, *_MOMENT], keep="first").sort(_MOMENT)
    once = once.with_columns(
        goes_on=(pl.col("outcome") == "suspended").shift(1).over(_PIECE),
        resumed_s=pl.col("start_time_s").shift(-1).over(_PIECE),
    )
    facts = once.select(*_PIECE, *_MOMENT, "goes_on", "resumed_s")
    return rows.join(facts, on=[*_PIECE, *_MOMENT], nulls_equal=True, how="left")


def _passes(starts: pl.DataFrame, waits: pl.DataFrame) -> Bools:
    """Return (N,) which starts on a machine are while a task waits there to go on."""
    passes = np.zeros(len(starts), np.bool_)
    start, priority = starts["start_time_s"].to_numpy(), starts["priority"].to_numpy()
    others = list(zip(starts["job_id"], starts["task_id"], strict=True))
    columns = ("end_time_s", "resumed_s", "priority", *_TASK)
    for since, until, least, job, task in waits.select(columns).iter_rows():
        inside = (start >= since) & (priority <= least)
        if until is not None:
            inside &= start < until
        for row in np.flatnonzero(inside & ~passes).tolist():
            passes[row] = others[row] != (job, task)
    return passes
