"""Makespans of parts of a run: groups of jobs, such as consecutive chunks of ten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simkit.errors import RunError, did_you_mean

if TYPE_CHECKING:
    import polars as pl


def chunked(jobs: pl.LazyFrame, size: int) -> pl.LazyFrame:
    """Return the jobs with their `chunk`, from 0: `size` jobs each, in order of submission.

    Jobs submitted at one instant are in the order of their ids; the last chunk may be smaller. It
    is how Li and Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data
    center", 2019, cut Alibaba's trace into chunks of ten.

    Raises RunError if `size` is below 1.
    """
    import polars as pl

    if size < 1:
        raise RunError(f"chunks of {size} jobs cannot be made; a chunk has at least 1 job")
    ordered = jobs.sort("submit_time_s", "job_id", maintain_order=True)
    return ordered.with_columns((pl.int_range(pl.len()) // size).alias("chunk"))


def makespans(jobs: pl.LazyFrame, by: str | Sequence[str] = "chunk") -> pl.DataFrame:
    """Return the makespan of each group of jobs, by group.

    Args:
        jobs: columns of `records.JOBS` and those of `by`: `chunked` jobs, or the jobs of a whole
            sweep, whose folders name scenario, policy and seed.
        by: one or more columns whose values make the groups.

    Returns the columns of `by`; ``jobs``; ``ended``, how many of them had ended;
    ``first_submit_s``; ``last_end_s``; and ``makespan_s``, last end - first submit, null if no job
    had ended. Where ``ended`` is below ``jobs``, it is the makespan of those that had.

    Raises RunError if a column is missing.
    """
    import polars as pl

    names = [by] if isinstance(by, str) else list(by)
    there = jobs.collect_schema().names()
    for name in names:
        if name not in there:
            raise RunError(f"jobs have no column {name!r} to group by{did_you_mean(name, there)}")
    groups = jobs.group_by(names).agg(
        jobs=pl.len().cast(pl.Int64),
        ended=pl.col("end_time_s").count().cast(pl.Int64),
        first_submit_s=pl.col("submit_time_s").min(),
        last_end_s=pl.col("end_time_s").max(),
    )
    length = (pl.col("last_end_s") - pl.col("first_submit_s")).alias("makespan_s")
    return groups.with_columns(length).sort(names).collect()
