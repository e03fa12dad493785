"""The audit of metrics.json: its numbers, worked out once more from the tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.durations import seconds
from simkit.verify.ledger import KWH, columns

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


# MERGED The auditor's numbers of energy, worked out from the table "power".


Numbers = dict[tuple[str, str], float | None]
"""(metric, number) → value, as ``metrics[metric][number]``."""


def energy_numbers(run: RunFolder, start_s: float, end_s: float) -> Numbers:
    """Return what the metrics of energy should be over a window of time in s."""
    if "power" not in run.tables or not run.tables["power"].height:
        return {}
    row = columns(run)
    seconds = np.clip(
        np.minimum(row["end_s"], end_s) - np.maximum(row["start_s"], start_s), 0, None
    )

    def flowed(power: Floats) -> float:
        return float(np.sum((power * seconds).astype(np.longdouble)))

    load = np.where(row["load_w"] > 0, row["load_w"], np.inf)
    jobs_w = row["machines_w"] - row["standing_w"]
    joule = {name.removesuffix("_w"): flowed(row[name]) for name in row if name.endswith("_w")}
    numbers: Numbers = {
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
        ("grid_import_peak_w", "value"): float(row["import_w"][seconds > 0].max(initial=0.0)),
        ("carbon_kg", "value"): flowed(row["carbon_g_per_s"]) / 1000.0,
        ("carbon_kg", "load"): flowed(row["load_carbon_g_per_s"]) / 1000.0,
        ("energy_cost", "value"): flowed(row["cost_per_s"]),
        ("energy_cost", "load"): flowed(row["load_cost_per_s"]),
    }
    return numbers | _of_sources(joule) | _of_battery(run, joule)


def _of_sources(joule: dict[str, float]) -> Numbers:
    """Return what served the load, and how much of it and of generation was green."""
    parts = {name: joule[f"load_{name}"] for name in ("renewable", "battery", "grid")}
    served, made = sum(parts.values()), joule["generation"]
    green = parts["renewable"] + parts["battery"] - joule["load_battery_grid"]
    kept = parts["renewable"] + joule["charge_renewable"]
    numbers: Numbers = {("served_kwh", name): value / KWH for name, value in parts.items()}
    numbers["renewable_fraction", "value"] = green / served if served > 0 else None
    numbers["self_consumption", "value"] = kept / made if made > 0 else None
    return numbers


def _of_battery(run: RunFolder, joule: dict[str, float]) -> Numbers:
    """Return how the battery was used; nothing without one."""
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


# MERGED The audit of the metrics of worth: worked out once more from the tables.


Floats = npt.NDArray[np.float64]


def value_numbers(run: RunFolder, jobs: pl.DataFrame) -> Numbers:
    """Return the numbers that metrics of worth must have; none where jobs have no worth.

    Args:
        run: the run.
        jobs: those of its jobs that count.
    """
    there = {"qos", "value", "deadline_s"} & set(jobs.columns)
    if not there or not run.jobs.height:
        return {}
    last = _last_instant(run)
    status = jobs["status"]
    finished = (status == "finished").to_numpy()
    no_more = float(run.jobs["submit_time_s"].to_numpy().max())
    early = finished & (jobs["end_time_s"].fill_null(np.inf) <= no_more).to_numpy()
    numbers: Numbers = {
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


def _last_instant(run: RunFolder) -> float:
    """Return the last instant of the timeline or the last end of a job, whichever is later."""
    columns = (run.tables["timeline"]["time_s"], run.jobs["end_time_s"], run.jobs["submit_time_s"])
    return max(float(c.drop_nulls().to_numpy().max()) for c in columns if c.drop_nulls().len())


def _lateness(
    jobs: pl.DataFrame, due: Floats, last: float
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which jobs were late, and of which it is known whether they were."""
    status = jobs["status"].to_numpy()
    over = np.isin(status, ("finished", "killed", "rejected"))
    end = np.where(status == "finished", jobs["end_time_s"].fill_null(np.nan).to_numpy(), last)
    late = (end > due) | np.isin(status, ("killed", "rejected"))
    return late, over | late


