"""The check of the queue's order under first come, first served, from the starts alone.

It also holds for runs that cannot be replayed: whatever the capacity does, without backfilling no
job of a pool starts before another that was submitted earlier.
"""

from __future__ import annotations

import polars as pl

from simkit.scenario.policy import ComposedPolicy
from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.limits import limits_users
from simkit.verify.replay.schedule import one_gang_each


def check_fcfs_order(run: AuditedRun) -> Check:
    """Check that without backfilling jobs start in order of (submit time, job id)."""
    check = Check("fcfs-order", "without backfilling, jobs start in order of submission")
    if reason := _other_policy(run):
        return check.skip(reason)
    if reason := _why_not_followed(run):
        return check.leave_out(reason)
    started = pl.col("start_time_s").is_not_null()
    jobs = run.jobs.filter(started).sort("submit_time_s", "job_id")
    check.examined = jobs.height
    jobs = jobs.with_columns(pl.col("job_id").shift(1).alias("starts_before_job"))
    early = jobs.filter(pl.col("start_time_s").diff() < 0)
    check.add_rows("starts before a job that was submitted earlier", early)
    return check


def _other_policy(run: AuditedRun) -> str:
    """Return why the policy of the run makes no such promise; empty if it does."""
    policy, admitted = run.scenario.policy, run.scenario.admission.order
    if not isinstance(policy, ComposedPolicy):
        return "the policy is not made of an order and a backfilling rule"
    order, backfill = policy.order.type, policy.backfill.type
    if admitted != "fifo":
        return f"admission is by {admitted}, not by submission"
    if order != "fcfs":
        return f"the order is {order}, not fcfs"
    return "" if backfill == "none" else f"backfilling is {backfill}"


def _why_not_followed(run: AuditedRun) -> str:
    """Return why the order of the queue is not known in this run; empty if it is."""
    kinds = set(run.tables["events"]["kind"].to_list())
    once = run.jobs["attempts"].is_in([0, 1]).all()
    reasons = {
        "the run is not complete": not run.complete,
        "jobs wait for their release": run.has_releases,
        "the cluster is not a pool of one resource": len(run.capacity) * len(run.resources) != 1,
        "users' jobs are held back by partitions": limits_users(run),
        "the cluster has partitions": len(run.partitions) > 1,
        "there are reservations, suspensions or losses": bool(
            kinds & {"reserved", "suspended", "lost"}
        ),
        "jobs have several tasks or attempts, no task, or bags": not (once and one_gang_each(run)),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")
