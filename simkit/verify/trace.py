"""Checks of jobs against their input: the jobs themselves, their releases and recorded starts.

A log is read again here; of tables, tasks are compared by the rule "tasks", and these rules compare
what is said of jobs: users, queues, requests, what they are worth, and when they may or did start.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.scenario.policy import RecordedPolicy, policies_in
from simkit.verify.admission import limits_users
from simkit.verify.audit import (
    TICK,
    Check,
    Floats,
    Ints,
    NotApplicableError,
    NotAuditedError,
    first_true,
    not_audited_if,
    rule,
    times_on_grid,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.input_tasks import (
    TASK_TABLES,
    UNREADABLE,
    changes_of,
    releases_of_table,
    starts_of_table,
    table_of,
    transformed,
)
from simkit.verify.inputs import (
    OF_JOBS,
    InputTasks,
    compare_with_input,
    links_of_log,
    log_of,
    read_log,
    waits_of_log,
)

_WORTH: Final = {"qos": "qos", "value": "prices", "deadline_s": "deadlines"}
"""Columns of a job's worth → the key of the scenario's `value` that says whose they are."""

_NEAR_S: Final = 4 * TICK
"""By so much a time may differ that follows from a sum of floating point numbers."""


@rule
def check_trace(run: AuditedRun, check: Check) -> None:
    """The run's jobs are the input's jobs."""
    check.examined = run.rows_of("jobs")
    _check_report(run, check)
    workload = run.scenario.workload
    kind = workload.type
    if kind in TASK_TABLES:
        found = run.input_tasks
        if found.known:
            _compare_jobs_of_table(run, found, check)
            return
        if found.problem:
            return  # the rule "tasks" says so
        raise NotAuditedError(found.reason)
    if kind != "swf":
        raise NotAuditedError(f"the workload's type is {kind!r}")
    path = log_of(run)
    try:
        wanted = read_log(path, workload)
    except UNREADABLE as error:
        check.add("the log cannot be read", {"path": str(path), "problem": str(error)})
        return
    wanted = _transformed_log(run, wanted)
    _compare_jobs_of_log(run, wanted, check)
    _check_worth(run, wanted, check)


def _check_report(run: AuditedRun, check: Check) -> None:
    """Check the number of jobs against the counts of the trace's rows in run.json."""
    trace = run.manifest["trace"]
    if not trace or not (trace.get("read") or run.manifest["inputs"]):
        return  # a workload model reads no rows
    kept = trace.get("accepted", 0) + sum(trace.get("repaired", {}).values())
    balance = kept + sum(trace.get("dropped", {}).values())
    if trace.get("read") != balance:
        check.add("the rows read are not accepted + repaired + dropped", dict(trace))
    workload = run.scenario.workload
    if workload.resample is not None:
        return
    fewer = workload.window is not None or not run.complete
    # A row of a table is a task; that of a custom reader may be one.
    kind, what, found = workload.type, "jobs", run.rows_of("jobs")
    if kind in ("tasks", "alibaba2017") or (kind == "plugin" and run.rows_of("tasks") > found):
        what, found = "tasks", run.rows_of("tasks")
        if run.setting("workload", "rows") == "instance":
            what, found = "instances", int(run.tasks["instances"].sum())
    if found > kept or (found < kept and not fewer):
        message = f"the number of {what} does not match the accepted rows of the trace"
        check.add(message, {what: found, "accepted_or_repaired": kept})


