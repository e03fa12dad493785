"""Checks of jobs and tasks: each exists once, and their columns agree with each other."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import polars as pl

from simkit.records import OUTCOMES, STATUSES
from simkit.verify.audit import Check, rule
from simkit.verify.audited_run import TASK, UNIT, AuditedRun, beside, previous, without
from simkit.verify.folder import BY_LIMIT


@rule
def check_identity(run: AuditedRun, check: Check) -> None:
    """Every job and task exists once, and every row belongs to one."""
    jobs, tasks, allocations = run.jobs, run.tasks, run.allocations
    check.examined = jobs.height + tasks.height + allocations.height
    if not run.alike:
        check.add_rows("the job has several rows", jobs.filter(pl.col("job_id").is_duplicated()))
        repeated = tasks.filter(pl.struct(TASK).is_duplicated())
        check.add_rows("the task has several rows", repeated)
    orphans = without(tasks, jobs, ["job_id"])
    check.add_rows("the task's job is not among the jobs", orphans)
    orphans = without(allocations, tasks, TASK)
    check.add_rows("the allocation's task is not among the tasks", orphans)
    started = jobs.filter(pl.col("status") != "rejected")
    check.add_rows("the job has no task", without(started, tasks, ["job_id"]))
    # Each resource column of a job is the sum over its tasks.
    of_tasks = (
        (pl.col(r) * pl.col("instances")).sum().cast(pl.Float64).alias(f"tasks_{r}")
        for r in run.requested
    )
    sums = run.grouped(tasks, ["job_id"], of_tasks)
    differs = [pl.col(r).cast(pl.Float64).ne_missing(pl.col(f"tasks_{r}")) for r in run.requested]
    rows = beside(jobs, sums, ["job_id"], how="inner").filter(pl.any_horizontal(differs))
    check.add_rows("the job does not request what its tasks request", rows)


@rule
def check_causality(run: AuditedRun, check: Check) -> None:
    """Submit time <= start time <= end time."""
    submits = run.jobs.select("job_id", "submit_time_s")
    if not run.alike:
        submits = submits.unique("job_id")
    rows = beside(run.allocations, submits, ["job_id"])
    check.examined = run.jobs.height + rows.height
    for table in (run.jobs, rows):
        early = table.filter(pl.col("start_time_s") < pl.col("submit_time_s"))
        check.add_rows("starts before its submission", early)
        backwards = table.filter(pl.col("end_time_s") < pl.col("start_time_s"))
        check.add_rows("ends before it starts", backwards)
    check.add_rows("has no submit time", run.jobs.filter(pl.col("submit_time_s").is_null()))
    check.add_rows("has no start", rows.filter(pl.col("start_time_s").is_null()))


@rule
def check_statuses(run: AuditedRun, check: Check) -> None:
    """A job's status agrees with its times, tasks and allocations."""
    of_allocations = (
        pl.len().alias("allocations"),
        *((pl.col("outcome") == name).sum().alias(f"with_{name}") for name in OUTCOMES),
    )
    of_tasks = (
        pl.len().alias("tasks"),
        (pl.col("status") == "finished").sum().alias("tasks_finished"),
        pl.col("gang").all().alias("gangs"),
    )
    jobs = beside(run.jobs, run.grouped(run.allocations, ["job_id"], of_allocations), ["job_id"])
    jobs = beside(jobs, run.grouped(run.tasks, ["job_id"], of_tasks), ["job_id"])
    jobs = jobs.with_columns(pl.col("^(allocations|tasks|tasks_finished|with_.*)$").fill_null(0))
    check.examined = jobs.height + run.tasks.height + run.allocations.height
    for message, wrong in _status_rules().items():
        check.add_rows(message, jobs.filter(wrong))
    for table, column, known in (
        (run.tasks, "status", STATUSES),
        (run.allocations, "outcome", OUTCOMES),
    ):
        strange = table.filter(~pl.col(column).is_in(known).fill_null(False))
        check.add_rows(f"the {column} is not one of {', '.join(known)}", strange)
    wrong = pl.col("end_time_s").is_null() != (pl.col("outcome") == "running")
    check.add_rows("an allocation must have an end unless it runs", run.allocations.filter(wrong))


