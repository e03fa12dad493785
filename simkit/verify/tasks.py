"""Checks of tasks: they are those of the input; instances, gangs and parents run in order."""

from __future__ import annotations

import numpy as np
import polars as pl

from simkit.text import counted
from simkit.verify.audit import TICK, Check, Floats, Ints, NotApplicableError, NotAuditedError, rule
from simkit.verify.audited_run import TASK, UNIT, AuditedRun, beside, previous, without
from simkit.verify.folder import BY_LIMIT
from simkit.verify.input_tasks import TASK_TABLES
from simkit.verify.inputs import InputTasks, compare_with_input
from simkit.verify.trace import near_recorded


def _input_of(run: AuditedRun, check: Check) -> InputTasks:
    """Return the tasks of the input; raises an error of the rule if they are not known."""
    if run.setting("workload", "type") not in TASK_TABLES:
        raise NotApplicableError("the workload is not a table of jobs or tasks")
    found = run.input_tasks
    if not found.known:
        raise NotAuditedError(found.reason or "the input cannot be read")
    for name in TASK:
        kinds = {
            "input": str(found.tasks.schema[name]),
            "run": str(run.tables.head("tasks").schema[name]),
        }
        if len(set(kinds.values())) > 1:
            check.add(f"{name} has another type in the input", kinds)
    if check.found:
        raise NotAuditedError("rows cannot be compared")
    return found


@rule
def check_tasks(run: AuditedRun, check: Check) -> None:
    """The run's tasks are the input's tasks."""
    check.examined = run.rows_of("tasks")
    if problem := run.input_tasks.problem:
        check.add("the input cannot be read", {"problem": problem})
        return
    found = _input_of(run, check)
    known = found.tasks.columns
    asked = [pl.col(r) if r in known else pl.lit(0.0).alias(r) for r in run.requested]
    wanted = found.tasks.select(*TASK, "submit", "instances", "gang", *asked)
    wanted = near_recorded(run, wanted, "submit", "submit_time_s")
    jobs = run.jobs.select("job_id", pl.col("submit_time_s").alias("submit"))
    tasks = run.tasks.join(jobs.unique("job_id", keep="first"), on="job_id", how="left",
                           maintain_order="left").select(wanted.columns)  # fmt: skip
    compare_with_input(check, run, tasks, wanted, "task")
    _check_longest(run, found, check)


def _check_longest(run: AuditedRun, found: InputTasks, check: Check) -> None:
    """Check the longest run time of each job by the input."""
    tasks = found.tasks
    if tasks["run"].null_count():
        return
    longest, slack = tasks["run"].to_numpy(), np.zeros(tasks.height)
    if found.instance_times is not None:
        counts = tasks["instances"].to_numpy()
        begun = np.cumsum(counts) - counts
        longest, slack = (np.maximum.reduceat(times, begun) for times in found.instance_times)
    frame = tasks.select(*TASK, "run").with_columns(
        pl.Series("longest_s", longest), pl.Series("slack_s", slack)
    )
    rows = run.tasks.join(frame.unique(TASK, keep="first"), on=TASK, maintain_order="left")
    estimate = pl.when("gang").then("longest_s").otherwise("run")  # a bag's is the mean
    wrong = (pl.col("trace_run_time_s") - estimate).abs() > pl.max_horizontal(
        "slack_s", pl.lit(TICK)
    )
    check.add_rows("the task's trace_run_time_s is not that of the input",
                   rows.filter(wrong | pl.col("trace_run_time_s").is_null()))  # fmt: skip
    frame = frame.group_by("job_id").agg(pl.col("longest_s", "slack_s").max())
    rows = run.jobs.join(frame, on="job_id", maintain_order="left")
    wrong = (pl.col("trace_run_time_s") - pl.col("longest_s")).abs() > pl.col("slack_s")
    check.add_rows("trace_run_time_s is not the longest run time of the input",
                   rows.filter(wrong | pl.col("trace_run_time_s").is_null()))  # fmt: skip


@rule
def check_instance_times(run: AuditedRun, check: Check) -> None:
    """A finished instance ran exactly its run time in the input.

    It is that of batch_instance, or else that of its task. A gang runs as long as its longest
    instance. The times between suspensions are added up.
    """
    found = _input_of(run, check)
    if found.tasks["run"].null_count():
        raise NotAuditedError("run times come from a model of durations")
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
    check.add_rows("finished, but did not run for its run time in the input", work.filter(unequal))
    longer = work.filter(~finished, ran > pl.col("most_s"))
    check.add_rows("ran longer than its run time in the input", longer)


