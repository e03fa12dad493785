"""Metrics of jobs by group: by partition, queue, user, group, size or length."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.errors import RunError, did_you_mean, warn_of
from simkit.results.custom_metrics import CustomMetric
from simkit.results.job_metrics import JOB_METRICS
from simkit.results.metric import DISTRIBUTION, counted_resource, distribution, run_window
from simkit.text import counted
from simkit.units import parse_duration

By = Literal["partition", "queue", "user", "group", "size", "length"]
"""What jobs are grouped by. A partition is the scenario's, or else the trace's; a size is what a
job asks for, in steps of a factor of 4; a length is its run time in the trace."""

UNKNOWN: Final = "unknown"
"""The group of jobs for which the trace has no user, group, queue or partition."""
NO_PARTITION: Final = "none"
"""The group of jobs that none of the scenario's partitions took: they are rejected."""
WAIT_SHARE: Final = "wait_share"
"""A group's part of all waiting."""
NOT_FINISHED: Final = {
    "rejected": ("rejected",), "killed": ("killed",), "unfinished": ("running", "waiting")
}  # fmt: skip
"""Columns of jobs that did not finish → the statuses that they count."""
_STATES: Final = {"finished": ("finished",), **NOT_FINISHED}
_LENGTHS: Final = {
    60.0: "up to 1 min", 600.0: "1 min to 10 min", 3600.0: "10 min to 1 h", 14400.0: "1 h to 4 h",
    86400.0: "4 h to 1 d", np.inf: "over 1 d",
}  # fmt: skip
"""Longest run time in s → name of the group."""


COLUMNS: Final = ("jobs", *_STATES, WAIT_SHARE, *get_args(By))
"""Columns of `metrics_by` that are no metrics."""


def metrics_by(
    jobs: pl.LazyFrame,
    timeline: pl.LazyFrame,
    by: By,
    *,
    resources: Sequence[str],
    settings: Mapping[str, Any],
    custom: Sequence[CustomMetric] = (),
) -> pl.DataFrame:
    """Return the metrics of a run's jobs by group; all jobs of its metrics' window count.

    Args:
        jobs: the run's table.
        timeline: the run's table.
        by: see `By`.
        resources: names of the cluster's resources.
        settings: `metrics` of the scenario: tau, warmup and cooldown, in s or as text.
        custom: metrics of the user; those that need nothing but jobs are columns too, null in
            groups in which they fail, and a SimkitWarning says so.

    Returns:
        One row a group, small before large or, of names, in order of jobs, most first. Columns:
        the group, named as `by`; `jobs`, and how many of them finished, were rejected or killed,
        or are unfinished; and for each of `JOB_METRICS` its mean under its name and NAME.p50,
        .p90, .p99 and .max, null where no job of the group has a value; at the end `wait_share`,
        the group's part of all waiting, by time until the first start. Bounded slowdowns have the
        scenario's tau.

    Raises RunError for another `by`.
    """
    check_by(by)
    tau, warmup, cooldown = (
        parse_duration(settings.get(key, usual))
        for key, usual in (("tau", 10.0), ("warmup", 0.0), ("cooldown", 0.0))
    )
    window = run_window(jobs, timeline, warmup=warmup, cooldown=cooldown)
    resource = counted_resource(resources)
    values = [m.value(tau, resource).cast(pl.Float64).alias(m.name) for m in JOB_METRICS]
    kept = jobs if window is None else window.jobs(jobs)
    frame = kept.select(group_of(jobs, by, resource), "status", *values).collect()
    rows = [_row(by, name, group) for (name,), group in frame.group_by(by, maintain_order=True)]
    own = [metric for metric in custom if metric.by_group]
    if own:
        whole = kept.with_columns(group_of(jobs, by, resource).alias(_GROUP)).collect()
        parts = whole.partition_by(_GROUP, as_dict=True)
        for metric in own:
            failed = dict[str, str]()
            for row in rows:
                part = parts[(row[by],)].drop(_GROUP)
                row[metric.name], error = metric.value({"jobs": part})
                failed |= {str(row[by]): error} if error else {}
            if failed:
                groups = f"{counted(len(failed), 'group')} by {by}: {', '.join(failed)}"
                warn_of([f"{next(iter(failed.values()))}\n  undefined in {groups}"], stacklevel=2)
    types: dict[str, pl.DataType] = {by: pl.String()}
    types |= _numbers() | {metric.name: pl.Float64() for metric in own}
    waits = pl.col(WAIT_SHARE)
    share = pl.when(waits.sum() > 0).then(waits / waits.sum())
    return in_order(pl.DataFrame(rows, types).with_columns(share.alias(WAIT_SHARE)), by)


