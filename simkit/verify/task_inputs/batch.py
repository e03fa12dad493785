"""The tasks of Alibaba's cluster-trace-v2017, under the default rules.

These leave out rows of batch_task without ids, with impossible values, whose status is waiting or
running, that do not end after their creation, or that have no instances or request; and every
attempt in batch_instance except the last, successful one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.folder import RunFolder
from simkit.verify.inputs import MissingInputError, trace_table
from simkit.verify.numbers import LARGEST, LARGEST_ID, TICK, requests_on_grid, times_on_grid
from simkit.verify.task_inputs.input_tasks import InputTasks

_ENDED = ("terminated", "failed", "cancelled", "canceled")
_KEY = ["job_id", "task_id"]
_HUNDREDTHS = 100.0
"""plan_cpu counts hundredths of a core."""


def read_batch(run: RunFolder, rules: Mapping[str, Any]) -> InputTasks:
    """Return the tasks of Alibaba's trace.

    Raises ValueError for a table that cannot be read.
    """
    place = str(rules["path"])
    table = trace_table(run, place, "batch_task")
    if table is None:
        raise MissingInputError("batch_task is not among the recorded inputs")
    tasks = _tasks(table, known_run=rules.get("durations", "task") == "task")
    attempts = None
    if rules.get("instances", True):
        attempts = trace_table(run, place, "batch_instance")
    if attempts is None:
        return InputTasks(tasks, _jobs(tasks))
    return _with_instances(tasks, _instances(attempts, tasks))


def _jobs(tasks: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs, of which the trace says nothing else; see `InputTasks.jobs`."""
    jobs = tasks.select("order", "job_id", "submit")
    return jobs.unique("order", keep="first", maintain_order=True)


def _tasks(table: pl.DataFrame, *, known_run: bool) -> pl.DataFrame:
    create, end, count = pl.col("create"), pl.col("end"), pl.col("instances")
    ids = [(pl.col(n).abs() < LARGEST_ID) & (pl.col(n).floor() == pl.col(n)) for n in _KEY]
    amounts = [(pl.col(name) >= 0) & (pl.col(name) < LARGEST) for name in ("cpu", "mem")]
    wanted = pl.all_horizontal(
        *ids, *amounts, create.abs() <= LARGEST / 2, end.abs() < LARGEST, end != 0, end > create,
        end - create <= LARGEST / 2,
        (count >= 1) & (count < LARGEST) & (count.floor() == count),
        pl.col("status").str.to_lowercase().is_in(_ENDED),
    )  # fmt: skip
    rows = table.with_row_index("nth").filter(wanted.fill_null(value=False))
    rows = rows.with_columns(create.min().over("job_id").alias("submit"))
    rows = rows.sort("submit", "job_id", "create", "task_id", "nth")
    wall = times_on_grid(end - create)
    return rows.select(
        *(pl.col(name).cast(pl.Int64) for name in _KEY), times_on_grid(pl.col("submit")),
        count.cast(pl.Int64),
        (wall if known_run else pl.lit(None, pl.Float64)).alias("run"),
        pl.lit(None, pl.Float64).alias("requested"),
        (pl.struct("submit", "job_id").rank("dense").cast(pl.Int64) - 1).alias("order"),
        pl.lit(value=False).alias("gang"), pl.lit(None, pl.Int64).alias("retries"),
        requests_on_grid(pl.col("cpu") / _HUNDREDTHS), requests_on_grid(pl.col("mem")),
    )  # fmt: skip


def _instances(table: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return (task, run): the last, successful attempts, by task and start."""
    start, end = pl.col("start"), pl.col("end")
    last = (pl.col("seq") < pl.col("total")).fill_null(value=False).not_()
    good = pl.all_horizontal(
        pl.col("status").str.to_lowercase() == "terminated", last, start != 0, end != 0,
        end >= start, start.abs() < LARGEST, end.abs() < LARGEST, end - start <= LARGEST / 2,
    )  # fmt: skip
    rows = table.lazy().with_row_index("nth").filter(good.fill_null(value=False))
    index = tasks.with_row_index("task").unique(_KEY, keep="first").select(
        "task", *(pl.col(name).cast(pl.Float64) for name in _KEY), "instances"
    )  # fmt: skip
    rows = rows.select(*_KEY, "start", (end - start).alias("run"), "nth").join(
        index.lazy(), on=_KEY
    )
    planned = pl.int_range(pl.len()).over("task") < pl.col("instances")
    return rows.sort("task", "start", "run", "nth").filter(planned).select("task", "run").collect()


def _with_instances(tasks: pl.DataFrame, instances: pl.DataFrame) -> InputTasks:
    """Add run times of single instances: the known ones first, then the mean of these."""
    if not instances.height:
        return InputTasks(tasks, _jobs(tasks))
    task, own = instances["task"].to_numpy().astype(np.int64), instances["run"].to_numpy()
    counts = tasks["instances"].to_numpy()
    known = np.bincount(task, minlength=len(counts))
    mean = tasks["run"].fill_null(np.nan).to_numpy().copy()
    has = known > 0
    mean[has] = np.bincount(task, own, len(counts))[has] / known[has]
    mean = np.round(mean / TICK) * TICK
    run_s, slack_s = np.repeat(mean, counts), np.full(int(counts.sum()), TICK)
    slack_s[np.repeat(~has, counts)] = 0.0
    begun, first = np.cumsum(counts) - counts, np.cumsum(known) - known
    places = np.arange(len(own)) + np.repeat(begun - first, known)
    run_s[places], slack_s[places] = np.round(own / TICK) * TICK, 0.0
    tasks = tasks.with_columns(pl.Series("run", mean).fill_nan(None))
    return InputTasks(tasks, _jobs(tasks), instance_times=(run_s, slack_s))
