"""Checks against the input's tasks: what they ask for, how long each instance runs, who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.pieces import TASK, UNIT
from simkit.verify.task_inputs import TASK_TABLES

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder
    from simkit.verify.task_inputs import InputTasks


_EXACT = ("submit", "instances")


def _asked(run: RunFolder, check: Check) -> InputTasks | None:
    """Return the input's tasks; or None, with the check saying why."""
    if run.setting("workload", "type") not in TASK_TABLES:
        check.skip("the workload is no table of tasks")
        return None
    found = run.input_tasks
    if found.tasks is None:
        check.leave_out(found.reason or "the input cannot be read")
        return None
    for name in TASK:
        kinds = {"input": str(found.tasks.schema[name]), "run": str(run.tasks.schema[name])}
        if len(set(kinds.values())) > 1:
            check.add(f"{name} has another type in the input", kinds)
    return None if check.found else found


def check_tasks(run: RunFolder) -> Check:
    """Jobs, tasks, instances, requests, submit and run times are those of the input."""
    check = Check("tasks", "the run's tasks are the input's tasks", run.tasks.height)
    if problem := run.input_tasks.problem:
        check.add("the input cannot be read", {"problem": problem})
        return check
    found = _asked(run, check)
    if found is None or found.tasks is None:
        return check
    wanted = found.tasks.select(*TASK, *_EXACT, *run.asked)
    jobs = run.jobs.select("job_id", pl.col("submit_time_s").alias("submit"))
    tasks = run.tasks.join(jobs.unique("job_id", keep="first"), on="job_id", how="left",
                           maintain_order="left").select(wanted.columns)  # fmt: skip
    # Numbering equal rows makes the comparison one of multisets: a task twice is not a task once.
    key = wanted.columns
    nth = pl.int_range(pl.len()).over(key).alias("nth")
    tasks, wanted = tasks.with_columns(nth), wanted.with_columns(nth)
    join: dict[str, Any] = {"on": [*key, "nth"], "how": "anti", "nulls_equal": True}
    if run.complete:
        absent = wanted.join(tasks, **join, maintain_order="left").drop("nth")
        check.add_rows("a task of the input is not in the run as it is in the input", absent)
    extra = tasks.join(wanted, **join, maintain_order="left").drop("nth")
    check.add_rows("a task of the run is not in the input as it is in the run", extra)
    _check_longest(run, found, check)
    return check


def _check_longest(run: RunFolder, found: InputTasks, check: Check) -> None:
    """Hold each job's longest run time against the input's."""
    tasks = found.tasks
    if tasks is None or tasks["run"].null_count():
        return
    longest, slack = tasks["run"].to_numpy(), np.zeros(tasks.height)
    if found.run_s is not None and found.slack_s is not None:
        counts = tasks["instances"].to_numpy()
        begun = np.cumsum(counts) - counts
        longest = np.maximum.reduceat(found.run_s, begun)
        slack = np.maximum.reduceat(found.slack_s, begun)
    frame = tasks.select("job_id").with_columns(
        pl.Series("longest_s", longest), pl.Series("slack_s", slack)
    )
    frame = frame.group_by("job_id").agg(pl.col("longest_s", "slack_s").max())
    rows = run.jobs.join(frame, on="job_id", maintain_order="left")
    wrong = (pl.col("trace_run_time_s") - pl.col("longest_s")).abs() > pl.col("slack_s")
    check.add_rows("trace_run_time_s is not the longest run time of the input",
                   rows.filter(wrong | pl.col("trace_run_time_s").is_null()))  # fmt: skip


def check_instance_times(run: RunFolder) -> Check:
    """Every instance ran for its own run time: that of batch_instance, or its task's.

    A gang runs as long as its longest instance. What was suspended counts in sum.
    """
    check = Check("instance-times", "a finished instance ran exactly its own run time")
    found = _asked(run, check)
    if found is None or found.tasks is None:
        return check
    if found.tasks["run"].null_count():
        return check.leave_out("run times follow from a model of durations")
    index = found.tasks.with_row_index("row").unique(TASK, keep="first")
    index = index.select(*TASK, "row", pl.col("instances").alias("planned"), "run")
    work = run.work.join(index, on=TASK, how="inner", maintain_order="left")
    work = work.filter(
        pl.col("instance") >= 0, pl.col("count") >= 1,
        pl.col("instance") + pl.col("count") <= pl.col("planned"),
    )  # fmt: skip
    check.examined = int(work["count"].sum())
    least, most = _own_times(found, work)
    work = work.with_columns(pl.Series("least_s", least), pl.Series("most_s", most))
    ran, finished = pl.col("executed_s"), pl.col("outcome") == "finished"
    unequal = finished & ((ran < pl.col("least_s")) | (ran > pl.col("most_s")))
    check.add_rows("finished, but did not run for its own run time", work.filter(unequal))
    longer = work.filter(~finished, ran > pl.col("most_s"))
    check.add_rows("ran longer than its own run time", longer)
    return check