def _status_rules() -> dict[str, pl.Expr]:
    """Return message → which jobs are wrong."""
    status, start, end = pl.col("status"), pl.col("start_time_s"), pl.col("end_time_s")
    reason = pl.col("reason").fill_null("")
    finished, killed, rejected = status == "finished", status == "killed", status == "rejected"
    running, waiting = status == "running", status == "waiting"
    has_time = pl.any_horizontal(start.is_not_null(), end.is_not_null())
    unknown = ~status.is_in(STATUSES).fill_null(False)
    all_finished = (pl.col("tasks") > 0) & (pl.col("tasks") == pl.col("tasks_finished"))
    halted = pl.any_horizontal(pl.col("with_killed") > 0, pl.col("with_running") > 0)
    return {
        f"the status is not one of {', '.join(STATUSES)}": unknown,
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


@rule
def check_times(run: AuditedRun, check: Check) -> None:
    """Start, end, wait and turnaround times follow from the allocations."""
    check.examined = run.jobs.height + run.tasks.height
    spans = (
        pl.col("start_time_s").min().alias("first_start_s"),
        pl.col("end_time_s").max().alias("last_end_s"),
        (pl.col("outcome") == "killed").any().alias("killed_here"),
    )
    for table, key in ((run.jobs, ["job_id"]), (run.tasks, TASK)):
        rows = beside(table, run.grouped(run.allocations, key, spans), key)
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


def _check_differences(run: AuditedRun, check: Check) -> None:
    """Check that a job ended with its last task, and its wait and turnaround times."""
    last_end = pl.col("end_time_s").max().alias("last_task_end_s")
    ends = run.grouped(run.tasks, ["job_id"], [last_end])
    over = run.jobs.filter(pl.col("status").is_in(["finished", "killed"]))
    rows = beside(over, ends, ["job_id"], how="inner")
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
    ).select("job_id", "attempt", "start_time_s", "end_time_s", "outcome")
    if not run.alike:
        segments = segments.sort("job_id", "attempt", "start_time_s", "end_time_s")
    start, end = pl.col("start_time_s"), pl.col("end_time_s")
    final = pl.col("attempt") == pl.col("attempt").max().over("job_id")
    gap = start - previous("end_time_s", ["job_id", "attempt"])
    segments = segments.with_columns(
        (end - start).alias("span"), final.alias("final"), gap.alias("gap")
    )
    totals = (
        pl.when("final").then("span").sum().alias("run"),
        pl.when(~pl.col("final")).then("span").sum().alias("lost"),
        pl.col("gap").sum().alias("suspended"),
        pl.col("attempt").max().alias("last_attempt"),
        pl.col("outcome").is_in(["finished", "killed"]).any().alias("stopped"),
    )
    sums = _with_redone(run.grouped(segments, ["job_id"], totals), run)
    rows = beside(run.jobs, sums, ["job_id"], how="inner")
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
    last_attempt = pl.col("attempt").max().alias("last_attempt")
    last = run.grouped(run.allocations, ["job_id"], [last_attempt])
    rows = beside(run.jobs, last, ["job_id"])
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


@rule
def check_row_order(run: AuditedRun, check: Check) -> None:
    """Rows are in order of end or of time, alike in all tables."""
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
        return
    del rows, of_jobs, tasks, table
    _check_parts(run, check)


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


_KINDS: Final = (
    "rejected", "reserved", "reservation_failed", "cancelled", "suspended", "resumed", "killed",
    "lost", "capacity", "switched",
)  # fmt: skip
_AT: Final = ["time_s", *TASK]


@rule
def check_events(run: AuditedRun, check: Check) -> None:
    """Events follow from jobs, tasks and allocations, and none is missing."""
    events = run.tables["events"]
    check.examined = events.height
    _check_form(run, events, check)
    if not run.complete:
        return
    of = {str(kind): rows for (kind,), rows in events.group_by("kind", maintain_order=True)}
    none = events.clear()
    _check_rejected(run, of.get("rejected", none), check)
    _check_stops(run, {k: of.get(k, none) for k in ("suspended", "resumed", "lost")}, check)
    _check_killed(run, of.get("killed", none), check)
    _check_reservations(run, events, check)


def _check_form(run: AuditedRun, events: pl.DataFrame, check: Check) -> None:
    """Check kinds, and that an event names the job, task or machine that its kind is about."""
    kind = pl.col("kind")
    known = kind.is_in(_KINDS).fill_null(value=False)
    check.add_rows("the kind is not one of " + ", ".join(_KINDS), events.filter(~known))
    of_machine, of_job = kind.is_in(["capacity", "switched"]), kind == "rejected"
    wrong = (
        pl.col("time_s").is_null()
        | (of_machine != pl.col("machine_id").is_not_null())
        | (of_machine == pl.col("job_id").is_not_null())
        | ((of_machine | of_job) == pl.col("task_id").is_not_null())
    )
    check.add_rows("the event does not name what it is about", events.filter(known & wrong))
    named = events.filter(pl.col("task_id").is_not_null())
    strange = without(named, run.tasks, TASK)
    check.add_rows("the event's task is not among the tasks", strange)


