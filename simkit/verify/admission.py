"""Checks of admission: which partition a job goes to, and who is rejected, held back or late.

A job is rejected at its submission, or later, out of the queue: since it is late, or by the policy.
"""

from __future__ import annotations

from collections import defaultdict, deque
from heapq import heappop, heappush
from math import inf
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.verify.audit import (
    ENDLESS,
    Check,
    NotApplicableError,
    NotAuditedError,
    first_true,
    not_audited_if,
    rule,
    sum_until,
)
from simkit.verify.audited_run import TASK, AuditedRun, beside, without


@rule
def check_partitions(run: AuditedRun, check: Check) -> None:
    """Jobs run on machines of their partition, within its limits."""
    if not run.partitions:
        raise NotApplicableError("the cluster has no partitions")
    tasks = run.once(tasks_by_partition)
    rows = beside(run.allocations, tasks, TASK, how="inner")
    check.examined = rows.height
    check.add_rows("no partition admits this job", rows.filter(pl.col("position") < 0))
    for number, partition in enumerate(run.partitions):
        inside = rows.filter(pl.col("position") == number)
        elsewhere = inside.filter(~pl.col("machine_id").is_in(machines_of(run, partition)))
        check.add_rows("runs on a machine outside its partition", elsewhere)
    if _ROUTED in run.columns_of("jobs"):
        names = [*(partition["name"] for partition in run.partitions), ""]
        jobs = run.jobs.join(
            tasks.group_by("job_id").agg(pl.col("position").first()), on="job_id", how="left",
            maintain_order="left",
        )  # fmt: skip
        first = pl.col("position").replace_strict([*range(len(names) - 1), -1], names)
        wrong = jobs.filter(pl.col(_ROUTED).ne_missing(first))
        check.add_rows("said to be in another partition than the first that admits it", wrong)


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
    one_each = run.alike
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
        stated = pl.col(_ROUTED).replace_strict(names, range(len(names)), default=-1)
        tasks = tasks.with_columns(position=pl.when("known").then("position").otherwise(stated))
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
    jobs = jobs.select("job_id", "submit_time_s", _USER, left, taken)
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


_USER: Final = pl.when(~pl.col("user").cast(pl.String).is_in(["-1", ""])).then("user").alias("user")
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


_REJECTED = pl.col("status") == "rejected"


def _turned_away(run: AuditedRun) -> pl.Expr:
    """Return which jobs admission turned away, from the reason of their rejection."""
    if run.scenario.admission.backlog is None:
        return pl.lit(value=False)
    return _REJECTED & pl.col("reason").fill_null("").str.contains("^the backlog")


@rule
def check_admission(run: AuditedRun, check: Check) -> None:
    """A job is turned away exactly if the backlog is full.

    If slots are refilled at once, waiting jobs fill the slots first and then the backlog. It is
    full when as many jobs wait as there are slots and places in the backlog.
    """
    backlog, slots = run.scenario.admission.backlog, run.scenario.admission.slots
    if backlog is None:
        raise NotApplicableError("the backlog has no limit")
    _needs_known_waits(run)
    later = run.left_unstarted
    jobs = run.jobs.join(later, on="job_id", how="left", maintain_order="left").with_columns(
        (_REJECTED & pl.col("left_s").is_null()).alias("refused"),
        _turned_away(run).alias("turned_away"),
    )
    jobs = jobs.sort("submit_time_s", "job_id")
    check.examined = jobs.height
    admitted = ~jobs["refused"].to_numpy()
    before = np.cumsum(admitted) - admitted
    gone = pl.coalesce("start_time_s", "left_s")
    left = np.sort(jobs.filter(~pl.col("refused")).select(gone).to_series().drop_nulls().to_numpy())
    no_more = np.searchsorted(left, jobs["submit_time_s"].to_numpy(), side="left")
    places = np.inf if slots is None else float(slots + backlog)
    counts = jobs.with_columns(pl.Series("waiting_before", before - no_more))
    full = pl.col("waiting_before") >= places
    check.add_rows("turned away, but the backlog has room", counts.filter("turned_away", ~full))
    accepted = counts.filter(~pl.col("refused"), full)
    check.add_rows("admitted, but the backlog is full", accepted)


