"""Allocations as pieces of work: what one instance (or one gang) did without a break.

A gang moves as one, so it is one unit however many instances and machines it has. Every instance
of a bag is a unit of its own. A unit's pieces follow each other: suspended and resumed, or lost
and started over under the next attempt.

Instances of a bag that all came and went once are left together as their allocation has them: a
trace of millions of instances needs no row for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from simkit.verify.durations import seconds

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


TASK = ["job_id", "task_id"]
"""The key of a task."""
UNIT = [*TASK, "instance"]
"""The key of a unit."""
_FACTS = (
    "gang", "task_status", "job_status", "requested_time_s", "trace_run_time_s", "tasks_of_job",
)  # fmt: skip


def known_allocations(
    jobs: pl.DataFrame, tasks: pl.DataFrame, allocations: pl.DataFrame, resources: Iterable[str]
) -> pl.DataFrame:
    """Return the allocations whose job and task exist, with what those say.

    Added columns: ``instances``, ``gang``, ``task_status``, ``submit_time_s``, ``job_status``,
    ``requested_time_s``, ``trace_run_time_s``, ``tasks_of_job`` and, a resource, ``one_<resource>``
    (what one instance asks for).
    """
    per_instance = [pl.col(r).cast(pl.Float64).alias(f"one_{r}") for r in resources]
    tasks = tasks.select(
        *TASK, "instances", "gang", pl.col("status").alias("task_status"), *per_instance,
        pl.len().over("job_id").cast(pl.Int64).alias("tasks_of_job"),
    ).unique(TASK, keep="first")  # fmt: skip
    jobs = jobs.select(
        "job_id", "submit_time_s", "requested_time_s", "trace_run_time_s",
        pl.col("status").alias("job_status"),
    ).unique("job_id", keep="first")  # fmt: skip
    return allocations.join(tasks, on=TASK, maintain_order="left").join(
        jobs, on="job_id", maintain_order="left"
    )


def gang_segments(known: pl.DataFrame) -> pl.DataFrame:
    """Return one row per (gang, attempt, start): ``count`` instances that start together.

    Further columns: the first and last of their ends (``end_time_s``, ``last_end_s``; null while
    one runs), ``outcomes`` (number of different ones) and those of `known_allocations`.
    """
    end = pl.col("end_time_s")
    return (
        known.filter("gang", pl.col("start_time_s").is_not_null())
        .group_by(*TASK, "attempt", "start_time_s", maintain_order=True)
        .agg(
            pl.col("count").sum(),
            pl.when(end.is_null().any()).then(None).otherwise(end.min()).alias("end_time_s"),
            end.max().alias("last_end_s"),
            end.is_null().sum().alias("open"),
            pl.len().alias("rows"),
            pl.col("outcome").first(),
            pl.col("outcome").n_unique().alias("outcomes"),
            pl.col(
                "instances", "task_status", "job_status", "requested_time_s",
                "trace_run_time_s", "tasks_of_job",
            ).first(),
        )
    )  # fmt: skip


def pieces(known: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Return one row a piece of work, sorted by unit and start; a gang is instance 0.

    Columns: `UNIT`, ``count`` (instances from `instance` on that are in the row: 1, all of a gang,
    or those of a quiet row), ``quiet`` (the task's instances ended well at their first attempt),
    ``gang``, ``attempt``, ``start_time_s``, ``end_time_s``, ``outcome``, ``task_status``,
    ``job_status``, ``requested_time_s``, ``trace_run_time_s``, ``tasks_of_job``.
    """
    columns = (*UNIT, "count", "quiet", *_FACTS, "attempt", "start_time_s", "end_time_s", "outcome")
    gangs = segments.with_columns(
        pl.lit(0, pl.Int64).alias("instance"), gang=pl.lit(value=True), quiet=pl.lit(value=False)
    ).select(columns)
    bags = known.filter(
        ~pl.col("gang"),
        pl.col("start_time_s").is_not_null(),
        pl.col("count").is_between(1, pl.col("instances")),
    )
    lone = (pl.col("attempt") == 1) & (pl.col("outcome") == "finished")
    lone &= pl.col("end_time_s").is_not_null()
    bags = bags.with_columns(lone.fill_null(value=False).all().over(TASK).alias("quiet"))
    quiet = bags.filter("quiet").with_columns(pl.col("first_instance").alias("instance"))
    after = pl.col("first_instance") + pl.col("count")
    single = (
        bags.filter(~pl.col("quiet"))
        .with_columns(pl.int_ranges("first_instance", after).alias("instance"))
        .explode("instance")
        .with_columns(pl.lit(1, pl.Int64).alias("count"))
    )
    last = pl.col("end_time_s").fill_null(float("inf"))
    moving = pl.concat([gangs, single.select(columns)])
    moving = moving.sort(*UNIT, "start_time_s", last, maintain_order=True)
    return pl.concat([moving, quiet.select(columns)])


