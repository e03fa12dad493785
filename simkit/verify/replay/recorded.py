"""The check of recorded starts: every job starts when its log says, or as soon as it fits after.

The starts are read from the log again. What is free at every instant follows from the allocations.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from simkit.scenario.policy import RecordedPolicy, policies_in
from simkit.verify.audit import Check, NotApplicableError, NotAuditedError, first_true, rule
from simkit.verify.audited_run import AuditedRun
from simkit.verify.capacity import limits_users
from simkit.verify.input_tables import starts_of_table, waits_of_log
from simkit.verify.input_tasks import UNREADABLE, table_of
from simkit.verify.inputs import log_of
from simkit.verify.numbers import Floats, Ints, times_on_grid
from simkit.verify.replay.schedule import one_gang_each

_UNKNOWN: Final = "policy: the log does not tell when it started"
"""The reason of the rejection of a job without a recorded start."""


@rule
def check_recorded_starts(run: AuditedRun, check: Check) -> None:
    """Jobs start as recorded, or as soon as they fit after that."""
    policy = run.scenario.policy
    if not isinstance(policy, RecordedPolicy):
        if any(isinstance(one, RecordedPolicy) for one in policies_in(policy)):
            raise NotAuditedError("the policy replays recorded starts for a part of the run only")
        if "recorded" in run.manifest:
            check.add("run.json counts recorded starts, which this policy does not replay", {})
            return
        raise NotApplicableError("the policy does not replay recorded starts")
    if not one_gang_each(run):
        raise NotAuditedError("jobs have several tasks, no task, or bags")
    try:
        known = _starts_of_input(run)
    except UNREADABLE as error:
        check.add("the log cannot be read", {"problem": str(error)})
        return
    jobs = run.only(
        "jobs", "job_id", "submit_time_s", "release_time_s", "start_time_s", "end_time_s",
        "status", "reason", run.counted,
    ).join(known, on="job_id", how="left", maintain_order="left")  # fmt: skip
    check.examined = jobs.height
    jobs = jobs.with_columns(
        due_s=times_on_grid(
            pl.coalesce("recorded_start_s", pl.col("submit_time_s") + pl.col("wait_s"))
        )
    )
    _check_unknown(check, jobs, policy.recorded.unknown)
    _check_early(check, jobs)
    if run.complete:
        _check_counts(check, run, jobs)
    if reason := _why_room_is_unknown(run):
        check.notes["whether late jobs could have started earlier is not judged"] = reason
    else:
        _check_late(check, run, jobs)


def _starts_of_input(run: AuditedRun) -> pl.DataFrame:
    """Return ``job_id``, ``recorded_start_s`` and ``wait_s``, of which one is null.

    Raises NotAuditedError for a log that is not read again, TraceError for one that cannot be.
    """
    workload = run.scenario.workload
    if workload.type == "swf":
        waits = waits_of_log(log_of(run), workload)
        starts = waits.with_columns(recorded_start_s=pl.lit(None, pl.Float64))
    elif workload.type == "jobs":
        starts = starts_of_table(table_of(run), workload)
    else:
        raise NotAuditedError(f"the workload's type is {workload.type!r}")
    return starts.unique("job_id", keep="first")


def _check_unknown(check: Check, jobs: pl.DataFrame, unknown: str) -> None:
    """Check that exactly the jobs without a recorded start are rejected for that, if they are."""
    without, refused = pl.col("due_s").is_null(), pl.col("reason") == _UNKNOWN
    by_policy = pl.col("reason").fill_null("").str.starts_with("policy: ")
    check.add_rows(
        "rejected by the policy, but its start is recorded", jobs.filter(by_policy, ~without)
    )
    started = pl.col("start_time_s").is_not_null()
    if unknown == "reject":
        check.add_rows("starts, but the log does not tell when", jobs.filter(without, started))
    else:
        check.add_rows("rejected, but it was to start as it fits", jobs.filter(refused, without))


def _check_early(check: Check, jobs: pl.DataFrame) -> None:
    early = jobs.filter(pl.col("start_time_s") < pl.col("due_s"))
    check.add_rows("starts before its recorded start", early)


def _check_counts(check: Check, run: AuditedRun, jobs: pl.DataFrame) -> None:
    """Check what run.json counts of the recorded starts."""
    counts = run.manifest.get("recorded")
    if not isinstance(counts, dict):
        check.add("run.json does not count the recorded starts", {})
        return
    if run.rows_of("allocations") and run.only("jobs", "attempts")["attempts"].max() not in (0, 1):
        check.notes["counts are not judged"] = "jobs start more than once"
        return
    late = pl.col("start_time_s") - pl.col("due_s")
    started = jobs.filter(pl.col("start_time_s").is_not_null(), pl.col("due_s").is_not_null())
    delays = started.select(late.alias("late"))["late"]
    delays = delays.filter(delays > 0)
    mean = float(np.mean(delays.to_numpy())) if len(delays) else None
    of_reasons = counts.get("started_later")
    later = counts.get("later_s")
    found = {
        "started_as_recorded": counts.get("started_as_recorded"),
        "started_later": sum(of_reasons.values()) if isinstance(of_reasons, dict) else None,
        "later_s.max": later.get("max") if isinstance(later, dict) else None,
    }
    expected = {
        "started_as_recorded": started.height - len(delays),
        "started_later": len(delays),
        "later_s.max": delays.max() if len(delays) else None,
    }
    for key, value in expected.items():
        if found[key] != value:
            row = {"key": key, "found": found[key], "expected": value}
            check.add("run.json counts recorded starts otherwise", row)
    told = later.get("mean") if isinstance(later, dict) else None
    near = told is not None and mean is not None and abs(told - mean) <= 1e-9 * mean
    if not near and not (told is None and mean is None):
        row = {"key": "later_s.mean", "found": told, "expected": mean}
        check.add("run.json counts recorded starts otherwise", row)


def _why_room_is_unknown(run: AuditedRun) -> str:
    """Return why it is not known when a job fits; empty if it is."""
    reasons = {
        "the run is not complete": not run.complete,
        "the cluster is not a pool of one resource": len(run.capacity) * len(run.resources) != 1,
        "the capacity changes": run.machines_change or run.scenario.power is not None,
        "the cluster has partitions": len(run.partitions) > 1,
        "users' jobs are held back": limits_users(run),
        "jobs wait for a slot": run.scenario.admission.slots is not None,
        "decisions come at multiples of a period": run.period_s is not None,
        "jobs wait for their release": run.has_releases,
    }
    return first_true(reasons)


def _check_late(check: Check, run: AuditedRun, jobs: pl.DataFrame) -> None:
    """Check that no job that starts late would have fitted before, from its recorded start on."""
    size = run.counted
    ran = jobs.filter(pl.col("start_time_s").is_not_null())
    columns = {
        name: ran[name].cast(pl.Float64).fill_null(np.inf).to_numpy()
        for name in ("start_time_s", "end_time_s", size)
    }
    instants, free = _free(
        columns["start_time_s"], columns["end_time_s"], columns[size],
        next(iter(run.capacity.values()))[0],
    )  # fmt: skip
    begin = pl.max_horizontal("due_s", "submit_time_s")
    late = ran.filter(pl.col("start_time_s") > begin).with_columns(begin.alias("from_s"))
    first = np.searchsorted(instants, late["from_s"].to_numpy(), side="right") - 1
    last = np.searchsorted(instants, late["start_time_s"].to_numpy(), side="left")
    fits = _most(free, first, last) >= late[size].cast(pl.Float64).to_numpy()
    check.notes["jobs that start later than recorded, as they did not fit"] = late.height
    check.add_rows(
        "starts later than recorded, although it fitted before", late.filter(pl.Series(fits))
    )


def _free(start: Floats, end: Floats, size: Floats, capacity: float) -> tuple[Floats, Floats]:
    """Return the instants at which jobs start or end, and what is free after each."""
    time = np.concatenate((start, end))
    change = np.concatenate((-size, size))
    instants, row = np.unique(time, return_inverse=True)
    free = capacity + np.cumsum(np.bincount(row, change, len(instants)))
    return instants, np.asarray(free, dtype=np.float64)


def _most(values: Floats, first: Ints, last: Ints) -> Floats:
    """Return the most of ``values[first:last]`` for each of n ranges; they are few, and short."""
    pairs = zip(first.tolist(), last.tolist(), strict=True)
    return np.array([values[max(a, 0) : b].max(initial=-np.inf) for a, b in pairs])
