"""The checks of rejections: who can never run, finds no room, is late, or is turned away.

A job is rejected at its submission, or later, out of the queue: since it is late, or by the policy.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf

import numpy as np
import polars as pl

from simkit.verify.audit import (
    Check,
    NotApplicableError,
    NotAuditedError,
    first_true,
    not_audited_if,
    rule,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.capacity import USER, limits_users, tasks_by_partition
from simkit.verify.numbers import ENDLESS, sum_until

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
    jobs = run.jobs.filter(~_turned_away(run)).join(later, on="job_id", how="anti")
    check.examined = jobs.height
    fits = (
        tasks_by_partition(run)
        .group_by("job_id", maintain_order=True)
        .agg((pl.col("position") >= 0).all().alias("fits"), pl.col("known").all())
    )
    found = jobs.join(fits, on="job_id", how="left", maintain_order="left")
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
    due = [pl.col("deadline_s")] if "deadline_s" in run.jobs.columns else []
    estimate = pl.min_horizontal("estimate_s", pl.lit(ENDLESS))
    if "qos" in run.jobs.columns:
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
    places = tasks_by_partition(run).group_by("job_id").agg(pl.col("position").first())
    left = run.left_unstarted.select("job_id", "left_s")
    jobs = run.jobs.join(left, on="job_id", how="left", maintain_order="left")
    until = pl.coalesce("end_time_s", "left_s").fill_null(inf)
    jobs = jobs.with_columns(USER, until.alias("until"))
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
    """Return which jobs start while so many others run; sorted by start."""
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
