"""The check of stops: running tasks stop only where power falls.

In a pool of one resource the order is checked as well. Where power falls, the lowest value density
is stopped first, then the youngest task, and nothing is stopped once the rest fits. There, value
densities are in the order of the quality of service, since all jobs pay the same prices.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor, inf
from operator import attrgetter
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.verify.audit import Check, NotApplicableError, NotAuditedError, rule
from simkit.verify.audited_run import TASK, AuditedRun, CapacityEvent
from simkit.verify.capacity import machines_of, tasks_by_partition
from simkit.verify.input_tasks import UNREADABLE
from simkit.verify.machines import Edge, MachineLife, last_instant, machine_lives
from simkit.verify.replay.backfill import who_gives_way
from simkit.verify.site.ledger import needs_power

_OUTCOME: Final = {"suspend": "suspended", "checkpoint": "suspended", "requeue": "lost"}
"""Treatment of running tasks → the outcome of their allocations; draining tasks have none."""
_STOPPED: Final = ("suspended", "lost")
_EQUAL: Final = 1e-9
"""Densities that differ by a smaller share count as equal."""


@dataclass(frozen=True)
class _Held:
    """An allocation of the pool."""

    row: int
    """Of the table of allocations."""
    start: float
    end: float
    size: float
    density: float
    stopped: bool

    def goes_before(self, other: _Held) -> bool:
        """Return whether it is certainly stopped before another one."""
        slack = _EQUAL * max(self.density, other.density)
        if abs(self.density - other.density) > slack:
            return self.density < other.density
        return self.start > other.start


@rule
def check_stops(run: AuditedRun, check: Check) -> None:
    """Tasks stop only where power falls, the least valuable first."""
    needs_power(run)
    if not run.power_limits_capacity:
        raise NotApplicableError("power does not limit what may run")
    if run.policy_may_kill:
        raise NotAuditedError("the policy may stop tasks, or choose which tasks stop")
    if run.machines_change:
        raise NotAuditedError("tasks may stop for reasons other than power")
    _check_outcomes(check, run)
    if len(run.capacity) > 1 or len(run.requested) > 1 or not _densities_known(run):
        if check.examined and not check.found:
            raise NotAuditedError(
                "the order of stops is not judged on several machines or with several resources, "
                "nor for values that do not come from the scenario"
            )
    else:
        _check_order(check, run)


def _check_outcomes(check: Check, run: AuditedRun) -> None:
    """Check that tasks are stopped as the scenario says, and only where power falls."""
    stopped = run.allocations.filter(pl.col("outcome").is_in(_STOPPED))
    check.examined += stopped.height
    due = _OUTCOME.get(run.setting("power", "supply", "running"))
    otherwise = stopped.filter(pl.col("outcome").ne_missing(pl.lit(due, pl.String)))
    check.add_rows("stopped in another way than the scenario says", otherwise)
    falls = pl.DataFrame(
        [(machine, time) for machine, time, _ in _falls(run)],
        schema={"machine_id": pl.Int64, "end_time_s": pl.Float64},
        orient="row",
    ).with_columns(pl.lit(value=True).alias("falls"))
    rows = stopped.join(
        falls, on=["machine_id", "end_time_s"], how="left", maintain_order="left"
    ).with_columns(pl.col("falls").fill_null(value=False))
    anywhere = pl.col("falls").any().over("job_id", "task_id", "attempt", "start_time_s")
    check.add_rows("stopped, but power does not fall", rows.filter(~anywhere).drop("falls"))


def _falls(run: AuditedRun) -> Iterator[tuple[int, float, float]]:
    """Yield (machine, instant, what is left of the first resource) where power takes capacity."""
    by_power = set(run.power_instants.tolist())
    steps = run.capacity_steps
    for number, step in enumerate(steps):
        if step.time_s not in by_power:
            continue
        before = steps[number - 1]  # a machine's first step is at minus infinity
        if any(new < old for new, old in zip(step.capacity, before.capacity, strict=True)):
            yield step.machine_id, step.time_s, step.capacity[run.resources.index(run.requested[0])]


def _densities_known(run: AuditedRun) -> bool:
    if run.scenario.value is not None:
        brought = run.scenario.workload.type in ("jobs", "plugin")
        return "qos" in run.jobs.columns and not brought
    return not {"value", "qos"} & set(run.jobs.columns)


def _check_order(check: Check, run: AuditedRun) -> None:
    """Check that at each fall the first in the order are stopped, and no more than necessary."""
    allocations = _allocations(run)
    several = {held.start for held in allocations if held.start == held.end}
    running: list[_Held] = []
    begun = 0
    for _, time, left in _falls(run):
        while begun < len(allocations) and allocations[begun].start < time:
            running.append(allocations[begun])
            begun += 1
        running = [a for a in running if a.end > time or (a.end == time and a.stopped)]
        stopped = [a for a in running if a.end == time]
        running = [a for a in running if a.end > time]
        if stopped and time not in several:  # the rounds of an instant are not recorded
            _check_fall(check, run, left, stopped, running)


def _check_fall(
    check: Check, run: AuditedRun, left: float, stopped: list[_Held], kept: list[_Held]
) -> None:
    last = [a for a in stopped if not any(a.goes_before(b) for b in stopped)]
    for one in kept:
        if all(one.goes_before(b) for b in last):
            check.add(
                "runs on, but should be stopped before others that were",
                run.known.row(one.row, named=True),
            )
    held = sum(a.size for a in kept)
    if held + max(a.size for a in last) <= left:
        facts = {"held_by_others": held, "capacity": left}
        row = run.known.row(last[0].row, named=True)
        check.add("stopped, but the rest had fitted before", row | facts)


def _allocations(run: AuditedRun) -> list[_Held]:
    """Return the allocations of the pool that hold anything, by start."""
    rows = run.known.with_row_index("row").filter(pl.col("start_time_s").is_not_null())
    quality = pl.lit(0.0).alias("qos")
    if "qos" in run.jobs.columns:
        jobs = run.jobs.select("job_id", "qos").unique("job_id", keep="first")
        rows = rows.join(jobs, on="job_id", how="left", maintain_order="left")
        quality = pl.col("qos").fill_null(0.0)
    size = pl.col("count") * pl.col(f"one_{run.requested[0]}")
    end = pl.col("end_time_s").fill_null(float("inf"))
    stopped = pl.col("outcome").is_in(_STOPPED)
    table = rows.select("row", "start_time_s", end, size.alias("size"), quality, stopped)
    table = table.filter(pl.col("size") > 0).sort("start_time_s", maintain_order=True)
    return [_Held(*values) for values in table.iter_rows()]


_Stops = dict[tuple[int, float], set[str]]
"""(machine, time in s) → outcomes of tasks that may stop there and then."""


@rule
def check_outages(run: AuditedRun, check: Check) -> None:
    """Capacity goes for the scenario's reasons, and tasks stop as it says."""
    if not run.machines_change:
        raise NotApplicableError("nothing but power takes capacity away")
    try:
        lives = machine_lives(run, last_instant(run))
    except UNREADABLE:
        reason = "what the scenario says of machines is not known: see the rule machine-capacity"
        raise NotAuditedError(reason) from None
    foreseen = run.complete or run.scenario.cluster.failures is None
    if foreseen:
        _check_causes(run, lives, check)
    if run.policy_is_custom or run.preempts:
        reason = "the policy may stop tasks, too"
    elif not foreseen:
        reason = "the run is not complete, so failures are not drawn"
    else:
        reason = ""
        _check_taken(run, _may_stop(run, lives), check)
        _check_youngest(run, lives, check)
    if reason:
        raise NotAuditedError(reason)


