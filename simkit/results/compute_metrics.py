"""All metrics of a run, computed from its records; each number has its unit and formula.

The formulas are in the files of the metrics: `job_metrics`, `task_metrics`, `machine_metrics`,
`timeline_metrics`, `value_metrics`, `energy_metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from simkit.errors import RunError
from simkit.results.energy_metrics import EnergyRecords, energy_metrics
from simkit.results.job_metrics import job_metrics
from simkit.results.machine_metrics import machine_metrics
from simkit.results.machine_records import MachineRecords
from simkit.results.metric import (
    Metric,
    RunWindow,
    counted_resource,
    run_window,
    status_counts,
)
from simkit.results.task_metrics import task_metrics
from simkit.results.timeline_metrics import timeline_metrics
from simkit.results.value_metrics import value_metrics


def compute_metrics(
    jobs: pl.LazyFrame,
    allocations: pl.LazyFrame,
    timeline: pl.LazyFrame,
    *,
    resources: Sequence[str],
    capacity: Mapping[str, float],
    tau: float = 10.0,
    warmup: float = 0.0,
    cooldown: float = 0.0,
    machines: MachineRecords | None = None,
    energy: EnergyRecords | None = None,
) -> dict[str, dict[str, Any]]:
    """Return every metric of a run as plain numbers and text, ready for JSON.

    The tables are read column by column or in batches and never sorted: memory stays at a few
    columns of the jobs. Sums do not depend on the number of threads.

    Args:
        jobs: columns of `records.JOBS`, and one a resource; with columns of
            `records.JOBS_WITH_VALUE`, metrics of value are added.
        allocations: columns of `records.ALLOCATIONS`.
        timeline: columns of `records.TIMELINE`, by ascending time, with ``allocated_<resource>``
            and ``capacity_<resource>``.
        resources: names; "processors", or else the first, counts as a job's processors.
        capacity: total of each resource before the timeline's first row.
        tau: floor of the run time in bounded slowdowns, in s, above 0.
        warmup: leaves out jobs submitted in so many seconds after the first submit.
        cooldown: leaves out jobs submitted in so many seconds before the last submit.
        machines: the run's records of machines. With several machines, metrics of machines and
            tasks are added; with one, metrics of tasks if instances start one by one.
        energy: the run's records of its site; metrics of energy are added.

    Returns name → ``{"value": …}`` or ``{"mean": …, "p50": …, …}``, with unit, formula, window,
    count and censored. Makespan, counts and the unsuccessful share are never trimmed.

    Raises RunError if `tau`, `warmup` or `cooldown` are out of range.
    """
    if not (math.isfinite(tau) and tau > 0):
        raise RunError(f"metrics.tau: {tau!r} is not above 0 s; 10s is usual")
    for name, value in (("warmup", warmup), ("cooldown", cooldown)):
        if not (math.isfinite(value) and value >= 0):
            raise RunError(f"metrics.{name}: {value!r} is not a time of 0 s or more")
    window = run_window(jobs, timeline, warmup=warmup, cooldown=cooldown)
    counts = status_counts(jobs, "jobs")
    if window is None:
        return {counts.name: counts.as_json()}
    totals = {name: float(capacity[name]) for name in resources}
    found = job_metrics(jobs, window, tau=tau, resource=counted_resource(resources))
    found += timeline_metrics(jobs, allocations, timeline, window, totals)
    found += value_metrics(jobs, allocations, timeline, window)
    if machines is not None:
        found += _on_machines(machines, jobs, window)
    if energy is not None:
        found += energy_metrics(energy, window)
    return {metric.name: metric.as_json() for metric in (*found, counts)}


def _on_machines(machines: MachineRecords, jobs: pl.LazyFrame, window: RunWindow) -> list[Metric]:
    """Return the metrics of machines and of tasks if they tell more than those of jobs."""
    several = len(machines.capacity) > 1
    if not several and machines.tasks.select(pl.col("gang").all()).collect().item():
        return []
    requests = machines.requests()
    found = task_metrics(machines, requests, jobs, window)
    return found + machine_metrics(machines, requests, window) if several else found
