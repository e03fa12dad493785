"""What a report says of a run in words and numbers: counts, metrics, and where it comes from."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np
import polars as pl
from pydantic import ValidationError

from simkit.errors import RunError, SimkitError
from simkit.plugins import code_refused
from simkit.records import STATUSES
from simkit.results.metric import ABOUT, CUSTOM, counted_resource, entries
from simkit.results.run_folder import MemoryRun, Run
from simkit.results.run_info import changed_inputs
from simkit.scenario import Scenario
from simkit.scenario.workload import TraceFormat
from simkit.why.jobs import longest_waiting

_ABOUT: Final = ("unit", "formula", "window", "count", "censored")
_MOST_INPUTS: Final = 200
_MOST_TEXT: Final = 200_000
"""Characters of a scenario that are shown."""


def run_facts(run: Run) -> dict[str, Any]:
    """Return what the page says of a run beside its charts."""
    inputs = run.info.get("inputs") or []
    in_memory = isinstance(run, MemoryRun)
    explain = "" if in_memory else f"simkit explain {shlex.quote(str(run.folder))} "
    return {
        "name": run.name, "method": run.method, "policy": run.policy, "estimates": run.estimates,
        "folder": "none, in memory" if in_memory else str(run.folder), "explain": explain,
        "status": run.status, "error": str(run.info.get("error") or ""),
        "seed": run.seed, "digest": run.digest, "versions": _versions(run),
        "resources": {name: run.capacity[name] for name in run.resources},
        "machines": len(run.machines), "counts": counts_of(run), "metrics": _metrics(run),
        "inputs": [{"path": i["path"], "sha256": i["sha256"]} for i in inputs[:_MOST_INPUTS]],
        "inputs_left_out": max(0, len(inputs) - _MOST_INPUTS),
        "warnings": [str(text) for text in _list(run.info.get("warnings"))[:50]],
        "trace": _trace(run), "scenario": _scenario_text(run)[:_MOST_TEXT],
    }  # fmt: skip


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _versions(run: Run) -> dict[str, str]:
    found = run.info.get("versions")
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


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


def _metrics(run: Run) -> list[dict[str, Any]]:
    """Return each metric, and whether it is the user's own; none of an interrupted run."""
    try:
        metrics = run.metrics
    except RunError:
        return []
    own = metrics.get(CUSTOM, {})
    return [
        {
            "name": name,
            "own": name in own,
            "values": {key: n for key, n in metric.items() if key not in ABOUT},
            **{key: metric.get(key) for key in _ABOUT},
        }
        for name, metric in entries(metrics).items()
    ]


def _trace(run: Run) -> dict[str, Any]:
    """Return how many rows of the log were read, repaired and dropped, by rule."""
    trace = run.info.get("trace")
    if not isinstance(trace, Mapping):
        return {}
    rules = {
        part: {str(rule): n for rule, n in dict(trace[part]).items() if isinstance(n, int)}
        for part in ("repaired", "dropped")
        if isinstance(trace.get(part), Mapping)
    }
    numbers = {k: trace[k] for k in ("read", "accepted") if isinstance(trace.get(k), int)}
    return {**numbers, **rules}


def _scenario_text(run: Run) -> str:
    """Return the scenario as YAML; as JSON, which YAML includes, if this simkit cannot read it."""
    from simkit.plugins import code_refused
    from simkit.scenario import Scenario
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
    inputs = run.info.get("inputs") or []
    section = (run.info.get("scenario") or {}).get("workload")
    if not isinstance(section, dict) or section.get("resample") or not inputs:
        return None
    changed = set(
        changed_inputs({"inputs": [i for i in inputs if i["path"] == section.get("path")]})
    )
    if section.get("path") in changed or section.get("path") not in {i["path"] for i in inputs}:
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
