"""Checks on what the scenario allows: machines, partitions and rejections."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.capacity import capacity_steps
from simkit.verify.durations import seconds
from simkit.verify.pieces import TASK
from simkit.verify.tasks import policy_kills

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


# MERGED The audit of admission: a job is turned away if and only if the backlog is full.


def turned_away(run: RunFolder) -> pl.Expr:
    """Return which jobs admission turned away, by the reason given for their rejection."""
    if run.setting("admission", "backlog") is None:
        return pl.lit(value=False)
    return pl.col("reason").fill_null("").str.contains("backlog")


def check_admission(run: RunFolder) -> Check:
    """A job is turned away if and only if all slots and the whole backlog are taken.

    Where slots are refilled at once, waiting jobs fill the slots first and then the backlog: it is
    full when as many wait as there are slots and places in the backlog.
    """
    check = Check("admission", "a job is turned away if and only if the backlog is full")
    backlog, slots = (run.setting("admission", key) for key in ("backlog", "slots"))
    if backlog is None:
        return check.skip("admission has no limit of the backlog")
    if reason := _why_not_followed(run):
        return check.leave_out(reason)
    jobs = run.jobs.with_columns(
        (pl.col("status") == "rejected").alias("rejected"),
        ((pl.col("status") == "rejected") & turned_away(run)).alias("turned_away"),
    ).sort("submit_time_s", "job_id")
    check.examined = jobs.height
    taken_in = ~jobs["rejected"].to_numpy()
    before = np.cumsum(taken_in) - taken_in
    starts = np.sort(jobs.filter(~pl.col("rejected"))["start_time_s"].drop_nulls().to_numpy())
    started = np.searchsorted(starts, jobs["submit_time_s"].to_numpy(), side="left")
    places = np.inf if slots is None else float(slots + backlog)
    counts = jobs.with_columns(pl.Series("waiting_before", before - started))
    full = pl.col("waiting_before") >= places
    check.add_rows("turned away, but the backlog has room", counts.filter("turned_away", ~full))
    accepted = counts.filter(~pl.col("rejected"), full)
    check.add_rows("taken in, but the backlog is full", accepted)
    return check


def _why_not_followed(run: RunFolder) -> str:
    """Return why the number of waiting jobs cannot be told; empty if it can."""
    kinds = set(run.tables["events"]["kind"].to_list())
    one_each = run.tasks["job_id"].is_unique().all() and run.tasks["gang"].all()
    reasons = {
        "the run is not complete": not run.complete,
        "slots are refilled at the next decision only": run.setting("admission", "refill")
        != "at_once",
        "jobs have several tasks, or instances that start one by one": not one_each,
        "the policy may kill jobs that wait": policy_kills(run),
        "jobs come back to the queue": bool(kinds & {"reserved", "suspended", "lost"}),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def check_machines(run: RunFolder) -> Check:
    """Allocations are on machines that exist."""
    check = Check("machines", "every allocation is on a machine of the cluster")
    check.examined = run.allocations.height
    strange = ~pl.col("machine_id").is_in(list(run.capacity)).fill_null(False)
    check.add_rows("the cluster has no such machine", run.allocations.filter(strange))
    return check


def check_partitions(run: RunFolder) -> Check:
    """Every started job keeps to the machines and limits of its partition."""
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
    over = pl.lit(False)
    for column, key in (("limit_s", "max_time_s"), ("demand", "max_processors")):
        if partition.get(key) is not None:
            over = over | (pl.col(column) > partition[key]).fill_null(False)
    return over


def check_rejections(run: RunFolder) -> Check:
    """Rejected is what fits no empty machines of its partition, and nothing else."""
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
    rows = tasks.with_columns(_room_for(run, partition, tasks))
    fits = pl.col("room") & ~_over_limits(partition)
    timed = partition.get("max_time_s") is not None
    known = (pl.len() == 1) | (not timed) | ~pl.col("room").all()
    return rows.group_by("job_id", maintain_order=True).agg(
        fits.all().alias("fits"), known.alias("known")
    )


def _room_for(run: RunFolder, partition: dict[str, Any], tasks: pl.DataFrame) -> pl.Series:
    """Return ``room``: whether each task fits empty machines, a gang whole, a bag one by one."""
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


# MERGED The maintenance audit: capacity follows the windows of the scenario, worked out afresh.


Floats = npt.NDArray[np.float64]


def check_maintenance(run: RunFolder) -> Check:
    """Whenever something starts, the pool's capacity is what the maintenance windows leave."""
    check = Check("maintenance", "capacity at each start is what the windows leave")
    windows = run.setting("cluster", "maintenance") or []
    if not windows:
        return check.skip("the scenario has no maintenance")
    if len(run.capacity) != 1 or len(run.resources) != 1:
        return check.skip("the cluster is no pool: the rule machine-capacity has its windows")
    starts = run.allocations["start_time_s"].drop_nulls().unique().sort().to_numpy()
    check.examined = len(starts)
    if not len(starts):
        return check
    total = next(iter(run.capacity.values()))[0]
    try:
        away = [span for w in windows for span in spans(w, run, float(starts[-1]), total)]
    except (KeyError, TypeError, ValueError) as error:
        return check.leave_out(f"a window cannot be placed in time: {error}")
    down = np.zeros(len(starts))
    for first, last, amount in away:
        down += np.where((starts >= first) & (starts < last), amount, 0.0)
    expected = np.maximum(total - down, 0.0)
    steps = capacity_steps(run)
    at = np.searchsorted([step.time_s for step in steps], starts, side="right") - 1
    found = np.array([step.capacity[0] for step in steps])[at]
    limited = run.setting("power", "supply", "limit") in ("power", "resources")
    wrong = found > expected if limited else found != expected  # power may take of it, too
    for row in np.flatnonzero(wrong):
        instant = {"time_s": starts[row], "capacity": found[row], "expected": expected[row]}
        check.add(
            "the capacity is not what the maintenance windows leave",
            {name: float(value) for name, value in instant.items()},
        )
    return check


def _on_grid(time_s: float) -> float:
    """Round to the run's time grid, 2**-20 s."""
    return round(time_s * 2**20) / 2**20


def spans(
    window: dict[str, Any], run: RunFolder, horizon: float, total: float
) -> list[tuple[float, float, float]]:
    """Return (start, end, amount) of a window and its repetitions up to the horizon."""
    start = _on_grid(_instant(window["start"], run))
    if window.get("duration") is not None:
        end = _on_grid(start + seconds(window["duration"]))
    else:
        end = _on_grid(_instant(window["end"], run))
    length = end - start
    amount = window.get(run.resources[0])
    amount = total if amount is None else float(amount)
    period = window.get("every")
    if period is None:
        return [(start, start + length, amount)]
    step = _on_grid(seconds(period))
    if not step > 0:
        raise ValueError(f"every: {period!r} is not a positive duration")
    count = max(int((horizon - start) // step) + 1, 0)
    return [(start + i * step, start + i * step + length, amount) for i in range(count)]


def _instant(value: Any, run: RunFolder) -> float:
    """Return seconds on the trace's clock of a duration since its zero, or an ISO date."""
    if not isinstance(value, str) or not re.match(r"\s*[0-9]{4}-", value):
        return seconds(value)
    epoch = run.manifest.get("epoch_s")
    if epoch is None:
        raise ValueError(f"{value!r} is a date, and the trace's epoch is unknown")
    moment = datetime.fromisoformat(value.strip())
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment.timestamp() - float(epoch)