def _own_times(found: InputTasks, work: pl.DataFrame) -> tuple[Any, Any]:
    """Return the least and the most that each row's instances may have run.

    Instances that share a row ended together: the least is that of the longest, the most that of
    the shortest of them, so that only equal ones fit.
    """
    if found.run_s is None or found.slack_s is None or found.tasks is None:
        return work["run"].to_numpy(), work["run"].to_numpy()
    planned = found.tasks["instances"].to_numpy()
    begun = (np.cumsum(planned) - planned)[work["row"].to_numpy()] + work["instance"].to_numpy()
    counts = work["count"].to_numpy()
    first = np.cumsum(counts) - counts
    places = np.repeat(begun - first, counts) + np.arange(int(counts.sum()))
    if not len(places):
        return np.empty(0), np.empty(0)
    run_s, slack = found.run_s[places], found.slack_s[places]
    most = np.minimum.reduceat(run_s + slack, first)
    least = np.maximum.reduceat(run_s - slack, first)
    gang = work["gang"].to_numpy()
    most[gang] = np.maximum.reduceat(run_s + slack, first)[gang]
    return least, most


def may_differ(run: RunFolder) -> bool:
    """Tell whether instances of one task may have run times of their own."""
    kind = run.setting("workload", "type")
    if kind == "alibaba2017" and run.input_tasks.tasks is not None:
        return run.input_tasks.run_s is not None
    return kind in ("alibaba2017", "plugin") or not run.manifest["inputs"]


def check_parents(run: RunFolder) -> Check:
    """No instance of a task starts before all instances of its parents have ended well."""
    check = Check("parents", "a task starts after all its parents have ended well")
    if run.setting("workload", "type") == "plugin":
        return check.leave_out("what the tasks of a reader of one's own wait for is not known")
    found = _asked(run, check)
    if found is None:
        return check
    if found.parents is None or not found.parents.height:
        return check.skip("no task depends on another")
    columns = ("start_time_s", "end_time_s", "status")
    tasks = run.tasks.unique(TASK, keep="first").select(*TASK, *columns)
    above = tasks.select("job_id", pl.col("task_id").alias("parent"),
                         *(pl.col(name).alias(f"parent_{name}") for name in columns))  # fmt: skip
    rows = found.parents.join(tasks, on=TASK, maintain_order="left")
    rows = rows.join(above, on=["job_id", "parent"], how="left", maintain_order="left")
    check.examined = rows.height
    started, well = pl.col("start_time_s"), pl.col("parent_status") == "finished"
    early = started.is_not_null() & (~well | (started < pl.col("parent_end_time_s")))
    check.add_rows("starts before its parent has ended well",
                   rows.filter(early.fill_null(value=True)))  # fmt: skip
    orphan = (pl.col("parent_status") == "killed") & ~pl.col("status").is_in(["killed", "rejected"])
    check.add_rows("its parent was killed, but it was not", rows.filter(orphan))
    return check


# MERGED Checks on the work itself: each instance once, gangs together, for exactly its run time.


_BEGUN = ("finished", "killed")


def check_instances(run: RunFolder) -> Check:
    """Instances 0..n-1 of a finished task are covered once, and none is in two places at once."""
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
    key = [*TASK, "attempt", "start_time_s"]
    rows = known.filter("gang").sort(*key, "first_instance", maintain_order=True)
    taken = (pl.col("first_instance") + pl.col("count")).shift(1).over(key)
    check.add_rows("an instance runs in two places", rows.filter(pl.col("first_instance") < taken))


def _check_sequence(units: pl.DataFrame, check: Check) -> None:
    """The pieces of a unit follow each other, and each attempt follows from the one before."""
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
