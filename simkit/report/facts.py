"""The facts of a report: of a run, of its groups of jobs, of two runs, and of a sweep.

One run: counts, metrics, where it comes from, and how waits are distributed. Two runs: who gains.
A sweep: mean and interval over seeds of each metric, as a table and as response curves.
"""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import polars as pl
from pydantic import ValidationError

from simkit.analysis.compare import compare_runs
from simkit.analysis.runs import POLICY, SEED, Settings, pair_runs
from simkit.analysis.summary import SIGNS, UNFINISHED_COUNTS, Summary, summarise
from simkit.arrays import Floats
from simkit.errors import RunError, SimkitError
from simkit.plugins import code_refused
from simkit.records import STATUSES
from simkit.report.gantt import short_name
from simkit.results.all_metrics import (
    TABLES,
    facts_of,
    full_name,
    full_names,
    is_share,
    metric_numbers,
    shown_on,
)
from simkit.results.group_metrics import UNKNOWN, By, group_of, metrics_by
from simkit.results.job_metrics import JOB_METRICS
from simkit.results.metric import ABOUT, CUSTOM, Metrics, Screen, counted_resource, entries
from simkit.results.run_folder import MemoryRun, Run
from simkit.results.run_info import changed_inputs
from simkit.scenario import Scenario
from simkit.scenario.workload import TraceFormat
from simkit.units import parse_duration
from simkit.why.jobs import longest_waiting

_ABOUT: Final = ("formula", "window", "count", "censored")
_SCREENS: Final[Mapping[Screen, int | None]] = {"tiles": 4, "report": None}
"""Screen of the page → the most resources that it shows of a metric; None: all."""
_SHARE: Final = None
"""What the page has as the unit of shares, which it shows in per cent; no metric's unit is null."""
_OF_ROWS: Final = ("read", "accepted", "repaired", "dropped")
"""Counts of the log's rows."""
_MOST_INPUTS: Final = 200
_MOST_TEXT: Final = 200_000
"""Characters of a scenario that are shown."""


def run_facts(run: Run) -> dict[str, Any]:
    """Return what the page says of a run besides its charts."""
    inputs = run.info.get("inputs") or []
    in_memory = isinstance(run, MemoryRun)
    explain = "" if in_memory else f"simkit explain {shlex.quote(str(run.folder))} "
    return {
        "name": run.name, "method": run.method, "policy": run.policy, "estimates": run.estimates,
        "folder": "none, in memory" if in_memory else str(run.folder), "explain": explain,
        "status": run.status, "error": str(run.info.get("error") or ""),
        "seed": run.seed, "digest": run.digest, "versions": run.info.get("versions", {}),
        "resources": {name: run.capacity[name] for name in run.resources},
        "machines": len(run.machines), "counts": counts_of(run), **_metrics(run),
        "inputs": [{"path": i["path"], "sha256": i["sha256"]} for i in inputs[:_MOST_INPUTS]],
        "inputs_left_out": max(0, len(inputs) - _MOST_INPUTS),
        "warnings": [str(text) for text in run.info.get("warnings", ())[:50]],
        "trace": {key: n for key, n in run.info.get("trace", {}).items() if key in _OF_ROWS},
        "scenario": _scenario_text(run)[:_MOST_TEXT],
    }  # fmt: skip


def missing_tables(run: Run) -> list[str]:
    """Return the tables that a run lacks, which was killed before it could write them."""
    if isinstance(run, MemoryRun):
        return []
    return [name for name in run.tables if not (run.folder / f"{name}.parquet").is_file()]


def counts_of(run: Run) -> dict[str, int]:
    """Return how many jobs there are by their status at the end, all states named."""
    counts: dict[str, int] = {}
    if not missing_tables(run):
        found = run.scan("jobs").group_by("status").agg(pl.len()).collect()
        counts = {str(status): int(n) for status, n in found.iter_rows()}
    known = {status: counts.pop(status, 0) for status in STATUSES}
    total = sum(known.values()) + sum(counts.values())
    submitted = run.info.get("jobs")
    missing = max(0, submitted - total) if isinstance(submitted, int) else 0
    return {"submitted": total + missing, **known, "other": sum(counts.values()) + missing}