def _needs_known_waits(run: AuditedRun) -> None:
    """Raise NotAuditedError if the number of waiting jobs is not known."""
    kinds = set(run.tables["events"]["kind"].to_list())
    one_each = run.tasks["job_id"].is_unique().all() and run.tasks["gang"].all()
    refill = run.scenario.admission.refill
    not_audited_if({
        "jobs wait for their release": run.has_releases,
        "the run is not complete": not run.complete,
        "slots are refilled only at the next decision": refill != "at_once",
        "jobs have several tasks, or instances that start one by one": not one_each,
        "jobs that waited were killed": "killed" in kinds,
        "jobs return to the queue": bool(kinds & {"reserved", "suspended", "lost"}),
        "users' jobs are held back by partitions": limits_users(run),
    })  # fmt: skip


@rule
def check_rejections(run: AuditedRun, check: Check) -> None:
    """Exactly the jobs that can never run are rejected."""
    # The rules "admission" and "late-jobs" are about others.
    later = run.left_unstarted.select("job_id")
    jobs = without(run.jobs.filter(~_turned_away(run)), later, ["job_id"])
    check.examined = jobs.height
    of_job = ((pl.col("position") >= 0).all().alias("fits"), pl.col("known").all())
    fits = run.grouped(run.once(tasks_by_partition), ["job_id"], of_job)
    found = beside(jobs, fits, ["job_id"])
    known = pl.col("known").fill_null(value=True)
    fits_somewhere = pl.col("fits").fill_null(value=False)
    check.add_rows("rejected, but it would fit", found.filter(_REJECTED, fits_somewhere, known))
    never = pl.col("start_time_s").is_null()  # other rules are about jobs that ran
    check.add_rows(
        "admitted, but it can never run", found.filter(~_REJECTED, never, ~fits_somewhere, known)
    )
    if not run.policy_is_custom:
        by_policy = run.jobs.filter(_REJECTED, pl.col("reason").str.starts_with("policy: "))
        check.add_rows("the policy rejected it, which this policy never does", by_policy)


@rule
def check_late_jobs(run: AuditedRun, check: Check) -> None:
    """Only jobs that can no longer end in time leave, and none starts.

    A job is late when it can no longer end, by its estimate, by its deadline and with its quality
    of service kept; it leaves at the first decision after that at which the policy would see it.
    """
    left = run.left_unstarted.filter(pl.col("reason").str.starts_with("late"))
    if run.scenario.admission.late != "leave":
        check.add_rows("left as it was late, but late jobs stay", left)
        raise NotApplicableError("late jobs stay")
    if not run.tasks["job_id"].is_unique().all():
        raise NotAuditedError("jobs have several tasks, each of which may be late")
    due = [pl.col("deadline_s")] if "deadline_s" in run.columns_of("jobs") else []
    estimate = pl.min_horizontal("estimate_s", pl.lit(ENDLESS))
    if "qos" in run.columns_of("jobs"):
        due.append(pl.col("submit_time_s") + pl.col("estimate_s") / pl.col("qos"))
    grain = 2.0**-20  # of time, to which the latest start is rounded down
    latest = ((pl.min_horizontal(due) - estimate) / grain).floor() * grain
    jobs = run.jobs.with_columns(latest.alias("latest_start_s"))
    check.examined = jobs.height
    gone = jobs.join(left.select("job_id", "left_s"), on="job_id", maintain_order="left")
    check.add_rows("left, but it was not late", gone.filter(pl.col("left_s") <= latest))
    late = pl.col("start_time_s") > pl.col("latest_start_s")
    reserved = run.tables["events"].filter(kind="reserved")["job_id"]  # these had left the queue
    started = jobs.filter(late, ~pl.col("job_id").is_in(reserved.implode()))
    check.add_rows("started, but it was late, and should have left", started)


