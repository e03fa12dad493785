"""Checks of machine power: it follows from the allocations, and bills add up to it.

The power of idle, booting and switched-off machines does not follow from the allocations; it must
be between what all machines draw when off and what they draw when idle or booting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.ledger import SLACK, add_power_rows, no_power
from simkit.verify.numbers import Floats

_BILLED = ("energy_j", "overhead_j", "renewable_j", "battery_j", "grid_j", "carbon_g", "cost")


@dataclass(frozen=True)
class MachineDraw:
    """What one machine draws, in W."""

    least: float
    """The least and the most that it draws without tasks."""
    most: float
    idle: float
    """When on without tasks."""
    off: float
    """When switched off."""
    added: dict[str, Floats]
    """Resource → W above idle at equal steps of its use, from 0 to 1."""

    @property
    def full(self) -> float:
        """The power when all resources are in use."""
        return self.idle + float(sum(watts[-1] for watts in self.added.values()))

    @property
    def linear(self) -> bool:
        """Whether the power is linear in the use of each resource."""
        return all(len(watts) == 2 for watts in self.added.values())


def machine_draws(run: AuditedRun) -> dict[int, MachineDraw]:
    """Return machine id → what it draws.

    Raises KeyError, TypeError or ValueError if the scenario does not determine it.
    """
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    pool = len(machines) == 1 and "processors" in run.resources
    number = float(machines[0]["capacity"]["processors"]) if pool else 1.0
    return {
        int(machine["id"]): _draw_of(run, section, machine["capacity"], number)
        for machine, section in zip(machines, machine_sections(run, machines), strict=True)
    }


def machine_sections(run: AuditedRun, machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the scenario's section on the power of each machine."""
    section = run.setting("power", "machines")
    if "groups" not in section:
        return [section] * len(machines)
    groups = section["groups"]
    chosen = []
    for machine in machines:
        name = str(machine["name"])
        group = re.sub(r"-\d+$", "", name)
        named = [key for key in groups if key != "default" and key in (name, group)]
        chosen.append(groups[named[0] if named else "default"])
    return chosen


def _draw_of(
    run: AuditedRun, section: dict[str, Any], capacity: dict[str, float], number: float
) -> MachineDraw:
    if section.get("per_resource") is not None:
        idle = float(section["idle_w"])
        added = {name: [0.0, float(w)] for name, w in section["per_resource"].items()}
    else:
        table = section.get("table") or [section["idle_w"], section["full_w"]]
        idle = float(table[0])
        usual = [name for name in ("cpu", "processors") if name in run.resources]
        resource = section.get("resource") or (*usual, run.resources[0])[0]
        added = {str(resource): [float(watts) - idle for watts in table]}
    boots = section.get("boot_w")
    own = (idle, float(section.get("off_w") or 0.0), idle if boots is None else float(boots))
    return MachineDraw(
        number * min(own),
        number * max(own),
        number * idle,
        number * own[1],
        {r: number * np.array(watts) for r, watts in added.items() if capacity.get(r)},
    )


def check_machine_power(run: AuditedRun) -> Check:
    """Check that machines draw what their tasks add to their own power at every instant."""
    check = Check("machine-power", "machines draw what the allocations add to their own power")
    if skipped := no_power(run, check):
        return skipped
    try:
        draws = machine_draws(run)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return check.leave_out(f"the scenario does not determine what machines draw: {error!r}")
    row = run.power
    check.examined = len(row["seconds"])
    least, most = sum(d.least for d in draws.values()), sum(d.most for d in draws.values())
    slack = SLACK * (most + row["machines_w"])
    own = row["standing_w"]
    outside = (own < least - slack) | (own > most + slack)
    add_power_rows(check, run, "machines without tasks draw more or less than they can", outside)
    # What tasks add holds from the start of a row, and does not change within it.
    times, added = _added(run, draws)
    dynamic = row["machines_w"] - row["standing_w"]
    levels = np.append(0.0, added)[np.searchsorted(times, row["start_s"], side="right")]
    wrong = ~(np.abs(dynamic - levels) <= slack)
    at = np.searchsorted(row["start_s"], times, side="right") - 1
    inside = (at >= 0) & (times < row["end_s"][at])
    at, within = at[inside], added[inside]
    wrong[at[~(np.abs(dynamic[at] - within) <= slack[at])]] = True
    expected = levels + row["standing_w"]
    message = "machines_w is not what their tasks draw"
    add_power_rows(check, run, message, wrong, machines_w=expected)
    return check


