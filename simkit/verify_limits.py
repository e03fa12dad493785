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
        pl.coalesce("requested_time_s", "estimate_s").alias("limit_s"),
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
    """No job is rejected that would fit the empty machines of its partition."""
    import polars as pl

    check = Check("rejections", "only what can never run is rejected")
    # Those whom admission turned away are the rule "admission"'s.
    rejected = run.jobs.filter(pl.col("status") == "rejected", ~turned_away(run))
    tasks = _tasks_by_partition(run).join(rejected, on="job_id", how="semi", maintain_order="left")
    check.examined = tasks["job_id"].n_unique()
    choices = list(enumerate(_partitions(run))) or [(-1, {"machines": list(run.capacity)})]
    for number, partition in choices:
        fitting = _fitting(run, partition, tasks.filter(pl.col("position") == number))
        wrong = rejected.join(fitting, on="job_id", how="semi", maintain_order="left")
        check.add_rows("rejected, but it would fit", wrong)
    return check


def _fitting(run: RunFolder, partition: dict[str, Any], tasks: pl.DataFrame) -> pl.DataFrame:
    """Return the ids of the jobs of which every task could run in the empty partition."""
    import polars as pl

    key = ["instances", "gang", *run.asked]
    shapes = tasks.select(key).unique(maintain_order=True)
    room = [_fits(run, _machines(run, partition), *shape) for shape in shapes.iter_rows()]
    rows = tasks.join(shapes.with_columns(pl.Series("room", room, dtype=pl.Boolean)), on=key)
    fits = pl.col("room") & ~_over_limits(partition)
    jobs = rows.group_by("job_id").agg(fits.all().alias("fits"), pl.len().alias("tasks"))
    if partition.get("max_time_s") is not None:
        # Only the first task's requested time is on record: of several it cannot be told.
        jobs = jobs.filter(pl.col("tasks") == 1)
    return jobs.filter("fits").select("job_id")


def _fits(run: RunFolder, machines: list[int], instances: int, gang: bool, *request: float) -> bool:
    """Tell whether a task fits empty machines: a gang whole, a bag one by one."""
    columns = [run.resources.index(name) for name in run.asked]
    rows = [run.capacity[machine] for machine in machines if machine in run.capacity]
    capacity = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
    asked = np.array(request, dtype=np.float64)
    needed = asked > 0
    ratios = capacity[:, columns][:, needed] / asked[needed] if rows else np.empty((0, 1))
    places = np.floor(ratios.min(axis=1, initial=np.inf))
    return bool(places.sum() >= (instances if gang else 1))
