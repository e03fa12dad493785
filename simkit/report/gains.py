"""Who gains and who loses between two runs of one workload: jobs paired by id, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from simkit.analysis.compare import compare_runs
from simkit.analysis.paired_runs import pair_runs
from simkit.errors import RunError
from simkit.report.gantt import short_name
from simkit.report.groups import MOST_GROUPS, SHOWN
from simkit.results.group_metrics import group_of
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run

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
