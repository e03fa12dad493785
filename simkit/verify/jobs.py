"""Checks of jobs and tasks: each exists once, and their columns agree with each other."""

from __future__ import annotations

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import TASK, AuditedRun

_STATUSES = ("finished", "killed", "rejected", "running", "waiting")
_OUTCOMES = ("finished", "killed", "suspended", "lost", "running")


def check_identity(run: AuditedRun) -> Check:
    """Check that every job and task exists once, and that every row belongs to one."""
    jobs, tasks, allocations = run.jobs, run.tasks, run.allocations
    check = Check("identity", "every job and task exists once, and every row belongs to one")
    check.examined = jobs.height + tasks.height + allocations.height
    check.add_rows("the job has several rows", jobs.filter(pl.col("job_id").is_duplicated()))
    repeated = tasks.filter(pl.struct(TASK).is_duplicated())
    check.add_rows("the task has several rows", repeated)
    orphans = tasks.join(jobs, on="job_id", how="anti", maintain_order="left")
    check.add_rows("the task's job is not among the jobs", orphans)
    orphans = allocations.join(tasks, on=TASK, how="anti", maintain_order="left")
    check.add_rows("the allocation's task is not among the tasks", orphans)
    started = jobs.filter(pl.col("status") != "rejected")
    childless = started.join(tasks, on="job_id", how="anti", maintain_order="left")
    check.add_rows("the job has no task", childless)
    # Each resource column of a job is the sum over its tasks.
    sums = tasks.group_by("job_id", maintain_order=True).agg(
        (pl.col(r) * pl.col("instances")).sum().cast(pl.Float64).alias(f"tasks_{r}")
        for r in run.requested
    )
    differs = [pl.col(r).cast(pl.Float64).ne_missing(pl.col(f"tasks_{r}")) for r in run.requested]
    rows = jobs.join(sums, on="job_id", maintain_order="left").filter(pl.any_horizontal(differs))
    check.add_rows("the job does not request what its tasks request", rows)
    return check


def check_causality(run: AuditedRun) -> Check:
    """Check that nothing starts before it is submitted or ends before it starts."""
    rows = run.allocations.join(
        run.jobs.select("job_id", "submit_time_s").unique("job_id"), on="job_id", how="left",
        maintain_order="left",
    )  # fmt: skip
    check = Check(
        "causality", "submit time <= start time <= end time", run.jobs.height + rows.height
    )
    for table in (run.jobs, rows):
        early = table.filter(pl.col("start_time_s") < pl.col("submit_time_s"))
        check.add_rows("starts before its submission", early)
        backwards = table.filter(pl.col("end_time_s") < pl.col("start_time_s"))
        check.add_rows("ends before it starts", backwards)
    check.add_rows("has no submit time", run.jobs.filter(pl.col("submit_time_s").is_null()))
    check.add_rows("has no start", rows.filter(pl.col("start_time_s").is_null()))
    return check


def check_statuses(run: AuditedRun) -> Check:
    """Check that a job's status agrees with its times, reason, tasks and allocations."""
    outcomes = run.allocations.group_by("job_id").agg(
        pl.len().alias("allocations"),
        *((pl.col("outcome") == name).sum().alias(f"with_{name}") for name in _OUTCOMES),
    )
    tasks = run.tasks.group_by("job_id").agg(
        pl.len().alias("tasks"),
        (pl.col("status") == "finished").sum().alias("tasks_finished"),
        pl.col("gang").all().alias("gangs"),
    )
    jobs = run.jobs.join(outcomes, on="job_id", how="left", maintain_order="left")
    jobs = jobs.join(tasks, on="job_id", how="left", maintain_order="left")
    jobs = jobs.with_columns(pl.col("^(allocations|tasks|tasks_finished|with_.*)$").fill_null(0))
    check = Check("statuses", "a job's status agrees with its times, tasks and allocations")
    check.examined = jobs.height + run.tasks.height + run.allocations.height
    for message, wrong in _status_rules().items():
        check.add_rows(message, jobs.filter(wrong))
    for table, column, known in (
        (run.tasks, "status", _STATUSES),
        (run.allocations, "outcome", _OUTCOMES),
    ):
        strange = table.filter(~pl.col(column).is_in(known).fill_null(False))
        check.add_rows(f"the {column} is not one of {', '.join(known)}", strange)
    wrong = pl.col("end_time_s").is_null() != (pl.col("outcome") == "running")
    check.add_rows("an allocation must have an end unless it runs", run.allocations.filter(wrong))
    return check


