"""A table of tasks, one a row, as CSV or Parquet: a map says what its columns are.

Without a map it is the table of jobs that CloudSimPy, the simulator behind DeepJS (Li & Hu,
"DeepJS: Job scheduling based on deep reinforcement learning in cloud data center", 2019), makes of
Alibaba's trace of 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from simkit.errors import TraceError, did_you_mean
from simkit.workload import Trace

from .rules import Tally, summary
from .task_table_columns import TableColumns, read_columns
from .task_table_filter import judge
from .task_table_jobs import Submit, TableJobs
from .task_table_rules import NegativeRun, ZeroRun

CLOUDSIMPY: Final[Mapping[str, str]] = {
    "job_id": "job_id",
    "task_id": "task_id",
    "submit_time_s": "submit_time",
    "run_time_s": "duration",
    "instances": "instances_num",
    "cpu": "cpu",
    "mem": "memory",
}
"""The map for the tables of CloudSimPy: cores, and memory as a share of the largest machine's."""

NEEDED: Final = ("job_id", "submit_time_s", "run_time_s")
OPTIONAL: Final = ("task_id", "instances", "requested_time_s", "parents", "user")
_TEXT: Final = ("job_id", "task_id", "parents", "user")


def read_task_table(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, str] = CLOUDSIMPY,
    factors: Mapping[str, float] | None = None,
    submit: Submit = "first",
    negative_run: NegativeRun = "drop",
    zero_run: ZeroRun = "keep",
    parent_separator: str = ";",
) -> Trace:
    """Read a table of tasks as a workload of bags of instances.

    Jobs are sorted by submit time, those of one instant in the order of their first rows; a job's
    tasks keep the order of their rows, which need not stand together. Ids are whole numbers, or
    text as soon as one is text.

    Args:
        path: the table, with a header line: CSV, gzipped CSV or Parquet, told by content.
        columns: ours → the table's name. Needed are ``job_id``, ``submit_time_s`` and
            ``run_time_s`` (of an instance); optional ``task_id`` (else numbered in the job),
            ``instances`` (else 1), ``requested_time_s``, ``parents`` (ids of tasks of the same
            job that must have ended before) and ``user``. Every other name is a resource: what
            an instance asks of it; at least one.
        factors: numbers by which columns of numbers are multiplied, by our names:
            ``{"run_time_s": 1e-3, "cpu": 0.01}`` for milliseconds and hundredths of a core.
        submit: which row of a job says when it is submitted.
        negative_run: rows with a negative run time are left out, or run 0 s.
        zero_run: keep, or leave out, rows with a run time of 0.
        parent_separator: between the ids in ``parents``.

    Returns:
        The workload and the report of its rows.

    Raises TraceError, with file and line, for missing columns, values that are no numbers,
    parents that do not exist or wait for each other, unknown choices, and if no row is left.
    """
    path, tally, factors = Path(path), Tally(), factors or {}
    _check_choices({"submit": (submit, Submit), "negative_run": (negative_run, NegativeRun),
                    "zero_run": (zero_run, ZeroRun)})  # fmt: skip
    _check_map(columns, factors)
    table = _read(path, columns, factors)
    resources = tuple(name for name in columns if name not in (*NEEDED, *OPTIONAL))
    kept = np.flatnonzero(judge(table, resources, negative_run, zero_run, tally))
    if not len(kept):
        raise TraceError(
            f"{path}: no tasks: all {len(table)} rows are left out ({summary(tally.report)}); "
            "`simkit trace check` explains these rules"
        )
    jobs = TableJobs(table.take(kept), submit, tally)
    return Trace(jobs.workload(resources, parent_separator, path), tally.report, (path,))


def _check_choices(choices: Mapping[str, tuple[str, Any]]) -> None:
    problems = [
        f"{name}: {value!r} is no choice{did_you_mean(str(value), get_args(known))}"
        for name, (value, known) in choices.items()
        if value not in get_args(known)
    ]
    if problems:
        raise TraceError("\n".join(problems))


def _check_map(columns: Mapping[str, str], factors: Mapping[str, float]) -> None:
    """Raise TraceError, for all problems at once, if the map of columns is not usable."""
    problems = [f"columns: {name} is missing; say which column it is" for name in NEEDED
                if name not in columns]  # fmt: skip
    if not set(columns) - {*NEEDED, *OPTIONAL}:
        problems.append("columns: no resource; name at least one, such as cpu: plan_cpu")
    numbers = [name for name in columns if name not in _TEXT]
    problems += [
        f"factors: {name!r} is no column of numbers{did_you_mean(name, numbers)}"
        for name in factors
        if name not in numbers
    ]
    problems += [
        f"factors: {name} is {factor!r}; a factor is a finite number above 0"
        for name, factor in factors.items()
        if not 0 < factor < float("inf")
    ]
    if problems:
        raise TraceError("\n".join(problems))


def _read(path: Path, columns: Mapping[str, str], factors: Mapping[str, float]) -> TableColumns:
    """Return the table's columns under our names, numbers in our units."""
    import polars as pl

    text = list(dict.fromkeys(columns[name] for name in columns if name in _TEXT))
    wanted = dict.fromkeys(columns[name] for name in columns if name not in _TEXT)
    if both := sorted(set(text) & set(wanted)):
        raise TraceError(f"columns: {', '.join(both)} cannot be both an id and a number")
    table = read_columns(path, text, list(wanted))
    frame = table.frame.select(
        (pl.col(column) * factors[name] if name in factors else pl.col(column)).alias(name)
        for name, column in columns.items()
    )
    return TableColumns(frame, table.line)
