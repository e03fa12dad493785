"""The check of the timeline: its rows, and every column of them, follow from the other tables.

A row is written at every instant at which something changes, once its decision has been made. If
an instant has several rows, the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.admission import limits_users
from simkit.verify.audit import (
    Bools,
    Check,
    Floats,
    NotApplicableError,
    first_true,
    rule,
    sum_until,
)
from simkit.verify.audited_run import TASK, UNIT, AuditedRun, previous
from simkit.verify.estimates import correction_instants, stale_corrections
from simkit.verify.replay import decides_at_changes_alone

_GONE = -1e15
"""Change that no number of instances makes up for: a task that was killed does not wait."""


@rule
def check_timeline(run: AuditedRun, check: Check) -> None:
    """Its rows and columns follow from jobs, allocations and events."""
    time = run.only("timeline", "time_s")["time_s"]
    if (time.diff() < 0).any():
        back = run.tables["timeline"].filter(pl.col("time_s").diff() < 0)
        check.add_rows("time goes back", back)
    check.examined = len(time)
    if run.complete:
        _check_instants(run, time.to_numpy(), check)
    rows = _LastRows(run, time)
    for index, resource in enumerate(run.resources):
        held = _held(*_amounts(run, resource), rows.time)
        _compare(check, rows, f"allocated_{resource}", held)
        _compare(check, rows, f"capacity_{resource}", _capacity(run, index, rows.time))
    _check_running(run, rows, check)
    if run.complete:
        _check_waiting(run, rows, check)


class _LastRows:
    """The last row of each instant of the timeline, column by column.

    In an incomplete run those are left out at whose instants something starts and ends: the last
    row of such an instant may be missing.
    """

    def __init__(self, run: AuditedRun, time: pl.Series) -> None:
        self._run = run
        rows = pl.DataFrame({"time_s": time}).with_row_index("row")
        if time.null_count() or (time.diff() < 0).any():
            rows = rows.unique("time_s", keep="last", maintain_order=True)
        else:
            rows = rows.filter((time != time.shift(-1)).fill_null(value=True))
        if not run.complete:
            spans = run.only("allocations", "start_time_s", "end_time_s")
            brief = spans.filter(pl.col("start_time_s") == pl.col("end_time_s"))["start_time_s"]
            rows = rows.filter(~pl.col("time_s").is_in(brief.unique().implode()))
        self._row = rows["row"]
        self.time: Floats = rows["time_s"].to_numpy()

    def __contains__(self, column: str) -> bool:
        return column in self._run.columns_of("timeline")

    def __getitem__(self, column: str) -> pl.Series:
        return self._run.only("timeline", column)[column].gather(self._row)

    def where(self, wrong: Bools) -> pl.DataFrame:
        """Return some of the rows, with all columns."""
        return self._run.tables["timeline"][self._row.filter(pl.Series(wrong))]


# ---- which rows there are -----------------------------------------------------------------------


def _changes(run: AuditedRun) -> Iterator[Floats]:
    """Yield when something changed, in any order."""
    for name, column in (("jobs", "submit_time_s"), ("allocations", "start_time_s"),
                         ("allocations", "end_time_s"), ("tasks", "end_time_s")):  # fmt: skip
        yield run.only(name, column)[column].drop_nulls().to_numpy()
    events = run.tables["events"].filter(pl.col("kind") != "switched")  # it draws other power
    yield events["time_s"].drop_nulls().to_numpy()
    if run.has_releases:
        jobs = run.only("jobs", "status", "submit_time_s", "release_time_s")
        yield jobs.select(run.released).to_series().drop_nulls().to_numpy()


def _check_instants(run: AuditedRun, time: Floats, check: Check) -> None:
    """Check that there is a row whenever something changed, and none without a change."""
    corrected = correction_instants(run)
    known = time if (np.diff(time) >= 0).all() else np.sort(time)
    idle, lacking = np.ones(len(time), dtype=np.bool_), []
    for changes in (*_changes(run), *(() if corrected is None else (corrected,))):
        first = np.searchsorted(known, changes)
        there = first < len(known)
        there[there] = known[first[there]] == changes[there]
        idle[first[there]] = False
        lacking.append(changes[~there])
    missing = np.unique(np.concatenate(lacking))
    check.add_where(
        "something changes, but the timeline has no row",
        np.ones(len(missing), dtype=np.bool_), {"time_s": missing},
    )  # fmt: skip
    period = run.period_s
    made = run.manifest.get("decisions")
    fits = isinstance(made, int) and (made == len(time) if not period else 0 <= made <= len(time))
    if "decisions" in run.manifest and not fits:
        row = {"decisions": made, "rows": len(time)}
        check.add("the number of decisions is not that of the timeline's rows", row)
    causes = ("failures", "trace", "containers", "maintenance")
    taking = sum(bool(getattr(run.scenario.cluster, cause)) for cause in causes)
    unclear = first_true({
        "power, processes or policy may wake": _may_wake(run),
        "a machine that is down already may fail, leave or be maintained, without an event": (
            taking > 1
        ),
        "estimates may have been corrected": corrected is None,
    })  # fmt: skip
    passed = ends_of_stopped(run) if period and not unclear else np.empty(0)
    if passed is None:
        unclear = "between decisions, the ends that stopped tasks would have had bring rows"
    if unclear or corrected is None or passed is None:
        check.notes["rows without a change are not judged"] = unclear
        return
    switched = run.tables["events"].filter(pl.col("kind") == "switched")["time_s"].to_numpy()
    idle = idle[np.searchsorted(known, time)]  # that of the first row of the instant
    for instants in (switched, passed):
        idle &= ~np.isin(time, instants)
    if period:
        idle &= ~_ticks(time, period, run, check)
    else:
        _check_rounds(run, time, corrected, check)
    check.add_where("the timeline has a row, but nothing changes", idle, {"time_s": time})


def _ticks(time: Floats, period_s: float, run: AuditedRun, check: Check) -> Bools:
    """Return (rows,) which rows without a change the scheduler's clock explains.

    With `step`, every multiple of it has a row while jobs are to come or run: checked here. With
    `every`, a multiple has one only if there was a row since the multiple before it.
    """
    tick: Bools = time % period_s == 0
    next_tick = (np.floor_divide(time, period_s) + 1) * period_s
    if run.scenario.scheduling.step:
        first, last = _span_of_jobs(run)
        ticks = next_tick[:-1]
        lacking = (time[1:] > ticks) & (ticks >= first) & (ticks < last)
        check.add_where("the clock has a tick, but the timeline has no row", lacking,
                        {"time_s": ticks, "next_row_s": time[1:]})  # fmt: skip
        return tick
    before = np.searchsorted(time, time) - 1  # the last row of an earlier instant
    since = np.where(before >= 0, time[np.maximum(before, 0)], -np.inf)
    explained: Bools = tick & (since > time - period_s)
    return explained


def _span_of_jobs(run: AuditedRun) -> tuple[float, float]:
    """Return when the first job was submitted, and the last submitted or ended, in s."""
    jobs = run.only("jobs", "submit_time_s", "end_time_s")
    if jobs.is_empty():
        return 0.0, 0.0
    times = np.concatenate([jobs[name].drop_nulls().to_numpy() for name in jobs.columns])
    return float(jobs["submit_time_s"].to_numpy().min()), float(times.max())


def ends_of_stopped(run: AuditedRun) -> Floats | None:
    """Return when stopped tasks would have ended, or estimates are over; None: it is not known.

    Nothing happens then: the task has stopped, or there is no longer estimate. But while a change
    waits for the next decision, such an instant has a row.
    """
    stopped = pl.col("outcome").is_in(["suspended", "lost", "killed"])
    pieces = run.pieces.filter(stopped)
    corrects = run.scenario.estimates.correction != "none"
    if pieces.is_empty() and not corrects:
        return np.empty(0)
    if run.redone is not None or (run.run_times_may_differ and not pieces["gang"].all()):
        return None  # how much of its work was done, or is to be done, is not recorded
    if run.walltime_kills and (pieces["tasks_of_job"] > 1).any():
        return None  # the limit of the first task alone is recorded
    run_times = run.tasks.select(*TASK, work="trace_run_time_s").unique(TASK, keep="first")
    rows = run.pieces.join(run_times, on=TASK, how="left", maintain_order="left")
    span = pl.col("end_time_s") - pl.col("start_time_s")
    done = (span.cum_sum() - span).over(*UNIT, "attempt").fill_null(0.0)
    work = pl.min_horizontal("work", run.killed_after())
    rows = rows.with_columns(begun=pl.col("start_time_s") - done, work=work)
    if not corrects:
        rows = rows.join(pieces.select(UNIT).unique(), on=UNIT, how="semi")
    return np.concatenate([
        rows.select(pl.col("begun") + pl.col("work")).to_series().drop_nulls().to_numpy(),
        stale_corrections(run, rows),
    ])  # fmt: skip


def _check_rounds(run: AuditedRun, time: Floats, corrected: Floats, check: Check) -> None:
    """Check that an instant has several rows only if something may start and end in it.

    What starts with nothing left of its estimate is corrected in a further round, at `corrected`.
    Who leaves or is killed in a decision may release others, or let in the next of its user.
    """
    zero = run.allocations.filter(pl.col("start_time_s") == pl.col("end_time_s"))["start_time_s"]
    if run.scenario.admission.slots is not None:
        return  # a slot that gets free makes a further round
    again = np.append(False, time[1:] == time[:-1])
    again &= ~np.isin(time, zero.to_numpy()) & ~np.isin(time, corrected)
    if run.has_releases or limits_users(run):
        killed = run.tables["events"].filter(kind="killed")["time_s"]
        for ends in (killed, run.left_unstarted["left_s"]):
            again &= ~np.isin(time, ends.drop_nulls().to_numpy())
    check.add_where("the instant has a second row, but nothing ends in it", again, {"time_s": time})


def _may_wake(run: AuditedRun) -> bool:
    """Whether decisions may be made although no table shows a change."""
    others = run.power_limits_capacity or bool(run.scenario.processes)
    return others or not decides_at_changes_alone(run.scenario.policy)


# ---- what is held -------------------------------------------------------------------------------


def _amounts(run: AuditedRun, resource: str) -> tuple[pl.DataFrame, Floats]:
    """Return start and end of what has started, and what it holds of a resource."""
    request = [f"one_{resource}"] if resource in run.requested else []
    known = run.known_only("start_time_s", "end_time_s", "count", *request)
    known = known.filter(pl.col("start_time_s").is_not_null())
    one = known[request[0]] if request else known["count"] * 0.0
    return known.select("start_time_s", "end_time_s"), (known["count"] * one).to_numpy()


def _held(spans: pl.DataFrame, amount: Floats, time: Floats) -> Floats:
    """Return the sum of the amounts with start <= time < end, for each time."""
    start = spans["start_time_s"].to_numpy()
    end = spans["end_time_s"].fill_null(np.inf).to_numpy()
    return sum_until(np.concatenate([start, end]), np.concatenate([amount, -amount]), time)


def _capacity(run: AuditedRun, index: int, time: Floats) -> Floats:
    """Return the cluster's capacity of a resource at each time."""
    changes: list[tuple[float, float]] = []
    before: dict[int, float] = {}
    for step in run.capacity_steps:
        now = step.capacity[index]
        changes.append((step.time_s, now - before.get(step.machine_id, 0.0)))
        before[step.machine_id] = now
    instants, amounts = np.array(changes).T
    return sum_until(instants, amounts, time)


