"""How long groups of jobs waited, how waits are distributed, and who gains between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.compare import compare_runs
from simkit.analysis.paired_runs import pair_runs
from simkit.arrays import Floats
from simkit.errors import RunError
from simkit.report.gantt import short_name
from simkit.results.group_metrics import UNKNOWN, By, group_of, metrics_by
from simkit.results.job_metrics import JOB_METRICS
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run
from simkit.units import parse_duration

SHOWN: Final[tuple[By, ...]] = ("size", "length", "user", "group", "queue", "partition")
METRICS: Final = ("wait_time_s", "bounded_slowdown")
_NUMBERS: Final = ("", ".p50", ".p90", ".p99", ".max")
MOST_GROUPS: Final = 200
"""Groups that are listed: those with the most jobs."""
MOST_STEPS: Final = 500
"""Steps of a cumulative curve; of more different values, those at even shares are kept."""
_SHARES: Final = np.concatenate((np.linspace(0, 0.98, 393), np.linspace(0.9802, 1, 100)))


def groups_of(run: Run) -> dict[str, dict[str, Any]]:
    """Return the numbers of each group of jobs, by what they are grouped by.

    What the log does not know of any job is left out, and so are the scenario's partitions if there
    is one.
    """
    found: dict[str, dict[str, Any]] = {}
    for by in SHOWN:
        frame = metrics_by(
            run.scan("jobs"), run.scan("timeline"), by, resources=run.resources,
            settings=_settings(run),
        )  # fmt: skip
        if by in ("group", "partition") and len(frame) < 2:
            continue
        found[by] = _table(frame, by)
    return found


def _settings(run: Run) -> dict[str, Any]:
    """Return what the scenario says of its metrics, without what no duration is."""
    section = (run.info.get("scenario") or {}).get("metrics")
    settings = {}
    for key, value in (section if isinstance(section, dict) else {}).items():
        try:
            settings[key] = parse_duration(value)
        except ValueError:
            continue
    return settings


def _table(frame: pl.DataFrame, by: By) -> dict[str, Any]:
    unknown = frame.filter(pl.col(by) == UNKNOWN)
    jobs, listed = (sum(part["jobs"].to_list()) for part in (frame, frame.head(MOST_GROUPS)))
    kept = frame.head(MOST_GROUPS)
    rows = [
        {
            "name": short_name(line[by]),
            "jobs": line["jobs"],
            "unfinished": line["jobs"] - line["finished"],
            **{m: [line[f"{m}{number}"] for number in _NUMBERS] for m in METRICS},
        }
        for line in kept.iter_rows(named=True)
    ]
    return {
        "rows": rows, "groups": len(frame), "jobs": jobs,
        "unknown": sum(unknown["jobs"].to_list()), "left_out": len(frame) - len(kept),
        "left_out_jobs": jobs - listed,
    }  # fmt: skip


def distributions_of(run: Run) -> dict[str, Any]:
    """Return the cumulative shares of waits and bounded slowdowns over all jobs that have them."""
    tau = _settings(run).get("tau", 10.0)
    resource = counted_resource(run.resources)
    values = [m.value(tau, resource).alias(m.name) for m in JOB_METRICS if m.name in METRICS]
    frame = run.scan("jobs").select(values).collect()
    return {"tau": tau} | {
        name: _cumulative(frame[name].drop_nulls(), len(frame)) for name in METRICS
    }


def _cumulative(values: pl.Series, jobs: int) -> dict[str, Any]:
    numbers: Floats = values.cast(pl.Float64).to_numpy()
    steps, shares = cumulative_steps(numbers)
    mean = float(numbers.mean()) if len(numbers) else None
    return {
        "values": steps.tolist(), "shares": shares.tolist(), "mean": mean, "count": len(numbers),
        "without": jobs - len(numbers),
    }  # fmt: skip


def cumulative_steps(values: Floats) -> tuple[Floats, Floats]:
    """Return ascending values, and the share of all values that are at most as large as each.

    All different values are returned, or about `MOST_STEPS` of them, the least and the most among
    them; their shares are exact.
    """
    steps, counts = np.unique(values, return_counts=True)
    shares = np.cumsum(counts) / max(1, len(values))
    if len(steps) > MOST_STEPS:
        kept = np.unique(np.minimum(np.searchsorted(shares, _SHARES), len(steps) - 1))
        steps, shares = steps[kept], shares[kept]
    return steps, shares


def recorded_waits(run: Run, waits: pl.DataFrame | None) -> dict[str, Any] | None:
    """Return the cumulative shares of the waits that the log records, and of the same jobs here.

    Args:
        run: the run.
        waits: job_id, and recorded_s: the recorded wait; None if the log has none.
    """
    if waits is None or not len(waits):
        return None
    try:
        jobs = run.columns("jobs", "job_id", "wait_time_s")
        both = jobs.join(waits.unique("job_id"), on="job_id", how="inner").drop_nulls()
    except (pl.exceptions.PolarsError, RunError):
        return None  # ids of another type than those of the log
    if not len(both):
        return None
    apart = (both["wait_time_s"] - both["recorded_s"]).abs()
    return {
        "jobs": len(jobs),
        "recorded": _cumulative(both["recorded_s"], len(jobs)),
        "simulated": _cumulative(both["wait_time_s"], len(jobs)),
        "within_5_min": float((apart <= 300).mean()),  # type: ignore[arg-type]
    }


_RESAMPLES: Final = 500


def compare_with_first(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return how each run but the first differs from the first; or why they cannot be compared."""
    return [{"run": n, **_compared(runs[0], run)} for n, run in enumerate(runs) if n]