def _check_causes(run: AuditedRun, lives: Mapping[int, MachineLife], check: Check) -> None:
    """Check that each event has the cause and the treatment of something that happens then."""
    known: dict[tuple[int, float, str], list[Edge]] = defaultdict(list)
    for machine, life in lives.items():
        for edge in life.edges:
            known[machine, edge.time_s, edge.cause].append(edge)
    before = {machine: dict(zip(run.resources, has, strict=True))
              for machine, has in run.capacity.items()}  # fmt: skip
    for event in run.capacity_events:
        totals, machine = event.detail.get("capacity"), event.row["machine_id"]
        if not isinstance(totals, dict) or machine not in before:
            continue  # the rule "capacity" reports it
        falls = any(amount < before[machine].get(name, 0.0) for name, amount in totals.items())
        before[machine] |= totals
        if event.by_power or "process" in event.detail:
            continue
        check.examined += 1
        edges = known[machine, event.row["time_s"], str(event.detail.get("cause"))]
        if not edges and not _joins_later(event):
            check.add("capacity changes for a reason that the scenario does not give", event.row)
        elif edges and falls:
            _check_treatment(event, edges, check)


def _joins_later(event: CapacityEvent) -> bool:
    """Return whether a machine is away at the begin as it joins later."""
    return event.detail.get("cause") == "joins later"


def _check_treatment(event: CapacityEvent, edges: list[Edge], check: Check) -> None:
    due = sorted({edge.running for edge in edges if edge.running is not None})
    if event.detail.get("running") not in due:
        row = event.row | {"expected": " or ".join(due)}
        check.add("running tasks are treated in another way than the scenario says", row)


