"""The check of releases: no job starts before its release, and each release is that of the input.

A job is released at the latest of its submission, its release time, and the end of each preceding
job plus the think time; one that was rejected has ended then. Preceding jobs that are not in the
run (outside the window, or in rows that were left out) count as ended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.input_tables import links_of_log, releases_of_table
from simkit.verify.input_tasks import UNREADABLE, table_of
from simkit.verify.inputs import log_of

_TIME = "release_time_s"
Ids = dict[object, float | None]


@dataclass(frozen=True)
class _Wanted:
    """What the input says, or the reason why it is not known."""

    held_s: pl.DataFrame | None = None
    """Columns ``job_id`` and ``held_s``: from submission to release time; null: no release time."""
    links: pl.DataFrame | None = None
    """Columns ``job_id``, ``before`` (id of a preceding job) and ``think_s``."""
    reason: str = ""

    @property
    def waits(self) -> bool:
        """Whether a job names a preceding one."""
        return self.links is not None and self.links.height > 0


def check_releases(run: AuditedRun) -> Check:
    """Check that no job starts before its release, and when each was released."""
    check = Check("releases", "a job starts at its release or later, and is released as it should")
    if run.has_releases:
        check.examined = run.rows_of("jobs") + run.rows_of("allocations")
        _check_starts(run, check)
    wanted = _wanted(run)
    if wanted.reason:
        return check if check.found else check.leave_out(wanted.reason)
    if not run.has_releases and wanted.held_s is None and not wanted.waits:
        return check.skip("no job has to wait for its release")
    jobs = run.jobs
    expected = _expected(run, wanted)
    differs = jobs.filter(pl.col("status") != "rejected").join(
        expected, on="job_id", how="left", maintain_order="left"
    )
    if _TIME not in jobs.columns:
        late = differs.filter(pl.col("expected_s").ne_missing(pl.col("submit_time_s")))
        check.add_rows("must wait for its release, and the run has none", late)
        return check if check.found else check.skip("no job has to wait for its release")
    wrong = differs.filter(pl.col(_TIME).ne_missing(pl.col("expected_s")))
    check.add_rows(f"{_TIME} is not when it could run for the first time", wrong)
    return check


def _check_starts(run: AuditedRun, check: Check) -> None:
    """Check releases against submissions and starts alone."""
    release, start = pl.col(_TIME), pl.col("start_time_s")
    early = run.jobs.filter(release < pl.col("submit_time_s"))
    check.add_rows("released before its submission", early)
    of_jobs = run.jobs.select("job_id", _TIME).unique("job_id", keep="first")
    of_all = run.allocations.join(of_jobs, on="job_id", how="left", maintain_order="left")
    for rows in (run.jobs, of_all):
        unreleased = start.is_not_null() & release.is_null()
        check.add_rows("starts before its release", rows.filter((start < release) | unreleased))


def _wanted(run: AuditedRun) -> _Wanted:
    """Read the input's release times and links again."""
    workload = run.scenario.workload
    kind, waits = workload.type, workload.dependencies
    if waits == "ignore":
        return _Wanted()
    if kind not in ("swf", "jobs"):
        named = {_TIME, "preceding_job"} & set(getattr(workload, "columns", ()))
        if run.manifest["inputs"] and (kind in ("sacct", "plugin") or named):
            return _Wanted(reason=f"the releases of a workload of type {kind!r} are not read again")
        return _Wanted()
    reasons = {
        "the run is not complete": not run.complete,
        "the workload has a resample": workload.resample is not None,
    }
    if reason := next((reason for reason, applies in reasons.items() if applies), ""):
        return _Wanted(reason=reason)
    try:
        if kind == "swf":
            found = _Wanted(links=links_of_log(log_of(run), workload))
        else:
            found = _Wanted(*releases_of_table(table_of(run), workload))
    except UNREADABLE as error:
        return _Wanted(reason=str(error) or type(error).__name__)
    return found if waits == "simulated" else _Wanted(found.held_s)


def _expected(run: AuditedRun, wanted: _Wanted) -> pl.DataFrame:
    """Return ``job_id`` and ``expected_s``, when each job must have been released; null: never."""
    submit = pl.col("submit_time_s")
    jobs = run.jobs.unique("job_id", keep="first", maintain_order=True)
    jobs = jobs.sort("submit_time_s", "job_id").select(
        "job_id", submit, _ended(run).alias("ended_s")
    )
    found = jobs.with_columns(submit.alias("expected_s"))
    if wanted.held_s is not None:
        own = wanted.held_s.unique("job_id", keep="first")
        found = found.join(own, on="job_id", how="left", maintain_order="left").with_columns(
            (submit + pl.col("held_s").fill_null(0.0).clip(0.0)).alias("expected_s")
        )
    if wanted.links is None or wanted.links.is_empty():
        return found.select("job_id", "expected_s")
    release: Ids = dict(found.select("job_id", "expected_s").iter_rows())
    ended: Ids = dict(jobs.select("job_id", "ended_s").iter_rows())
    for job, before, think_s in _without_loops(wanted.links, list(release)):
        so_far, end = release[job], ended[before]
        release[job] = None if so_far is None or end is None else max(so_far, end + think_s)
    return pl.DataFrame(
        {"job_id": list(release), "expected_s": list(release.values())},
        schema={"job_id": jobs.schema["job_id"], "expected_s": pl.Float64},
    )


def _ended(run: AuditedRun) -> pl.Expr:
    """Return when each job ended: the rejected ones when they were rejected."""
    left = dict(run.left_unstarted.select("job_id", "left_s").iter_rows())
    gone = pl.col("job_id").replace_strict(left, default=None, return_dtype=pl.Float64)
    refused = pl.coalesce(gone, run.released)
    return pl.when(pl.col("status") == "rejected").then(refused).otherwise("end_time_s")


def _without_loops(links: pl.DataFrame, order: list[object]) -> list[tuple[object, object, float]]:
    """Return the links between jobs of the run that do not close a loop.

    In a loop, links from a job to itself or to a later one are left out.
    """
    rank = {job: number for number, job in enumerate(order)}
    known = [row for row in links.iter_rows() if row[0] in rank and row[1] in rank]
    before = defaultdict[object, list[object]](list)
    for job, other, _ in known:
        before[job].append(other)

    def leads_to(job: object, target: object) -> bool:
        """Return whether a job waits for another, directly or through others."""
        seen, todo = {job}, [job]
        while todo:
            for other in before[todo.pop()]:
                if other == target:
                    return True
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return False

    return [
        (job, other, think_s)
        for job, other, think_s in known
        if rank[other] < rank[job] or (other != job and not leads_to(other, job))
    ]