def _own_times(found: InputTasks, work: pl.DataFrame) -> tuple[Floats, Floats]:
    """Return bounds of the time that the instances of each row may have run.

    Instances in one row ended together: the lower bound is that of the longest, the upper bound
    that of the shortest instance, so that only equal run times fit.
    """
    if found.instance_times is None:
        return work["run"].to_numpy(), work["run"].to_numpy()
    planned = found.tasks["instances"].to_numpy()
    begun = (np.cumsum(planned) - planned)[work["row"].to_numpy()] + work["instance"].to_numpy()
    counts = work["count"].to_numpy()
    first = np.cumsum(counts) - counts
    places = np.repeat(begun - first, counts) + np.arange(int(counts.sum()))
    if not len(places):
        return np.empty(0), np.empty(0)
    run_s, slack = (times[places] for times in found.instance_times)
    most = np.minimum.reduceat(run_s + slack, first)
    least = np.maximum.reduceat(run_s - slack, first)
    gang = work["gang"].to_numpy()
    most[gang] = np.maximum.reduceat(run_s + slack, first)[gang]
    return least, most


@rule
def check_parents(run: AuditedRun, check: Check) -> None:
    """A task starts after all its parents have finished."""
    if run.setting("workload", "type") == "plugin":
        raise NotAuditedError("the parents of tasks of a custom reader are not known")
    found = _input_of(run, check)
    if found.parents is None or not found.parents.height:
        raise NotApplicableError("no task depends on another")
    columns = ("start_time_s", "end_time_s", "status")
    tasks = run.tasks.unique(TASK, keep="first").select(*TASK, *columns)
    above = tasks.select("job_id", pl.col("task_id").alias("parent"),
                         *(pl.col(name).alias(f"parent_{name}") for name in columns))  # fmt: skip
    rows = found.parents.join(tasks, on=TASK, maintain_order="left")
    rows = rows.join(above, on=["job_id", "parent"], how="left", maintain_order="left")
    check.examined = rows.height
    started, well = pl.col("start_time_s"), pl.col("parent_status") == "finished"
    early = started.is_not_null() & (~well | (started < pl.col("parent_end_time_s")))
    early = early.fill_null(value=True)
    check.add_rows("starts before its parent has finished", rows.filter(early))
    orphan = (pl.col("parent_status") == "killed") & ~pl.col("status").is_in(["killed", "rejected"])
    check.add_rows("its parent was killed, but it was not", rows.filter(orphan))


@rule
def check_critical_paths(run: AuditedRun, check: Check) -> None:
    """Ready and ideal times follow from the dependencies and the allocations.

    Ideal is the longest way through the dependencies, each task as long as its longest instance
    that finished or was killed. Where dependencies are not known, only its bounds are checked.
    """
    ran = run.work.filter(pl.col("outcome") != "lost")
    key = ["job_id"] if run.alike else TASK
    longest = run.grouped(ran, key, [pl.col("executed_s").max().alias("longest_s")])
    submit = run.jobs.select("job_id", run.released.alias("submit_time_s"))
    tasks = run.tasks
    if not run.alike:
        submit = submit.unique("job_id", keep="first")
        tasks = tasks.unique(TASK, keep="first", maintain_order=True)
    tasks = beside(tasks, longest, key)
    tasks = beside(tasks, submit, ["job_id"])
    tasks = tasks.with_columns(pl.col("longest_s").fill_null(0.0)).with_row_index("row")
    check.examined = tasks.height + run.jobs.height
    parents = known_parents(run)
    _check_ready(run, tasks, parents, check)
    rows = beside(run.jobs, _critical_paths(run, tasks, parents), ["job_id"])
    over = pl.col("status").is_in(["finished", "killed"]) & pl.col("start_time_s").is_not_null()
    ideal, has_one = pl.col("ideal_time_s"), over & pl.col("several").fill_null(value=False)
    check.add_rows("there is an ideal time exactly for jobs of several tasks or instances that "
                   "ended", rows.filter(ideal.is_not_null() != has_one))  # fmt: skip
    span = pl.col("end_time_s") - pl.col("start_time_s")
    ran_s = pl.when(has_one).then(span).when(pl.col("one_instance")).then("expected_s")
    wrong = over & ran_s.is_not_null() & pl.col("run_time_s").ne_missing(ran_s)
    check.add_rows("run_time_s is neither end - start nor what the one instance executed",
                   rows.filter(wrong))  # fmt: skip
    rows = rows.filter(has_one, ideal.is_not_null())
    outside = (ideal < pl.col("expected_s")) | (ideal > pl.col("most_s"))
    check.add_rows("ideal_time_s is not the critical path", rows.filter(outside))
    if unknown := int(rows["depends"].sum()):
        raise NotAuditedError(f"the dependencies of {counted(unknown, 'job')} are not known")


