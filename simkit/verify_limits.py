"""Checks on what the scenario allows: machines, partitions and rejections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify_admission import turned_away
from simkit.verify_audit import Check
from simkit.verify_pieces import TASK

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder


def check_machines(run: RunFolder) -> Check:
    """Allocations are on machines that exist."""
    import polars as pl

    check = Check("machines", "every allocation is on a machine of the cluster")
    check.examined = run.allocations.height
    strange = ~pl.col("machine_id").is_in(list(run.capacity)).fill_null(False)
    check.add_rows("the cluster has no such machine", run.allocations.filter(strange))
    return check


def check_partitions(run: RunFolder) -> Check:
    """Every started job keeps to the machines and limits of its partition."""
    import polars as pl

    check = Check("partitions", "a job keeps to the machines and limits of its partition")
    if not _partitions(run):
        return check.skip("the cluster has no partitions")
    tasks = _tasks_by_partition(run)
    rows = run.allocations.join(tasks, on=TASK, maintain_order="left")
    check.examined = rows.height
    check.add_rows("no partition takes this job", rows.filter(pl.col("position") < 0))
    for number, partition in enumerate(_partitions(run)):
        inside = rows.filter(pl.col("position") == number)
        elsewhere = ~pl.col("machine_id").is_in(_machines(run, partition))
        wrong = inside.filter(elsewhere)
        check.add_rows("runs on a machine outside its partition", wrong)
        wrong = inside.filter(_over_limits(partition)).unique(TASK, keep="first")
        check.add_rows("asks for more than its partition allows", wrong)
    return check


def _partitions(run: RunFolder) -> list[dict[str, Any]]:
    return list(run.manifest["cluster"].get("partitions") or [])


def _machines(run: RunFolder, partition: dict[str, Any]) -> list[int]:
    """Return the ids of the partition's machines; no list means all."""
    machines = partition.get("machines")
    return list(run.capacity) if machines is None else list(machines)


def _tasks_by_partition(run: RunFolder) -> pl.DataFrame:
    """Return the tasks with what partitions look at.

    Columns: `TASK`, ``instances``, ``gang``, the resources, ``limit_s`` (requested time, or the
    estimate where none was requested), ``demand`` (all instances, of the cluster's first resource)
    and ``position``, the first partition that takes the job, or -1. A partition takes a job whose
    queue or partition number it lists; one that lists no numbers takes every job.
    """
    import polars as pl

    position = pl.lit(-1)
    for number, partition in reversed(list(enumerate(_partitions(run)))):
        takes = pl.lit(not (partition.get("queues") or partition.get("partitions")))
        for column, key in (("queue", "queues"), ("partition", "partitions")):
            names = [str(name) for name in partition.get(key) or ()]
            if names:
                takes = takes | pl.col(column).cast(pl.String).is_in(names).fill_null(False)
        position = pl.when(takes).then(pl.lit(number)).otherwise(position)
    jobs = run.jobs.unique("job_id", keep="first").select(
        "job_id",
        pl.col("requested_time_s").alias("limit_s"),
        position.alias("position"),
    )
    first = run.resources[0]
    demand = pl.col(first) * pl.col("instances") if first in run.asked else pl.lit(0.0)
    tasks = run.tasks.select(*TASK, "instances", "gang", *run.asked, demand.alias("demand"))
    return tasks.unique(TASK, keep="first", maintain_order=True).join(
        jobs, on="job_id", maintain_order="left"
    )


def _over_limits(partition: dict[str, Any]) -> pl.Expr:
    """Return whether a task asks for more than the partition allows; null is no limit."""
    import polars as pl

    over = pl.lit(False)
    for column, key in (("limit_s", "max_time_s"), ("demand", "max_processors")):
        if partition.get(key) is not None:
            over = over | (pl.col(column) > partition[key]).fill_null(False)
    return over


def check_rejections(run: RunFolder) -> Check:
    """Rejected is what fits no empty machines of its partition, and nothing else."""
    import polars as pl

    check = Check("rejections", "what can never run is rejected, and only that")
    # Those whom admission turned away are the rule "admission"'s.
    jobs = run.jobs.filter(~turned_away(run) | (pl.col("status") != "rejected"))
    rejected = pl.col("status") == "rejected"
    tasks = _tasks_by_partition(run).join(jobs, on="job_id", how="semi", maintain_order="left")
    check.examined = jobs.height
    choices = list(enumerate(_partitions(run))) or [(-1, {"machines": list(run.capacity)})]
    fitting = [
        _fitting(run, partition, tasks.filter(pl.col("position") == number))
        for number, partition in choices
    ]
    found = jobs.join(pl.concat(fitting), on="job_id", how="left", maintain_order="left")
    # Of several tasks' requested times only the first is on record.
    known = pl.col("known").fill_null(value=True)
    fits = pl.col("fits").fill_null(value=False)
    check.add_rows("rejected, but it would fit", found.filter(rejected, fits, known))
    never = pl.col("start_time_s").is_null()  # what did run is held against other rules
    check.add_rows("taken in, but it can never run", found.filter(~rejected, never, ~fits, known))
    return check


def _fitting(run: RunFolder, partition: dict[str, Any], tasks: pl.DataFrame) -> pl.DataFrame:
    """Return which jobs' tasks could all run in the empty partition.

    Columns: ``job_id``, ``fits``, and ``known``, whether all that decides it is on record.
    """
    import polars as pl

    rows = tasks.with_columns(_room_for(run, partition, tasks))
    fits = pl.col("room") & ~_over_limits(partition)
    timed = partition.get("max_time_s") is not None
    known = (pl.len() == 1) | (not timed) | ~pl.col("room").all()
    return rows.group_by("job_id", maintain_order=True).agg(
        fits.all().alias("fits"), known.alias("known")
    )


def _room_for(run: RunFolder, partition: dict[str, Any], tasks: pl.DataFrame) -> pl.Series:
    """Return ``room``: whether each task fits empty machines, a gang whole, a bag one by one."""
    import polars as pl

    machines = [run.capacity[m] for m in _machines(run, partition) if m in run.capacity]
    columns = [run.resources.index(name) for name in run.asked]
    capacity = np.array(machines, dtype=np.float64).reshape(len(machines), len(run.resources))
    sorts, each = np.unique(capacity[:, columns], axis=0, return_counts=True)
    needed = np.where(tasks["gang"], tasks["instances"], 1).astype(np.float64)
    asked = tasks.select(pl.col(run.asked).cast(pl.Float64)).to_numpy()
    places = np.zeros(tasks.height)
    for has, machines_of_sort in zip(sorts, each, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(asked > 0, np.floor(has / asked), np.inf)
        places += most.min(axis=1, initial=np.inf) * machines_of_sort
    return pl.Series("room", places >= needed)
