"""The audit of metrics.json: its numbers, worked out once more from the tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify_audit import Check
from simkit.verify_energy_metrics import energy_numbers
from simkit.verify_maintenance import seconds
from simkit.verify_value_metrics import value_numbers

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

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


Numbers = dict[tuple[str, str], float | None]
"""(metric, number) → value, as ``metrics[metric][number]``."""


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
    import polars as pl

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
    import polars as pl

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
