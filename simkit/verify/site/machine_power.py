"""Checks of machine power: it follows from switches and allocations, and bills add up to it.

A machine without tasks draws its idle power while it is on or shuts down, and other powers while it
boots and when it is off. Where capacity alone does not tell who is on, the events of kind
``switched`` do: machines take time to boot or to shut down, or change for other reasons than power.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simkit.verify.audit import (
    TICK,
    Bools,
    Check,
    Floats,
    Ints,
    NotApplicableError,
    ratio,
    rule,
    sum_until,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.site.ledger import SLACK, add_power_rows, needs_power
from simkit.verify.site.signals import MachineDraw, machine_draws

Steps = tuple[Floats, Floats]
"""(T,) ascending instants, and (T,) values, each from its instant on."""
_LATE_S = 2.0 * TICK
"""A boot ends at the first multiple of a tick after its time."""
_UNIT = 1e-6
"""Amounts of a resource that differ by less are the same."""
_NEXT = {
    "on": ("shutting down", "off", "booting"),
    "shutting down": ("off", "booting", "on"),
    "off": ("booting", "on"),
    "booting": ("on", "shutting down", "off"),
}
"""State of a switch → states that may follow; several changes may fall on one instant."""

_BILLED = ("energy_j", "overhead_j", "renewable_j", "battery_j", "grid_j", "carbon_g", "cost")


@rule
def check_machine_power(run: AuditedRun, check: Check) -> None:
    """Machines draw what their switches say, and what the allocations add."""
    needs_power(run)
    draws = machine_draws(run)
    row = run.power
    check.examined = len(row["seconds"])
    slack = SLACK * (sum(max(d.idle, d.off, d.boot) for d in draws.values()) + row["machines_w"])
    own = own_power(run, draws, check)
    wrong, standing = _differs(run, own, row["standing_w"], slack)
    message = "standing_w is not what machines draw without tasks"
    add_power_rows(check, run, message, wrong, standing_w=standing)
    dynamic = row["machines_w"] - row["standing_w"]
    wrong, added = _differs(run, _added(run, draws), dynamic, slack)
    expected = added + row["standing_w"]
    message = "machines_w is not what their tasks draw"
    add_power_rows(check, run, message, wrong, machines_w=expected)


def _differs(run: AuditedRun, steps: Steps, found: Floats, slack: Floats) -> tuple[Bools, Floats]:
    """Return which rows of power differ from what holds in them, and what holds at their starts.

    It holds from the start of a row, and does not change within it.
    """
    row, (times, levels) = run.power, steps
    expected = np.append(0.0, levels)[np.searchsorted(times, row["start_s"], side="right")]
    wrong = ~(np.abs(found - expected) <= slack)
    at = np.searchsorted(row["start_s"], times, side="right") - 1
    inside = (at >= 0) & (times < row["end_s"][at])
    at, within = at[inside], levels[inside]
    wrong[at[~(np.abs(found[at] - within) <= slack[at])]] = True
    return wrong, expected


def _added(run: AuditedRun, draws: dict[int, MachineDraw]) -> Steps:
    """Return the instants at which the use changes, and what tasks add from then on, in W."""
    parts: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))]
    held = run.known.filter(pl.col("start_time_s").is_not_null())
    for machine, rows in held.group_by("machine_id", maintain_order=True):
        draw = draws.get(int(machine[0]))
        for resource, watts in draw.added.items() if draw else ():
            if resource in run.requested:
                capacity = run.capacity[int(machine[0])][run.resources.index(resource)]
                amount = (rows["count"] * rows[f"one_{resource}"]).to_numpy()
                parts.append(_changes(rows, amount, watts, capacity))
    return _summed(parts)


def _summed(parts: list[Steps]) -> Steps:
    """Return the instants of all changes, and their sums from each on."""
    times, changes = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    times, total = times[order], np.cumsum(changes[order].astype(np.longdouble))
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    return times[last], total[last].astype(np.float64)


def _changes(
    rows: pl.DataFrame, amount: Floats, watts: Floats, capacity: float
) -> tuple[Floats, Floats]:
    """Return the instants at which the use of a resource changes, and the changes in W."""
    start = rows["start_time_s"].to_numpy()
    end = rows["end_time_s"].fill_null(np.inf).to_numpy()
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    used = np.cumsum(np.concatenate((amount, -amount))[order])
    return times[order], np.diff(_power_at(watts, used / capacity), prepend=0.0)


def _power_at(watts: Floats, use: Floats) -> Floats:
    """Return the power in W at (N,) uses, by lines between equal steps from 0 to 1.

    Above 1, as while work drains, the last line continues.
    """
    beyond = np.maximum(use - 1.0, 0.0) * (watts[-1] - watts[-2]) * (len(watts) - 1)
    level: Floats = np.interp(use, np.linspace(0.0, 1.0, len(watts)), watts) + beyond
    return level


# ---- power without tasks ------------------------------------------------------------------------


def own_power(run: AuditedRun, draws: dict[int, MachineDraw], check: Check) -> Steps:
    """Return what all machines draw without tasks; report switches that break their times."""
    recorded = run.switches or any(draw.boot_s or draw.shutdown_s for draw in draws.values())
    if len(draws) == 1 and run.power_limits_capacity:
        ((machine, draw),) = draws.items()
        return _of_pool(run, machine, draw, check, recorded=bool(recorded))
    parts: list[Steps] = [(np.array([-np.inf]), np.array([sum(d.idle for d in draws.values())]))]
    for machine, draw in draws.items():
        if recorded:
            times, watts = _by_switch(run, machine, draw, check)
        else:
            times, watts = _by_capacity(run, machine, draw)
        parts.append((times, np.diff(watts, prepend=draw.idle)))
    return _summed(parts)


def _by_switch(run: AuditedRun, machine: int, draw: MachineDraw, check: Check) -> Steps:
    """Return what a machine draws without tasks, by its recorded switch; it begins on."""
    watts = {"on": draw.idle, "shutting down": draw.idle, "booting": draw.boot, "off": draw.off}
    lasts = {"booting": draw.boot_s, "shutting down": draw.shutdown_s}
    before, since = "on", -np.inf
    for row, detail in run.switches.get(machine, ()):
        state, time = str(detail.get("state")), float(row["time_s"])
        if state not in _NEXT[before]:
            check.add(f"a machine that was {before} cannot be {state}", row)
            state = before
        if before in lasts and not 0 <= time - since - lasts[before] <= _LATE_S:
            check.add(f"the machine was not {before} for its time", row | {"since": since})
        before, since = state, time
    if before in lasts and _ended(run, since + lasts[before]):
        check.add(f"a machine is still {before}", {"machine_id": machine, "since": since})
    found = [(float(row["time_s"]), watts.get(str(detail.get("state")), np.nan))
             for row, detail in run.switches.get(machine, ())]  # fmt: skip
    times, levels = np.array(found).reshape(-1, 2).T
    full = run.capacity[machine][0]
    _check_capacity(check, run, machine, lambda detail: full * (detail.get("state") == "on"))
    return times, levels


def _check_capacity(
    check: Check, run: AuditedRun, machine: int, on: Callable[[dict[str, Any]], float]
) -> None:
    """Check that a machine has the capacity that its switch says, if nothing else changes it.

    `on` returns how much of the first resource is on by the detail of an event.
    """
    at = {float(row["time_s"]): (row, detail) for row, detail in run.switches.get(machine, ())}
    there = run.capacity_at(machine, np.array(list(at), dtype=np.float64))[:, 0]
    for (row, detail), capacity in zip(at.values(), there.tolist(), strict=True):
        if not run.machines_change and not abs(capacity - on(detail)) <= _UNIT:
            check.add("the capacity of a machine does not agree with its switch", row)


def _by_capacity(run: AuditedRun, machine: int, draw: MachineDraw) -> Steps:
    """Return what a machine draws that boots at once: it is on while it has power, or tasks."""
    held, times = _held(run, machine)
    events = [e for e in run.capacity_events if e.by_power and e.row["machine_id"] == machine]
    on = [(float(e.row["time_s"]), any(dict(e.detail["capacity"]).values())) for e in events]
    instants = np.union1d(times, [time for time, _ in on])
    powered = np.array([True, *(there for _, there in on)])
    powered = powered[np.searchsorted([time for time, _ in on], instants, side="right")]
    busy = np.append(0.0, held.max(axis=1, initial=0.0))
    busy = busy[np.searchsorted(times, instants, side="right")]
    return instants, np.where(powered | (busy > 0), draw.idle, draw.off)


def _of_pool(
    run: AuditedRun, machine: int, draw: MachineDraw, check: Check, *, recorded: bool
) -> Steps:
    """Return what a pool draws without tasks: by the shares that are on, that boot, and are off.

    Processors that still run tasks are on.
    """
    size = run.capacity[machine][0]
    if recorded:
        found = _pool_switches(run, machine, draw, check)
    else:
        name = run.resources[0]
        found = [(float(e.row["time_s"]), float(e.detail["capacity"].get(name, size)), 0.0)
                 for e in run.capacity_events if e.by_power]  # fmt: skip
    table = np.array([(-np.inf, size, 0.0), *found])
    held, times = _held(run, machine)
    instants = np.union1d(times, table[:, 0])
    _, on, booting = table[np.searchsorted(table[:, 0], instants, side="right") - 1].T
    busy = np.vstack((np.zeros((1, held.shape[1])), held)).max(axis=1, initial=0.0)
    busy = busy[np.searchsorted(times, instants, side="right")]
    on_share = np.minimum(np.maximum(on / size, busy), 1.0)
    boot_share = np.minimum(booting / size, 1.0 - on_share)
    off_share = 1.0 - on_share - boot_share
    return instants, on_share * draw.idle + boot_share * draw.boot + off_share * draw.off


def _pool_switches(
    run: AuditedRun, machine: int, draw: MachineDraw, check: Check
) -> list[tuple[float, float, float]]:
    """Return (time in s, processors that are on, that boot) of each recorded change.

    What is called begins to boot and is on after its time; what is sent off goes youngest first:
    those that boot, then those that are on.
    """
    on, found = run.capacity[machine][0], list[tuple[float, float, float]]()
    boots: list[list[float]] = []
    for row, detail in run.switches.get(machine, ()):
        time, total = float(row["time_s"]), float(detail["on"]) + float(detail["booting"])
        if total > run.capacity[machine][0]:
            check.add("more processors are on or boot than there are", row)
        if boots and boots[0][0] < time - _LATE_S:
            check.add("processors that have booted are not on", row | {"due_s": boots[0][0]})
        while boots and boots[0][0] <= time:
            on += boots.pop(0)[1]
        more = total - on - sum(units for _, units in boots)
        if more > 0:
            boots.append([time + draw.boot_s, more])
        while boots and more < 0:
            dropped = min(boots[-1][1], -more)
            boots[-1][1] -= dropped
            more += dropped
            if not boots[-1][1]:
                boots.pop()
        on += min(more, 0.0)
        if not draw.boot_s:
            on += sum(boots.pop()[1] for _ in tuple(boots))
        if abs(float(detail["on"]) - on) > SLACK * total:
            check.add("other processors are on than have booted", row | {"expected": on})
        found.append((time, float(detail["on"]), float(detail["booting"])))
    if boots and _ended(run, boots[0][0]):
        check.add("processors that have booted are not on", {"due_s": boots[0][0]})
    _check_capacity(check, run, machine, lambda detail: float(detail["on"]))
    return found


def _ended(run: AuditedRun, due_s: float) -> bool:
    """Return whether a time was over before the end of the ledger."""
    return bool(run.power["end_s"][-1] - due_s > _LATE_S)


def _held(run: AuditedRun, machine: int) -> tuple[Floats, Floats]:
    """Return (T, R) the share of each resource that tasks hold from (T,) instants on."""
    rows = run.known.filter(pl.col("start_time_s").is_not_null(), pl.col("machine_id") == machine)
    start = rows["start_time_s"].to_numpy()
    end = rows["end_time_s"].fill_null(np.inf).to_numpy()
    times = np.concatenate((start, end))
    instants = np.unique(times)
    held = np.zeros((len(instants), len(run.requested)))
    for column, name in enumerate(run.requested):
        amount = (rows["count"] * rows[f"one_{name}"]).to_numpy()
        total = sum_until(times, np.concatenate((amount, -amount)), instants)
        capacity = run.capacity[machine][run.resources.index(name)]
        held[:, column] = total / capacity if capacity else 0.0
    return held, instants


@rule
def check_bills(run: AuditedRun, check: Check) -> None:
    """Jobs and idle power pay for what machines drew, each job for its part."""
    needs_power(run)
    if "energy" not in run.tables:
        raise NotApplicableError("the run is not complete and has no bills")
    bills = run.tables["energy"]
    check.examined = bills.height
    check.add_rows("the job has several bills", bills.filter(bills["job_id"].is_duplicated()))
    jobs = run.jobs.select("job_id").unique(maintain_order=True)
    check.add_rows("the job has no bill", jobs.join(bills, on="job_id", how="anti"))
    check.add_rows("the bill's job does not exist", bills.join(jobs, on="job_id", how="anti"))
    used = pl.col("energy_j") + pl.col("overhead_j")
    sources = pl.col("renewable_j") + pl.col("battery_j") + pl.col("grid_j")
    wrong = ((used - sources).abs() > SLACK * used.abs()) | (pl.col("energy_j") < 0)
    wrong = wrong.fill_null(value=True)
    check.add_rows("the sources of a bill do not add up", bills.filter(wrong))
    drawn = _drawn(run.power)
    _check_total(check, bills, run.power, drawn)
    _check_each(check, run, bills, drawn)


def _drawn(row: dict[str, Floats]) -> dict[str, Floats]:
    """Return the energy, carbon and cost of 1 W of machine power in each row, per s."""
    loaded = row["load_w"] > 0
    load = np.where(loaded, row["load_w"], 1.0)
    each = {
        "energy_j": np.maximum(load - row["unserved_w"], 0.0) / load,
        "renewable_j": row["load_renewable_w"] * row["pue"] / load,
        "battery_j": row["load_battery_w"] * row["pue"] / load,
        "grid_j": row["load_grid_w"] * row["pue"] / load,
        "carbon_g": row["load_carbon_g_per_s"] * row["pue"] / load,
        "cost": row["load_cost_per_s"] * row["pue"] / load,
    }
    sources = each["renewable_j"] + each["battery_j"] + each["grid_j"]
    each["overhead_j"] = sources - each["energy_j"]
    return {name: np.where(loaded, each[name], 0.0) for name in _BILLED}


def _check_total(
    check: Check, bills: pl.DataFrame, row: dict[str, Floats], drawn: dict[str, Floats]
) -> None:
    """Check that jobs and idle power together pay for what machines drew."""
    for name, rate in drawn.items():
        whole, idle, size = (
            float(np.sum((watts * rates * row["seconds"]).astype(np.longdouble)))
            for watts, rates in (
                (row["machines_w"], rate), (row["standing_w"], rate),
                (row["machines_w"], _size(name, drawn)),
            )
        )  # fmt: skip
        jobs = float(np.sum(bills[name].to_numpy().astype(np.longdouble)))
        if not abs(jobs + idle - whole) <= SLACK * size:
            found = {"what": name, "jobs": jobs, "idle": idle, "machines": whole}
            check.add("jobs and idle power do not pay for what machines drew", found)


def _size(name: str, drawn: dict[str, Floats]) -> Floats:
    """Return the rate to which deviations are compared, per s.

    Overhead is a difference of energies, so that its rounding error is theirs.
    """
    size = np.abs(drawn[name])
    return size + drawn["energy_j"] if name == "overhead_j" else size


def _check_each(
    check: Check, run: AuditedRun, bills: pl.DataFrame, drawn: dict[str, Floats]
) -> None:
    """Check that each job pays for the W that it added, or for its part on a curve of power."""
    draws = machine_draws(run)
    row, on_machines = run.power, pl.col("machine_id").is_in(list(draws))
    held = run.known.filter(pl.col("start_time_s").is_not_null(), on_machines)
    watts, curves = _watts(run, held, draws), _curves(run, held, draws)
    most = max(watts.max(initial=0.0), *(part.most_w for part in curves), 0.0)
    start = held["start_time_s"].to_numpy()
    end = held["end_time_s"].fill_null(np.inf).to_numpy()
    for name, rate in drawn.items():
        rates = {"expected": rate, "size": _size(name, drawn)}
        parts = []
        for part, each in rates.items():
            amounts = watts * _between(row, each, start, end)
            for curve in curves:
                amounts[curve.rows] += curve.amounts(row, each)
            parts.append(pl.Series(part, amounts))
        paid = held.select("job_id").with_columns(parts)
        paid = paid.group_by("job_id").agg(pl.col(rates).sum())
        both = bills.select("job_id", name).join(paid, on="job_id", how="left")
        both = both.with_columns(pl.col(rates).fill_null(0.0))
        # The rounding error of a sum over the whole run.
        noise = 1e-12 * float(rates["size"].max(initial=0.0)) * float(row["seconds"].sum())
        slack = SLACK * pl.col("size") + noise * float(most)
        wrong = both.filter(~((pl.col(name) - pl.col("expected")).abs() <= slack))
        check.add_rows(f"{name} is not the job's part", wrong.drop("size"))


def _watts(run: AuditedRun, held: pl.DataFrame, draws: dict[int, MachineDraw]) -> Floats:
    """Return what each allocation adds to the power of its machine by lines of power, in W."""
    rows_of = {machine: n for n, machine in enumerate(sorted(run.capacity))}
    per_unit = np.zeros((len(rows_of), len(run.requested)))
    for machine, draw in draws.items():
        for column, resource in enumerate(run.requested):
            capacity = run.capacity[machine][run.resources.index(resource)]
            if resource in draw.added and len(draw.added[resource]) == 2:
                per_unit[rows_of[machine], column] = draw.added[resource][-1] / capacity
    on = np.searchsorted(sorted(rows_of), held["machine_id"].to_numpy())
    amounts = held.select(f"one_{resource}" for resource in run.requested).to_numpy()
    watts: Floats = (per_unit[on] * amounts).sum(axis=1) * held["count"].to_numpy()
    return watts


class _Curve(NamedTuple):
    """The allocations of a machine that hold a resource with a curve of power.

    Those who hold it at a time share its power by the units that they hold.
    """

    rows: Ints
    """(k,) of the allocations."""
    held: Floats
    """(k,) units that each holds."""
    times: Floats
    """(T,) instants at which anything changes."""
    unit_w: Floats
    """(T,) power of a unit from each on, in W."""
    first: Ints
    """(k,) the instant at which each starts."""
    last: Ints
    """(k,) the instant at which it ends."""

    @property
    def most_w(self) -> float:
        return float(self.held.max(initial=0.0) * self.unit_w.max(initial=0.0))

    def amounts(self, row: dict[str, Floats], rate: Floats) -> Floats:
        """Return (k,) the integrals of a rate for each W over the power of each allocation."""
        each = self.unit_w[:-1] * _between(row, rate, self.times[:-1], self.times[1:])
        sums = np.append(0.0, np.cumsum(each.astype(np.longdouble)))
        return np.asarray(self.held * (sums[self.last] - sums[self.first]), dtype=np.float64)


def _curves(run: AuditedRun, held: pl.DataFrame, draws: dict[int, MachineDraw]) -> list[_Curve]:
    """Return the curves of power of all machines."""
    found = []
    curved = [machine for machine, draw in draws.items() if not draw.linear]
    table = held.with_row_index("row").filter(pl.col("machine_id").is_in(curved))
    for (machine,), rows in table.group_by("machine_id", maintain_order=True):
        for resource, watts in draws[int(machine)].added.items():
            if resource in run.requested and len(watts) > 2:
                capacity = run.capacity[int(machine)][run.resources.index(resource)]
                found.append(_curve(rows, resource, watts, capacity))
    return found


def _curve(rows: pl.DataFrame, resource: str, watts: Floats, capacity: float) -> _Curve:
    amount = (rows["count"] * rows[f"one_{resource}"]).to_numpy()
    start = rows["start_time_s"].to_numpy()
    end = rows["end_time_s"].fill_null(np.inf).to_numpy()
    times, at = np.unique(np.concatenate((start, end)), return_inverse=True)
    used = np.zeros(len(times))
    np.add.at(used, at, np.concatenate((amount, -amount)))
    used = np.cumsum(used)
    unit_w = ratio(_power_at(watts, used / capacity), used)
    half = len(amount)
    return _Curve(rows["row"].to_numpy(), amount, times, unit_w, at[:half], at[half:])


def _between(row: dict[str, Floats], rate: Floats, start: Floats, end: Floats) -> Floats:
    """Return the integral of a rate from start to end, (N,) each."""
    sums = np.append(0.0, np.cumsum((rate * row["seconds"]).astype(np.longdouble)))
    until = []
    for times in (start, end):
        at = np.clip(np.searchsorted(row["start_s"], times, side="right") - 1, 0, len(rate) - 1)
        inside = np.clip(times - row["start_s"][at], 0.0, row["seconds"][at])
        until.append(sums[at] + rate[at] * inside)
    return np.asarray(until[1] - until[0], dtype=np.float64)