def _added(run: AuditedRun, draws: dict[int, MachineDraw]) -> tuple[Floats, Floats]:
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


def check_bills(run: AuditedRun) -> Check:
    """Check that bills are complete, add up, and give each job its part of what machines drew."""
    check = Check("bills", "jobs and idle power pay for what machines drew, each job for its part")
    if skipped := no_power(run, check):
        return skipped
    if "energy" not in run.tables:
        return check.skip("the run is not complete and has no bills")
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
    return check


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
    """Check that each job pays for the W that it added, if the power is linear in the use."""
    try:
        draws = machine_draws(run)
    except (KeyError, TypeError, ValueError, AttributeError):
        return  # the rule "machine-power" reports it
    if not all(draw.linear for draw in draws.values()):
        check.notes["bills on power curves, of which only the sum is checked"] = bills.height
        return
    row, on_machines = run.power, pl.col("machine_id").is_in(list(draws))
    held = run.known.filter(pl.col("start_time_s").is_not_null(), on_machines)
    watts = _watts(run, held, draws)
    start = held["start_time_s"].to_numpy()
    end = held["end_time_s"].fill_null(np.inf).to_numpy()
    for name, rate in drawn.items():
        rates = {"expected": rate, "size": _size(name, drawn)}
        parts = [
            pl.Series(part, watts * _between(row, each, start, end)) for part, each in rates.items()
        ]
        paid = held.select("job_id").with_columns(parts)
        paid = paid.group_by("job_id").agg(pl.col(rates).sum())
        both = bills.select("job_id", name).join(paid, on="job_id", how="left")
        both = both.with_columns(pl.col(rates).fill_null(0.0))
        # The rounding error of a sum over the whole run.
        noise = 1e-12 * float(rates["size"].max(initial=0.0)) * float(row["seconds"].sum())
        slack = SLACK * pl.col("size") + noise * float(watts.max(initial=0.0))
        wrong = both.filter(~((pl.col(name) - pl.col("expected")).abs() <= slack))
        check.add_rows(f"{name} is not the job's part", wrong.drop("size"))


def _watts(run: AuditedRun, held: pl.DataFrame, draws: dict[int, MachineDraw]) -> Floats:
    """Return what each allocation adds to the power of its machine, in W."""
    rows_of = {machine: n for n, machine in enumerate(sorted(run.capacity))}
    per_unit = np.zeros((len(rows_of), len(run.requested)))
    for machine, draw in draws.items():
        for column, resource in enumerate(run.requested):
            capacity = run.capacity[machine][run.resources.index(resource)]
            if resource in draw.added:
                per_unit[rows_of[machine], column] = draw.added[resource][-1] / capacity
    on = np.searchsorted(sorted(rows_of), held["machine_id"].to_numpy())
    amounts = held.select(f"one_{resource}" for resource in run.requested).to_numpy()
    watts: Floats = (per_unit[on] * amounts).sum(axis=1) * held["count"].to_numpy()
    return watts


def _between(row: dict[str, Floats], rate: Floats, start: Floats, end: Floats) -> Floats:
    """Return the integral of a rate from start to end, (N,) each."""
    sums = np.append(0.0, np.cumsum((rate * row["seconds"]).astype(np.longdouble)))
    until = []
    for times in (start, end):
        at = np.clip(np.searchsorted(row["start_s"], times, side="right") - 1, 0, len(rate) - 1)
        inside = np.clip(times - row["start_s"][at], 0.0, row["seconds"][at])
        until.append(sums[at] + rate[at] * inside)
    return np.asarray(until[1] - until[0], dtype=np.float64)