def _metrics(run: Run) -> dict[str, list[Any]]:
    """Return each metric, and which numbers are tiles or in the table of several runs.

    An interrupted run has none.
    """
    try:
        metrics = run.metrics
    except RunError:
        metrics = Metrics()
    known, own = metric_numbers(metrics), metrics.get(CUSTOM, {})
    shown = {
        screen: [one for name in shown_on(screen) for one in full_names(name, known)[:most]]
        for screen, most in _SCREENS.items()
    }
    return {screen: [*names, *own] for screen, names in shown.items()} | {
        "metrics": [
            {
                "name": name,
                "values": {key: n for key, n in metric.items() if key not in ABOUT},
                **{key: metric.get(key) for key in _ABOUT},
                "unit": shown_unit(name, metric.get("unit", "")),
                "note": "" if name in own or (row := facts_of(name)) is None else row.in_short,
                "of_jobs": name in _OF_JOBS,
            }
            for name, metric in entries(metrics).items()
        ]
    }


_OF_JOBS: Final = frozenset(row.name for row in TABLES["single jobs"])


def shown_unit(name: str, unit: str) -> str | None:
    """Return the unit of a metric's numbers, `_SHARE` if the page shows them in per cent."""
    return _SHARE if unit == "1" and is_share(name) else str(unit)


def _scenario_text(run: Run) -> str:
    """Return the scenario as YAML; as JSON, which YAML includes, if this simkit cannot read it."""
    from simkit.scenario.yaml_document import scenario_to_yaml

    found = run.info.get("scenario", {})
    with suppress(SimkitError, ValidationError, ValueError, TypeError), code_refused():
        return scenario_to_yaml(Scenario.model_validate(found))
    return json.dumps(found, indent=1, ensure_ascii=False)


def longest_waits(run: Run, most: int = 20) -> list[dict[str, Any]]:
    """Return the jobs of `simkit.why.jobs.longest_waiting`, with what the page says of them."""
    resource = counted_resource(run.resources)
    found = longest_waiting(run, most)
    size = pl.col(resource) if resource in found.columns else pl.lit(None, pl.Float64)
    columns = ("job_id", "user", "submit_time_s", "start_time_s", "wait_time_s")
    return found.select(*columns, size=size).to_dicts()


def log_waits(run: Run) -> pl.DataFrame | None:
    """Return job_id and recorded_s of the jobs whose wait the log records; None without any.

    The log is read where run.json says that it was, and only if its SHA-256 is still the one that
    was recorded. Resampled workloads have other jobs than their log. No code of a scenario runs.
    """
    inputs = {entry["path"]: entry for entry in run.info.get("inputs") or ()}
    section = (run.info.get("scenario") or {}).get("workload") or {}
    entry = inputs.get(section.get("path"))
    if entry is None or section.get("resample") or changed_inputs({"inputs": [entry]}):
        return None
    with suppress(SimkitError, ValidationError, ValueError, TypeError), code_refused():
        workload = Scenario.model_validate(run.info["scenario"]).workload
        if not isinstance(workload, TraceFormat):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the run are shown
            trace, past = workload.recorded()
        wait = past.start_s - trace.workload.submit_time_s
        known = np.isfinite(wait) & (wait >= 0)
        if known.any():
            ids = pl.Series("job_id", trace.workload.job_id[known])
            return pl.DataFrame({"job_id": ids, "recorded_s": wait[known]})
    return None


SHOWN: Final[tuple[By, ...]] = ("size", "length", "user", "group", "queue", "partition")
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
            **{m: [line[f"{m}{number}"] for number in _NUMBERS] for m in shown_on("charts")},
        }
        for line in kept.iter_rows(named=True)
    ]
    return {
        "rows": rows, "groups": len(frame), "jobs": jobs,
        "unknown": sum(unknown["jobs"].to_list()), "left_out": len(frame) - len(kept),
        "left_out_jobs": jobs - listed,
    }  # fmt: skip


