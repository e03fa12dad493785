"""A table of jobs, one task each, read by the rules of the scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from simkit.verify.numbers import LARGEST, LARGEST_ID, requests_on_grid, times_on_grid
from simkit.verify.task_inputs.columns import (
    OF_JOBS,
    columns_and_epoch,
    job_names,
    retries_of,
    with_numbered_ids,
    with_requests,
)
from simkit.verify.task_inputs.input_tasks import InputTasks
from simkit.verify.task_inputs.text_table import read_table

_OPTIONAL = (
    "requested_time_s", "retries", "qos", "value", "deadline_s", "release_time_s", "think_time_s",
    *OF_JOBS,
)  # fmt: skip


def read_job_table(path: Path, rules: Mapping[str, Any]) -> InputTasks:
    """Read a table of jobs, each of which is a gang.

    Args:
        path: CSV, plain or gzipped, or Parquet.
        rules: the scenario's workload: ``resources``, ``on_error``, and those of `columns_of`.

    Raises ValueError for a table that cannot be read or lacks a column.
    """
    skip = rules.get("on_error") == "skip"
    table = read_table(path, rules, ("job_id", "submit_time_s", "run_time_s"))
    resources = list(rules.get("resources") or ())
    if not resources and "processors" not in table.columns:
        resources = [name for name in ("cpu", "mem", "gpu") if name in table.columns]
    size = "instances" if resources else "processors"
    optional = [name for name in (size, *_OPTIONAL) if name in table.columns]
    needed = ["job_id", "submit_time_s", "run_time_s", *(resources or [size])]
    columns = {name: name for name in (*needed, *optional)}
    rows, epoch_s = columns_and_epoch(table, columns, rules)
    rows = with_requests(rows, resources) if resources else rows
    if skip:
        rows = rows.filter(_is_sound(rows, resources))
    if size not in rows.columns:
        rows = rows.with_columns(pl.lit(1.0).alias(size))
    asked = resources or [size]
    rows = with_numbered_ids(rows).sort("submit_time_s", "job_id", maintain_order=True)
    requested = pl.lit(None, pl.Float64)
    if "requested_time_s" in rows.columns:
        requested = times_on_grid(pl.col("requested_time_s"))
    tasks = rows.select(
        "job_id", pl.lit(0, pl.Int64).alias("task_id"),
        times_on_grid(pl.col("submit_time_s")).alias("submit"),
        pl.col(size).cast(pl.Int64).alias("instances"),
        times_on_grid(pl.col("run_time_s")).alias("run"), requested.alias("requested"),
        pl.int_range(pl.len()).alias("order"), pl.lit(value=True).alias("gang"), retries_of(rows),
        *(requests_on_grid(pl.col(name) if resources else pl.lit(1.0)).alias(name)
          for name in asked),
    )  # fmt: skip
    return InputTasks(tasks, _of_jobs(rows, tasks), epoch_s=epoch_s)


def _of_jobs(rows: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return what the table says of each job besides its task; see `InputTasks.jobs`."""
    own = [job_names(rows[name]) for name in OF_JOBS if name in rows.columns]
    own += [rows[name] for name in ("qos", "value") if name in rows.columns]
    jobs = tasks.select("order", "job_id", "submit").with_columns(own)
    if "deadline_s" in rows.columns:
        jobs = jobs.with_columns(rows["deadline_s"].fill_null(float("inf")))
        jobs = jobs.with_columns(times_on_grid(pl.col("deadline_s")))
    return jobs


def _is_sound(rows: pl.DataFrame, resources: Sequence[str]) -> pl.Expr:
    """Return which rows have values that keep the rules of their columns."""
    rules: dict[str, pl.Expr] = {
        "job_id": pl.lit(value=True),
        "submit_time_s": pl.col("submit_time_s").abs() <= LARGEST / 2,
        "run_time_s": pl.col("run_time_s").is_between(0, LARGEST / 2),
        "qos": (pl.col("qos") > 0) & (pl.col("qos") <= 1),
        "value": (pl.col("value") >= 0) & pl.col("value").is_finite(),
    }
    rules |= {name: _whole(name, 1) for name in ("processors", "instances")}
    rules |= {name: (pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in resources}
    or_empty: dict[str, pl.Expr] = {
        "requested_time_s": ~(pl.col("requested_time_s") < 0),
        "retries": _whole("retries", 0),
        "release_time_s": pl.col("release_time_s").is_nan()
                          | (pl.col("release_time_s").abs() <= LARGEST / 2),
        "think_time_s": pl.col("think_time_s").is_nan()
                        | pl.col("think_time_s").is_between(0, LARGEST / 2),
        "deadline_s": pl.col("deadline_s").is_not_nan() & (pl.col("deadline_s") > -float("inf")),
    }  # fmt: skip
    for name in set(OF_JOBS) & set(rows.columns):
        numbers = rows[name].cast(pl.Float64, strict=False)
        if numbers.null_count() == rows[name].null_count():  # no cell has a name
            number = pl.col(name).cast(pl.Float64)
            whole = pl.col(name).cast(pl.Int64, strict=False) >= -1
            exact = (number >= -1) & (number < LARGEST_ID) & (number.floor() == number)
            or_empty[name] = whole.fill_null(value=False) | exact
    kept = [pl.col(n).is_not_null() & rule for n, rule in rules.items() if n in rows.columns]
    kept += [pl.col(n).is_null() | rule for n, rule in or_empty.items() if n in rows.columns]
    return pl.all_horizontal(kept).fill_null(value=False)


def _whole(name: str, least: int) -> pl.Expr:
    number = pl.col(name)
    return (number >= least) & (number < LARGEST) & (number.floor() == number)
