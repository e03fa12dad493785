"""The check of events: each follows from jobs, tasks and allocations, and none is missing.

Events of machines, of their capacity and switches, are judged by the rules on machines, failures,
maintenance, supply and machine power.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import TASK, UNIT, AuditedRun

_KINDS: Final = (
    "rejected", "reserved", "reservation_failed", "cancelled", "suspended", "resumed", "killed",
    "lost", "capacity", "switched",
)  # fmt: skip
_BY_LIMIT: Final = "(?i)wall.?time|requested time"
"""What a reason says if the requested time is over: that is no event."""
_AT: Final = ["time_s", *TASK]


def check_events(run: AuditedRun) -> Check:
    """Check every event but those of machines, and that none is missing."""
    events = run.tables["events"]
    check = Check("events", "events follow from jobs, tasks and allocations, and none is missing")
    check.examined = events.height
    _check_form(run, events, check)
    if not run.complete:
        return check
    of = {str(kind): rows for (kind,), rows in events.group_by("kind", maintain_order=True)}
    none = events.clear()
    _check_rejected(run, of.get("rejected", none), check)
    _check_stops(run, {k: of.get(k, none) for k in ("suspended", "resumed", "lost")}, check)
    _check_killed(run, of.get("killed", none), check)
    _check_reservations(run, events, check)
    return check


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
    strange = named.join(run.tasks, on=TASK, how="anti", maintain_order="left")
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
    again = pieces.filter(pl.col("attempt") == pl.col("attempt").shift(1).over(UNIT))
    first, count = pl.col("first_instance"), pl.col("count")
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
        told = pl.col("detail").str.extract(r"^(\d+) instances start over$").cast(pl.Int64)
        found = of[kind].group_by(_AT).agg(pl.len().alias("events"), told.sum().alias("told"))
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
    several = pl.len().over("job_id").alias("tasks")
    reasons = run.jobs.select("job_id", "reason").unique("job_id", keep="first")
    killed = run.tasks.with_columns(several).filter(pl.col("status") == "killed")
    killed = killed.join(reasons, on="job_id", how="left", maintain_order="left")
    at = events.join(
        killed.select(*TASK, pl.col("end_time_s").alias("time_s"), "tasks", "reason"),
        on=_AT, how="left", maintain_order="left",
    )  # fmt: skip
    check.add_rows("what it is about was not killed then", at.filter(pl.col("tasks").is_null()))
    said = (pl.col("tasks") == 1) & (pl.col("detail") != pl.col("reason"))
    check.add_rows("the detail is not the job's reason", at.filter(said))
    twice = events.filter(pl.struct(TASK).is_duplicated())
    check.add_rows("the task is killed twice", twice)
    forced = killed.filter(~pl.col("reason").str.contains(_BY_LIMIT) & (pl.col("tasks") == 1)).join(
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
        told, event = due.pop(key)
        began = any(abs(start - told) <= 1e-5 * max(1.0, abs(told)) for start in starts[key])
        if not began and told <= until:
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
