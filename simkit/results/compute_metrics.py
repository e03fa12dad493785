"""All metrics of a run, computed from its records; each number has its unit and formula.

The formulas are in the files of the metrics: `job_metrics`, `task_metrics`, `machine_metrics`,
`timeline_metrics`, `value_metrics`, `energy_metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import polars as pl

from simkit.errors import RunError
from simkit.policy.declared import PolicyMetric
from simkit.results.energy_metrics import energy_metrics
from simkit.results.job_metrics import job_metrics
from simkit.results.machine_metrics import machine_metrics
from simkit.results.machine_records import MachineRecords
from simkit.results.metric import Metric, RunWindow, counted_resource, run_window, status_counts
from simkit.results.run_folder import Run
from simkit.results.suspension_metrics import suspension_metrics
from simkit.results.task_metrics import task_metrics
from simkit.results.timeline_metrics import timeline_metrics
from simkit.results.value_metrics import value_metrics


def compute_metrics(
    run: Run,
    *,
    tau: float = 10.0,
    warmup: float = 0.0,
    cooldown: float = 0.0,
    brought: Iterable[PolicyMetric] = (),
) -> dict[str, dict[str, Any]]:
    """Return every metric of a run as plain numbers and text, ready for JSON.

    The tables are read column by column or in batches and never sorted: memory stays at a few
    columns of the jobs. Sums do not depend on the number of threads. Metrics of value, tasks,
    machines and energy are included if the run has them.

    Args:
        run: its tables must be closed.
        tau: floor of the run time in bounded slowdowns, in s, above 0.
        warmup: leaves out jobs submitted in so many seconds after the first submit.
        cooldown: leaves out jobs submitted in so many seconds before the last submit.
        brought: metrics that the policy brings.

    Returns name → ``{"value": …}`` or ``{"mean": …, "p50": …, …}``, with unit, formula, window,
    count and censored. Makespan, counts and the unsuccessful share are never trimmed.

    Raises RunError if `tau`, `warmup` or `cooldown` are out of range, or a table is missing.
    """
    if not (math.isfinite(tau) and tau > 0):
        raise RunError(f"metrics.tau: {tau!r} is not above 0 s; 10s is usual")
    for name, value in (("warmup", warmup), ("cooldown", cooldown)):
        if not (math.isfinite(value) and value >= 0):
            raise RunError(f"metrics.{name}: {value!r} is not a time of 0 s or more")
    jobs, tasks, allocations, timeline = map(run.scan, ("jobs", "tasks", "allocations", "timeline"))
    window = run_window(jobs, timeline, warmup=warmup, cooldown=cooldown)
    counts = status_counts(jobs, "jobs")
    if window is None:
        return {counts.name: counts.as_json()}
    found = [
        *job_metrics(jobs, tasks, window, tau=tau, resource=counted_resource(run.resources)),
        *timeline_metrics(jobs, tasks, allocations, timeline, window, run.capacity),
        *value_metrics(jobs, allocations, timeline, window),
        *_on_machines(MachineRecords.of(run), jobs, window),
        *suspension_metrics(allocations, tasks, jobs, _priorities(run)),
    ]
    found += (_of_policy(row, allocations, window) for row in brought)
    if run.has_power:
        found += energy_metrics(run.scan("power"), run.battery, window)
    return {metric.name: metric.as_json() for metric in (*found, counts)}


def _of_policy(row: PolicyMetric, allocations: pl.LazyFrame, window: RunWindow) -> Metric:
    """Return a metric of the policy's own, over all allocations, never trimmed."""
    times = allocations.select("start_time_s", "end_time_s").collect()
    return Metric(
        name=row.name,
        unit=row.unit,
        formula=row.formula,
        window="all allocations",
        count=times["end_time_s"].count(),
        values={"value": value_of(row, times, window.first_submit_s)},
    )


def value_of(row: PolicyMetric, allocations: pl.DataFrame, first_submit_s: float) -> float | None:
    """Return a metric that a policy brings, by the times of allocations; missing ends are NaN."""
    start_s, end_s = (allocations[name].to_numpy() for name in ("start_time_s", "end_time_s"))
    return row.value(start_s, end_s, first_submit_s)


def _priorities(run: Run) -> dict[str, float]:
    """Return the priority of each partition by its name."""
    partitions = run.info.get("cluster", {}).get("partitions") or ()
    return {str(part["name"]): float(part.get("priority") or 0.0) for part in partitions}


def _on_machines(machines: MachineRecords, jobs: pl.LazyFrame, window: RunWindow) -> list[Metric]:
    """Return the metrics of machines, if there are several, and of tasks, unless each is a job."""
    several = len(machines.capacity) > 1
    if not several and machines.tasks.select(pl.col("gang").all()).collect().item():
        return []
    requests = machines.requests()
    found = task_metrics(machines, requests, jobs, window)
    return found + machine_metrics(machines, requests, window) if several else found
