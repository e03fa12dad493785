"""The checks of rejections: who can never run, finds no room, is late, or is turned away.

A job is rejected at its submission, or later, out of the queue: since it is late, or by the policy.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.limits import limits_users, tasks_by_partition
from simkit.verify.numbers import ENDLESS

_REJECTED = pl.col("status") == "rejected"


def _turned_away(run: AuditedRun) -> pl.Expr:
    """Return which jobs admission turned away, from the reason of their rejection."""
    if run.scenario.admission.backlog is None:
        return pl.lit(value=False)
    return _REJECTED & pl.col("reason").fill_null("").str.contains("^the backlog")


def check_admission(run: AuditedRun) -> Check:
    """Check that a job is turned away exactly if all slots and the whole backlog are taken.

    If slots are refilled at once, waiting jobs fill the slots first and then the backlog. It is
    full when as many jobs wait as there are slots and places in the backlog.
    """
    check = Check("admission", "a job is turned away exactly if the backlog is full")
    backlog, slots = run.scenario.admission.backlog, run.scenario.admission.slots
    if backlog is None:
        return check.skip("the backlog has no limit")
    if reason := _why_not_followed(run):
        return check.leave_out(reason)
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
    return check


def _why_not_followed(run: AuditedRun) -> str:
    """Return why the number of waiting jobs is not known; empty if it is."""
    kinds = set(run.tables["events"]["kind"].to_list())
    one_each = run.tasks["job_id"].is_unique().all() and run.tasks["gang"].all()
    refill = run.scenario.admission.refill
    reasons = {
        "jobs wait for their release": run.has_releases,
        "the run is not complete": not run.complete,
        "slots are refilled only at the next decision": refill != "at_once",
        "jobs have several tasks, or instances that start one by one": not one_each,
        "jobs that waited were killed": "killed" in kinds,
        "jobs return to the queue": bool(kinds & {"reserved", "suspended", "lost"}),
        "users' jobs are held back by partitions": limits_users(run),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def check_rejections(run: AuditedRun) -> Check:
    """Check that exactly those jobs are rejected at their submission that no partition admits."""
    check = Check("rejections", "exactly the jobs that can never run are rejected")
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
    return check


def check_late_jobs(run: AuditedRun) -> Check:
    """Check that jobs which leave are late, and that none that is late starts instead.

    A job is late when it can no longer end, by its estimate, by its deadline and with its quality
    of service kept; it leaves at the first decision after that at which the policy would see it.
    """
    check = Check("late-jobs", "only jobs that can no longer end in time leave, and none starts")
    left = run.left_unstarted.filter(pl.col("reason").str.starts_with("late"))
    if run.scenario.admission.late != "leave":
        check.add_rows("left as it was late, but late jobs stay", left)
        return check if left.height else check.skip("late jobs stay")
    if not run.tasks["job_id"].is_unique().all():
        return check.leave_out("jobs have several tasks, each of which may be late")
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
    return check
