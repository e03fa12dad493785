"""Metrics of tasks and instances: what was completed, how soon, and what was retried or in vain."""

from __future__ import annotations

import numpy as np
import polars as pl

from simkit.results.job_metrics import status_counts
from simkit.results.machine_records import MachineRecords, Requests
from simkit.results.metric import Metric, RunWindow, batches, distribution

ALL_ALLOCATIONS = "all allocations"


def task_metrics(
    records: MachineRecords, requests: Requests, jobs: pl.LazyFrame, window: RunWindow
) -> list[Metric]:
    """Return completion, turnaround and throughput of tasks and instances, and what was in vain.

    Args:
        records: what the run recorded of allocations and tasks.
        requests: what the tasks ask for.
        jobs: columns of `records.JOBS`.
        window: its jobs count in turnarounds, its stretch of time in throughputs; what is counted
            or added up is that of the whole run.
    """
    totals = OutcomeTotals(records, requests, window)
    return [
        task_counts(records.tasks),
        *_completed(jobs, records.tasks, totals.finished),
        task_turnaround(records.tasks, jobs, window),
        *_throughputs(records.tasks, totals, window),
        totals.retries(),
        totals.attempts(),
        *totals.in_vain(),
    ]


def task_counts(tasks: pl.LazyFrame) -> Metric:
    """Return how many tasks there were and what became of them by the end of the run."""
    return status_counts(tasks, "tasks")


def _completed(jobs: pl.LazyFrame, tasks: pl.LazyFrame, instances: int) -> list[Metric]:
    """Return the completed shares of jobs, tasks and instances; `instances` have finished."""
    columns = [(pl.col("status") == "finished").sum(), pl.len().alias("all")]
    asked = pl.col("instances").sum().alias("instances")
    of_jobs = jobs.select(columns).collect().row(0)
    *of_tasks, planned = tasks.select([*columns, asked]).collect().row(0)
    shares = {"jobs": of_jobs, "tasks": of_tasks, "instances": (instances, planned)}
    return [
        Metric(
            name=f"completed_{what}",
            unit="1",
            formula=f"{what} that finished / all {what} of the run, rejected ones included",
            window=f"all {what} submitted",
            count=finished,
            censored=total - finished,
            values={"value": finished / total if total else None},
        )
        for what, (finished, total) in shares.items()
    ]


def task_turnaround(tasks: pl.LazyFrame, jobs: pl.LazyFrame, window: RunWindow) -> Metric:
    """Return the distribution of the time from a job's submission to the end of its tasks."""
    submitted = window.jobs(jobs).select("job_id", "submit_time_s").unique("job_id").collect()
    turnaround = (pl.col("end_time_s") - pl.col("submit_time_s")).alias("value")
    parts, seen = [np.empty(0)], 0
    for rows in batches(tasks, ["job_id", "end_time_s"]):
        known = rows.join(submitted, on="job_id", how="inner", maintain_order="left")
        seen += len(known)
        parts.append(known.select(turnaround)["value"].drop_nulls().to_numpy())
    values = np.concatenate(parts)
    return Metric(
        name="task_turnaround_time_s",
        unit="s",
        formula="end of the task - submit of its job, killed tasks included; count: tasks",
        window=window.jobs_text,
        count=len(values),
        censored=seen - len(values),
        values=distribution(values),
    )


def _throughputs(tasks: pl.LazyFrame, totals: OutcomeTotals, window: RunWindow) -> list[Metric]:
    """Return the finished tasks and instances an hour of the window of time."""
    inside = pl.col("end_time_s").is_between(window.start_s, window.end_s)
    ended = tasks.select((inside & (pl.col("status") == "finished")).sum()).collect().item()
    hours = (window.end_s - window.start_s) / 3600
    return [
        Metric(
            name=f"throughput_{what}_per_h",
            unit="1/h",
            formula=f"{what} that finished within the window / its length in hours",
            window=window.time_text,
            count=int(number or 0),
            censored=0,
            values={"value": (number or 0) / hours if hours > 0 else None},
        )
        for what, number in (("tasks", ended), ("instances", totals.finished_inside))
    ]


class OutcomeTotals:
    """What all allocations add up to, by how they ended."""

    def __init__(self, records: MachineRecords, requests: Requests, window: RunWindow) -> None:
        """Read the allocations once; the window of time counts for `finished_inside` alone."""
        self.resources = records.resources
        self.rows, self.running = 0, 0
        """Allocations, and those that had not ended."""
        self.finished, self.finished_inside = 0, 0
        """Instances that finished, and those of them within the window of time."""
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
            self._add_vain(name, rows.filter(outcome == name))

    def _add_vain(self, outcome: str, rows: pl.DataFrame) -> None:
        """Add the time and resources of allocations that came to nothing."""
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

    def retries(self) -> Metric:
        """Return how many instances lost what they had done and had to start over."""
        return Metric(
            name="retries",
            unit="instances",
            formula="instances of allocations that were lost, each time they were; count: "
            "allocations",
            window=ALL_ALLOCATIONS,
            count=self.rows,
            censored=0,
            values={"value": self.instances["lost"]},
        )

    def attempts(self) -> Metric:
        """Return how often instances that finished had been started from the beginning."""
        return Metric(
            name="attempts",
            unit="1",
            formula="the attempt at which an instance finished, 1 for the first: mean over "
            "instances, and the most; censored: instances of allocations that were lost or killed",
            window=ALL_ALLOCATIONS,
            count=self.finished,
            censored=sum(self.instances.values()),
            values={
                "mean": self.last_attempts / self.finished if self.finished else None,
                "max": self.most_attempts if self.finished else None,
            },
        )

    def in_vain(self) -> list[Metric]:
        """Return the time and the resources that came to nothing, lost and killed apart."""
        return [
            Metric(
                name=f"{outcome}_{what}_s",
                unit="s" if what == "instance" else f"{what} s",
                formula=f"{what}-seconds of allocations that were {outcome}, from start to end",
                window=ALL_ALLOCATIONS,
                count=self.rows - self.running,
                censored=self.running,
                values={"value": float(self.seconds[outcome][n])},
            )
            for outcome in self.instances
            for n, what in enumerate(("instance", *self.resources))
        ]
