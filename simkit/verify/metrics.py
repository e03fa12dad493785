"""The check of metrics.json: its numbers are recomputed from the tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import KWH, Bools, Floats, seconds

_RELATIVE_ERROR = 1e-9
"""Sums of the same numbers in another order differ by less."""
_STATUSES = ("finished", "killed", "rejected", "running", "waiting")
_Numbers = dict[tuple[str, str], float | None]
"""(metric, number) → value, as ``metrics[metric][number]``."""


def check_metrics(run: AuditedRun) -> Check:
    """Check counts, makespan, waits, slowdowns, utilisation, value and energy by the tables."""
    check = Check("metrics", "the metrics follow from the tables")
    if not run.metrics:
        if not run.complete:
            return check.skip("the run is not complete and has no metrics")
        check.add("metrics.json is empty", {})
        return check
    expected = _expected(run)
    for (metric, key), value in expected.items():
        check.examined += 1
        entry = run.metrics.get(metric)
        found = entry.get(key) if isinstance(entry, dict) else None
        if not _equal(found, value):
            row = {"metric": metric, "number": key, "found": found, "expected": value}
            check.add("the number does not follow from the tables", row)
    return check


def _equal(found: Any, expected: float | None) -> bool:
    if expected is None or not isinstance(found, (int, float)):
        return found is None and expected is None
    return math.isclose(found, expected, rel_tol=_RELATIVE_ERROR, abs_tol=_RELATIVE_ERROR)


def _expected(run: AuditedRun) -> _Numbers:
    """Return the numbers that follow from the tables."""
    statuses = run.jobs["status"]
    numbers: _Numbers = {("jobs", name): float((statuses == name).sum()) for name in _STATUSES}
    numbers["jobs", "submitted"] = float(run.jobs.height)
    submits = run.jobs["submit_time_s"].drop_nulls().to_numpy()
    if not len(submits):
        return numbers
    ends = run.jobs["end_time_s"].drop_nulls().to_numpy()
    first, last_submit = float(submits.min()), float(submits.max())
    last_end = float(ends.max()) if len(ends) else None
    numbers["makespan_s", "value"] = None if last_end is None else last_end - first
    warmup, cooldown = (
        seconds(run.setting("metrics", name) or 0.0) for name in ("warmup", "cooldown")
    )
    jobs = run.jobs
    if warmup or cooldown:
        submit = pl.col("submit_time_s")
        jobs = jobs.filter(submit >= first + warmup, submit <= last_submit - cooldown)
        until = last_submit - cooldown
    elif last_end is not None:
        until = max(last_end, first)
        if run.complete and last_end > first and not run.capacity_events:
            numbers |= _utilisation(run, first, last_end)
    else:
        times = run.tables["timeline"]["time_s"].drop_nulls().to_list()
        until = max([first, *times]) if times else last_submit
    return numbers | _waits(run, jobs) | _value(run, jobs) | _energy(run, first + warmup, until)


def _waits(run: AuditedRun, jobs: pl.DataFrame) -> _Numbers:
    """Mean, median and maximum over the jobs that count; None if there are none."""
    submit, start, end = (
        jobs[f"{name}_time_s"].cast(float).to_numpy() for name in ("submit", "start", "end")
    )
    executed = jobs["run_time_s"].to_numpy()
    tau = run.setting("metrics", "tau")
    tau = 10.0 if tau is None else seconds(tau)
    bounded = np.maximum((start - submit + executed) / np.maximum(executed, tau), 1.0)
    bounded[np.isnan(end)] = np.nan
    numbers: _Numbers = {}
    for metric, values in (
        ("wait_time_s", start - submit),
        ("turnaround_time_s", end - submit),
        ("bounded_slowdown", bounded),
    ):
        known = values[~np.isnan(values)]
        some = len(known) > 0
        numbers[metric, "mean"] = float(known.mean()) if some else None
        numbers[metric, "p50"] = float(np.median(known)) if some else None
        numbers[metric, "max"] = float(known.max()) if some else None
        numbers[metric, "count"] = float(len(known))
        numbers[metric, "censored"] = float(len(values) - len(known))
    return numbers


def _utilisation(run: AuditedRun, first: float, last: float) -> _Numbers:
    """Allocated / available from first submit to last end; the capacity does not change."""
    numbers: _Numbers = {}
    for resource in run.requested:
        index = run.resources.index(resource)
        total = sum(capacity[index] for capacity in run.capacity.values())
        length = pl.col("end_time_s").fill_null(last).clip(upper_bound=last)
        length = length - pl.col("start_time_s")
        area = run.known.select((pl.col("count") * pl.col(f"one_{resource}") * length).sum()).item()
        value = float(area) / (total * (last - first)) if total else None
        numbers[f"utilisation_{resource}", "value"] = value
    return numbers


def _energy(run: AuditedRun, start_s: float, end_s: float) -> _Numbers:
    """Return the metrics of energy over a window of time in s."""
    if "power" not in run.tables or not run.tables["power"].height:
        return {}
    row = run.power
    inside = np.minimum(row["end_s"], end_s) - np.maximum(row["start_s"], start_s)
    length = np.clip(inside, 0, None)

    def flowed(power: Floats) -> float:
        return float(np.sum((power * length).astype(np.longdouble)))

    load = np.where(row["load_w"] > 0, row["load_w"], np.inf)
    jobs_w = row["machines_w"] - row["standing_w"]
    joule = {name.removesuffix("_w"): flowed(row[name]) for name in row if name.endswith("_w")}
    numbers: _Numbers = {
        ("load_kwh", "value"): joule["load"] / KWH,
        ("load_kwh", "machines"): joule["machines"] / KWH,
        ("load_kwh", "idle"): joule["standing"] / KWH,
        ("load_kwh", "overhead"): flowed((row["pue"] - 1.0) * row["machines_w"]) / KWH,
        ("unserved_kwh", "value"): joule["unserved"] / KWH,
        ("unserved_kwh", "jobs"): flowed(jobs_w * row["unserved_w"] / load) / KWH,
        ("unserved_kwh", "idle"): flowed(row["standing_w"] * row["unserved_w"] / load) / KWH,
        ("generation_kwh", "value"): joule["generation"] / KWH,
        ("curtailment_kwh", "value"): joule["curtailment"] / KWH,
        ("grid_kwh", "import"): joule["import"] / KWH,
        ("grid_kwh", "export"): joule["export"] / KWH,
        ("grid_import_peak_w", "value"): float(row["import_w"][length > 0].max(initial=0.0)),
        ("carbon_kg", "value"): flowed(row["carbon_g_per_s"]) / 1000.0,
        ("carbon_kg", "load"): flowed(row["load_carbon_g_per_s"]) / 1000.0,
        ("energy_cost", "value"): flowed(row["cost_per_s"]),
        ("energy_cost", "load"): flowed(row["load_cost_per_s"]),
    }
    return numbers | _of_sources(joule) | _of_battery(run, joule)


def _of_sources(joule: dict[str, float]) -> _Numbers:
    """Return which sources served the load, and the shares of renewables."""
    parts = {name: joule[f"load_{name}"] for name in ("renewable", "battery", "grid")}
    served, made = sum(parts.values()), joule["generation"]
    green = parts["renewable"] + parts["battery"] - joule["load_battery_grid"]
    kept = parts["renewable"] + joule["charge_renewable"]
    numbers: _Numbers = {("served_kwh", name): value / KWH for name, value in parts.items()}
    numbers["renewable_fraction", "value"] = green / served if served > 0 else None
    numbers["self_consumption", "value"] = kept / made if made > 0 else None
    return numbers


def _of_battery(run: AuditedRun, joule: dict[str, float]) -> _Numbers:
    """Return the use of the battery; nothing if there is none."""
    section = run.setting("power", "battery")
    if section is None:
        return {}
    moved = joule["charge"] * float(section["charge_efficiency"])
    moved += joule["discharge"] / float(section["discharge_efficiency"])
    return {
        ("battery_kwh", "charge"): joule["charge"] / KWH,
        ("battery_kwh", "discharge"): joule["discharge"] / KWH,
        ("battery_full_cycles", "value"): moved / (2.0 * float(section["capacity_kwh"]) * KWH),
    }


def _value(run: AuditedRun, jobs: pl.DataFrame) -> _Numbers:
    """Return the metrics of value; none if jobs have no value."""
    there = {"qos", "value", "deadline_s"} & set(jobs.columns)
    if not there:
        return {}
    last = _last_instant(run)
    status = jobs["status"]
    finished = (status == "finished").to_numpy()
    last_submit = float(run.jobs["submit_time_s"].to_numpy().max())
    early = finished & (jobs["end_time_s"].fill_null(np.inf) <= last_submit).to_numpy()
    numbers: _Numbers = {
        ("completion_ratio", name): _share(int(which.sum()), jobs.height)
        for name, which in (("value", finished), ("by_last_submit", early))
    }
    in_time = finished
    if "qos" in there:
        due = jobs.select(pl.col("submit_time_s") + pl.col("trace_run_time_s") / pl.col("qos"))
        late, known = _lateness(jobs, due.to_series().to_numpy(), last)
        in_time = finished & ~late
        numbers |= _of_lateness("qos_violations", late, known)
    if "deadline_s" in there and jobs["deadline_s"].is_not_null().any():
        some = jobs.filter(pl.col("deadline_s").is_not_null())
        late, known = _lateness(some, some["deadline_s"].to_numpy(), last)
        numbers |= _of_lateness("deadline_misses", late, known)
    if "value" in there:
        worth = jobs["value"].to_numpy()
        parts = {"value": finished, "by_last_submit": early, "in_time": in_time}
        for name, which in parts.items():
            if name != "in_time" or "qos" in there:
                numbers["job_value", name] = float(worth[which].sum())
                numbers["value_ratio", name] = _share(float(worth[which].sum()), float(worth.sum()))
    numbers["delay_cost", "value"] = _delay_s(run, jobs, last) / 3600
    return numbers


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _last_instant(run: AuditedRun) -> float:
    """Return the last instant of the timeline and of all jobs."""
    columns = (run.tables["timeline"]["time_s"], run.jobs["end_time_s"], run.jobs["submit_time_s"])
    return max(float(c.drop_nulls().to_numpy().max()) for c in columns if c.drop_nulls().len())


def _lateness(jobs: pl.DataFrame, due: Floats, last: float) -> tuple[Bools, Bools]:
    """Return which jobs were late, and for which it is known whether they were."""
    status = jobs["status"].to_numpy()
    over = np.isin(status, ("finished", "killed", "rejected"))
    end = np.where(status == "finished", jobs["end_time_s"].fill_null(np.nan).to_numpy(), last)
    late = (end > due) | np.isin(status, ("killed", "rejected"))
    return late, over | late


def _of_lateness(name: str, late: Bools, known: Bools) -> _Numbers:
    count, of = int(late.sum()), int(known.sum())
    return {
        (name, "value"): float(count),
        (name, "share"): _share(count, of),
        (name, "count"): float(of),
        (name, "censored"): float(len(known) - of),
    }


def _delay_s(run: AuditedRun, jobs: pl.DataFrame, last: float) -> float:
    """Return the time in s, summed over admitted jobs, in which a job held no allocation.

    This is one sweep over submits, ends, and starts and ends of allocations, job by job.
    """
    rows = jobs.filter(pl.col("status") != "rejected").with_row_index("row")
    rows = rows.with_columns(pl.col("end_time_s").fill_null(last))
    held = run.allocations.join(rows.select("job_id", "row"), on="job_id", how="inner")
    job = np.concatenate([rows["row"], rows["row"], held["row"], held["row"]]).astype(np.int64)
    time = np.concatenate(
        [rows["submit_time_s"], rows["end_time_s"], held["start_time_s"],
         held["end_time_s"].fill_null(last)]
    )  # fmt: skip
    inside = np.repeat([1, -1, 0, 0], [rows.height, rows.height, held.height, held.height])
    running = np.repeat([0, 0, 1, -1], [rows.height, rows.height, held.height, held.height])
    order = np.lexsort((time, job))
    job, time = job[order], time[order]
    idle = (np.cumsum(inside[order]) > 0) & (np.cumsum(running[order]) == 0)
    same = job[1:] == job[:-1]
    return float(np.diff(time)[idle[:-1] & same].sum()) if len(time) else 0.0
