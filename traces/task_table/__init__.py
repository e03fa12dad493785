"""A table of tasks, one a row, as CSV or Parquet: a map says what its columns are.

Without a map it is the table of jobs that CloudSimPy, the simulator behind DeepJS (Li & Hu,
"DeepJS: Job scheduling based on deep reinforcement learning in cloud data center", 2019), makes of
Alibaba's trace of 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import polars as pl

from simkit.arrays import Bools
from simkit.errors import TraceError, did_you_mean
from simkit.traces.rigid_jobs import LARGEST, first_that_applies
from simkit.traces.rules import Tally, summary
from simkit.traces.task_table import rules as names
from simkit.traces.task_table.columns import TableColumns, read_columns
from simkit.traces.task_table.jobs import Submit, TableJobs
from simkit.traces.task_table.rules import NegativeRun, ZeroRun
from simkit.workload import Trace

# MERGED Applies the rules for tables of tasks: rows are left out or repaired, by name and counted.


def judge(
    table: TableColumns,
    resources: Sequence[str],
    negative_run: NegativeRun,
    zero_run: ZeroRun,
    tally: Tally,
) -> Bools:
    """Count rows under the first rule that holds; return which are kept, (n,)."""
    frame, line = table.frame, table.line
    run = table.numbers("run_time_s")
    no_id = frame["job_id"].is_null().to_numpy()
    if "task_id" in frame:
        no_id = no_id | frame["task_id"].is_null().to_numpy()
    bad_request = np.zeros(len(table), dtype=bool)
    for name in resources:
        amount = table.numbers(name)
        bad_request |= ~((amount >= 0) & (amount < LARGEST))
    drops = {
        names.NO_ID: no_id,
        names.BAD_SUBMIT: ~(np.abs(table.numbers("submit_time_s")) <= LARGEST / 2),
        names.BAD_RUN: ~(np.abs(run) < LARGEST),
        names.NEGATIVE_RUN: (run < 0) & (negative_run == "drop"),
        names.ZERO_RUN: (run == 0) & (zero_run == "drop"),
        names.BAD_INSTANCES: _bad_instances(table),
        names.BAD_REQUEST: bad_request,
    }
    tally.read(len(table))
    left = first_that_applies(drops, line, tally.drop)
    repaired = left & (run < 0)
    tally.repair(names.NEGATIVE_RUN, line[repaired])
    tally.accept(int(np.count_nonzero(left & ~repaired)))
    return left


def _bad_instances(table: TableColumns) -> Bools:
    if "instances" not in table.frame:
        return np.zeros(len(table), dtype=bool)
    count = table.numbers("instances")
    bad: Bools = ~((count >= 1) & (count < LARGEST)) | (np.floor(count) != count)
    return bad


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