def known_parents(run: AuditedRun) -> pl.DataFrame | None:
    """Return (job_id, task_id, parent), one row a dependency; None if they are not known."""
    kind = run.setting("workload", "type")
    if kind in TASK_TABLES:
        found = run.input_tasks
        if not found.known:
            return None
        if found.parents is not None:
            return found.parents
    elif kind == "plugin" or not run.manifest["inputs"]:
        return None
    none = run.tables.head("tasks")
    return none.select(*TASK, parent="task_id")


def _check_ready(
    run: AuditedRun, tasks: pl.DataFrame, parents: pl.DataFrame | None, check: Check
) -> None:
    """Check when each task was ready."""
    ready, submit = pl.col("ready_time_s"), pl.col("submit_time_s")
    run_at_all = pl.col("status") != "rejected"
    refused = without(tasks.filter(~run_at_all), run.left_unstarted, ["job_id"])
    check.add_rows("rejected, but it was ready", refused.filter(ready.is_not_null()))
    if parents is None:
        ends = tasks.group_by("job_id").agg(pl.col("end_time_s").drop_nulls().alias("ends"))
        rows = tasks.join(ends, on="job_id", how="left", maintain_order="left")
        known = (ready == submit) | (ready.is_in("ends") & (ready > submit))
        wrong = ready.is_not_null() & ~known.fill_null(value=False)
        check.add_rows(
            "ready neither at the submission nor at the end of a task", rows.filter(wrong)
        )
        return
    end = pl.when(pl.col("status") == "finished").then("end_time_s")
    above = tasks.select("job_id", pl.col("task_id").alias("parent"), end.alias("end"))
    if parents.is_empty():
        above = above.clear()
    last = parents.join(above, on=["job_id", "parent"], how="left").group_by(TASK).agg(
        pl.when(pl.col("end").is_not_null().all()).then(pl.col("end").max()).alias("last"),
        pl.len().alias("parents"),
    )  # fmt: skip
    rows = beside(tasks.filter(run_at_all), last, TASK)
    expected = pl.when(pl.col("parents").is_null()).then(submit).otherwise("last")
    check.add_rows("ready_time_s is neither the submission nor the end of the last parent",
                   rows.filter(ready.ne_missing(expected)))  # fmt: skip


def _critical_paths(
    run: AuditedRun, tasks: pl.DataFrame, parents: pl.DataFrame | None
) -> pl.DataFrame:
    """Return ``expected_s`` and ``most_s``, bounds of each job's ideal time, and ``several``.

    ``one_instance`` is true of a single task that is no gang and has one instance, ``depends`` of
    jobs with dependencies that are not known; the bounds of others are equal.
    """
    path = length = tasks["longest_s"].to_numpy()
    if parents is not None and parents.height:
        number = tasks.select(*TASK, "row")
        pairs = parents.join(number, on=TASK).join(
            number.rename({"task_id": "parent", "row": "above"}), on=["job_id", "parent"]
        )
        child, above = (pairs[name].to_numpy().astype(np.int64) for name in ("row", "above"))
        path = _longest_ways(length, child, above)
    depends = pl.lit(value=False)
    if parents is None:
        depends = (pl.col("ready_time_s") != pl.col("submit_time_s")).fill_null(value=True)
    single = (pl.len() == 1) & (pl.col("gang") | (pl.col("instances") == 1)).all()
    frame = tasks.with_columns(pl.Series("path", path), depends.alias("depends"))
    facts = (
        pl.col("path").max().alias("expected_s"), pl.col("longest_s").sum().alias("sum_s"),
        (~single).alias("several"), pl.col("depends").any(),
        (single & ~pl.col("gang").all()).alias("one_instance"),
    )  # fmt: skip
    found = run.grouped(frame, ["job_id"], facts)
    most = pl.when("depends").then("sum_s").otherwise("expected_s")
    return found.with_columns(most.alias("most_s"))


