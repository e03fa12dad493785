"""A table of tasks, read by the rules of the scenario."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.numbers import LARGEST, TICK, Floats, requests_on_grid, times_on_grid
from simkit.verify.task_inputs.columns import (
    columns_and_epoch,
    retries_of,
    whole,
    with_numbered_ids,
    with_requests,
)
from simkit.verify.task_inputs.input_tasks import InputTasks
from simkit.verify.task_inputs.text_table import read_table

_KEY = ["job_id", "task_id"]
_OPTIONAL = (
    "task_id", "instances", "requested_time_s", "retries", "parents", "user", "release_time_s",
    "preceding_job", "think_time_s",
)  # fmt: skip


def read_task_table(path: Path, rules: Mapping[str, Any]) -> InputTasks:
    """Read a table of tasks by the scenario's rules.

    Args:
        path: CSV, plain or gzipped, or Parquet.
        rules: the scenario's workload: ``columns``, ``rows``, ``gang``, ``submit``,
            ``negative_run``, ``zero_run``, ``parent_separator``, ``on_error``.

    Raises ValueError for a table that cannot be read or lacks a column.
    """
    skip = rules.get("on_error") == "skip"
    columns = rules["columns"]
    read = read_table(path, rules, columns.values())
    table, epoch_s = columns_and_epoch(read, columns, rules)
    if "parents" in table.columns and "task_id" not in table.columns:
        number = pl.int_range(1, pl.len() + 1).over("job_id").cast(pl.String)
        table = table.with_columns(number.alias("task_id"))
    rows = with_numbered_ids(_kept(table, rules)).with_row_index("nth")
    if skip and "parents" in rows.columns:
        rows = _without_broken_jobs(rows, rules)
    times = pl.col("submit_time_s").sort_by("nth")
    submit = times.last() if rules.get("submit") == "last" else times.first()
    rows = rows.with_columns(
        submit.over("job_id").alias("submit"), pl.col("nth").min().over("job_id").alias("first")
    ).sort("submit", "first", "nth")
    own_times = None
    if rules.get("rows") == "instance":
        rows, own_times = _joined(rows, gang=bool(rules.get("gang")))
    if "task_id" not in rows.columns:
        rows = rows.with_columns(pl.int_range(1, pl.len() + 1).over("job_id").alias("task_id"))
    requested = pl.lit(None, pl.Float64)
    if "requested_time_s" in rows.columns:
        known = pl.col("requested_time_s") >= 0
        requested = pl.when(known).then(times_on_grid(pl.col("requested_time_s")))
    tasks = rows.select(
        "job_id", "task_id", times_on_grid(pl.col("submit")),
        pl.col("instances").cast(pl.Int64),
        times_on_grid(pl.col("run_time_s").clip(0)).alias("run"), requested.alias("requested"),
        (pl.struct("submit", "first").rank("dense").cast(pl.Int64) - 1).alias("order"),
        pl.lit(bool(rules.get("gang"))).alias("gang"), retries_of(rows),
        *(requests_on_grid(pl.col(name)) for name in _resources(rules)),
    )  # fmt: skip
    parents = _dependencies(rows, rules)
    return InputTasks(tasks, _of_jobs(rows, tasks), parents, own_times, epoch_s)


def _of_jobs(rows: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return the user of each job, by its first row; see `InputTasks.jobs`."""
    jobs = tasks.select("order", "job_id", "submit")
    if "user" in rows.columns:
        jobs = jobs.with_columns(rows["user"])
    jobs = jobs.unique("order", keep="first", maintain_order=True)
    if "user" not in rows.columns:
        return jobs
    users = jobs["user"]
    known = users.drop_nulls()
    if (
        known.str.contains(r"^[0-9]+$").all()
        and known.cast(pl.Int64, strict=False).is_not_null().all()
    ):
        return jobs.with_columns(users.cast(pl.Int64).fill_null(-1))
    return jobs.with_columns(users.fill_null(""))