def _transformed_log(run: AuditedRun, jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs of a log after the scenario's transforms."""
    workload = run.scenario.workload
    if not (workload.window or changes_of(workload)):
        return jobs
    jobs = jobs.sort("submit", "job_id", maintain_order=True).with_row_index("order")
    jobs = jobs.with_columns(pl.col("order").cast(pl.Int64))
    tasks = jobs.with_columns(
        pl.col("processors").cast(pl.Int64).alias("instances"), processors=pl.lit(1.0),
        task_id=pl.lit(0, pl.Int64), gang=pl.lit(value=True), retries=pl.lit(None, pl.Int64),
    ).drop(OF_JOBS)  # fmt: skip
    found = InputTasks(tasks, jobs.select("order", "job_id", "submit", *OF_JOBS))
    found = transformed(found, workload, run.manifest["epoch_s"])
    size = pl.col("instances").cast(pl.Float64).alias("processors")
    rows = found.tasks.select("order", "job_id", "submit", "run", size, "requested")
    rows = near_recorded(run, rows, "submit", "submit_time_s")
    numbers = found.jobs.drop("job_id", "submit")
    return rows.join(numbers, on="order", maintain_order="left").drop("order")


def near_recorded(run: AuditedRun, rows: pl.DataFrame, column: str, recorded: str) -> pl.DataFrame:
    """Return rows with the recorded times where a sum of the load may round otherwise.

    Args:
        run: the run.
        rows: columns ``job_id`` and `column`.
        column: times by the input.
        recorded: the column of the table of jobs that has them as recorded.
    """
    if run.scenario.workload.target_load is None:
        return rows
    of_jobs = run.jobs.unique("job_id", keep="first").select("job_id", pl.col(recorded).alias("at"))
    rows = rows.join(of_jobs, on="job_id", how="left", maintain_order="left")
    near = ((pl.col("at") - pl.col(column)).abs() <= _NEAR_S).fill_null(value=False)
    return rows.with_columns(pl.when(near).then("at").otherwise(column).alias(column)).drop("at")


def _compare_jobs_of_log(run: AuditedRun, wanted: pl.DataFrame, check: Check) -> None:
    columns = ("job_id", "submit_time_s", "trace_run_time_s", "processors", "requested_time_s")
    jobs = run.only("jobs", *columns, *OF_JOBS)
    if "processors" not in jobs.columns or jobs.schema["job_id"] != pl.Int64:
        row = {"job_id": str(jobs.schema["job_id"]), "resources": list(run.resources)}
        check.add("the jobs of a log must have integer ids and request processors", row)
        return
    if names := [name for name in OF_JOBS if jobs.schema[name] != pl.Int64]:
        check.add("a log has numbers here, and the run has names", {"columns": ", ".join(names)})
        return
    found = jobs.select(
        "job_id", pl.col("submit_time_s").alias("submit"),
        pl.col("trace_run_time_s").alias("run"),
        pl.col("processors").cast(pl.Float64), pl.col("requested_time_s").alias("requested"),
        *OF_JOBS,
    )  # fmt: skip
    compare_with_input(check, run, found, wanted.select(found.columns), "job")


def _compare_jobs_of_table(run: AuditedRun, found: InputTasks, check: Check) -> None:
    """Compare users, queues, …, requests and worths of the jobs of a table."""
    first = found.tasks.select("order", "requested").unique("order", keep="first")
    wanted = found.jobs.join(first, on="order", how="left", maintain_order="left")
    unknown = [name for name in OF_JOBS if name not in wanted.columns]
    wanted = wanted.with_columns(pl.lit(-1, pl.Int64).alias(name) for name in unknown)
    of_run = run.only("jobs", "job_id", *OF_JOBS).schema
    for name in of_run:
        kinds = {"input": str(wanted.schema[name]), "run": str(of_run[name])}
        if len(set(kinds.values())) > 1:
            check.add(f"{name} has another type in the input", kinds)
    worths = [name for name in _WORTH if name in wanted.columns and _is_of_input(run, name)]
    worths = [name for name in worths if name in run.columns_of("jobs")]
    _check_worth(run, wanted, check)
    if check.found:
        return
    if "deadline_s" in worths:
        due = pl.col("deadline_s")
        wanted = wanted.with_columns(pl.when(due.is_finite()).then(due).alias("deadline_s"))
        wanted = near_recorded(run, wanted, "deadline_s", "deadline_s")
    columns = ["job_id", *OF_JOBS, "requested_time_s", *worths]
    wanted = wanted.rename({"requested": "requested_time_s"}).select(columns)
    compare_with_input(check, run, run.only("jobs", *columns), wanted, "job")


def _is_of_input(run: AuditedRun, column: str) -> bool:
    """Return whether a column of a job's worth is what the input says, and not the scenario."""
    section = run.scenario.value
    if section is None:
        return True
    choice = getattr(section, _WORTH[column])
    return choice is None if column == "value" else choice.type == "column"


def _check_worth(run: AuditedRun, wanted: pl.DataFrame, check: Check) -> None:
    """Check that jobs have the worths that the input gives them, and no others."""
    section = run.scenario.value
    for name in _WORTH:
        there, of_input = name in run.columns_of("jobs"), name in wanted.columns
        if of_input and not there and _is_of_input(run, name):
            check.add(f"the input has {name}, but the jobs do not", {"column": name})
        due = section is None or (name != "value" and _is_of_input(run, name))
        if there and not of_input and due:
            check.add(f"the jobs have {name}, but the input does not", {"column": name})


_TIME = "release_time_s"
Ids = dict[object, float | None]


@dataclass(frozen=True)
class _Wanted:
    """What the input says."""

    held_s: pl.DataFrame | None = None
    """Columns ``job_id`` and ``held_s``: from submission to release time; null: no release time."""
    links: pl.DataFrame | None = None
    """Columns ``job_id``, ``before`` (id of a preceding job) and ``think_s``."""

    @property
    def waits(self) -> bool:
        """Whether a job names a preceding one."""
        return self.links is not None and self.links.height > 0


@rule
def check_releases(run: AuditedRun, check: Check) -> None:
    """A job starts at its release or later, and is released as it should."""
    if run.has_releases:
        check.examined = run.rows_of("jobs") + run.rows_of("allocations")
        _check_starts(run, check)
    wanted = _wanted(run)
    if not run.has_releases and wanted.held_s is None and not wanted.waits:
        raise NotApplicableError("no job has to wait for its release")
    jobs = run.jobs
    expected = _expected(run, wanted)
    differs = jobs.filter(pl.col("status") != "rejected").join(
        expected, on="job_id", how="left", maintain_order="left"
    )
    if _TIME not in jobs.columns:
        late = differs.filter(pl.col("expected_s").ne_missing(pl.col("submit_time_s")))
        check.add_rows("must wait for its release, and the run has none", late)
        raise NotApplicableError("no job has to wait for its release")
    wrong = differs.filter(pl.col(_TIME).ne_missing(pl.col("expected_s")))
    check.add_rows(f"{_TIME} is not when it could run for the first time", wrong)


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
    """Read the input's release times and links again; raises NotAuditedError."""
    workload = run.scenario.workload
    kind, waits = workload.type, workload.dependencies
    if waits == "ignore":
        return _Wanted()
    if kind not in ("swf", "jobs"):
        named = {_TIME, "preceding_job"} & set(getattr(workload, "columns", ()))
        if run.manifest["inputs"] and (kind in ("sacct", "plugin") or named):
            raise NotAuditedError(f"the releases of a workload of type {kind!r} are not read again")
        return _Wanted()
    not_audited_if({
        "the run is not complete": not run.complete,
        "the workload has a resample": workload.resample is not None,
    })  # fmt: skip
    try:
        if kind == "swf":
            found = _Wanted(links=links_of_log(log_of(run), workload))
        else:
            found = _Wanted(*releases_of_table(table_of(run), workload))
    except UNREADABLE as error:
        raise NotAuditedError(str(error) or type(error).__name__) from None
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
    if not run.one_gang_each:
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
    early = jobs.filter(pl.col("start_time_s") < pl.col("due_s"))
    check.add_rows("starts before its recorded start", early)
    if run.complete:
        _check_counts(check, run, jobs)
    if reason := _why_room_is_unknown(run):
        check.notes["whether late jobs could have started earlier is not judged"] = reason
    else:
        _check_late(check, run, jobs)


def _starts_of_input(run: AuditedRun) -> pl.DataFrame:
    """Return ``job_id``, ``recorded_start_s`` and ``wait_s``, one of which is null.

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
    stated = later.get("mean") if isinstance(later, dict) else None
    near = stated is not None and mean is not None and abs(stated - mean) <= 1e-9 * mean
    if not near and not (stated is None and mean is None):
        row = {"key": "later_s.mean", "found": stated, "expected": mean}
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