def _compare(check: Check, rows: _LastRows, column: str, expected: Floats) -> None:
    if column not in rows:
        check.add(f"the timeline has no column {column}", {"column": column})
        return
    due = pl.Series("expected", expected)
    wrong = rows[column].cast(pl.Float64).ne_missing(due)
    if wrong.any():
        found = rows.where(wrong.to_numpy()).with_columns(due.filter(wrong))
        check.add_rows(f"{column} does not follow from the other tables", found)


def _check_running(run: AuditedRun, rows: _LastRows, check: Check) -> None:
    """Check the number of allocations that hold resources.

    A gang is one. Instances of a bag that start and end together on a machine are one for each
    decision on them: at least one, and at most as many as rows.
    """
    time, gangs = rows.time, _spans_of_gangs(run)
    least = most = _held(gangs, np.ones(gangs.height), time)
    if not run.only("tasks", "gang")["gang"].all():
        known = run.known.filter(pl.col("start_time_s").is_not_null())
        bags = known.filter(~pl.col("gang"))
        alike = bags.unique([*TASK, "machine_id", "start_time_s", "end_time_s"])
        least = least + _held(alike, np.ones(alike.height), time)
        most = most + _held(bags, np.ones(bags.height), time)
    found = rows["running"].cast(pl.Float64).fill_null(-1).to_numpy()
    columns = {"time_s": time, "running": found, "least": least, "most": most}
    message = "running does not follow from the allocations"
    check.add_where(message, (found < least) | (found > most), columns)