_GROUP: Final = "group of the job"


def _numbers() -> dict[str, pl.DataType]:
    """Return the columns of `metrics_by` after the group."""
    types: dict[str, pl.DataType] = dict.fromkeys(("jobs", *_STATES), pl.Int64())
    for metric in JOB_METRICS:
        types |= dict.fromkeys(_names(metric.name), pl.Float64())
    return types | {WAIT_SHARE: pl.Float64()}


def check_number(name: str, custom: Collection[str] = ()) -> None:
    """Raise RunError for what is no number of a group; `custom`: names of the user's metrics."""
    if name not in (known := (*_numbers(), *custom)):
        raise RunError(f"sort: groups have no number {name!r}{did_you_mean(name, known)}")


def check_by(by: str) -> None:
    """Raise RunError for what jobs are not grouped by."""
    if by not in get_args(By):
        raise RunError(f"by: {by!r} is no group of jobs{did_you_mean(str(by), get_args(By))}")


def _names(metric: str) -> list[str]:
    return [metric, *(f"{metric}.{number}" for number in DISTRIBUTION[1:])]


def _row(by: By, name: Any, group: pl.DataFrame) -> dict[str, Any]:
    """Return the numbers of a group."""
    row: dict[str, Any] = {by: name, "jobs": len(group)}
    for state, statuses in _STATES.items():
        row[state] = int(group["status"].is_in(statuses).sum())
    for metric in JOB_METRICS:
        numbers = distribution(group[metric.name].drop_nulls().to_numpy(writable=True))
        row |= {n: numbers[k] for n, k in zip(_names(metric.name), DISTRIBUTION, strict=True)}
    return row | {WAIT_SHARE: math.fsum(group["wait_time_s"].drop_nulls())}


def group_of(jobs: pl.LazyFrame, by: By, resource: str) -> pl.Expr:
    """Return the name of a job's group as an expression on a run's jobs, named as `by`.

    Args:
        jobs: the run's table.
        by: see `By`.
        resource: what a job asks for of it is its size.
    """
    if by == "length":
        return _class_of(pl.col("trace_run_time_s"), _LENGTHS).alias(by)
    if by == "size":
        sizes = jobs.select(pl.col(resource)).collect()[resource].to_numpy().astype(np.float64)
        return _class_of(pl.col(resource), _sizes(sizes)).alias(by)
    assigned = by == "partition" and "site_partition" in jobs.collect_schema()
    name = pl.col("site_partition" if assigned else by).cast(pl.String)
    nothing = name.is_null() | name.is_in(["", "-1"])
    instead = pl.lit(NO_PARTITION if assigned else UNKNOWN)
    return pl.when(nothing).then(instead).otherwise(name).alias(by)


def _sizes(sizes: Floats) -> dict[float, str]:
    """Return the largest size of each group → its name: 1, 2 to 4, 5 to 16, ….

    Where a size is no whole number: up to 1, over 1 to 4, over 4 to 16, ….
    """
    whole = bool((sizes == np.round(sizes)).all())
    names, low, high = {1.0: "1" if whole else "up to 1"}, 1, 4
    while low < sizes.max(initial=1.0):
        names[float(high)] = f"{low + 1:,} to {high:,}" if whole else f"over {low:,} to {high:,}"
        low, high = high, 4 * high
    return names


def _class_of(value: pl.Expr, classes: dict[float, str]) -> pl.Expr:
    """Return the name of the first class whose upper end is not below the value."""
    *ends, last = classes
    found = pl.lit(classes[last])
    for end in reversed(ends):
        found = pl.when(value <= end).then(pl.lit(classes[end])).otherwise(found)
    return found


def in_order(frame: pl.DataFrame, by: By) -> pl.DataFrame:
    """Sort groups: sizes and lengths from small to large, names by how many jobs they have.

    Args:
        frame: columns `jobs` and the name of the group, named as `by`.
        by: see `By`.
    """
    if by == "size":
        key = pl.col(by).str.replace_all(",", "").str.extract(r"(\d+)$").cast(pl.Int64)
        return frame.sort(key)
    if by == "length":
        return frame.sort(pl.col(by).replace_strict(list(_LENGTHS.values()), range(len(_LENGTHS))))
    return frame.sort("jobs", by, descending=[True, False])
