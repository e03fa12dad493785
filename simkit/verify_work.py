"""Checks on the work itself: each instance once, gangs together, for exactly its run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simkit.verify_audit import Check
from simkit.verify_pieces import TASK, UNIT
from simkit.verify_tasks import may_differ

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

_BEGUN = ("finished", "killed")


def check_instances(run: RunFolder) -> Check:
    """Instances 0..n-1 of a finished task are covered once, and none is in two places at once."""
    import polars as pl

    known = run.known
    check = Check("instances", "every instance once, never twice at one time", known.height)
    first, count = pl.col("first_instance"), pl.col("count")
    outside = (first < 0) | (count < 1) | (first + count > pl.col("instances"))
    check.add_rows("instances that the task does not have", known.filter(outside))
    _check_coverage(run, check)
    _check_ranges(known, check)
    _check_sequence(run.pieces.filter(~pl.col("quiet")), check)
    return check


def _check_coverage(run: RunFolder, check: Check) -> None:
    """Hold the finished rows of each task against its instances."""
    import polars as pl

    first, after = pl.col("first_instance"), pl.col("first_instance") + pl.col("count")
    rows = run.known.filter(pl.col("outcome") == "finished").sort(*TASK, "first_instance")
    rows = rows.with_columns(after.shift(1, fill_value=0).over(TASK).alias("next_instance"))
    check.add_rows("an instance finishes twice", rows.filter(first < pl.col("next_instance")))
    totals = rows.group_by(TASK, maintain_order=True).agg(
        pl.col("count").sum().alias("finished_instances"),
        (first == pl.col("next_instance")).all().alias("contiguous"),
    )
    tasks = run.tasks.select(*TASK, "instances", "status").join(
        totals, on=TASK, how="left", maintain_order="left"
    )
    whole = (pl.col("finished_instances") == pl.col("instances")) & pl.col("contiguous")
    whole = whole.fill_null(False)
    claimed = pl.col("status") == "finished"
    check.add_rows("finished, but not each instance did, once", tasks.filter(claimed & ~whole))
    check.add_rows("each instance finished, but the task did not", tasks.filter(~claimed & whole))


def _check_ranges(known: pl.DataFrame, check: Check) -> None:
    """Within one start of a gang no instance is on two machines."""
    import polars as pl

    key = [*TASK, "attempt", "start_time_s"]
    rows = known.filter("gang").sort(*key, "first_instance", maintain_order=True)
    taken = (pl.col("first_instance") + pl.col("count")).shift(1).over(key)
    check.add_rows("an instance runs in two places", rows.filter(pl.col("first_instance") < taken))


def _check_sequence(units: pl.DataFrame, check: Check) -> None:
    """The pieces of a unit follow each other, and each attempt follows from the one before."""
    import polars as pl

    before = units.with_columns(
        pl.col("end_time_s").fill_null(float("inf")).shift(1).over(UNIT).alias("end_before_s"),
        pl.col("outcome").shift(1).over(UNIT).alias("outcome_before"),
        pl.col("attempt").shift(1).over(UNIT).alias("attempt_before"),
    )
    overlap = before.filter(pl.col("start_time_s") < pl.col("end_before_s"))
    check.add_rows("the instance runs twice at one time", overlap)
    again = before.filter(pl.col("outcome_before").is_in(_BEGUN))
    check.add_rows("runs again after it finished or was killed", again)
    step = pl.col("attempt") - pl.col("attempt_before").fill_null(0)
    due = pl.when(pl.col("outcome_before") == "suspended").then(0).otherwise(1)
    wrong = before.filter(step != due)
    check.add_rows("the attempt's number does not follow from the piece before", wrong)


def check_gangs(run: RunFolder) -> Check:
    """All instances of a gang start at one instant and stop at one instant."""
    import polars as pl

    segments = run.segments
    check = Check("gangs", "instances of a gang start and stop together", segments.height)
    apart = segments.filter(pl.col("count") < pl.col("instances"))
    check.add_rows("not all instances of the gang start at this instant", apart)
    ends = (pl.col("end_time_s") != pl.col("last_end_s")) | (
        (pl.col("open") > 0) & (pl.col("open") < pl.col("rows"))
    )
    check.add_rows("the gang's instances stop at different instants", segments.filter(ends))
    mixed = segments.filter(pl.col("outcomes") > 1)
    check.add_rows("the gang's instances have different outcomes", mixed)
    return check


def check_run_time(run: RunFolder) -> Check:
    """What finished ran for its run time; nothing ran for longer.

    The run folder knows the longest of a job's run times; `check_instance_times` knows each.
    """
    import polars as pl

    work = run.work
    check = Check("run-time", "a finished instance ran exactly its run time")
    check.examined = int(work["count"].sum())
    ran, truth = pl.col("executed_s"), pl.col("trace_run_time_s")
    single = pl.col("tasks_of_job") == 1
    if may_differ(run):
        single &= pl.col("gang")
    finished = pl.col("outcome") == "finished"
    unequal = work.filter(single & finished & ran.ne_missing(truth))
    check.add_rows("finished, but did not run for its run time", unequal)
    longer = work.filter(~(single & finished), ran > truth)
    check.add_rows("ran longer than its run time", longer)
    whole = work.filter(finished, ~single, pl.col("job_status") == "finished")
    longest = whole.group_by("job_id", maintain_order=True).agg(ran.max(), truth.first())
    check.add_rows("nothing ran for the longest run time", longest.filter(ran != truth))
    return check


def check_walltime(run: RunFolder) -> Check:
    """Nothing runs past its request under ``walltime: kill``; ``ignore`` kills nothing."""
    import polars as pl

    setting = run.setting("walltime")
    work = run.work
    check = Check("walltime", "jobs are killed at their requested time if and only if asked")
    check.examined = work.height
    by_limit = pl.col("reason").fill_null("").str.contains("(?i)wall.?time|requested time")
    killed = run.jobs.filter(pl.col("status") == "killed")
    if setting == "ignore":
        check.add_rows("killed for its walltime, which is ignored", killed.filter(by_limit))
        if not policy_kills(run):
            others = killed.filter(~by_limit)
            check.add_rows("killed, but nothing in this scenario kills", others)
        return check
    if setting != "kill":
        return check.leave_out(f"walltime is {setting!r}, neither kill nor ignore")
    limit = pl.col("requested_time_s")
    single = pl.col("tasks_of_job") == 1  # the table of jobs has the first task's limit only
    over = work.filter(single, pl.col("executed_s") > limit)
    check.add_rows("runs past its requested time", over)
    suspects = killed.filter(by_limit) if policy_kills(run) else killed
    stopped = work.filter(pl.col("outcome") == "killed", single)
    at_limit = stopped.group_by("job_id").agg((pl.col("executed_s") == limit).any().alias("exact"))
    rows = suspects.join(at_limit, on="job_id", how="left", maintain_order="left")
    one_task = rows.join(run.tasks.filter(pl.len().over("job_id") == 1), on="job_id", how="semi")
    wrong = one_task.filter(~pl.col("exact").fill_null(False))
    check.add_rows("killed for its walltime, but not at its requested time", wrong)
    return check


def policy_kills(run: RunFolder) -> bool:
    """Tell whether the policy may kill jobs: only a user's own can, orders and fitness never do."""
    policy = run.setting("policy")
    own = not isinstance(policy, dict) or not (policy.get("order") or policy.get("fitness"))
    return own or bool(policy.get("path") or policy.get("name"))