def _compared(a: Run, b: Run) -> dict[str, Any]:
    if "complete" not in (a.status, b.status) or a.status != b.status:
        why = "one of the runs is not complete, so their jobs cannot be paired"
        return {"refused": why}
    try:
        found = compare_runs([a], [b], resamples=_RESAMPLES)
        (pair,) = pair_runs([a], [b])
    except RunError as error:
        return {"refused": str(error)}
    known = pair.both.filter(
        pl.col("wait_time_s").is_not_null() & pl.col("wait_time_s_b").is_not_null()
    )
    resource = counted_resource(a.resources)
    groups = {}
    for by in SHOWN:
        names = a.scan("jobs").select("job_id", group_of(a.scan("jobs"), by, resource)).collect()
        table = _by_group(known.join(names, on="job_id", how="left"), by)
        if len(table["rows"]) > 1:
            groups[by] = table
    return {
        "differences": [
            {
                "metric": d.metric, "unit": d.unit, "a": d.mean_a, "b": d.mean_b,
                "difference": d.difference, "low": d.interval.low, "high": d.interval.high,
                "method": d.interval.method, "better": d.better, "equal": d.equal,
                "worse": d.worse, "n": d.n, "without": d.without_value,
            }
            for d in found.differences
        ],
        "level": found.differences[0].interval.level if found.differences else 0.95,
        "notes": found.notes(), "paired": len(known), "without": len(pair.both) - len(known),
        "groups": groups,
    }  # fmt: skip


def _by_group(both: pl.DataFrame, by: str) -> dict[str, Any]:
    """Return a row a group, by how much longer or shorter its jobs waited in all."""
    a, b = pl.col("wait_time_s"), pl.col("wait_time_s_b")
    frame = both.group_by(by).agg(
        pl.len().alias("jobs"), a.mean().alias("a"), b.mean().alias("b"),
        (b - a).sum().alias("total"), (b < a).mean().alias("better"),
        (b == a).mean().alias("equal"), (b > a).mean().alias("worse"),
    ).sort("total", by)  # fmt: skip
    kept = frame
    if len(frame) > MOST_GROUPS:
        kept = pl.concat([frame.head(MOST_GROUPS // 2), frame.tail(MOST_GROUPS // 2)])
    rows = [{**row, "name": short_name(row.pop(by))} for row in kept.iter_rows(named=True)]
    gain, lose = (frame["total"] < 0).sum(), (frame["total"] > 0).sum()
    return {
        "rows": rows, "gain": int(gain), "lose": int(lose), "left_out": len(frame) - len(kept),
    }  # fmt: skip