def _check_rejected(run: AuditedRun, events: pl.DataFrame, check: Check) -> None:
    """Check that each has its event: at its submission, or not before it of those that waited."""
    later = run.left_unstarted.select("job_id", "left_s")
    jobs = run.jobs.filter(pl.col("status") == "rejected")
    jobs = jobs.join(later, on="job_id", how="left", maintain_order="left")
    early = jobs.filter(pl.col("left_s") < pl.col("submit_time_s"))
    check.add_rows("rejected before it was submitted", early)
    jobs = jobs.select(
        "job_id",
        pl.coalesce("left_s", run.released).alias("time_s"),
        pl.col("reason").alias("detail"),
    )
    found = events.select("job_id", "time_s", "detail")
    _compare(check, found, jobs, "rejected")


def _compare(check: Check, found: pl.DataFrame, wanted: pl.DataFrame, kind: str) -> None:
    """Compare events with what they must be, as multisets of rows."""
    key = wanted.columns
    nth = pl.int_range(pl.len()).over(key).alias("nth")
    found, wanted = found.with_columns(nth), wanted.with_columns(nth)
    extra = found.join(wanted, on=[*key, "nth"], how="anti", nulls_equal=True)
    missing = wanted.join(found, on=[*key, "nth"], how="anti", nulls_equal=True)
    check.add_rows(f"a {kind} event does not follow from jobs and allocations", extra.drop("nth"))
    check.add_rows(f"a {kind} event is missing, or says something else", missing.drop("nth"))


def _check_stops(run: AuditedRun, of: dict[str, pl.DataFrame], check: Check) -> None:
    """Check suspended, resumed and lost.

    A gang has one event each time, and may start over twice at an instant. Instances of a bag that
    stop together have one for each of the placements that they belong to, so at least one and at
    most as many as rows.
    """
    known = run.known.filter(pl.col("start_time_s").is_not_null())
    pieces = run.pieces.filter(~pl.col("quiet"))
    again = pieces.filter(pl.col("attempt") == previous("attempt", UNIT))
    first, count = pl.col("first_instance"), pl.col("count")
    stopped = known["outcome"].is_in(["suspended", "lost"]).any()
    if not stopped and again.is_empty() and not any(rows.height for rows in of.values()):
        return
    starts = known.with_columns(pl.when("gang").then(0).otherwise(first).alias("instance"))
    resumed = starts.join(
        again.select(*UNIT, "attempt", "start_time_s"),
        on=[*UNIT, "attempt", "start_time_s"], how="semi", maintain_order="left",
    )  # fmt: skip
    moment = [name for name in run.together if name not in TASK]
    for kind, rows, time in (
        ("suspended", known.filter(pl.col("outcome") == "suspended"), "end_time_s"),
        ("lost", known.filter(pl.col("outcome") == "lost"), "end_time_s"),
        ("resumed", resumed, "start_time_s"),
    ):
        if rows.is_empty() and of[kind].is_empty():
            continue
        wanted = rows.group_by(pl.col(time).alias("time_s"), *TASK).agg(
            pl.when(pl.col("gang").first())
            .then(pl.struct(moment).n_unique())
            .otherwise(pl.len())
            .alias("most"),
            count.sum().alias("instances"),
        )
        stated = pl.col("detail").str.extract(r"^(\d+) instances start over$").cast(pl.Int64)
        found = of[kind].group_by(_AT).agg(pl.len().alias("events"), stated.sum().alias("told"))
        both = found.join(wanted, on=_AT, how="full", coalesce=True, nulls_equal=True)
        number = pl.col("events").fill_null(0)
        wrong = (number < 1) | (number > pl.col("most").fill_null(0))
        if kind == "lost":
            wrong = wrong | pl.col("told").ne_missing(pl.col("instances"))
        bad = both.filter(wrong).sort("time_s")
        check.add_rows(f"{kind} events do not follow from the allocations", bad)
    strange = of["resumed"].filter(pl.col("detail") != "")
    check.add_rows("the event has a detail, which resumed ones have not", strange)
    _check_kept(run, of["suspended"], check)


