"""The check of preemption: running tasks give way to a higher priority, and no more than needed.

It judges each recorded preemption by what ran at its instant, so that it holds for several machines
and resources as well. That none was left out is part of the replay of a pool.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import floor, inf
from operator import attrgetter
from typing import Any, Final

import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import TASK, AuditedRun
from simkit.verify.limits import machines_of, tasks_by_partition
from simkit.verify.replay.preemption import who_gives_way

_PREEMPTED: Final = {"requeue": "lost", "cancel": "killed", "suspend": "suspended"}
"""What a partition says of its tasks that are preempted → the outcome of their allocations."""


def check_preemption(run: AuditedRun) -> Check:
    """Check that running tasks give way only to a higher priority, and as their partition says.

    In a pool, none gives way while one that should do so before it, and is no smaller, runs on.
    Where one task alone took the place, exactly those gave way that had to.
    """
    check = Check("preemption", "tasks give way only to a higher priority, as their partition says")
    for_other_reasons = (
        run.policy_is_custom or run.machines_change or run.power_limits_capacity
        or run.scenario.cluster.maintenance
    )  # fmt: skip
    if not run.preempts and (
        for_other_reasons or not (run.only("allocations", "outcome")["outcome"] == "lost").any()
    ):
        return check.skip("no partition preempts")
    if for_other_reasons:
        return check.leave_out("tasks may stop for other reasons")
    rows = _by_priority(run)
    by_limit = pl.col("reason").fill_null("").str.contains("requested time")
    stopped = pl.col("outcome").is_in(("lost", "suspended"))
    stopped |= (pl.col("outcome") == "killed") & ~by_limit
    rows = rows.with_columns(stopped.fill_null(value=False).alias("stopped"))
    victims = rows.filter("stopped")
    check.examined = victims.height
    modes = [_PREEMPTED.get(str(part.get("preempt"))) for part in run.partitions]
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
    if run.pauses or not rows["gang"].all():
        unclear = "preempted tasks go on later" if run.pauses else "there are bags"
        check.notes["who had to give way is not judged"] = unclear
    else:
        # Other rules are about allocations of unknown tasks, or of jobs in no partition.
        _check_who_gives_way(check, run, rows.drop_nulls(["position", "instances", "count"]))
    return check


def _by_priority(run: AuditedRun) -> pl.DataFrame:
    """Return the allocations with ``position`` and ``priority`` of their partition, and reasons."""
    priorities = [float(part.get("priority") or 0.0) for part in run.partitions]
    rows = run.known.filter(pl.col("start_time_s").is_not_null())
    places = tasks_by_partition(run).filter(pl.col("position") >= 0).select(*TASK, "position")
    reasons = run.jobs.select("job_id", "reason").unique("job_id", keep="first")
    rows = rows.join(places, on=TASK, maintain_order="left")
    rows = rows.join(reasons, on="job_id", maintain_order="left")
    of = pl.col("position").replace_strict(range(len(priorities)), priorities)
    return rows.with_columns(of.alias("priority"))


@dataclass(frozen=True, eq=False)
class _Gang:
    """One gang that ran: what it held of each machine."""

    row: dict[str, Any]
    """Of the table of allocations, the first of the gang; with a violation it is shown."""
    position: int
    """Of its partition."""
    priority: float
    start: float
    end: float
    stopped: bool
    """Whether it was preempted at its end."""
    may_stop: bool
    """Whether its partition lets it be preempted."""
    instances: int
    request: tuple[float, ...]
    """Of one instance: amount of each requested resource."""
    count: dict[int, int]
    """Machine → instances on it."""

    @property
    def turn(self) -> tuple[float, float]:
        """The order in which tasks stop: the lowest priority, then the one that started last."""
        return self.priority, -self.start

    def goes_before(self, other: _Gang) -> bool:
        """Return whether it certainly stops before another that is no larger, in a pool."""
        size, of_other = sum(self.count.values()), sum(other.count.values())
        return self.turn < other.turn and size >= of_other


_START: Final = attrgetter("start")


def _gangs(run: AuditedRun, rows: pl.DataFrame) -> list[_Gang]:
    """Return the gangs of some allocations by start."""
    may_stop = [part.get("preempt") is not None for part in run.partitions]
    shown = [*TASK, "attempt", "start_time_s", "end_time_s", "outcome", "priority"]
    requests = [f"one_{name}" for name in run.requested]
    facts = ["position", "stopped", "instances", "machine_id", "count"]
    found: dict[tuple[Any, ...], _Gang] = {}
    numbered = [name for name in run.together if name not in shown]
    wanted = rows.select(*shown, *requests, *facts, *numbered).sort("start_time_s")
    for row in wanted.iter_rows(named=True):
        key = tuple([row[name] for name in run.together])
        if key not in found:
            end = inf if row["end_time_s"] is None else row["end_time_s"]
            found[key] = _Gang(
                {name: row[name] for name in shown}, row["position"], row["priority"],
                row["start_time_s"], end, row["stopped"], may_stop[row["position"]],
                row["instances"], tuple(row[name] for name in requests), {},
            )  # fmt: skip
        count = found[key].count
        count[row["machine_id"]] = count.get(row["machine_id"], 0) + row["count"]
    return list(found.values())


def _check_who_gives_way(check: Check, run: AuditedRun, rows: pl.DataFrame) -> None:
    """Check at each instant who gave way.

    Instants are not judged at which several tasks of a higher priority start, or at which something
    starts and ends, nor with slots: then it is not recorded who gave way to whom, and what was
    free. In a pool it is still known who should have done so before another.
    """
    gangs = _gangs(run, rows)
    brief = {gang.start for gang in gangs if gang.start == gang.end}
    pool = len(run.capacity) == 1 and len(run.requested) == 1
    slots = run.scenario.admission.slots is not None
    running: list[_Gang] = []
    begun = not_judged = 0
    for time in sorted({gang.end for gang in gangs if gang.stopped}):
        before = bisect_left(gangs, time, begun, key=_START)
        running += gangs[begun:before]
        begun = before
        running = [g for g in running if g.end > time or (g.end == time and g.stopped)]
        starts = gangs[begun : bisect_right(gangs, time, begun, key=_START)]
        stopped = [gang for gang in running if gang.end == time]
        least = min((gang.priority for gang in stopped), default=inf)
        takers = [gang for gang in starts if gang.priority > least]
        if pool:
            _check_spared(check, stopped, [g for g in running if g.end > time and g.may_stop])
        if slots or time in brief or len(takers) != 1:
            not_judged += 1
        else:
            _check_needed(check, run, takers[0], stopped, running)
    if not_judged:
        check.notes["instants at which it is not recorded who gave way to whom"] = not_judged


def _check_spared(check: Check, stopped: list[_Gang], spared: list[_Gang]) -> None:
    """Check that none runs on that should have stopped before another, in a pool.

    That is one of a lower priority, or of the same that started later, and of at least the size
    of one that gave way: without it the other's place would not have been needed.
    """
    for victim in stopped:
        for one in (one for one in spared if one.goes_before(victim)):
            check.add(f"runs on, but job {victim.row['job_id']} gave way before it", one.row)


def _check_needed(
    check: Check, run: AuditedRun, taker: _Gang, stopped: list[_Gang], running: list[_Gang]
) -> None:
    """Check that exactly those of the running gave way to a task that had to."""
    machines = machines_of(run, run.partitions[taker.position])
    to = {"for_job_id": taker.row["job_id"]}

    def fits_without(gone: list[_Gang]) -> bool:
        return _fits(run, taker, machines, [one for one in running if one not in gone])

    for one in stopped:
        if fits_without([other for other in stopped if other is not one]):
            check.add("stopped, but its place was not needed", one.row | to)
            return
    able = [
        one
        for one in running
        if one.may_stop
        and one.priority < taker.priority
        and not one.count.keys().isdisjoint(machines)
    ]
    able.sort(key=lambda one: one.turn)
    if len({one.turn for one in able}) < len(able):
        return  # which of them started last is not recorded
    due = who_gives_way(able, fits_without)
    for one in (one for one in due if one not in stopped):
        check.add("runs on, but others gave way that come after it", one.row | to)


def _fits(run: AuditedRun, taker: _Gang, machines: list[int], running: list[_Gang]) -> bool:
    """Return whether a gang fits on machines beside what runs."""
    columns = [run.resources.index(name) for name in run.requested]
    free = {machine: [run.capacity[machine][column] for column in columns] for machine in machines}
    for one in running:
        for machine, count in one.count.items():
            if machine in free:
                left = free[machine]
                for number, amount in enumerate(one.request):
                    left[number] -= count * amount
    instances = 0.0
    for left in free.values():
        room = [floor(f / r) for f, r in zip(left, taker.request, strict=True) if r > 0]
        instances += max(min(room, default=inf), 0)
    return instances >= taker.instances