def distributions_of(run: Run) -> dict[str, Any]:
    """Return the cumulative shares of each metric that is drawn, over all jobs that have it."""
    tau = _settings(run).get("tau", 10.0)
    resource = counted_resource(run.resources)
    drawn = [metric for metric in JOB_METRICS if "charts" in metric.shown]
    values = [metric.value(tau, resource).alias(metric.name) for metric in drawn]
    frame = run.scan("jobs").select(values).collect()
    return {name: _cumulative(frame[name].drop_nulls(), len(frame)) for name in frame.columns}


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
                "metric": d.metric, "unit": shown_unit(d.metric, d.unit),
                "a": d.mean_a, "b": d.mean_b,
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


_MOST_ROWS: Final = 2000
_MOST_METRICS: Final = 16


def sweep_facts(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the table and the curves of the runs of a sweep.

    Raises RunError if none of them is complete.
    """
    complete = [run for run in runs if run.status == "complete"]
    left_out = [run for run in runs if run.status != "complete"]
    if not complete:
        raise RunError("report: none of the runs of this sweep is complete; run it again")
    settings = Settings(complete)
    keys = [key for key in settings.keys if key != SEED]
    numeric = [key for key in keys if _is_numeric(settings.values(key))]
    metrics = _judged_metrics(complete)
    whole = [key for key in settings.varying if key != SEED]
    return {
        "table": _summary_table(summarise(runs, whole, metrics)),
        "curves": [
            {"x": key, **_summary_table(summarise(runs, [key, *_others(keys, key)], metrics))}
            for key in numeric
        ],
        "runs": len(runs), "complete": len(complete),
        "left_out": [f"{run.folder}: {run.status}" for run in left_out[:50]],
        "name": ", ".join(dict.fromkeys(run.name for run in complete)),
        "seeds": sorted({run.seed for run in complete}),
    }  # fmt: skip


def _others(keys: Sequence[str], x: str) -> list[str]:
    """Return the keys that tell the curves over a key apart: the policy as one, if it can be."""
    within = [key for key in keys if key != x]
    if x.startswith(f"{POLICY}."):
        return within
    return list(dict.fromkeys(POLICY if key.startswith(f"{POLICY}.") else key for key in within))


def _is_numeric(values: Sequence[str]) -> bool:
    """Return whether a key has at least two values, all of them numbers."""
    return len(set(values)) > 1 and all(_number(value) is not None for value in values)


def _number(text: str) -> float | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    return float(found) if is_number and abs(found) < 1e100 else None


def _judged_metrics(runs: Sequence[Run]) -> list[str]:
    """Return the usual metrics, and the others whose good side is known, that all runs have."""
    every = [metric_numbers(run.metrics) for run in runs]
    common = {name: None for name in every[0] if all(name in one for one in every)}
    usual = [full_name(name, common) for name in shown_on("summary")]
    heads = [name for name in common if "." not in name]
    judged = [name for name in heads if every[0][name].better]
    more = [f"{name}.p90" for name in usual if f"{name}.p90" in common]
    known = [name for name in (*usual, *more, *judged) if name in common]
    return [name for name in dict.fromkeys(known) if name not in UNFINISHED_COUNTS][:_MOST_METRICS]


def _summary_table(summary: Summary) -> dict[str, Any]:
    rows = [
        {
            "values": [short_name(value) for value in row.values],
            "numbers": [_number(value) for value in row.values],
            "runs": row.runs,
            "seeds": row.seeds,
            "cells": [[c.mean, c.low, c.high, c.best, c.as_good] for c in row.cells],
        }
        for row in summary.rows[:_MOST_ROWS]
    ]
    return {
        "by": list(summary.by),
        "metrics": [
            {
                "name": name,
                "unit": shown_unit(name, unit),
                "direction": SIGNS[summary.better[name]],
            }
            for name, unit in summary.metrics.items()
        ],
        "rows": rows, "rows_left_out": len(summary.rows) - len(rows), "level": summary.level,
        "notes": summary.notes(),
    }  # fmt: skip
