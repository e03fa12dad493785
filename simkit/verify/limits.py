"""Checks of machines, partitions and the limits of a run against the scenario."""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from math import inf
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import TASK, AuditedRun, beside


def check_machines(run: AuditedRun) -> Check:
    """Check that allocations are on machines that exist."""
    check = Check("machines", "every allocation is on a machine of the cluster")
    check.examined = run.allocations.height
    strange = ~pl.col("machine_id").is_in(list(run.capacity)).fill_null(False)
    check.add_rows("the cluster has no such machine", run.allocations.filter(strange))
    return check


def check_partitions(run: AuditedRun) -> Check:
    """Check that every started job uses machines of its partition, which the jobs name."""
    check = Check("partitions", "jobs run on machines of their partition, within its limits")
    if not run.partitions:
        return check.skip("the cluster has no partitions")
    tasks = tasks_by_partition(run)
    rows = run.allocations.join(tasks, on=TASK, maintain_order="left")
    check.examined = rows.height
    check.add_rows("no partition admits this job", rows.filter(pl.col("position") < 0))
    for number, partition in enumerate(run.partitions):
        inside = rows.filter(pl.col("position") == number)
        elsewhere = inside.filter(~pl.col("machine_id").is_in(machines_of(run, partition)))
        check.add_rows("runs on a machine outside its partition", elsewhere)
    if _ROUTED in run.jobs.columns:
        names = [*(partition["name"] for partition in run.partitions), ""]
        jobs = run.jobs.join(
            tasks.group_by("job_id").agg(pl.col("position").first()), on="job_id", how="left",
            maintain_order="left",
        )  # fmt: skip
        first = pl.col("position").replace_strict([*range(len(names) - 1), -1], names)
        wrong = jobs.filter(pl.col(_ROUTED).ne_missing(first))
        check.add_rows("said to be in another partition than the first that admits it", wrong)
    return check


_ROUTED: Final = "site_partition"


def limits_users(run: AuditedRun) -> bool:
    """Return whether a partition limits how many jobs of a user run."""
    return any(p.get("max_running_per_user") is not None for p in run.partitions)


def machines_of(run: AuditedRun, partition: dict[str, Any]) -> list[int]:
    """Return the ids of the partition's machines; without a list it has all."""
    machines = partition.get("machines")
    return list(run.capacity) if machines is None else list(machines)


def tasks_by_partition(run: AuditedRun) -> pl.DataFrame:
    """Return the tasks with the columns that decide about partitions.

    Columns: `TASK`, ``instances``, ``gang``, the resources, ``position``, the first partition that
    admits all tasks of the job, or -1, and ``known``: whether the tables decide it. A partition is
    open to jobs whose queue or partition number it lists; one without such lists to every job. It
    admits a task within its limits that its empty machines can hold. Of the requested times of
    several tasks only the first is recorded: where time is limited, their position is the one that
    the run names. So it is where a limit of the waiting jobs of a user and reservations meet: a
    reserved job may have started at the instant of a submission, before it.
    """
    first = run.resources[0]
    demand = pl.col(first) * pl.col("instances") if first in run.requested else pl.lit(0.0)
    jobs = run.only("jobs", "job_id", "queue", "partition", "requested_time_s", _ROUTED)
    jobs = jobs.rename({"requested_time_s": "limit_s"})
    tasks = run.only("tasks", *TASK, "instances", "gang", *run.requested)
    tasks = tasks.with_columns(demand.alias("demand"))
    one_each = run.is_large and run.alike
    if not one_each:
        jobs = jobs.unique("job_id", keep="first")
        tasks = tasks.unique(TASK, keep="first", maintain_order=True)
    tasks = beside(tasks, jobs, ["job_id"])

    def of_job(task: pl.Expr) -> pl.Expr:
        """Return whether it is true of all tasks of the job."""
        return task if one_each else task.all().over("job_id")

    room_anywhere = pl.lit(value=False)
    partitions = run.partitions or [{"machines": None}]
    admitted = []
    for number, partition in enumerate(partitions):
        holds = f"room {number}"
        tasks = tasks.with_columns(_room_for(run, partition, tasks).alias(holds))
        room = of_job(pl.col(holds)) & _is_open(partition)
        admitted.append(room & of_job(~_over_limits(partition)))
        room_anywhere = room_anywhere | room
    timed = any(partition.get("max_time_s") is not None for partition in partitions)
    alone = pl.lit(value=True) if one_each else pl.len().over("job_id") == 1
    known = alone | (not timed) | ~room_anywhere
    first_of = [pl.when(fits).then(pl.lit(number)) for number, fits in enumerate(admitted)]
    position = pl.coalesce(*first_of, pl.lit(-1))
    if any(partition.get("max_waiting_per_user") is not None for partition in partitions):
        if "reserved" in run.tables["events"]["kind"]:
            known = pl.lit(value=False)
        fits = tasks.select("job_id", *(e.alias(str(n)) for n, e in enumerate(admitted)))
        tasks = tasks.join(_by_waiting_jobs(run, partitions, fits), on="job_id", how="left")
        position = pl.col("by_waiting")
    tasks = tasks.with_columns(position=position, known=known)
    if _ROUTED in tasks.columns:
        names = [str(partition["name"]) for partition in partitions]
        said = pl.col(_ROUTED).replace_strict(names, range(len(names)), default=-1)
        tasks = tasks.with_columns(position=pl.when("known").then("position").otherwise(said))
    return tasks.select(*TASK, "instances", "gang", *run.requested, "position", "known")