def _check_kept(run: AuditedRun, events: pl.DataFrame, check: Check) -> None:
    """Check how much work a suspended gang kept: what it executed; with checkpoints, no more."""
    kept = pl.col("detail").str.extract(r"^([0-9.e+-]+) s of work kept$").cast(pl.Float64)
    check.add_rows("the detail does not say what work was kept", events.filter(kept.is_null()))
    span = (pl.col("end_time_s") - pl.col("start_time_s")).cum_sum().over(*TASK, "attempt")
    done = run.segments.sort("start_time_s").with_columns(span.alias("executed_s"))
    rows = events.join(
        done.select(*TASK, "executed_s", pl.col("end_time_s").alias("time_s")), on=_AT
    ).with_columns(kept.alias("kept_s"))
    slack = 1e-9 * pl.max_horizontal(1.0, pl.col("executed_s"))
    wrong = pl.col("kept_s") > pl.col("executed_s") + slack
    if run.redone is None:
        wrong = wrong | (pl.col("kept_s") < pl.col("executed_s") - slack)
    check.add_rows("the work that was kept is not what was done", rows.filter(wrong))


def _check_killed(run: AuditedRun, events: pl.DataFrame, check: Check) -> None:
    """Check that what was killed before its requested time has an event, with its reason."""
    if events.is_empty() and not (run.tasks["status"] == "killed").any():
        return
    several = pl.len().over("job_id").alias("tasks")
    reasons = run.jobs.select("job_id", "reason").unique("job_id", keep="first")
    killed = run.tasks.with_columns(several).filter(pl.col("status") == "killed")
    killed = killed.join(reasons, on="job_id", how="left", maintain_order="left")
    at = events.join(
        killed.select(*TASK, pl.col("end_time_s").alias("time_s"), "tasks", "reason"),
        on=_AT, how="left", maintain_order="left",
    )  # fmt: skip
    check.add_rows("what it is about was not killed then", at.filter(pl.col("tasks").is_null()))
    wrong = (pl.col("tasks") == 1) & (pl.col("detail") != pl.col("reason"))
    check.add_rows("the detail is not the job's reason", at.filter(wrong))
    twice = events.filter(pl.struct(TASK).is_duplicated())
    check.add_rows("the task is killed twice", twice)
    forced = killed.filter(~BY_LIMIT & (pl.col("tasks") == 1)).join(
        events, on=TASK, how="anti", maintain_order="left"
    )
    check.add_rows("a killed event is missing", forced)


def _check_reservations(run: AuditedRun, events: pl.DataFrame, check: Check) -> None:
    """Check that a reservation starts when it says, fails then, or is cancelled before."""
    kinds = ("reserved", "reservation_failed", "cancelled", "killed")
    rows = events.filter(pl.col("kind").is_in(kinds))
    if not rows["kind"].is_in(kinds[:3]).any():
        return
    starts: dict[Any, set[float]] = defaultdict(set)
    about = rows.select(TASK).unique()
    for job, task, start in (
        run.allocations.join(about, on=TASK, how="semi")
        .select(*TASK, "start_time_s").drop_nulls().iter_rows()
    ):  # fmt: skip
        starts[job, task].add(start)
    due: dict[Any, tuple[float, dict[str, Any]]] = {}

    def close(key: Any, until: float) -> None:
        """Check that the reservation has started; it ends now."""
        stated, event = due.pop(key)
        began = any(abs(start - stated) <= 1e-5 * max(1.0, abs(stated)) for start in starts[key])
        if not began and stated <= until:
            check.add("the task does not start when it is reserved, nor is that cancelled", event)

    for event in rows.iter_rows(named=True):
        key, kind = (event["job_id"], event["task_id"]), event["kind"]
        if kind == "reserved":
            if key in due and due[key][0] > event["time_s"]:
                check.add("the task is reserved already", event)
            elif key in due:
                close(key, event["time_s"])
            due[key] = (_due_of(event, check), event)
        elif kind == "killed" or key in due:
            due.pop(key, None)
        else:
            check.add("nothing is reserved that could fail or be cancelled", event)
    times = run.tables["timeline"]["time_s"]
    last = float(times.to_numpy().max()) if len(times) else 0.0
    for key in list(due):
        close(key, last)


def _due_of(event: dict[str, Any], check: Check) -> float:
    """Return the start that a reservation names."""
    words = str(event["detail"]).split()
    try:
        due = float(words[2])
    except (IndexError, ValueError):
        due = float("nan")
    if words[:2] != ["starts", "at"] or not due > event["time_s"] - 1e-5 * abs(event["time_s"]):
        check.add("the detail does not name a start after the reservation", event)
        return float("inf")
    return due
