"""Checks of capacity: machines never hold more than they have, and who stops when some goes.

A sweep over the starts and ends of allocations, by machine and resource. At one instant, as in the
engine, what ends is released first, then capacity changes, then tasks start.

An allocation of length zero starts and ends at one instant, and the rounds within an instant are
not recorded: it must fit next to the allocations that run from before until after the instant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import floor, inf
from operator import attrgetter
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.verify.admission import machines_of, tasks_by_partition
from simkit.verify.audit import Check, Floats, Ints, NotApplicableError, NotAuditedError, rule
from simkit.verify.audited_run import TASK, AuditedRun, CapacityEvent, RecordedCapacity
from simkit.verify.backfill import who_gives_way
from simkit.verify.folder import BY_LIMIT
from simkit.verify.input_tasks import UNREADABLE
from simkit.verify.machines import Edge, MachineLife, last_instant, machine_lives

_INSTANT = ("machine_id", "time_s", "allocated", "capacity", "started")
"""Columns of instants at which a machine holds too much."""
_AT_ONCE = 500_000
"""Starts of a stretch of time that is swept at once."""


@rule
def check_capacity(run: AuditedRun, check: Check) -> None:
    """Allocated <= capacity on each machine, except for draining work."""
    check.examined = run.rows_of("allocations")
    steps = run.capacity_steps
    for event in run.malformed_capacity_events:
        check.add("the capacity event is malformed", event)
    rows = _facts(run).filter(
        pl.col("machine_id").is_in(list(run.capacity)),
        pl.col("start_time_s").is_not_null(),
        pl.col("end_time_s").is_null() | (pl.col("end_time_s") >= pl.col("start_time_s")),
    )
    for resource in run.requested:
        index = run.resources.index(resource)
        amounts = rows.with_columns(
            (pl.col("count") * pl.col(f"one_{resource}")).alias("amount")
        ).filter(pl.col("amount") > 0)
        for begin, end, some in _stretches(amounts):
            sweep = _Sweep(some, steps, index, run.together)
            for instants in (sweep.overfull(), sweep.overfull_at_zero_length()):
                inside = instants.filter(pl.col("time_s").is_between(begin, end, closed="left"))
                if inside.is_empty():
                    continue
                check.add_rows(
                    "more is allocated than the capacity", _with_starters(inside, some, resource)
                )
    # Nothing starts on a machine that is absent or down, unless it requests nothing.
    asking = rows.filter(pl.any_horizontal(pl.col(f"one_{r}") > 0 for r in run.requested))
    empty = np.array([not any(step.capacity) for step in steps], dtype=bool)
    if not empty.any():
        return
    ids, times = (np.array([getattr(s, n) for s in steps]) for n in ("machine_id", "time_s"))
    at = _last_at(asking["machine_id"].to_numpy(), asking["start_time_s"].to_numpy(), ids, times)
    check.add_rows("starts on a machine that is absent or down", asking.filter(empty[at]))


def _facts(run: AuditedRun) -> pl.DataFrame:
    """Return the allocations with what their tasks request; of a large run no other column."""
    if not run.is_large:
        return run.known
    requests = [f"one_{name}" for name in run.requested]
    times = ("start_time_s", "end_time_s")
    own = [name for name in run.together if name not in times]
    return run.known_only(*own, *times, "machine_id", "count", "gang", *requests)


def _stretches(rows: pl.DataFrame) -> Iterator[tuple[float, float, pl.DataFrame]]:
    """Yield stretches of time, from and until, with the rows that hold something in them."""
    if rows.height <= _AT_ONCE:
        yield -inf, inf, rows
        return
    start, end = rows["start_time_s"].to_numpy(), rows["end_time_s"].fill_null(inf).to_numpy()
    cuts = np.unique(np.sort(start)[_AT_ONCE::_AT_ONCE]).tolist()
    for begin, until in pairwise([-inf, *cuts, inf]):
        yield begin, until, rows.filter(pl.Series((start < until) & (end >= begin)))


class _Sweep:
    """The use of one resource on all machines, instant by instant.

    I instants, sorted by (machine, time); several changes at one instant are one.
    """

    def __init__(
        self,
        rows: pl.DataFrame,
        steps: list[RecordedCapacity],
        resource: int,
        together: list[str],
    ) -> None:
        start = rows["start_time_s"].to_numpy()
        end = rows["end_time_s"].fill_null(np.inf).to_numpy()
        amount, machine = rows["amount"].to_numpy(), rows["machine_id"].to_numpy()
        self.brief = rows.with_row_index("row").filter(
            pl.col("start_time_s") == pl.col("end_time_s")
        )
        self._together = together
        lasting = end > start
        held = np.where(lasting, amount, 0.0)
        zeros = np.zeros(len(steps))
        machines = np.concatenate([machine, machine, [s.machine_id for s in steps]])
        times = np.concatenate([start, end, [s.time_s for s in steps]])
        change = np.concatenate([held, -held, zeros])
        started = np.concatenate([held, np.zeros(len(end)), zeros])
        self.machine, self.time, sums = _by_instant(machines, times, change, started)
        self.started = sums[1]
        self.used = _running_sum(self.machine, sums[0])
        # Every machine has a step at minus infinity, so the step in force always exists.
        ids = np.array([s.machine_id for s in steps])
        in_force = _last_at(self.machine, self.time, ids, np.array([s.time_s for s in steps]))
        self.capacity = np.array([s.capacity[resource] for s in steps])[in_force]
        self.forced = np.array([s.forced for s in steps], dtype=bool)[in_force]

    def overfull(self) -> pl.DataFrame:
        """Return the instants at which a machine holds more than it has.

        After a drain, running tasks may exceed the capacity, but nothing may start.
        """
        over = (self.used > self.capacity) & (self.forced | (self.started > 0))
        over &= np.isfinite(self.time)
        columns = (self.machine, self.time, self.used, self.capacity, self.started)
        return pl.DataFrame(dict(zip(_INSTANT, columns, strict=True))).filter(over)

    def overfull_at_zero_length(self) -> pl.DataFrame:
        """Return the same for allocations of length zero, next to what runs on."""
        # The instances of a gang run together; those of a bag may have started in different rounds.
        alone = pl.when("gang").then(0).otherwise(pl.col("row"))
        brief = self.brief.group_by(
            "machine_id", *self._together, alone.alias("alone"), maintain_order=True
        ).agg(pl.col("amount").sum())
        machine, time = brief["machine_id"].to_numpy(), brief["start_time_s"].to_numpy()
        amount = brief["amount"].to_numpy()
        at = _last_at(machine, time, self.machine, self.time)
        used = self.used[at] - self.started[at] + amount
        capacity = self.capacity[at]
        columns = (machine, time, used, capacity, amount)
        return pl.DataFrame(dict(zip(_INSTANT, columns, strict=True))).filter(used > capacity)


def _by_instant(machine: Ints, time: Floats, *values: Floats) -> tuple[Ints, Floats, list[Floats]]:
    """Return the distinct (machine, time) in order, and each of `values` summed over them."""
    order = np.lexsort((time, machine))
    machine, time = machine[order].astype(np.int64), time[order]
    if not len(order):
        return machine, time, [value[order] for value in values]
    new = np.flatnonzero(
        np.concatenate(([True], (machine[1:] != machine[:-1]) | (time[1:] != time[:-1])))
    )
    return machine[new], time[new], [np.add.reduceat(value[order], new) for value in values]


def _running_sum(machine: Ints, change: Floats) -> Floats:
    """Return the sum of changes so far on the same machine; `machine` is sorted."""
    total = np.cumsum(change)
    new = np.append(True, machine[1:] != machine[:-1])[: len(machine)]
    first = np.maximum.accumulate(np.where(new, np.arange(len(machine)), 0))
    return np.asarray(total - (total - change)[first])


def _last_at(machine: Ints, time: Floats, key_machine: Ints, key_time: Floats) -> Ints:
    """Return, for each (machine, time), the index of the last of the sorted keys up to it."""
    keys = len(key_machine)
    # A stable sort with the keys first puts every key before the queries equal to it.
    order = np.lexsort((np.concatenate([key_time, time]), np.concatenate([key_machine, machine])))
    latest = np.cumsum(order < keys) - 1
    found = np.empty(len(order), dtype=np.int64)
    found[order] = latest
    return found[keys:]


def _with_starters(instants: pl.DataFrame, rows: pl.DataFrame, resource: str) -> pl.DataFrame:
    """Add the name of the resource, and a task that starts at that machine and instant, if any."""
    starters = rows.select(
        "machine_id", pl.col("start_time_s").alias("time_s"), "job_id", "task_id"
    ).unique(["machine_id", "time_s"], keep="last", maintain_order=True)
    named = instants.with_columns(pl.lit(resource).alias("resource"))
    return named.join(starters, on=["machine_id", "time_s"], how="left", maintain_order="left")


@rule
def check_machines(run: AuditedRun, check: Check) -> None:
    """Every allocation is on a machine of the cluster."""
    check.examined = run.allocations.height
    strange = ~pl.col("machine_id").is_in(list(run.capacity)).fill_null(False)
    check.add_rows("the cluster has no such machine", run.allocations.filter(strange))


@rule
def check_limits(run: AuditedRun, check: Check) -> None:
    """Nothing happens after the simulated time, no task restarts too often."""
    seconds, retries = run.scenario.limits.simulated_time, run.scenario.limits.retries
    if seconds is None and retries is None and run.own_retries is None:
        raise NotApplicableError("neither the simulated time nor retries are limited")
    check.examined = run.rows_of("allocations")
    _check_own_retries(run, check)
    if retries is not None:
        often = _where(run, pl.col("attempt") > retries + 1, "attempt")
        if not run.complete:  # what runs may have started in the last decision before the stop
            often = often.filter(pl.col("outcome") != "running")
        check.add_rows(f"attempt after more than {retries} retries", often)
    if seconds is not None and run.rows_of("jobs"):
        first = run.only("jobs", "submit_time_s")["submit_time_s"].min()
        last = float(first) + seconds + 2.0**-20  # type: ignore[arg-type]
        times = pl.max_horizontal("start_time_s", "end_time_s")
        late = _where(run, times > last, "start_time_s", "end_time_s")
        check.add_rows("after the end of the simulated time", late)


def _where(run: AuditedRun, wrong: pl.Expr, *columns: str) -> pl.DataFrame:
    """Return the allocations that are wrong by these columns, with all columns."""
    rows = run.only("allocations", *columns).select(wrong.alias("wrong"))["wrong"]
    return run.allocations.filter(rows) if rows.any() else run.tables.head("allocations")


def _check_own_retries(run: AuditedRun, check: Check) -> None:
    """Check that tasks with retries of their own are killed when the work of the last is lost."""
    if run.own_retries is None:
        return
    rows = run.allocations.join(run.own_retries, on=TASK, maintain_order="left")
    again = rows.filter(pl.col("attempt") > pl.col("allowed") + 1)
    check.add_rows("attempt after all retries of the task", again)
    lost = rows.filter(pl.col("outcome") == "lost", pl.col("attempt") > pl.col("allowed"))
    check.add_rows("its work was lost after all its retries, but it was not killed", lost)
    if not run.policy_may_kill:
        instants = pl.Series(
            [event.row["time_s"] for event in run.capacity_events], dtype=pl.Float64
        )
        alone = run.given_up.filter(~pl.col("time_s").is_in(instants.implode()))
        check.add_rows("killed at its last attempt, but no capacity changes then", alone)


OUTCOME_OF: Final = {"suspend": "suspended", "checkpoint": "suspended", "requeue": "lost"}
"""Treatment of running tasks → the outcome of their allocations; draining tasks have none."""
STOPPED: Final = ("suspended", "lost")


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
        if not edges and event.detail.get("cause") != "joins later":
            check.add("capacity changes for a reason that the scenario does not give", event.row)
        elif edges and falls:
            _check_treatment(event, edges, check)


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
            if edge.running in OUTCOME_OF:
                found[machine, edge.time_s].add(OUTCOME_OF[edge.running])
    by_power = OUTCOME_OF.get(str(run.setting("power", "supply", "running")))
    for row, detail in run.capacity_events:
        outcome = None
        if detail.get("cause") == "power":
            outcome = by_power
        elif detail.get("process") is not None and detail.get("taken") is True:
            outcome = OUTCOME_OF.get(str(detail.get("running")))
        if outcome is not None:
            found[row["machine_id"], row["time_s"]].add(outcome)
    return found


def _check_taken(run: AuditedRun, may_stop: _Stops, check: Check) -> None:
    """Check that tasks stop only where something is taken from them, and as it is said."""
    stopped = run.known.filter(pl.col("outcome").is_in(STOPPED))
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
    times = {e.time_s for e in lives[machine].edges if e.running in OUTCOME_OF}
    size = pl.col("count") * pl.col(f"one_{run.requested[0]}")
    rows = run.known.filter(pl.col("start_time_s").is_not_null()).group_by(
        "job_id", "task_id", "attempt", "start_time_s", "end_time_s", "outcome", maintain_order=True
    ).agg(size.sum().alias("size")).filter(pl.col("size") > 0)  # fmt: skip
    at = pl.col("end_time_s").fill_null(float("inf"))
    brief = set(rows.filter(pl.col("start_time_s") == at)["start_time_s"].to_list())
    column = run.resources.index(run.requested[0])
    for time in sorted(times - brief):
        running = rows.filter((pl.col("start_time_s") < time) & (at >= time))
        stopped = running.filter(at == time, pl.col("outcome").is_in(STOPPED))
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
    stopped = pl.col("outcome").is_in(("lost", "suspended"))
    stopped |= (pl.col("outcome") == "killed") & ~BY_LIMIT
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
    """Its first row in the table of allocations, which a violation shows."""
    position: int
    """Index of its partition."""
    priority: float
    start: float
    end: float
    stopped: bool
    """Whether it was preempted at its end."""
    may_stop: bool
    """Whether its partition lets it be preempted."""
    instances: int
    request: tuple[float, ...]
    """What one instance asks for: amount of each requested resource."""
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
    """Return whether a gang fits on machines next to what runs."""
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