def _joined(rows: pl.DataFrame, *, gang: bool) -> tuple[pl.DataFrame, tuple[Floats, Floats] | None]:
    """Return the first row of each task, its instances counted, and the run times of all.

    A gang runs as long as its longest instance, and single run times do not matter.

    Args:
        rows: a row for each instance, sorted by job.
        gang: whether all tasks are gangs.
    """
    key = [name for name in _KEY if name in rows.columns]
    rows = rows.with_columns(
        pl.col("run_time_s").clip(0), pl.col("nth").min().over(key).alias("begins")
    ).sort("submit", "first", "begins", "nth")
    own = rows["run_time_s"].to_numpy()
    run = pl.col("run_time_s")
    rows = rows.with_columns(
        (run.max() if gang else run.mean()).over(key), pl.len().over(key).alias("instances")
    ).filter(pl.col("nth") == pl.col("begins"))
    return rows, None if gang else (np.round(own / TICK) * TICK, np.zeros(len(own)))


def _resources(rules: Mapping[str, Any]) -> list[str]:
    needed = ("job_id", "submit_time_s", "run_time_s", *_OPTIONAL)
    return [name for name in rules["columns"] if name not in needed]


def _kept(table: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows that are tasks by the scenario's rules."""
    if "instances" not in table.columns:
        table = table.with_columns(pl.lit(1.0).alias("instances"))
    table = with_requests(table, _resources(rules), barriers="parents" in rules["columns"])
    run, count = pl.col("run_time_s"), pl.col("instances")
    wanted = [pl.col(name).is_not_null() for name in ("job_id", "task_id") if name in table.columns]
    wanted += [pl.col("submit_time_s").abs() <= LARGEST / 2, run.abs() <= LARGEST / 2]
    wanted += [(pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in _resources(rules)]
    wanted += [(count >= 1) & (count < LARGEST) & (count.floor() == count)]
    if "retries" in table.columns:
        own = pl.col("retries")
        wanted.append(own.is_null() | ((own >= 0) & (own < LARGEST) & (own.floor() == own)))
    if "release_time_s" in table.columns:
        release = pl.col("release_time_s")
        wanted.append(release.is_null() | (release.abs() <= LARGEST / 2))
    if rules.get("negative_run", "drop") == "drop":
        wanted.append(run >= 0)
    if rules.get("zero_run", "keep") == "drop":
        wanted.append(run != 0)
    return table.filter(pl.all_horizontal(wanted).fill_null(value=False))


def _without_broken_jobs(rows: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame:
    """Leave out the jobs with a parent that is not among the rows, or with a circle of parents.

    If rows have the same ids, others wait for the first; a later one has no name here.
    """
    is_head, name = pl.struct(_KEY).is_first_distinct(), pl.col("task_id").cast(pl.String)
    heads = rows.filter(is_head)
    asking = heads if rules.get("rows") == "instance" else rows
    pairs = _pairs(asking.with_columns(pl.when(is_head).then(name).alias("task_id")), rules)
    if rows.schema["task_id"].is_integer():
        number = whole(pairs["parent"]).cast(pl.String)
        pairs = pairs.with_columns(pl.coalesce(number, "parent").alias("parent"))
    tasks = heads.select("job_id", name.alias("parent"))
    lacking = pairs.join(tasks, on=["job_id", "parent"], how="anti")["job_id"].unique()
    left = pairs.filter(~pl.col("job_id").is_in(lacking.implode()))
    while left.height:  # edges whose parent waits for nothing, again and again
        waiting = left.select("job_id", pl.col("task_id").alias("parent")).unique()
        fewer = left.join(waiting, on=["job_id", "parent"], how="semi")
        if fewer.height == left.height:
            break
        left = fewer
    broken = pl.concat([lacking, left["job_id"].unique()]).implode()
    return rows.filter(~pl.col("job_id").is_in(broken))


def _dependencies(rows: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame | None:
    if "parents" not in rows.columns:
        return None
    pairs = _pairs(rows, rules)
    numbered = rows.schema["task_id"].is_integer()
    return pairs.with_columns(whole(pairs["parent"])) if numbered else pairs


def _pairs(rows: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame:
    """Return job_id, task_id and parent, as text, of every dependency that the rows state."""
    separator = rules.get("parent_separator", ";")
    parent = pl.col("parents").fill_null("").str.split(separator).alias("parent")
    pairs = rows.select("job_id", "task_id", parent).explode("parent")
    return pairs.with_columns(pl.col("parent").str.strip_chars()).filter(pl.col("parent") != "")