def _may_stop(run: AuditedRun, lives: Mapping[int, MachineLife]) -> _Stops:
    """Return where and when tasks may stop, by the scenario, processes and power."""
    found: _Stops = defaultdict(set)
    for machine, life in lives.items():
        for edge in life.edges:
            if edge.running in _OUTCOME:
                found[machine, edge.time_s].add(_OUTCOME[edge.running])
    by_power = _OUTCOME.get(str(run.setting("power", "supply", "running")))
    for row, detail in run.capacity_events:
        outcome = None
        if detail.get("cause") == "power":
            outcome = by_power
        elif detail.get("process") is not None and detail.get("taken") is True:
            outcome = _OUTCOME.get(str(detail.get("running")))
        if outcome is not None:
            found[row["machine_id"], row["time_s"]].add(outcome)
    return found


def _check_taken(run: AuditedRun, may_stop: _Stops, check: Check) -> None:
    """Check that tasks stop only where something is taken from them, and as it is said."""
    stopped = run.known.filter(pl.col("outcome").is_in(_STOPPED))
    check.examined += stopped.height
    places = [(m, t, outcome) for (m, t), outcomes in may_stop.items() for outcome in outcomes]
    names = ("machine_id", "end_time_s", "outcome")
    schema = dict(zip(names, (pl.Int64, pl.Float64, pl.String), strict=True))
    due = pl.DataFrame(places, schema=schema, orient="row").with_columns(due=pl.lit(value=True))
    rows = stopped.join(due, on=names, how="left", maintain_order="left")
    own = pl.when("gang").then(-1).otherwise("machine_id").alias("own")  # gangs stop as a whole
    rows = rows.with_columns(own, pl.col("due").fill_null(value=False))
    key = ["job_id", "task_id", "attempt", "start_time_s", "end_time_s", "own"]
    wrong = rows.filter(~pl.col("due").any().over(key))
    shown = ["job_id", "task_id", "machine_id", "attempt", "start_time_s", "end_time_s", "outcome"]
    check.add_rows("stopped, but nothing is taken that stops it in this way", wrong.select(shown))


def _check_youngest(run: AuditedRun, lives: Mapping[int, MachineLife], check: Check) -> None:
    """Check that the youngest stopped when part of a pool of one resource went, and no more."""
    if len(run.capacity) > 1 or len(run.requested) != 1 or run.power_limits_capacity:
        return
    machine = next(iter(lives))
    times = {e.time_s for e in lives[machine].edges if e.running in _OUTCOME}
    size = pl.col("count") * pl.col(f"one_{run.requested[0]}")
    rows = run.known.filter(pl.col("start_time_s").is_not_null()).group_by(
        "job_id", "task_id", "attempt", "start_time_s", "end_time_s", "outcome", maintain_order=True
    ).agg(size.sum().alias("size")).filter(pl.col("size") > 0)  # fmt: skip
    at = pl.col("end_time_s").fill_null(float("inf"))
    brief = set(rows.filter(pl.col("start_time_s") == at)["start_time_s"].to_list())
    column = run.resources.index(run.requested[0])
    for time in sorted(times - brief):
        running = rows.filter((pl.col("start_time_s") < time) & (at >= time))
        stopped = running.filter(at == time, pl.col("outcome").is_in(_STOPPED))
        if stopped.is_empty():
            continue
        stay = running.filter(at > time)
        left = float(run.capacity_at(machine, np.array([time]))[0, column])
        oldest = float(stopped["start_time_s"].min())  # type: ignore[arg-type]
        younger = stay.filter(pl.col("start_time_s") > oldest)
        check.add_rows("runs on, but one that started before it stops", younger)
        first = stopped.filter(pl.col("start_time_s") == oldest)
        if float(stay["size"].sum()) + float(first["size"].max()) <= left:  # type: ignore[arg-type]
            check.add_rows("stopped, but its place was not needed", first)


_PREEMPTED: Final = {"requeue": "lost", "cancel": "killed", "suspend": "suspended"}
"""What a partition says of its tasks that are preempted → the outcome of their allocations."""


@rule
def check_preemption(run: AuditedRun, check: Check) -> None:
    """Tasks give way only to a higher priority, as their partition says.

    In a pool, none gives way while one that should do so before it, and is no smaller, runs on.
    Where one task alone took the place, exactly those gave way that had to.
    """
    for_other_reasons = (
        run.policy_is_custom or run.machines_change or run.power_limits_capacity
        or run.scenario.cluster.maintenance
    )  # fmt: skip
    if not run.preempts and (
        for_other_reasons or not (run.only("allocations", "outcome")["outcome"] == "lost").any()
    ):
        raise NotApplicableError("no partition preempts")
    if for_other_reasons:
        raise NotAuditedError("tasks may stop for other reasons")
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
