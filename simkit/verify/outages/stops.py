"""The check of outages: capacity goes for the reasons of the scenario, and tasks stop as it says.

When something is taken from a machine, tasks on it run on (drain), start over (requeue) or pause
(suspend), by the reason for which it is taken. That none runs on in spite of it is part of the rule
"capacity"; here no other stops, nor in another way, and in a pool the youngest stop, and no more
than must.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun, CapacityEvent
from simkit.verify.input_tasks import UNREADABLE
from simkit.verify.inputs import MissingInputError
from simkit.verify.machines import Edge, MachineLife, last_instant, machine_lives

_OUTCOME: Final = {"suspend": "suspended", "checkpoint": "suspended", "requeue": "lost"}
"""Treatment of running tasks → the outcome of their allocations; draining tasks have none."""
_STOPPED: Final = ("suspended", "lost")
_Stops = dict[tuple[int, float], set[str]]
"""(machine, time in s) → outcomes of tasks that may stop there and then."""


def check_outages(run: AuditedRun) -> Check:
    """Check the causes of changes of capacity, and what became of the tasks that ran."""
    check = Check("outages", "capacity goes for the scenario's reasons, and tasks stop as it says")
    if not run.machines_change:
        return check.skip("nothing but power takes capacity away")
    try:
        lives = machine_lives(run, last_instant(run))
    except MissingInputError as error:
        return check.leave_out(str(error))
    except UNREADABLE:
        return check.leave_out("what the scenario says of machines is not known: see the rule "
                               "machine-capacity")  # fmt: skip
    foreseen = run.complete or run.scenario.cluster.failures is None
    if foreseen:
        _check_causes(run, lives, check)
    if run.policy_is_custom or run.preempts:
        reason = "the policy may stop tasks, too"
    elif not foreseen:
        reason = "the run is not complete, so failures are not drawn"
    else:
        reason = ""
        _check_stops(run, _may_stop(run, lives), check)
        _check_youngest(run, lives, check)
    return check.leave_out(reason) if reason and not check.found else check


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


def _check_stops(run: AuditedRun, may_stop: _Stops, check: Check) -> None:
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
