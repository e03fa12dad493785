"""The check of preemption: running tasks give way to a higher priority, and no more than needed.

It judges each recorded preemption by what ran at its instant, so that it holds for several machines
and resources as well. That none was left out is part of the replay of a pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf
from typing import Any, Final

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import TASK, AuditedRun
from simkit.verify.limits import machines_of, partitions_of, tasks_by_partition
from simkit.verify.replay.preemption import who_gives_way

_PREEMPTED: Final = {"requeue": "lost", "cancel": "killed"}
"""What a partition says of its tasks that are preempted → the outcome of their allocations."""


def check_preemption(run: AuditedRun) -> Check:
    """Check that running tasks give way only to a higher priority, and as their partition says.

    In a pool, none gives way while one that should do so before it, and is no smaller, runs on.
    Where one task alone took the place, exactly those gave way that had to.
    """
    check = Check("preemption", "tasks give way only to a higher priority, as their partition says")
    for_other_reasons = (
        run.policy_is_custom or run.machines_change or run.power_limits_capacity
        or run.setting("cluster", "maintenance")
    )  # fmt: skip
    if not run.preempts and (for_other_reasons or not (run.allocations["outcome"] == "lost").any()):
        return check.skip("no partition preempts")
    if for_other_reasons:
        return check.leave_out("tasks may stop for other reasons")
    rows = _by_priority(run)
    by_limit = pl.col("reason").fill_null("").str.contains("requested time")
    stopped = (pl.col("outcome") == "lost") | ((pl.col("outcome") == "killed") & ~by_limit)
    rows = rows.with_columns(stopped.fill_null(value=False).alias("stopped"))
    victims = rows.filter("stopped")
    check.examined = victims.height
    modes = [_PREEMPTED.get(str(part.get("preempt"))) for part in partitions_of(run)]
    due = pl.col("position").replace_strict(range(len(modes)), modes, return_dtype=pl.String)
    given_up = run.given_up.select(*TASK, pl.col("time_s").alias("end_time_s"), given_up=True)
    victims = victims.join(given_up, on=[*TASK, "end_time_s"], how="left", maintain_order="left")
    due = pl.when((due == "lost") & pl.col("given_up")).then(pl.lit("killed")).otherwise(due)
    otherwise = victims.filter(due.ne_missing(pl.col("outcome"))).drop("given_up")
    check.add_rows("stopped in another way than its partition says", otherwise)
    starts = rows.group_by(pl.col("start_time_s").alias("end_time_s")).agg(
        pl.col("priority").max().alias("highest_start")
    )
    victims = victims.drop("given_up").join(
        starts, on="end_time_s", how="left", maintain_order="left"
    )
    for_none = victims.filter(~(pl.col("highest_start") > pl.col("priority")).fill_null(False))
    check.add_rows("stopped, but nothing of a higher priority starts", for_none)
    if len(run.capacity) == 1 and len(run.requested) == 1 and rows["gang"].all():
        may_stop = [mode is not None for mode in modes]
        able = pl.col("position").replace_strict(range(len(modes)), may_stop)
        _check_who_gives_way(check, rows.filter(able))
    if rows["gang"].all() and run.setting("admission", "slots") is None:
        _check_instants(check, run, rows)
    else:
        check.notes["it is not checked whether a preemption was needed"] = (
            "there are bags, or slots that limit what the policy sees"
        )
    return check


def _by_priority(run: AuditedRun) -> pl.DataFrame:
    """Return the allocations with ``position`` and ``priority`` of their partition, and reasons."""
    priorities = [float(part.get("priority") or 0.0) for part in partitions_of(run)]
    rows = run.known.filter(pl.col("start_time_s").is_not_null())
    places = tasks_by_partition(run).filter(pl.col("position") >= 0).select(*TASK, "position")
    reasons = run.jobs.select("job_id", "reason").unique("job_id", keep="first")
    rows = rows.join(places, on=TASK, maintain_order="left")
    rows = rows.join(reasons, on="job_id", maintain_order="left")
    of = pl.col("position").replace_strict(range(len(priorities)), priorities)
    return rows.with_columns(of.alias("priority"))


def _check_who_gives_way(check: Check, rows: pl.DataFrame) -> None:
    """Check that of the tasks that may give way, none runs on that should have done so before.

    That is one of a lower priority, or of the same that started later, and of at least the size
    of one that gave way: without it the other's place would not have been needed.
    """
    start, end = pl.col("start_time_s"), pl.col("end_time_s").fill_null(float("inf"))
    for (time,), victims in rows.filter("stopped").group_by("end_time_s"):
        running = rows.filter(start < time, end > time)
        for victim in victims.iter_rows(named=True):
            before = pl.col("priority") < victim["priority"]
            same = pl.col("priority") == victim["priority"]
            before = before | (same & (start > victim["start_time_s"]))
            spared = running.filter(before, pl.col("count") >= victim["count"])
            check.add_rows(f"runs on, but job {victim['job_id']} gave way before it", spared)


@dataclass(frozen=True, eq=False)
class _Running:
    """One gang that runs: what it holds of each machine."""

    row: dict[str, Any]
    """Of the table of allocations, the first of the gang."""
    priority: float
    stopped: bool
    held: dict[int, list[float]]
    """Machine → amount of each requested resource."""

    @property
    def turn(self) -> tuple[float, float]:
        """The order in which tasks stop: the lowest priority, then the one that started last."""
        return self.priority, -self.row["start_time_s"]


def _check_instants(check: Check, run: AuditedRun, rows: pl.DataFrame) -> None:
    """Check at each instant that exactly those gave way that had to, if for one task alone.

    Instants are left out at which several tasks of a higher priority start, or at which something
    starts and ends: then it is not recorded who gave way to whom, and what was free.
    """
    several = set(rows.filter(pl.col("start_time_s") == pl.col("end_time_s"))["end_time_s"])
    not_judged = 0
    for (time,), _ in rows.filter("stopped").group_by("end_time_s", maintain_order=True):
        judged = time not in several and _check_instant(check, run, rows, float(str(time)))
        not_judged += not judged
    if not_judged:
        check.notes["instants at which it is not recorded who gave way to whom"] = not_judged


def _check_instant(check: Check, run: AuditedRun, rows: pl.DataFrame, time: float) -> bool:
    """Check who gave way at an instant; return whether that could be judged."""
    start, end = pl.col("start_time_s"), pl.col("end_time_s").fill_null(inf)
    before = rows.filter(start < time, (end > time) | ((end == time) & pl.col("stopped")))
    running = _gangs(run, before)
    stopped = [one for one in running if one.stopped and one.row["end_time_s"] == time]
    least = min(one.priority for one in stopped)
    takers = _gangs(run, rows.filter(start == time, pl.col("priority") > least))
    if len(takers) != 1:
        return False
    (taker,) = takers
    partitions = partitions_of(run)
    machines = machines_of(run, partitions[taker.row["position"]])
    able = [
        one
        for one in running
        if one.priority < taker.priority
        and partitions[one.row["position"]].get("preempt") is not None
        and not one.held.keys().isdisjoint(machines)
    ]
    able.sort(key=lambda one: one.turn)

    def fits_without(gone: list[_Running]) -> bool:
        return _fits(run, taker, machines, [one for one in running if one not in gone])

    to = {"for_job_id": taker.row["job_id"]}
    for one in stopped:
        if fits_without([other for other in stopped if other is not one]):
            check.add("stopped, but its place was not needed", _shown(one) | to)
            return True
    if len({one.turn for one in able}) < len(able):
        return True  # which of them started last is not recorded
    due = who_gives_way(able, fits_without)
    for one in (one for one in due if one not in stopped):
        check.add("runs on, but others gave way that come after it", _shown(one) | to)
    return True


def _shown(one: _Running) -> dict[str, Any]:
    """Return what a violation shows of one that runs."""
    names = ("job_id", "task_id", "attempt", "start_time_s", "end_time_s", "outcome", "priority")
    return {name: one.row[name] for name in names}


def _gangs(run: AuditedRun, rows: pl.DataFrame) -> list[_Running]:
    """Return the gangs of some allocations."""
    found: dict[tuple[Any, ...], _Running] = {}
    for row in rows.iter_rows(named=True):
        key = row["job_id"], row["task_id"], row["attempt"], row["start_time_s"]
        one = found.setdefault(key, _Running(row, row["priority"], row["stopped"], {}))
        held = one.held.setdefault(row["machine_id"], [0.0] * len(run.requested))
        for number, name in enumerate(run.requested):
            held[number] += row["count"] * row[f"one_{name}"]
    return list(found.values())


def _fits(run: AuditedRun, taker: _Running, machines: list[int], running: list[_Running]) -> bool:
    """Return whether a gang fits on machines beside what runs."""
    columns = [run.resources.index(name) for name in run.requested]
    request = [taker.row[f"one_{name}"] for name in run.requested]
    instances = 0.0
    for machine in machines:
        free = [run.capacity[machine][column] for column in columns]
        for one in running:
            for number, amount in enumerate(one.held.get(machine, ())):
                free[number] -= amount
        room = [floor(f / r) for f, r in zip(free, request, strict=True) if r > 0]
        instances += max(min(room, default=inf), 0)
    return instances >= float(taker.row["instances"])