def _longest_ways(length: Floats, child: Ints, above: Ints) -> Floats:
    """Return the longest way through the dependencies up to the end of each task.

    Args:
        length: (T,) how long each task takes, in seconds.
        child: (D,) row of the task that depends.
        above: (D,) row of the task that it depends on.

    Tasks are met after all they depend on (A. B. Kahn, "Topological sorting of large networks",
    1962), so that a long chain costs no more than as many tasks side by side.
    """
    by_parent = np.argsort(above, kind="stable")
    children = child[by_parent].tolist()
    begins = np.searchsorted(above[by_parent], np.arange(len(length) + 1)).tolist()
    open_parents = np.bincount(child, minlength=len(length)).tolist()
    lengths = length.tolist()
    ways = list(lengths)
    ready = [row for row, parents in enumerate(open_parents) if not parents]
    for row in ready:  # grows while it is read
        for task in children[begins[row] : begins[row + 1]]:
            ways[task] = max(ways[task], lengths[task] + ways[row])
            open_parents[task] -= 1
            if not open_parents[task]:
                ready.append(task)
    return np.array(ways)


@rule
def check_instances(run: AuditedRun, check: Check) -> None:
    """Every instance finishes once and never runs twice at a time."""
    known = run.known
    check.examined = known.height
    first, count = pl.col("first_instance"), pl.col("count")
    outside = (first < 0) | (count < 1) | (first + count > pl.col("instances"))
    check.add_rows("the task does not have these instances", known.filter(outside))
    _check_coverage(run, check)
    _check_ranges(run, check)
    _check_sequence(run.pieces.filter(~pl.col("quiet")), check)


def _check_coverage(run: AuditedRun, check: Check) -> None:
    """Check that the finished rows of each task cover its instances."""
    first, after = pl.col("first_instance"), pl.col("first_instance") + pl.col("count")
    order = (*TASK, "first_instance")
    rows = run.known.filter(pl.col("outcome") == "finished")
    if not run.alike:
        rows = rows.sort(order)
    rows = rows.with_columns(previous(after, TASK).fill_null(0).alias("next_instance"))
    twice = rows.filter(first < pl.col("next_instance")).sort(order, maintain_order=True)
    check.add_rows("an instance finishes twice", twice)
    totals = (
        pl.col("count").sum().alias("finished_instances"),
        (first == pl.col("next_instance")).all().alias("contiguous"),
    )
    tasks = run.tasks.select(*TASK, "instances", "status")
    tasks = beside(tasks, run.grouped(rows, TASK, totals), TASK)
    whole = (pl.col("finished_instances") == pl.col("instances")) & pl.col("contiguous")
    whole = whole.fill_null(False)
    claimed = pl.col("status") == "finished"
    check.add_rows("finished, but not each instance did once", tasks.filter(claimed & ~whole))
    check.add_rows("every instance finished, but the task did not", tasks.filter(~claimed & whole))


def _check_ranges(run: AuditedRun, check: Check) -> None:
    """Check that no instance of a gang starts on two machines at once."""
    if run.alike:
        return
    key = run.together
    rows = run.known.filter("gang").sort(*key, "first_instance", maintain_order=True)
    taken = previous(pl.col("first_instance") + pl.col("count"), key)
    wrong = rows.filter(pl.col("first_instance") < taken)
    check.add_rows("an instance runs on two machines", wrong)


def _check_sequence(units: pl.DataFrame, check: Check) -> None:
    """Check that the pieces of a unit follow each other, with attempts numbered in order."""
    before = units.with_columns(
        previous(pl.col("end_time_s").fill_null(float("inf")), UNIT).alias("end_before_s"),
        previous("outcome", UNIT).alias("outcome_before"),
        previous("attempt", UNIT).alias("attempt_before"),
    )
    overlap = before.filter(pl.col("start_time_s") < pl.col("end_before_s"))
    check.add_rows("the instance runs twice at a time", overlap)
    again = before.filter(pl.col("outcome_before").is_in(["finished", "killed"]))
    check.add_rows("runs again after it finished or was killed", again)
    step = pl.col("attempt") - pl.col("attempt_before").fill_null(0)
    due = pl.when(pl.col("outcome_before") == "suspended").then(0).otherwise(1)
    wrong = before.filter(step != due)
    check.add_rows("the number of the attempt does not follow from the piece before", wrong)


