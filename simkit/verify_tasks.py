"""Checks against the input's tasks: what they ask for, how long each instance runs, who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify_audit import Check
from simkit.verify_pieces import TASK
from simkit.verify_task_inputs import TASK_TABLES

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder
    from simkit.verify_task_inputs import InputTasks

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
    import polars as pl

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
    import polars as pl

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
    import polars as pl

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
    import polars as pl

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