def _status_rules() -> dict[str, pl.Expr]:
    """Return message → which jobs are wrong."""
    status, start, end = pl.col("status"), pl.col("start_time_s"), pl.col("end_time_s")
    reason = pl.col("reason").fill_null("")
    finished, killed, rejected = status == "finished", status == "killed", status == "rejected"
    running, waiting = status == "running", status == "waiting"
    has_time = pl.any_horizontal(start.is_not_null(), end.is_not_null())
    unknown = ~status.is_in(_STATUSES).fill_null(False)
    all_finished = (pl.col("tasks") > 0) & (pl.col("tasks") == pl.col("tasks_finished"))
    halted = pl.any_horizontal(pl.col("with_killed") > 0, pl.col("with_running") > 0)
    return {
        f"the status is not one of {', '.join(_STATUSES)}": unknown,
        "finished without a start or an end": finished & (start.is_null() | end.is_null()),
        "finished without a finished allocation": finished & (pl.col("with_finished") == 0),
        "finished, but a task is not": finished & (pl.col("tasks") > pl.col("tasks_finished")),
        "finished, but an allocation was killed or still runs": finished & halted,
        "killed or rejected without a reason": (killed | rejected) & (reason == ""),
        "has a reason, but is neither killed nor rejected": ~(killed | rejected) & (reason != ""),
        "killed without an end": killed & end.is_null(),
        "killed, but every task finished": killed & all_finished,
        "killed, but an allocation still runs": killed & (pl.col("with_running") > 0),
        "rejected, but it has a start or an end": rejected & has_time.fill_null(False),
        "rejected, but it has allocations": rejected & (pl.col("allocations") > 0),
        "waiting, but an allocation runs": waiting & (pl.col("with_running") > 0),
        "waiting, but its gang finished": waiting & pl.col("gangs") & (pl.col("with_finished") > 0),
        "waiting or running, but it has an end": (waiting | running) & end.is_not_null(),
        "running, but it has no allocation": running & (pl.col("allocations") == 0),
    }


def check_times(run: AuditedRun) -> Check:
    """Check that the times of jobs and tasks follow from their allocations."""
    check = Check("times", "start, end, wait and turnaround times follow from the allocations")
    check.examined = run.jobs.height + run.tasks.height
    for table, key in ((run.jobs, ["job_id"]), (run.tasks, TASK)):
        spans = run.allocations.group_by(key).agg(
            pl.col("start_time_s").min().alias("first_start_s"),
            pl.col("end_time_s").max().alias("last_end_s"),
            (pl.col("outcome") == "killed").any().alias("killed_here"),
        )
        rows = table.join(spans, on=key, how="left", maintain_order="left")
        start, end, last = pl.col("start_time_s"), pl.col("end_time_s"), pl.col("last_end_s")
        wrong_start = rows.filter(start.ne_missing(pl.col("first_start_s")))
        check.add_rows("the start is not that of its first allocation", wrong_start)
        # A task that is killed while suspended ends after its last allocation.
        exact = pl.col("status") == "finished"
        if "gang" in table.columns:
            exact = exact | (pl.col("gang") & pl.col("killed_here").fill_null(False))
        wrong_end = rows.filter((exact & end.ne_missing(last)) | (end < last))
        check.add_rows("the end is not that of its last allocation", wrong_end)
    _check_differences(run, check)
    _check_accounts(run, check)
    _check_retries(run, check)
    return check


def _check_differences(run: AuditedRun, check: Check) -> None:
    """Check that a job ended with its last task, and its wait and turnaround times."""
    ends = run.tasks.group_by("job_id").agg(pl.col("end_time_s").max().alias("last_task_end_s"))
    over = run.jobs.filter(pl.col("status").is_in(["finished", "killed"]))
    rows = over.join(ends, on="job_id", maintain_order="left")
    wrong = rows.filter(pl.col("end_time_s").ne_missing(pl.col("last_task_end_s")))
    check.add_rows("the end is not that of its last task", wrong)
    for column, later in (("wait_time_s", "start_time_s"), ("turnaround_time_s", "end_time_s")):
        difference = pl.col(later) - pl.col("submit_time_s")
        expected = run.jobs.with_columns(difference.alias("expected"))
        wrong = expected.filter(pl.col(column).ne_missing(pl.col("expected")))
        check.add_rows(f"{column} is not {later} - submit_time_s", wrong)