def _spans_of_gangs(run: AuditedRun) -> pl.DataFrame:
    """Return start and end of each start of a gang."""
    if not run.alike:
        return run.segments
    known = run.known_only("start_time_s", "end_time_s", "gang")
    return known.filter("gang", pl.col("start_time_s").is_not_null())


# ---- what waits ---------------------------------------------------------------------------------


def _check_waiting(run: AuditedRun, rows: _LastRows, check: Check) -> None:
    """Check the number of tasks that wait, in the queue or held back by admission."""
    time = rows.time
    waiting, backlog = (
        rows[name].cast(pl.Float64).fill_null(-1).to_numpy() for name in ("waiting", "backlog")
    )
    expected = _waiting(run, time)
    columns = {"time_s": time, "waiting": waiting, "backlog": backlog, "expected": expected}
    total = waiting + backlog
    message = "waiting + backlog is not the number of tasks that wait"
    check.add_where(message, total != expected, columns)
    admission = run.scenario.admission
    slots = admission.slots
    if limits_users(run):
        check.add_where("backlog or waiting is below 0", (backlog < 0) | (waiting < 0), columns)
        return
    if slots is None:
        check.add_where("backlog without a limit of slots", backlog != 0, columns)
        return
    back = ("lost", "reservation_failed", "cancelled", "reserved")
    strict = not run.tables["events"]["kind"].is_in(back).any()
    strict &= admission.refill != "next_decision"
    strict &= admission.order == "fifo" or run.period_s is None
    shown: Bools = waiting != np.minimum(total, float(slots))
    if strict:
        check.add_where("the policy does not see as many tasks as slots", shown, columns)
    check.add_where("backlog or waiting is below 0", (backlog < 0) | (waiting < 0), columns)