def _by_waiting_jobs(
    run: AuditedRun, partitions: list[dict[str, Any]], fits: pl.DataFrame
) -> pl.DataFrame:
    """Return ``job_id`` and ``by_waiting``: the first partition that admits it, or -1.

    A job waits from its submission to its first start; what starts or ends at an instant does so
    after the submissions of that instant. A user is only refused where as many of their jobs wait
    as the partition allows.

    Args:
        run: the run.
        partitions: the partitions.
        fits: ``job_id`` and for each partition whether it admits the job but for the users' limit.
    """
    left = pl.coalesce("start_time_s", "end_time_s", "left_s").fill_null(inf)
    jobs = run.jobs.join(run.left_unstarted, on="job_id", how="left", maintain_order="left")
    jobs = jobs.unique("job_id", keep="first").sort("submit_time_s", "job_id")
    taken = (pl.col("status") != "rejected") | pl.col("left_s").is_not_null()
    jobs = jobs.select("job_id", "submit_time_s", USER, left, taken)
    rows = jobs.join(fits.unique("job_id", keep="first"), on="job_id", maintain_order="left")
    waiting: dict[tuple[int, Any], list[float]] = defaultdict(list)
    found = []
    for job, submit, user, leaves, taken, *admits in rows.iter_rows():
        position = -1
        for number in (n for n, fit in enumerate(admits) if fit):
            most = partitions[number].get("max_waiting_per_user")
            ends = waiting[number, user]
            while ends and ends[0] < submit:
                heappop(ends)
            if user is None or most is None or len(ends) < most:
                position = number
                break
        if taken and position >= 0:
            heappush(waiting[position, user], leaves)
        found.append((job, position))
    schema: dict[str, Any] = {"job_id": rows.schema["job_id"], "by_waiting": pl.Int32}
    return pl.DataFrame(found, schema=schema, orient="row")


USER: Final = pl.when(~pl.col("user").cast(pl.String).is_in(["-1", ""])).then("user").alias("user")
"""Null for jobs without a user, who are not limited."""


def _is_open(partition: dict[str, Any]) -> pl.Expr:
    """Return whether a partition is open to a job's queue or partition in the trace."""
    is_open = pl.lit(not (partition.get("queues") or partition.get("partitions")))
    for column, key in (("queue", "queues"), ("partition", "partitions")):
        names = [str(name) for name in partition.get(key) or ()]
        if names:
            is_open = is_open | pl.col(column).cast(pl.String).is_in(names).fill_null(value=False)
    return is_open


