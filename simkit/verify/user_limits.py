"""The check of limits of users: nobody has too many jobs running, or is held back too early.

A job is let in as soon as fewer of its user's jobs than may run are let in and have not ended, in
order of submission. This follows from submissions and ends alone, on any cluster, so that the
number of jobs that are held back is known at each instant.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.limits import USER, limits_users, tasks_by_partition
from simkit.verify.numbers import sum_until


def check_user_limits(run: AuditedRun) -> Check:
    """Check that no user has more jobs running in a partition than it allows, nor too few.

    A job runs from its first start to its end. What is held back is in the timeline's backlog. How
    many may wait is part of `partitions` and `rejections`.
    """
    check = Check("user-limits", "no user has more jobs running in a partition than it allows")
    if not limits_users(run):
        return check.skip("no partition limits how many jobs of a user run")
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
    return check


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
    return next((reason for reason, applies in reasons.items() if applies), "")


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
