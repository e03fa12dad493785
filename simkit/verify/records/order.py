"""The check of the order of rows.

Jobs, tasks and allocations are in order of end: a row is written when it ends, the allocation
first, then its task, then its job. So equal ends have the same order in the three tables. A
rejected job is listed when it is rejected, and what has not ended comes last.
"""

from __future__ import annotations

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import TASK, AuditedRun, beside


def check_row_order(run: AuditedRun) -> Check:
    """Check the order of the rows of every table; those of power follow each other in time."""
    check = Check("row-order", "rows are in order of end or of time, alike in all tables")
    when = pl.coalesce("left_s", run.released).alias("rejected_s")
    rows = _rows(run, "jobs").join(
        run.left_unstarted, on="job_id", how="left", maintain_order="left"
    )
    rows = rows.with_columns(when)
    of_jobs = rows.select("job_id", "rejected_s")
    if not run.alike:
        of_jobs = of_jobs.unique("job_id", keep="first")
    tasks = beside(_rows(run, "tasks"), of_jobs, ["job_id"])
    end = pl.col("end_time_s")
    rejected = pl.when(pl.col("status") == "rejected").then(pl.col("rejected_s"))
    never = pl.lit(float("inf"))
    listed = pl.coalesce(end, rejected, never)
    for name, table, time in (
        ("jobs", rows, listed),
        ("tasks", tasks, listed),
        ("allocations", _rows(run, "allocations"), pl.coalesce(end, never)),
        ("events", run.tables["events"], pl.col("time_s")),
    ):
        check.examined += table.height
        wrong = table.filter(time < time.shift(1))
        check.add_rows(f"a row of {name} comes after one of later time", wrong)
    if not run.complete:
        return check
    del rows, of_jobs, tasks, table
    _check_parts(run, check)
    return check


def _rows(run: AuditedRun, name: str) -> pl.DataFrame:
    """Return a table; of a large run the columns that tell the order."""
    if not run.is_large:
        return {"jobs": run.jobs, "tasks": run.tasks, "allocations": run.allocations}[name]
    columns = (*TASK, "status", "submit_time_s", "release_time_s", "end_time_s")
    return run.only(name, *columns)


def _check_parts(run: AuditedRun, check: Check) -> None:
    """Check that jobs are in the order of their last tasks, and these of their allocations."""
    over = pl.col("status").is_in(["finished", "killed", "rejected"])
    if not run.alike:
        tasks = _rows(run, "tasks")
        _check_alike(check, "jobs", _rows(run, "jobs").filter(over), "tasks", tasks, ["job_id"])
        done = tasks.filter(pl.col("status") == "finished")
        _check_alike(check, "tasks", done, "allocations", _rows(run, "allocations"), TASK)
    if "energy" in run.tables:
        bills, jobs = run.only("energy", "job_id")["job_id"], run.only("jobs", "job_id")["job_id"]
        if not bills.equals(jobs.unique(maintain_order=True)):
            check.add("the rows of energy are not the jobs, in the order of jobs", {})


def _check_alike(
    check: Check, name: str, table: pl.DataFrame, of: str, parts: pl.DataFrame, key: list[str]
) -> None:
    """Check that rows are in the order of the last row of their parts."""
    last = parts.with_row_index("nth").group_by(key).agg(pl.col("nth").max())
    rows = table.join(last, on=key, how="left", maintain_order="left")
    wrong = rows.filter(pl.col("nth") < pl.col("nth").shift(1)).drop("nth")
    check.add_rows(f"a row of {name} is not in the order in which its {of} ended", wrong)
