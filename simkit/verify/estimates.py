"""The audit of estimates: what the policy was told of run times, worked out once more."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.tasks import may_differ, policy_kills

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder

_GRID = 2.0**20
"""Steps of the run's time grid in a second."""


def check_estimates(run: RunFolder) -> Check:
    """The estimates are what the scenario's estimator says of each job."""
    check = Check("estimates", "the policy was told what the scenario says")
    setting = run.setting("estimates")
    arguments = setting if isinstance(setting, dict) else {"type": setting}
    kind = arguments.get("type")
    if kind not in ("requested", "actual", "perturbed", "user-mean"):
        return check.leave_out(f"estimates are {kind}, which are not worked out again")
    if kind == "user-mean" and (reason := _why_not_followed(run)):
        return check.leave_out(reason)
    single = run.tasks.filter(pl.len().over("job_id") == 1)
    jobs = run.jobs.join(single, on="job_id", how="semi", maintain_order="left")
    if may_differ(run) and not single["gang"].all():
        jobs = _with_means(run, jobs)
        if jobs["trace_run_time_s"].null_count():
            return check.leave_out("the mean run time of the instances is not known")
    jobs = _with_bounds(jobs, arguments).filter(pl.col("status") != "rejected")
    check.examined = jobs.height
    inside = pl.col("estimate_s").is_between("least_s", "most_s").fill_null(value=False)
    what = "within its bounds" if kind == "perturbed" else f"the {kind} time"
    check.add_rows(f"estimate_s is not {what}", jobs.filter(~inside))
    return check


def _with_means(run: RunFolder, jobs: pl.DataFrame) -> pl.DataFrame:
    """Put the mean run time of a job's instances, by the input, in the place of the longest.

    Sums of the same numbers may differ by a step of the grid: what the policy was told counts then.
    """
    jobs = jobs.drop("trace_run_time_s")
    if run.input_tasks.tasks is None:
        return jobs.with_columns(trace_run_time_s=pl.lit(None, pl.Float64))
    mean = run.input_tasks.tasks.select("job_id", pl.col("run").alias("trace_run_time_s"))
    jobs = jobs.join(mean.unique("job_id"), on="job_id", how="left", maintain_order="left")
    truth, told = pl.col("trace_run_time_s"), pl.col("estimate_s")
    near = (truth - told).abs() <= 1 / _GRID
    return jobs.with_columns(pl.when(near).then(told).otherwise(truth).alias("trace_run_time_s"))


def _with_bounds(jobs: pl.DataFrame, arguments: dict[str, Any]) -> pl.DataFrame:
    """Add the least and the most that the policy may have been told; mostly they are one."""
    truth, kind = pl.col("trace_run_time_s"), arguments["type"]
    if kind == "perturbed":
        most = _on_grid(truth * (1 + arguments.get("factor", 5.0)))
        return jobs.with_columns(least_s=truth, most_s=pl.max_horizontal(most, truth))
    if kind == "user-mean":
        means = pl.Series(user_means(jobs, arguments.get("last", 2)), dtype=pl.Float64)
        return jobs.with_columns(least_s=means, most_s=means)
    told = truth if kind == "actual" else pl.coalesce("requested_time_s", truth)
    return jobs.with_columns(least_s=told, most_s=told)


def user_means(jobs: pl.DataFrame, last: int) -> list[float]:
    """Return for each row the mean run time of the user's last jobs, at most the request.

    Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than
    user runtime estimates" (2007). The request (or, without one, the run time) until `last` jobs
    of the user have ended, and for unknown users.

    Args:
        jobs: the ended ones in order of end, as the table has them.
        last: how many jobs the mean is over.
    """
    rows = jobs.select(
        "user", "submit_time_s", "start_time_s", "end_time_s", "run_time_s",
        pl.coalesce("requested_time_s", "trace_run_time_s").alias("request"),
    ).rows()  # fmt: skip
    arrivals = jobs.with_row_index("row").sort("submit_time_s", "job_id")["row"].to_list()
    ended = (row for row in rows if row[2] is not None and row[3] is not None)
    seen: dict[Any, deque[float]] = defaultdict(lambda: deque(maxlen=last))
    means = [0.0] * len(rows)
    coming = next(ended, None)
    for arrival in arrivals:
        user, now, _, _, _, request = rows[arrival]
        # What starts and ends at the very instant does so after the arrivals of that instant.
        while coming is not None and coming[3] <= now and coming[2] < now:
            seen[coming[0]].append(coming[4])
            coming = next(ended, None)
        history = seen[user]
        known = str(user) not in ("", "-1", "None") and len(history) == last
        mean = round(sum(history) / last * _GRID) / _GRID if known else request
        means[arrival] = min(mean, request)
    return means


def _on_grid(seconds: pl.Expr) -> pl.Expr:
    return (seconds * _GRID).round(mode="half_to_even") / _GRID


def _why_not_followed(run: RunFolder) -> str:
    """Return why the order in which users' jobs ended cannot be told; empty if it can."""
    one_each = run.tasks["job_id"].is_unique().all() and run.tasks["gang"].all()
    reasons = {
        "jobs have several tasks, or instances that end one by one": not one_each,
        "the policy may kill jobs, from which nothing is learned": policy_kills(run),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")