def _waiting(run: AuditedRun, time: Floats) -> Floats:
    """Return how many tasks wait at each time: ready, with an instance that has not been placed.

    An instance is placed by a start, but not by one that resumes it, and has to be placed again
    when its work is lost.
    """
    if (since := _only_waits(run)) is not None:
        start = since["start_time_s"].to_numpy()
        ready_s = since["ready_time_s"].to_numpy()
        return sum_until(ready_s, np.ones(len(ready_s)), time) - sum_until(
            start, np.ones(len(start)), time
        )
    ready = run.tasks.filter(pl.col("ready_time_s").is_not_null())
    turned_away = ready.join(run.left_unstarted, on="job_id", maintain_order="left")
    pieces = run.pieces
    moving = pieces.filter(~pl.col("quiet"))
    first = pl.col("attempt").ne_missing(previous("attempt", UNIT))
    placed = pl.concat([moving.filter(first), pieces.filter("quiet")])
    lost = moving.filter(pl.col("outcome") == "lost", pl.col("end_time_s").is_not_null())
    killed = ready.filter(pl.col("status") == "killed")
    change = pl.col("count").cast(pl.Float64)
    parts: list[Any] = [
        ready.select(*TASK, pl.col("ready_time_s").alias("time_s"),
                     pl.col("instances").cast(pl.Float64).alias("change")),
        placed.select(*TASK, pl.col("start_time_s").alias("time_s"), (-change).alias("change")),
        lost.select(*TASK, pl.col("end_time_s").alias("time_s"), change.alias("change")),
        killed.select(*TASK, pl.col("end_time_s").alias("time_s"), pl.lit(_GONE).alias("change")),
        turned_away.select(*TASK, pl.col("left_s").alias("time_s"), pl.lit(_GONE).alias("change")),
    ]  # fmt: skip
    steps = (
        pl.concat(parts)
        .filter(pl.col("time_s").is_finite())
        .group_by(*TASK, "time_s")
        .agg(pl.col("change").sum())
        .sort(*TASK, "time_s")
    )
    left = pl.col("change").cum_sum().over(TASK) > 0
    steps = steps.with_columns(left.cast(pl.Float64).alias("waits"))
    moves = steps.with_columns(
        (pl.col("waits") - pl.col("waits").shift(1, fill_value=0.0).over(TASK)).alias("change")
    ).filter(pl.col("change") != 0)
    return sum_until(moves["time_s"].to_numpy(), moves["change"].to_numpy(), time)