@rule
def check_gangs(run: AuditedRun, check: Check) -> None:
    """Instances of a gang start and stop together."""
    segments = run.segments
    check.examined = segments.height
    if not run.tasks["gang"].any():
        raise NotApplicableError("no task is a gang")
    apart = segments.filter(pl.col("count") < pl.col("instances"))
    check.add_rows("not all instances of the gang start at this instant", apart)
    ends = (pl.col("end_time_s") != pl.col("last_end_s")) | (
        (pl.col("open") > 0) & (pl.col("open") < pl.col("rows"))
    )
    check.add_rows("the gang's instances stop at different instants", segments.filter(ends))
    mixed = segments.filter(pl.col("outcomes") > 1)
    check.add_rows("the gang's instances have different outcomes", mixed)


@rule
def check_run_time(run: AuditedRun, check: Check) -> None:
    """A finished instance ran exactly its run time.

    A run folder has the longest run time of each job; `check_instance_times` knows all of them.
    """
    work = run.work
    check.examined = int(work["count"].sum())
    ran, truth = pl.col("executed_s"), pl.col("trace_run_time_s")
    single = pl.col("tasks_of_job") == 1
    if run.run_times_may_differ:
        single &= pl.col("gang")
    finished = pl.col("outcome") == "finished"
    unequal = work.filter(single & finished & ran.ne_missing(truth))
    check.add_rows("finished, but did not run for its run time", unequal)
    longer = work.filter(~(single & finished), ran > truth)
    check.add_rows("ran longer than its run time", longer)
    whole = work.filter(finished, ~single, pl.col("job_status") == "finished")
    longest = whole.group_by("job_id", maintain_order=True).agg(ran.max(), truth.first())
    check.add_rows("no instance ran for the longest run time", longest.filter(ran != truth))


@rule
def check_walltime(run: AuditedRun, check: Check) -> None:
    """Jobs are killed at their requested time if and only if asked."""
    work = run.work
    check.examined = work.height
    killed = run.jobs.filter(pl.col("status") == "killed")
    spent = killed.join(run.given_up, on="job_id", how="semi", maintain_order="left")
    killed = killed.filter(BY_LIMIT | ~pl.col("job_id").is_in(spent["job_id"].implode()))
    if spent.height and not run.retries_known:
        check.notes["kills at the last attempt are not checked"] = "the input is not known"
    if not run.walltime_kills:
        check.add_rows("killed at its walltime, which is ignored", killed.filter(BY_LIMIT))
        if not run.policy_may_kill:
            others = killed.filter(~BY_LIMIT)
            check.add_rows("killed, but nothing in this scenario kills", others)
        return
    limit, single = run.killed_after(), pl.col("tasks_of_job") == 1
    # The table of jobs has the limit of the first task only; the input has those of all.
    several = work.filter(~single)
    limits = _limits_of_tasks(run) if several.height else None
    over = [work.filter(single, pl.col("executed_s") > limit)]
    if limits is not None:
        several = several.drop("requested_time_s").join(limits, on=TASK, maintain_order="left")
        over.append(several.filter(pl.col("executed_s") > limit).select(over[0].columns))
    check.add_rows("runs longer than its requested time", pl.concat(over))
    suspects = killed.filter(BY_LIMIT) if run.policy_may_kill else killed
    stopped = work.filter(pl.col("outcome") == "killed", single)
    at_limit = stopped.group_by("job_id").agg((pl.col("executed_s") == limit).any().alias("exact"))
    rows = suspects.join(at_limit, on="job_id", how="left", maintain_order="left")
    one_task = rows.join(run.tasks.filter(pl.len().over("job_id") == 1), on="job_id", how="semi")
    wrong = one_task.filter(~pl.col("exact").fill_null(False))
    check.add_rows("killed at its walltime, but not at its requested time", wrong)
    if several.height and limits is None and not check.found:
        raise NotAuditedError("the requested times of jobs of several tasks are not known")


def _limits_of_tasks(run: AuditedRun) -> pl.DataFrame | None:
    """Return `TASK` and ``requested_time_s`` of all tasks by the input; None if it is not known."""
    found = run.input_tasks
    if not found.known or any(
        found.tasks.schema[name] != run.tables.head("tasks").schema[name] for name in TASK
    ):
        return None
    limits = found.tasks.unique(TASK, keep="first")
    return limits.select(*TASK, pl.col("requested").alias("requested_time_s"))