def _over_limits(partition: dict[str, Any]) -> pl.Expr:
    """Return whether a task asks for more than the partition allows; null is no limit."""
    over = pl.lit(value=False)
    for column, key in (("limit_s", "max_time_s"), ("demand", "max_processors")):
        if partition.get(key) is not None:
            over = over | (pl.col(column) > partition[key]).fill_null(value=False)
    return over


def _room_for(run: AuditedRun, partition: dict[str, Any], tasks: pl.DataFrame) -> pl.Series:
    """Return whether each task fits empty machines: gangs as a whole, bags one by one."""
    machines = [run.capacity[m] for m in machines_of(run, partition) if m in run.capacity]
    columns = [run.resources.index(name) for name in run.requested]
    capacity = np.array(machines, dtype=np.float64).reshape(len(machines), len(run.resources))
    sorts, each = np.unique(capacity[:, columns], axis=0, return_counts=True)
    needed = np.where(tasks["gang"], tasks["instances"], 1).astype(np.float64)
    asked = tasks.select(pl.col(run.requested).cast(pl.Float64)).to_numpy()
    places = np.zeros(tasks.height)
    for has, machines_of_sort in zip(sorts, each, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(asked > 0, np.floor(has / asked), np.inf)
        places += most.min(axis=1, initial=np.inf) * machines_of_sort
    return pl.Series(places >= needed)


def check_limits(run: AuditedRun) -> Check:
    """Check that the run kept the scenario's `limits`: no later instant, no further retry."""
    check = Check("limits", "nothing happens after the simulated time, no task restarts too often")
    seconds, retries = run.scenario.limits.simulated_time, run.scenario.limits.retries
    if seconds is None and retries is None and run.own_retries is None:
        return check.skip("neither the simulated time nor retries are limited")
    check.examined = run.rows_of("allocations")
    _check_own_retries(run, check)
    if retries is not None:
        often = _where(run, pl.col("attempt") > retries + 1, "attempt")
        if not run.complete:  # what runs may have started in the last decision before the stop
            often = often.filter(pl.col("outcome") != "running")
        check.add_rows(f"attempt after more than {retries} retries", often)
    if seconds is not None and run.rows_of("jobs"):
        first = run.only("jobs", "submit_time_s")["submit_time_s"].min()
        last = float(first) + seconds + 2.0**-20  # type: ignore[arg-type]
        times = pl.max_horizontal("start_time_s", "end_time_s")
        late = _where(run, times > last, "start_time_s", "end_time_s")
        check.add_rows("after the end of the simulated time", late)
    return check


def _where(run: AuditedRun, wrong: pl.Expr, *columns: str) -> pl.DataFrame:
    """Return the allocations that are wrong by these columns, with all columns."""
    rows = run.only("allocations", *columns).select(wrong.alias("wrong"))["wrong"]
    return run.allocations.filter(rows) if rows.any() else run.tables.head("allocations")


def _check_own_retries(run: AuditedRun, check: Check) -> None:
    """Check that tasks with retries of their own are killed when the work of the last is lost."""
    if run.own_retries is None:
        return
    rows = run.allocations.join(run.own_retries, on=TASK, maintain_order="left")
    again = rows.filter(pl.col("attempt") > pl.col("allowed") + 1)
    check.add_rows("attempt after all retries of the task", again)
    lost = rows.filter(pl.col("outcome") == "lost", pl.col("attempt") > pl.col("allowed"))
    check.add_rows("its work was lost after all its retries, but it was not killed", lost)
    if not run.policy_may_kill:
        instants = pl.Series(
            [event.row["time_s"] for event in run.capacity_events], dtype=pl.Float64
        )
        alone = run.given_up.filter(~pl.col("time_s").is_in(instants.implode()))
        check.add_rows("killed at its last attempt, but no capacity changes then", alone)