def _of_lateness(name: str, late: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> Numbers:
    count, of = int(late.sum()), int(known.sum())
    return {
        (name, "value"): float(count),
        (name, "share"): _share(count, of),
        (name, "count"): float(of),
        (name, "censored"): float(len(known) - of),
    }


def _delay_s(run: RunFolder, jobs: pl.DataFrame, last: float) -> float:
    """Return the seconds in which jobs that had been let in held nothing, from submit to end.

    One sweep over submits, ends, and starts and ends of allocations, job by job.
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


RELATIVE_ERROR = 1e-9
"""Two sums of the same numbers in another order differ by less."""

STATUSES = ("finished", "killed", "rejected", "running", "waiting")


def check_metrics(run: RunFolder) -> Check:
    """Counts, makespan, waits, slowdowns, utilisation, worth and energy are as the tables say."""
    check = Check("metrics", "the metrics are what the tables say")
    if not run.metrics:
        if not run.complete:
            return check.skip("the run is not complete and has no metrics")
        check.add("metrics.json is empty", {})
        return check
    expected = _counts(run) | _makespan(run) | _waits(run) | _utilisation(run)
    expected |= value_numbers(run, _kept(run)) | _energy(run)
    for (metric, key), value in expected.items():
        check.examined += 1
        found = _number(run.metrics, metric, key)
        if not _equal(found, value):
            row = {"metric": metric, "number": key, "found": found, "expected": value}
            check.add("the number is not what the tables say", row)
    return check


def _number(metrics: dict[str, Any], metric: str, key: str) -> Any:
    entry = metrics.get(metric)
    return entry.get(key) if isinstance(entry, dict) else None


def _equal(found: Any, expected: float | None) -> bool:
    if expected is None or not isinstance(found, (int, float)):
        return found is None and expected is None
    return math.isclose(found, expected, rel_tol=RELATIVE_ERROR, abs_tol=RELATIVE_ERROR)


def _counts(run: RunFolder) -> Numbers:
    statuses = run.jobs["status"]
    tally: Numbers = {("jobs", name): float((statuses == name).sum()) for name in STATUSES}
    return tally | {("jobs", "submitted"): float(run.jobs.height)}


def _makespan(run: RunFolder) -> Numbers:
    """Last end - first submit, over all jobs."""
    first, last = (
        _extreme(run.jobs["submit_time_s"], "min"),
        _extreme(run.jobs["end_time_s"], "max"),
    )
    if first is None:
        return {}
    return {("makespan_s", "value"): None if last is None else last - first}


def _extreme(column: pl.Series, which: str) -> float | None:
    values = column.drop_nulls().to_numpy()
    if not len(values):
        return None
    return float(values.min() if which == "min" else values.max())


def _waits(run: RunFolder) -> Numbers:
    """Mean, median and maximum of what each job of the window has; None over no job."""
    jobs = _kept(run)
    if not run.jobs.height:
        return {}
    submit, start, end = (
        jobs[f"{name}_time_s"].cast(float).to_numpy() for name in ("submit", "start", "end")
    )
    executed = jobs["run_time_s"].to_numpy()
    tau = seconds(_setting(run, "tau", 10.0))
    bounded = np.maximum((start - submit + executed) / np.maximum(executed, tau), 1.0)
    bounded[np.isnan(end)] = np.nan
    numbers: Numbers = {}
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


def _setting(run: RunFolder, name: str, default: float) -> Any:
    value = run.setting("metrics", name)
    return default if value is None else value


def _kept(run: RunFolder) -> pl.DataFrame:
    """Return the jobs outside warm-up and cool-down."""
    warmup, cooldown = (seconds(_setting(run, name, 0.0)) for name in ("warmup", "cooldown"))
    submit = pl.col("submit_time_s")
    if not (warmup or cooldown):
        return run.jobs
    return run.jobs.filter(submit >= submit.min() + warmup, submit <= submit.max() - cooldown)


def _energy(run: RunFolder) -> Numbers:
    """The numbers of energy, from the first submit that counts to the last end."""
    first, last = (
        _extreme(run.jobs["submit_time_s"], "min"),
        _extreme(run.jobs["submit_time_s"], "max"),
    )
    ended = _extreme(run.jobs["end_time_s"], "max")
    if first is None or last is None:
        return {}
    warmup, cooldown = (seconds(_setting(run, name, 0.0)) for name in ("warmup", "cooldown"))
    if ended is None:
        ended = _extreme(run.tables["timeline"]["time_s"], "max")
    end = last - cooldown if warmup or cooldown else last if ended is None else max(ended, first)
    return energy_numbers(run, first + warmup, end)


def _utilisation(run: RunFolder) -> Numbers:
    """Allocated / available from first submit to last end, where capacity never changes."""
    trimmed = any(seconds(_setting(run, name, 0.0)) for name in ("warmup", "cooldown"))
    steps = run.tables["events"].filter(pl.col("kind") == "capacity").height
    first, last = (
        _extreme(run.jobs["submit_time_s"], "min"),
        _extreme(run.jobs["end_time_s"], "max"),
    )
    whole = run.complete and bool(run.jobs["end_time_s"].is_not_null().any())
    if trimmed or steps or not whole or first is None or last is None or last <= first:
        return {}
    numbers: Numbers = {}
    for resource in run.asked:
        index = run.resources.index(resource)
        total = sum(capacity[index] for capacity in run.capacity.values())
        until = pl.col("end_time_s").fill_null(last).clip(upper_bound=last)
        area = run.known.select(
            (pl.col("count") * pl.col(f"one_{resource}") * (until - pl.col("start_time_s"))).sum()
        ).item()
        numbers[f"utilisation_{resource}", "value"] = (
            float(area) / (total * (last - first)) if total else None
        )
    return numbers
