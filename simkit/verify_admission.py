"""The audit of admission: a job is turned away if and only if the backlog is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simkit.verify_audit import Check
from simkit.verify_work import policy_kills

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder


def turned_away(run: RunFolder) -> pl.Expr:
    """Return which jobs admission turned away, by the reason given for their rejection."""
    import polars as pl

    if run.setting("admission", "backlog") is None:
        return pl.lit(value=False)
    return pl.col("reason").fill_null("").str.contains("backlog")


def check_admission(run: RunFolder) -> Check:
    """A job is turned away if and only if all slots and the whole backlog are taken.

    Where slots are refilled at once, waiting jobs fill the slots first and then the backlog: it is
    full when as many wait as there are slots and places in the backlog.
    """
    import polars as pl

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