def executed(all_pieces: pl.DataFrame) -> pl.DataFrame:
    """Return one row per (unit, attempt): its executed time and its last piece's outcome.

    Attempts with a piece that still runs are left out: their time is not known. Quiet rows stay
    as they are.
    """
    span = pl.col("end_time_s") - pl.col("start_time_s")
    moving = (
        all_pieces.filter(~pl.col("quiet"))
        .group_by(*UNIT, "attempt", maintain_order=True)
        .agg(
            span.sum().alias("executed_s"),
            pl.col("end_time_s").is_null().any().alias("open"),
            pl.col("start_time_s").first(),
            pl.col("end_time_s", "outcome").last(),
            pl.col("count", *_FACTS).first(),
        )
        .filter(~pl.col("open"))
        .drop("open")
    )
    quiet = all_pieces.filter("quiet").with_columns(span.alias("executed_s"))
    return pl.concat([moving, quiet.select(moving.columns)])


# MERGED Work that is done again: where tasks stop for lack of power and go on from a checkpoint.
# MERGED
# MERGED Worked out piece by piece from the allocations. Every so much work is saved. A stop takes the work
# MERGED since the last time away, and going on costs a restart, in run time, before more work is done; where
# MERGED nothing has been saved yet, work begins anew and there is nothing to restart. What has been saved
# MERGED stays saved, also if the restart itself is cut short.


POWER = "power"
"""The cause of capacity that goes and comes back with the power, in the records."""


class _Piece(NamedTuple):
    length_s: float
    stopped: bool
    """For lack of power."""


def with_redone(work: pl.DataFrame, run: RunFolder) -> pl.DataFrame:
    """Return work with ``redone_s``: how much of its time did what had been done, or restarted.

    Args:
        work: the rows of `verify_pieces.executed`.
        run: the run.

    Without checkpoints ``redone_s`` is 0; else ``executed_s`` is less by it.
    """
    lost = redone(run)
    if lost is None:
        return work.with_columns(pl.lit(0.0).alias("redone_s"))
    lost = lost.drop("count")
    rows = work.join(lost, on=[*UNIT, "attempt"], how="left", maintain_order="left")
    again = pl.col("redone_s").fill_null(0.0)
    return rows.with_columns(again, (pl.col("executed_s") - again).alias("executed_s"))


def redone(run: RunFolder) -> pl.DataFrame | None:
    """Return ``redone_s`` of each attempt that power stopped; None without checkpoints.

    Columns: `UNIT`, ``attempt``, ``count`` (instances of the unit), ``redone_s``.
    """
    saved = run.setting("power", "supply", "checkpoints")
    if not saved:
        return None
    every, restart = seconds(saved["every"]), seconds(saved.get("restart") or 0.0)
    stops = power_instants(run)
    stopped = (pl.col("outcome") == "suspended") & pl.col("end_time_s").is_in(stops.implode())
    rows = run.pieces.filter(~pl.col("quiet"), pl.col("end_time_s").is_not_null())
    rows = rows.with_columns(
        (pl.col("end_time_s") - pl.col("start_time_s")).alias("length_s"),
        stopped.alias("stopped"),
    ).filter(pl.col("stopped").any().over(*UNIT, "attempt"))
    key = [*UNIT, "attempt", "count"]
    found = [
        (*names, redone_s(map(_Piece._make, group.select("length_s", "stopped").rows()),
                          every, restart))
        for names, group in rows.group_by(key, maintain_order=True)
    ]  # fmt: skip
    schema = {name: rows.schema[name] for name in key} | {"redone_s": pl.Float64}
    return pl.DataFrame(found, schema=schema, orient="row")


def power_instants(run: RunFolder) -> pl.Series:
    """Return the instants at which capacity goes or comes back with the power."""
    events = run.tables["events"].filter(pl.col("kind") == "capacity")
    cause = pl.col("detail").str.json_path_match("$.cause")
    return events.filter(cause == POWER)["time_s"].unique()


def redone_s(pieces: Iterable[_Piece], every: float, restart: float) -> float:
    """Return the run time of one attempt that did not bring its work further, in s.

    Args:
        pieces: (length in s, whether power stopped it), one after another.
        every: work between two checkpoints, in s.
        restart: run time that going on from a checkpoint costs, in s.
    """
    done = saved = again = 0.0
    for length, stopped in pieces:
        done += length
        if stopped:
            saved = max(saved, done // every * every)
            owed = restart if saved else 0.0
            left = round((saved - owed) * 2**20) / 2**20  # the run's grid of times
            again += done - left
            done = left
    return again