@rule
def check_user_limits(run: AuditedRun, check: Check) -> None:
    """No user has more jobs running in a partition than it allows.

    A job runs from its first start to its end. What is held back is in the timeline's backlog. How
    many may wait is part of `partitions` and `rejections`.
    """
    if not limits_users(run):
        raise NotApplicableError("no partition limits how many jobs of a user run")
    places = run.once(tasks_by_partition).group_by("job_id").agg(pl.col("position").first())
    left = run.left_unstarted.select("job_id", "left_s")
    jobs = run.jobs.join(left, on="job_id", how="left", maintain_order="left")
    until = pl.coalesce("end_time_s", "left_s").fill_null(inf)
    jobs = jobs.with_columns(_USER, until.alias("until"))
    # A job that leaves after it has waited counts towards the limit until then.
    admitted = (pl.col("status") != "rejected") | pl.col("left_s").is_not_null()
    jobs = jobs.filter(pl.col("user").is_not_null(), admitted)
    jobs = jobs.join(places, on="job_id", maintain_order="left")
    started = jobs.filter(pl.col("start_time_s").is_not_null()).sort("start_time_s", "until")
    check.examined = started.height
    for number, partition in enumerate(run.partitions):
        most = partition.get("max_running_per_user")
        if most is None:
            continue
        for _, mine in started.filter(pl.col("position") == number).group_by("user"):
            message = f"starts while {most} of its user's jobs run in partition {number}"
            beyond = mine.filter(_beyond(mine, most)).drop("position", "until", "left_s")
            check.add_rows(message, beyond)
    if reason := _why_not_counted(run):
        check.notes["jobs that are held back are not counted"] = reason
    else:
        _check_held_back(check, run, jobs)


def _beyond(jobs: pl.DataFrame, most: int) -> pl.Series:
    """Return which jobs start while `most` others run; sorted by start."""
    running: list[float] = []
    beyond = []
    for start, until in jobs.select("start_time_s", "until").iter_rows():
        while running and running[0] <= start:
            heappop(running)
        beyond.append(len(running) >= most)
        heappush(running, until)
    return pl.Series(beyond, dtype=pl.Boolean)


def _why_not_counted(run: AuditedRun) -> str:
    """Return why it is not known how many jobs are held back; empty if it is."""
    reasons = {
        "the run is not complete": not run.complete,
        "jobs wait for their release": run.has_releases,
        "slots hold back jobs as well": run.scenario.admission.slots is not None,
        "jobs have several tasks": run.tasks["job_id"].is_duplicated().any(),
        "the policy may kill waiting jobs": run.policy_is_custom,
    }
    return first_true(reasons)


def _check_held_back(check: Check, run: AuditedRun, jobs: pl.DataFrame) -> None:
    """Check that the timeline's backlog is the number of jobs that the limits hold back."""
    instants: list[float] = []
    limits = [partition.get("max_running_per_user") for partition in run.partitions]
    jobs = jobs.sort("submit_time_s", "job_id")
    for (position, _), mine in jobs.group_by("position", "user", maintain_order=True):
        most = limits[int(str(position))] if int(str(position)) >= 0 else None
        if most is not None:
            spans = mine.select("submit_time_s", "until").rows()
            for (submit, _), let_in in zip(spans, let_in_at(spans, most), strict=True):
                instants += [submit, let_in]
    rows = run.tables["timeline"].unique("time_s", keep="last", maintain_order=True)
    change = np.tile([1.0, -1.0], len(instants) // 2)
    held = sum_until(np.array(instants), change, rows["time_s"].to_numpy())
    rows = rows.select("time_s", "waiting", "backlog", pl.Series("expected", held))
    wrong = rows.filter(pl.col("backlog").cast(pl.Float64).ne_missing(pl.col("expected")))
    check.add_rows("the backlog is not the number of jobs that the limits hold back", wrong)


def let_in_at(jobs: list[tuple[float, float]], most: int) -> list[float]:
    """Return when each job of a user may first start; infinity: never.

    Args:
        jobs: (submit, end) of each, in order of submission; the end of one that never ends is
            infinite.
        most: how many may be let in at a time.
    """
    found = [inf] * len(jobs)
    ends: list[float] = []  # a heap: of the jobs that are let in
    held: deque[int] = deque()

    def let_in(job: int, time: float) -> None:
        found[job] = time
        heappush(ends, jobs[job][1])

    for job, (submit, _) in enumerate([*jobs, (inf, inf)]):
        while ends and ends[0] <= submit and ends[0] < inf:
            end = heappop(ends)
            if held:
                let_in(held.popleft(), end)
        if job == len(jobs):
            break
        if len(ends) < most:
            let_in(job, submit)
        else:
            held.append(job)
    return found