def _only_waits(run: AuditedRun) -> pl.DataFrame | None:
    """Return when each task was ready and started, if in a large run each did so just once."""
    if not run.alike:
        return None
    columns = ("ready_time_s", "start_time_s", "status", "gang", "instances")
    tasks = run.only("tasks", *columns)
    once = pl.col("gang") & (pl.col("status") == "finished")
    once &= pl.col("ready_time_s") <= pl.col("start_time_s")
    if not tasks.select(once.fill_null(value=False).all()).item():
        return None
    held = run.only("allocations", "count", "attempt", "start_time_s", "outcome")
    whole = (held["count"] == tasks["instances"]) & (held["attempt"] == 1)
    whole &= (held["start_time_s"] == tasks["start_time_s"]) & (held["outcome"] == "finished")
    whole = whole.fill_null(value=False)
    return tasks.select("ready_time_s", "start_time_s") if whole.all() else None


@rule
def check_decision_times(run: AuditedRun, check: Check) -> None:
    """Tasks start at the ticks of the scheduler's clock alone."""
    if run.period_s is None:
        raise NotApplicableError("the scheduler decides whenever something changes")
    check.examined = run.rows_of("allocations")
    late = (pl.col("start_time_s") % run.period_s != 0).fill_null(value=False)
    rows = run.allocations.filter(late)
    if rows.is_empty():
        return
    reserved = run.tables["events"].filter(kind="reserved").select(TASK).unique()
    rows = rows.join(reserved, on=TASK, how="anti", maintain_order="left")
    # When nothing else is to come, a slot that gets free is filled at once.
    if run.scenario.admission.slots is not None or run.policy_may_kill:
        rows = rows.filter(pl.col("start_time_s") < _last_change(run))
    check.add_rows("starts between two ticks of the scheduler's clock", rows)


def _last_change(run: AuditedRun) -> float:
    """Return the last time at which something came, ended or changed, but for starts, in s."""
    times = pl.concat([
        run.jobs["submit_time_s"], run.allocations["end_time_s"], run.tables["events"]["time_s"],
    ])  # fmt: skip
    return float(times.max() or 0.0)  # type: ignore[arg-type]
