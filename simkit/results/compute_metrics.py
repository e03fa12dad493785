"""The metrics of a run: pure functions over its records, each number with unit and formula."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from simkit.errors import RunError
from simkit.results import job_metrics, timeline_metrics
from simkit.results.energy_metrics import EnergyRecords, energy_metrics
from simkit.results.machine_metrics import machine_metrics
from simkit.results.machine_records import MachineRecords
from simkit.results.metric import Metric, RunWindow
from simkit.results.task_metrics import task_metrics
from simkit.results.value_metrics import value_metrics
from simkit.units import format_duration


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

    The tables are read column by column or in batches, never sorted, so that memory stays at a
    few columns of the jobs; sums do not depend on the number of threads.

    Args:
        jobs: columns of `records.JOBS`, and one a resource; metrics of worth are added where there
            are columns of `records.JOBS_WITH_VALUE`.
        allocations: columns of `records.ALLOCATIONS`.
        timeline: columns of `records.TIMELINE`, by ascending time, with ``allocated_<resource>``
            and ``capacity_<resource>``.
        resources: names; "processors", or else the first, counts as a job's processors.
        capacity: total of each resource before the timeline's first row.
        tau: floor of the run time in bounded slowdowns, in s, above 0.
        warmup: jobs submitted in the first seconds after the first submit are left out.
        cooldown: likewise for the last seconds before the last submit.
        machines: what the run recorded of its machines; metrics of machines are added where there
            are several, those of tasks there and where instances start one by one.
        energy: what it recorded of its site; metrics of energy are added.

    Returns name → ``{"value": …}`` or ``{"mean": …, "p50": …, …}``, with unit, formula, window,
    count and censored. Makespan, counts and the unsuccessful share are never trimmed.

    Raises RunError if `tau`, `warmup` or `cooldown` are out of range.
    """
    _check(tau, warmup, cooldown)
    window = run_window(jobs, timeline, warmup=warmup, cooldown=cooldown)
    if window is None:
        return {metric.name: metric.as_json() for metric in [job_metrics.job_counts(jobs)]}
    resource = counted_resource(resources)
    totals = {name: float(capacity[name]) for name in resources}
    found = job_metrics.distributions(jobs, window, tau=tau, resource=resource)
    found.append(job_metrics.makespan(jobs))
    found += _over_time(jobs, allocations, timeline, window, totals)
    found.append(job_metrics.throughput(jobs, window))
    found.append(job_metrics.weighted_response(jobs, window, resource))
    found.append(job_metrics.fairness(jobs, window, tau))
    found += value_metrics(jobs, allocations, timeline, window)
    if machines is not None:
        found += _on_machines(machines, jobs, window)
    if energy is not None:
        found += energy_metrics(energy, window)
    found.append(job_metrics.job_counts(jobs))
    return {metric.name: metric.as_json() for metric in found}


def run_window(
    jobs: pl.LazyFrame, timeline: pl.LazyFrame, *, warmup: float = 0.0, cooldown: float = 0.0
) -> RunWindow | None:
    """Return the window of a run's metrics, None if no job was ever submitted.

    Raises RunError if warm-up and cool-down leave nothing between first and last submit.
    """
    submit, end = pl.col("submit_time_s"), pl.col("end_time_s")
    row = jobs.select(first=submit.min(), last=submit.max(), end=end.max()).collect().row(0)
    first, last, ended = row
    if first is None:
        return None
    if ended is None:
        ended = timeline.select(pl.col("time_s").max()).collect().item()
    check_trimming(first, last, warmup, cooldown)
    return RunWindow(first, last, last if ended is None else max(ended, first), warmup, cooldown)


def check_trimming(first: float, last: float, warmup: float, cooldown: float) -> None:
    """Refuse a warm-up and cool-down (s) that leave nothing between first and last submit (s).

    Raises RunError in that case.
    """
    window = RunWindow(first, last, last, warmup, cooldown)
    if window.trimmed and window.last_kept_s < window.first_kept_s:
        raise RunError(
            f"metrics: warm-up {format_duration(warmup)} and cool-down {format_duration(cooldown)} "
            f"leave nothing of the {format_duration(last - first)} between first and last submit; "
            "shorten them"
        )


def counted_resource(resources: Sequence[str]) -> str:
    """Return the resource that counts as processors: that name, or else the first resource."""
    return "processors" if "processors" in resources else resources[0]


def _over_time(
    jobs: pl.LazyFrame,
    allocations: pl.LazyFrame,
    timeline: pl.LazyFrame,
    window: RunWindow,
    capacity: Mapping[str, float],
) -> list[Metric]:
    """Return utilisation, offered load, backlog and the unsuccessful share."""
    spans = [(window.start_s, window.end_s), (window.first_kept_s, window.last_kept_s)]
    whole, arriving = timeline_metrics.timeline_integrals(timeline, spans, capacity)
    available = {name: whole.area[f"available_{name}"] for name in capacity}
    offered = {name: arriving.area[f"capacity_{name}"] for name in capacity}
    share, rows = timeline_metrics.unsuccessful_share(allocations)
    return [
        *timeline_metrics.utilisations(whole, available, window, rows),
        *timeline_metrics.offered_loads(jobs, window, offered),
        timeline_metrics.backlog(whole, window),
        share,
    ]


def _on_machines(machines: MachineRecords, jobs: pl.LazyFrame, window: RunWindow) -> list[Metric]:
    """Return the metrics of machines and of tasks, so far as they tell more than those of jobs."""
    several = len(machines.capacity) > 1
    if not several and machines.tasks.select(pl.col("gang").all()).collect().item():
        return []
    requests = machines.requests()
    found = task_metrics(machines, requests, jobs, window)
    return found + machine_metrics(machines, requests, window) if several else found


def _check(tau: float, warmup: float, cooldown: float) -> None:
    if not (math.isfinite(tau) and tau > 0):
        raise RunError(f"metrics.tau: {tau!r} is not above 0 s; 10s is usual")
    for name, value in (("warmup", warmup), ("cooldown", cooldown)):
        if not (math.isfinite(value) and value >= 0):
            raise RunError(f"metrics.{name}: {value!r} is not a time of 0 s or more")
