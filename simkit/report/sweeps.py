"""A sweep as response curves and a table: mean and interval over seeds of each metric."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from simkit.analysis.runs_below import POLICY, SEED, Settings
from simkit.analysis.summary import (
    NOT_FINISHED,
    SIGNS,
    USUAL,
    Summary,
    full_name,
    summarise,
)
from simkit.errors import RunError
from simkit.report.gantt import short_name
from simkit.results.all_metrics import metric_numbers
from simkit.results.run_folder import Run

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
    metrics = _metrics(complete)
    whole = [key for key in settings.varying if key != SEED]
    return {
        "table": _table(summarise(runs, whole, metrics)),
        "curves": [
            {"x": key, **_table(summarise(runs, [key, *_others(keys, key)], metrics))}
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


def _metrics(runs: Sequence[Run]) -> list[str]:
    """Return the usual metrics, and the others whose good side is known, that all runs have."""
    every = [metric_numbers(run.metrics) for run in runs]
    common = {name: None for name in every[0] if all(name in one for one in every)}
    usual = [full_name(name, common) for name in USUAL]
    heads = [name for name in common if "." not in name]
    judged = [name for name in heads if every[0][name].better]
    more = [f"{name}.p90" for name in usual if f"{name}.p90" in common]
    known = [name for name in (*usual, *more, *judged) if name in common]
    return [name for name in dict.fromkeys(known) if name not in NOT_FINISHED][:_MOST_METRICS]


def _table(summary: Summary) -> dict[str, Any]:
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
            {"name": name, "unit": unit, "direction": SIGNS[summary.better[name]]}
            for name, unit in summary.metrics.items()
        ],
        "rows": rows, "rows_left_out": len(summary.rows) - len(rows), "level": summary.level,
        "notes": summary.notes(),
    }  # fmt: skip