def _check_accounts(run: AuditedRun, check: Check) -> None:
    """Check run, lost and suspended time of one-gang jobs by their segments."""
    segments = run.segments.filter(
        pl.col("tasks_of_job") == 1, pl.col("job_status").is_in(["finished", "killed"])
    )
    start, end = pl.col("start_time_s"), pl.col("end_time_s")
    final = pl.col("attempt") == pl.col("attempt").max().over("job_id")
    order = ["start_time_s", "end_time_s"]
    gap = (start - end.shift(1)).over(["job_id", "attempt"], order_by=order)
    sums = (
        segments.with_columns((end - start).alias("span"), final.alias("final"), gap.alias("gap"))
        .group_by("job_id")
        .agg(
            pl.col("span").filter("final").sum().alias("run"),
            pl.col("span").filter(~pl.col("final")).sum().alias("lost"),
            pl.col("gap").sum().alias("suspended"),
            pl.col("attempt").max().alias("last_attempt"),
            pl.col("outcome").is_in(["finished", "killed"]).any().alias("stopped"),
        )
    )
    sums = _with_redone(sums, run)
    rows = run.jobs.join(sums, on="job_id", maintain_order="left")
    done = pl.col("status") == "finished"
    for column, meaning, expected, applies in (
        ("run_time_s", "the time that its last attempt executed", "run", pl.col("stopped")),
        ("lost_time_s", "the time that earlier attempts executed", "lost", done),
        ("suspended_time_s", "the time between its segments", "suspended", done),
    ):
        wrong = rows.filter(applies & pl.col(column).ne_missing(pl.col(expected)))
        check.add_rows(f"{column} is not {meaning}", wrong)


def _with_redone(sums: pl.DataFrame, run: AuditedRun) -> pl.DataFrame:
    """Count the time in which the last attempt repeated work, or restarted, as lost and not as run.

    Earlier attempts are lost as a whole.
    """
    if run.redone is None:
        return sums
    again = run.redone.select("job_id", "attempt", pl.col("redone_s").alias("again"))
    rows = sums.join(
        again, left_on=["job_id", "last_attempt"], right_on=["job_id", "attempt"], how="left",
        maintain_order="left",
    )  # fmt: skip
    moved = pl.col("again").fill_null(0.0)
    return rows.with_columns(pl.col("run") - moved, pl.col("lost") + moved)


def _check_retries(run: AuditedRun, check: Check) -> None:
    """Check attempts and lost time of all jobs by the attempts of their instances.

    Lost time is the time of attempts that were given up, and the time in which work was repeated
    or restarted. A bag's is the mean over its instances, a job's is the sum over its tasks.
    """
    last = run.allocations.group_by("job_id").agg(pl.col("attempt").max().alias("last_attempt"))
    rows = run.jobs.join(last, on="job_id", how="left", maintain_order="left")
    wrong = pl.col("attempts").ne_missing(pl.col("last_attempt").fill_null(0))
    check.add_rows("attempts is not the number of its last attempt", rows.filter(wrong))
    share = pl.col("executed_s") * pl.col("count") / pl.col("instances")
    parts = [run.work.filter(pl.col("outcome") == "lost").select(*TASK, "count", "executed_s")]
    if run.redone is not None:
        parts.append(run.redone.select(*TASK, "count", pl.col("redone_s").alias("executed_s")))
    lost = (
        pl.concat(parts)
        .join(run.tasks.select(*TASK, "instances"), on=TASK, maintain_order="left")
        .group_by("job_id")
        .agg(share.sum().alias("expected_lost_s"))
    )
    rows = run.jobs.join(lost, on="job_id", how="left", maintain_order="left")
    expected = pl.col("expected_lost_s").fill_null(0.0)
    off = (pl.col("lost_time_s") - expected).abs() > 1e-6 * pl.max_horizontal(1.0, expected)
    wrong_lost = rows.filter(off.fill_null(True))
    check.add_rows("lost_time_s is not the time that its instances lost", wrong_lost)
