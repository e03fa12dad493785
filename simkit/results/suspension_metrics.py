"""The metric of suspended tasks: how often others started on their machines before they went on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Bools
from simkit.results.metric import Found, Metric, MetricRow, RunWindow, metrics_of

_TASK: Final = ("job_id", "task_id")
_PIECE: Final = (*_TASK, "attempt", "part")
"""What goes on together: all of a gang, what stands in a row of a bag."""
_MOMENT: Final = ("start_time_s", "nth")
"""When it starts; ``nth`` counts earlier starts at that instant."""


def suspension_metrics(
    allocations: pl.LazyFrame,
    tasks: pl.LazyFrame,
    jobs: pl.LazyFrame,
    priorities: Mapping[str, float],
    window: RunWindow,
) -> list[Metric]:
    """Return ``starts_past_suspended``; nothing for a run in which no task was suspended.

    Args:
        allocations: columns of `records.ALLOCATIONS`.
        tasks: columns of `records.TASKS`.
        jobs: columns of `records.JOBS`.
        priorities: name of each partition → its priority.
        window: the run's; nothing is trimmed.
    """
    halted = allocations.filter(pl.col("outcome") == "suspended").select(pl.len()).collect().item()
    if not halted:
        return []
    rows = _begun(_with_facts(allocations, tasks, jobs, priorities))
    waits = rows.filter(pl.col("outcome") == "suspended")
    starts = rows.filter(~pl.col("goes_on").fill_null(value=False))
    passed = [
        of_machine.filter(_passes(of_machine, mine)).select(*_TASK, "start_time_s")
        for (machine,), of_machine in starts.partition_by("machine_id", as_dict=True).items()
        if len(mine := waits.filter(pl.col("machine_id") == machine))
    ]
    found = pl.concat(passed).n_unique() if passed else 0
    sums = Found(found, waits.select(*_PIECE, *_MOMENT).n_unique())
    return metrics_of(SUSPENSION_METRICS, sums, window)


SUSPENSION_METRICS: Final[tuple[MetricRow[Found], ...]] = (
    MetricRow(
        "starts_past_suspended",
        "starts",
        "starts of tasks on a machine of a suspended one, of a partition with no higher priority, "
        "from its suspension until it goes on; count: suspensions",
        lambda found: found,
        "all allocations",
        better="low",
    ),
)


def _with_facts(
    allocations: pl.LazyFrame,
    tasks: pl.LazyFrame,
    jobs: pl.LazyFrame,
    priorities: Mapping[str, float],
) -> pl.DataFrame:
    """Return the allocations with ``gang`` and ``priority`` of their task."""
    columns = (*_TASK, "machine_id", "first_instance", "attempt", "start_time_s", "end_time_s")
    rows = allocations.select(*columns, "outcome").collect()
    gangs = tasks.select(*_TASK, "gang").collect().unique(_TASK, keep="first")
    rows = rows.join(gangs, on=_TASK, how="left", maintain_order="left")
    if "site_partition" not in jobs.collect_schema():
        return rows.with_columns(priority=pl.lit(0.0))
    names = jobs.select("job_id", "site_partition").collect().unique("job_id", keep="first")
    rows = rows.join(names, on="job_id", how="left", maintain_order="left")
    of = pl.col("site_partition").replace_strict(
        list(priorities), list(priorities.values()), default=0.0, return_dtype=pl.Float64
    )
    return rows.with_columns(priority=of)


def _begun(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``goes_on``, whether a row continues a suspended one, and ``resumed_s``, when it does."""
    place = pl.struct("machine_id", "first_instance")
    part = pl.when("gang").then(None).otherwise(place)
    # What is suspended at the instant of its start, in an earlier row, may go on at that instant.
    nth = pl.int_range(pl.len()).over(*_TASK, "attempt", "start_time_s", place)
    rows = rows.with_columns(part=part, nth=nth)
    once = rows.unique([*_PIECE, *_MOMENT], keep="first").sort(_MOMENT)
    once = once.with_columns(
        goes_on=(pl.col("outcome") == "suspended").shift(1).over(_PIECE),
        resumed_s=pl.col("start_time_s").shift(-1).over(_PIECE),
    )
    facts = once.select(*_PIECE, *_MOMENT, "goes_on", "resumed_s")
    return rows.join(facts, on=[*_PIECE, *_MOMENT], nulls_equal=True, how="left")


def _passes(starts: pl.DataFrame, waits: pl.DataFrame) -> Bools:
    """Return (N,) which starts on a machine are while a task waits there to go on."""
    passes = np.zeros(len(starts), np.bool_)
    start, priority = starts["start_time_s"].to_numpy(), starts["priority"].to_numpy()
    others = list(zip(starts["job_id"], starts["task_id"], strict=True))
    columns = ("end_time_s", "resumed_s", "priority", *_TASK)
    for since, until, least, job, task in waits.select(columns).iter_rows():
        inside = (start >= since) & (priority <= least)
        if until is not None:
            inside &= start < until
        for row in np.flatnonzero(inside & ~passes).tolist():
            passes[row] = others[row] != (job, task)
    return passes
