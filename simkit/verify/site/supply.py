"""Checks of the supply: as many processors or machines are on as the power carries; who stops.

By `power`, each machine that is on takes the difference between what it draws when busy and when
off from the available power, and all other machines stay off. By `resources`, the share of the
resources that is on is the share of the power in its peak. Machines boot before they are on.

Machines may draw what sources, grid and battery give, less the critical load, over the PUE of the
site. What a battery adds follows from its content when the controller last decided. That instant is
known if generation or capacity changes; otherwise the battery adds between nothing and its largest
discharge.

Running tasks stop only where power falls. In a pool of one resource the order is checked as well:
the lowest value density is stopped first, then the youngest task, and nothing is stopped once the
rest fits. Value densities are in the order of the quality of service there, since all jobs pay the
same prices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.power.facts import BatteryFacts
from simkit.verify.audit import (
    TICK,
    Bools,
    Check,
    Floats,
    Ints,
    NotApplicableError,
    NotAuditedError,
    rule,
    sum_until,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.capacity import OUTCOME_OF, STOPPED
from simkit.verify.machines import failing_machines, machine_lives
from simkit.verify.site.battery import (
    CLC_HOLD_S,
    contents_before,
    decay,
    fastest_fall_w,
    slopes,
)
from simkit.verify.site.course import Course
from simkit.verify.site.ledger import SLACK, needs_power
from simkit.verify.site.signals import MachineDraw, SiteSignals, machine_draws

_ROUNDING = 1e-9
"""Relative error within which power carries a whole unit."""
_GRID = 2.0**-30
"""Amounts that are not whole are multiples of this."""
_STAYING_OFF = "whether machines that are off should be on is not judged"


class _Rule(NamedTuple):
    """How power becomes capacity, by the scenario."""

    by_power: bool
    peak_w: float
    """resources: the power that carries everything."""
    full_w: float
    """What all machines draw when busy."""
    off_w: float
    """What all machines draw when off."""
    boot_s: float
    """The longest boot."""
    transit_s: float
    """The longest time from the decision to switch a machine on until it is on."""


class _Available(NamedTuple):
    """Bounds of what machines may draw from each instant to the next, in W; shape (T,)."""

    times: Floats
    least: Floats
    most: Floats


@rule
def check_supply(run: AuditedRun, check: Check) -> None:
    """Exactly as much capacity is on as the power carries."""
    needs_power(run)
    if not run.power_limits_capacity:
        _check_no_limit(check, run)
        return
    running = run.setting("power", "supply", "running")
    for row, detail in (event for event in run.capacity_events if event.by_power):
        if detail.get("running") != running:
            message = "the event does not treat running tasks as the scenario says"
            check.add(message, row | {"expected": running})
    imported = run.once(SiteSignals).of_grid("import_limit_w")
    draws = machine_draws(run)
    rule = _rule(run, draws)
    available = _available(run, rule, imported)
    if len(run.capacity) == 1:
        _check_pool(check, run, available, rule)
    else:
        _check_machines(check, run, available, draws, rule)


def _check_no_limit(check: Check, run: AuditedRun) -> None:
    """Without a limit only the policy may change capacity, by switching machines."""
    if run.policy_may_kill:
        raise NotApplicableError(
            "power does not limit what may run; the policy may switch machines"
        )
    for event in run.capacity_events:
        if event.by_power:
            check.add("capacity changes with the power, which does not limit it", event.row)
    for event in (each for of in run.switches.values() for each in of):
        if not run.machines_change:
            check.add("a machine is switched, and nothing switches it", event.row)
    raise NotApplicableError("power does not limit what may run")


def _rule(run: AuditedRun, draws: dict[int, MachineDraw]) -> _Rule:
    alone = len(draws) == 1  # the processors of a pool go off at once
    transits = [d.boot_s + (0.0 if alone else d.shutdown_s) for d in draws.values()]
    full_w = sum(draw.full for draw in draws.values())
    peak_w = run.setting("power", "supply", "peak_w")
    return _Rule(
        run.setting("power", "supply", "limit") == "power",
        full_w if peak_w is None else peak_w,
        full_w,
        sum(draw.off for draw in draws.values()),
        max(draw.boot_s for draw in draws.values()),
        max(transits),
    )


def _available(run: AuditedRun, rule: _Rule, imported: Course) -> _Available:
    """Return what machines may draw at the start of each row, and where power or limit change.

    If machines take time to follow, the bounds are given for that time after each row as well; if
    they follow at once, the available power is known at the instants at which capacity changes.
    The end of the last row is left out: what is generated from then on is not recorded.
    `imported` is the most that the grid gives, in W.
    """
    row = run.power
    begin, end = row["start_s"], row["end_s"][-1]
    changes = run.power_instants
    changes = changes[(changes >= begin[0]) & (changes < end)]
    limits = imported.times[(imported.times > begin[0]) & (imported.times < end)]
    times = np.union1d(np.union1d(begin, changes), limits)
    if rule.transit_s:
        followed = begin + (rule.transit_s + 8.0 * TICK)
        times = np.union1d(times, followed[followed < end])
    at = np.searchsorted(begin, times, side="right") - 1
    critical = row["load_w"] - row["pue"] * row["machines_w"]
    limit = imported.at(times)
    base = (row["generation_w"] - critical)[at] + limit
    size = row["generation_w"] + np.abs(critical) + row["load_w"]
    slack = SLACK * (size[at] + np.where(np.isfinite(limit), limit, 0.0)) + imported.slack
    least, most = base - slack, base + slack
    if run.setting("power", "battery") is not None:
        decided = np.isin(times, changes) & (not rule.transit_s)
        low, high = _from_battery(run, times, at, decided)
        least, most = least + low, most + high
    pue = _Pue(run, rule.full_w)
    return _Available(times, pue.machines_w(least, at), pue.machines_w(most, at))


def _from_battery(
    run: AuditedRun, times: Floats, at: Ints, decided: Bools
) -> tuple[Floats, Floats]:
    """Return the bounds of what the battery adds at each instant, in W."""
    row, battery = run.power, run.setting("power", "battery")
    hold = run.setting("power", "supply", "hold")
    content = contents_before(run, battery)[at]
    content = content * decay(battery, times - row["start_s"][at])[0]
    power, slack = _held_power(battery, content, hold)
    begins = times == row["start_s"][at]
    changed = np.append(True, np.diff(row["generation_w"]) != 0)[at] & begins
    at_rest = (row["charge_w"] + row["discharge_w"] == 0)[at]
    known = changed | (decided & (begins | at_rest))
    low = np.where(known, power - slack, 0.0)
    high = np.where(known, power + slack, battery.most_discharge_w * (1.0 + SLACK))
    return np.maximum(low, 0.0), high


def _held_power(battery: BatteryFacts, content: Floats, hold: float) -> tuple[Floats, float]:
    """Return the power that contents in J can hold for a time in s, and its tolerance.

    In that time the content falls to content * exp(-leak * t) - power / efficiency * reach and must
    not be below the floor; just above the floor the battery counts as empty.
    """
    span = max(hold, CLC_HOLD_S if any(slopes(battery)) else 0.0) + 2.0 * TICK
    kept, reach = decay(battery, span)
    left = content * kept - battery.floor_j
    power = left / (reach / battery.discharge_efficiency + slopes(battery)[1])
    slack = SLACK * battery.most_discharge_w + SLACK * battery.capacity_j / span
    slack += 4.0 * TICK / span * fastest_fall_w(battery)
    return np.clip(power, 0.0, battery.most_discharge_w), slack


class _Pue:
    """What the site draws for each W that machines draw, by the scenario."""

    def __init__(self, run: AuditedRun, full_w: float) -> None:
        section, row = run.setting("power", "pue"), run.power
        self._full_w, self._curve = full_w, section.by_load is not None
        points = sorted((section.by_load or {0.0: section.ratio or 1.0}).items())
        self._places, self._ratios = np.array(points).T
        self._rated_w = section.rated_w or full_w
        # The weather adds what the ledger has above the curve.
        self._added = row["pue"] - self._of(row["machines_w"]) if self._curve else 0 * row["pue"]

    def _of(self, machines_w: Floats) -> Floats:
        return np.asarray(np.interp(machines_w / self._rated_w, self._places, self._ratios))

    def machines_w(self, total_w: Floats, at: Ints) -> Floats:
        """Return (N,) the most that machines may draw so that it fits with its overhead.

        On a curve this is found by bisection, or if all machines fit, by the PUE of a full site.
        """
        total, added = np.maximum(total_w, 0.0), self._added[at]
        plain: Floats = total / (self._of(np.full(len(total), self._full_w)) + added)
        if not self._curve:
            return plain
        low, high = np.zeros(len(total)), np.full(len(total), self._full_w)
        for _ in range(60):
            middle = (low + high) / 2
            fits = middle * (self._of(middle) + added) <= total
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return np.where(plain >= self._full_w, plain, low)


# ---- machines -----------------------------------------------------------------------------------


def _check_machines(
    check: Check, run: AuditedRun, available: _Available, draws: dict[int, MachineDraw], rule: _Rule
) -> None:
    """Check that the machines that are on fit the power, and that none stays off that would fit.

    A machine weighs its part of the available power, or its share of the resources. The machines
    that are on must not weigh more than the power allows.
    """
    if rule.by_power:
        weights = {machine: draw.full - draw.off for machine, draw in draws.items()}
    else:
        total = sum(capacity[0] for capacity in run.capacity.values())
        weights = {machine: capacity[0] / total for machine, capacity in run.capacity.items()}
    times = available.times
    check.examined += len(times)
    used = _weight_in_use(run, weights, times)
    least, most = (_allowed_weight(watts, rule) for watts in (available.least, available.most))
    columns = {"time_s": times, "on": used, "least": least, "most": most}
    slack = SLACK * sum(weights.values())
    check.add_where("more machines are on than the power carries", used > most + slack, columns)
    if all(any(step.capacity) for step in run.capacity_steps):
        return  # none is ever off
    if reason := _why_staying_off_is_unknown(run, weights, rule):
        raise NotAuditedError(f"{_STAYING_OFF}: {reason}")
    one = next(iter(weights.values()))
    lowest, highest = (_machines_within(weight, one, len(weights)) for weight in (least, most))
    if rule.transit_s:
        lowest = _settled(times, lowest, highest, rule.transit_s + 4.0 * TICK)
    idle = used < lowest * one - slack
    check.add_where("fewer machines are on than the power carries", idle, columns)


def _why_staying_off_is_unknown(run: AuditedRun, weights: dict[int, float], rule: _Rule) -> str:
    """Return why machines that stay off are not checked; empty if they are."""
    if len(set(weights.values())) > 1:
        return "they differ"
    if run.policy_may_kill or run.machines_change:
        return "they may be away for other reasons"
    if rule.transit_s and run.setting("power", "battery") is not None:
        return "they boot, and the battery's part meanwhile is not recorded"
    return ""


def _allowed_weight(watts: Floats, rule: _Rule) -> Floats:
    if rule.by_power:  # machines that are off draw power that may not be there
        return np.asarray(np.maximum(watts - rule.off_w, 0.0) * (1.0 + _ROUNDING))
    return watts / rule.peak_w + _ROUNDING


def _weight_in_use(run: AuditedRun, weights: dict[int, float], times: Floats) -> Floats:
    """Return (T,): the weight of the machines that have any capacity."""
    was_on: dict[int, bool] = {}
    changes: list[tuple[float, float]] = []
    for step in run.capacity_steps:
        on, before = any(step.capacity), was_on.get(step.machine_id, False)
        changes.append((step.time_s, weights[step.machine_id] * (on - before)))
        was_on[step.machine_id] = on
    instants, amounts = np.array(changes).T
    return sum_until(instants, amounts, times)


def _machines_within(allowed: Floats, weight: float, machines: int) -> Floats:
    """Return how many machines of one weight are allowed."""
    if not weight > 0:
        return np.full(len(allowed), float(machines))
    return np.asarray(np.clip(np.floor(allowed / weight), 0.0, machines))


def _settled(times: Floats, least: Floats, most: Floats, transit_s: float) -> Floats:
    """Return a lower bound of the machines that have been allowed for the whole transit time.

    These are the machines that were allowed then, less all that were switched off since.
    """
    fallen = np.cumsum(np.maximum(np.append(0.0, most[:-1] - least[1:]), 0.0))
    then = np.maximum(np.searchsorted(times, times - transit_s, side="right") - 1, 0)
    return np.asarray(least[then] - (fallen - fallen[then]))


# ---- a pool -------------------------------------------------------------------------------------


def _check_pool(check: Check, run: AuditedRun, available: _Available, rule: _Rule) -> None:
    """Check that the processors that are on have had their power for the boot time."""
    ((machine, capacity),) = run.capacity.items()
    times = available.times
    check.examined += len(times)
    least, most = (_units(watts, capacity[0], rule) for watts in (available.least, available.most))
    if rule.boot_s:
        least = _lowest_since(times, least, rule.boot_s + 2.0 * TICK)
        most = _lowest_since(times, most, rule.boot_s - 2.0 * TICK)
    found, left = run.capacity_at(machine, times), np.tile(capacity, (len(times), 1))
    if run.machines_change:
        left = machine_lives(run, float(times[-1]))[machine].offered(times)
    low, high = (np.minimum(_amounts(units, capacity), left) for units in (least, most))
    if machine in failing_machines(run):
        low = np.where((found == 0).all(axis=1)[:, None], 0.0, low)
    wrong = ((found < low - 2.0 * _GRID) | (found > high + 2.0 * _GRID)).any(axis=1)
    columns = {"time_s": times, "available_w": available.most}
    for r, name in enumerate(run.resources):
        columns |= {name: found[:, r], f"least_{name}": low[:, r], f"most_{name}": high[:, r]}
    check.add_where("the capacity is not what the power carries", wrong, columns)


def _units(watts: Floats, size: float, rule: _Rule) -> Floats:
    """Return how many units of a pool a power in W carries."""
    if rule.by_power:
        span = rule.full_w - rule.off_w
        share = (watts - rule.off_w) / span if span > 0 else np.full(len(watts), np.inf)
    else:
        share = watts / rule.peak_w
    return _whole(size * np.clip(share, 0.0, 1.0), size)


def _amounts(units: Floats, capacity: tuple[float, ...]) -> Floats:
    """Return (T, R): the amount of each resource for units of the first one."""
    share = units / capacity[0]
    return np.column_stack([_whole(full * share, full) for full in capacity])


def _whole(amounts: Floats, full: float) -> Floats:
    """Round down to whole units if the total is a whole number; else to the grid."""
    if full % 1 == 0:
        return np.asarray(np.floor(amounts + _ROUNDING))
    return np.asarray(np.round(amounts / _GRID) * _GRID)


def _lowest_since(times: Floats, values: Floats, length: float) -> Floats:
    """Return the lowest value in the last `length` s; each value holds until the next time."""
    first = np.maximum(np.searchsorted(times, times - length, side="right") - 1, 0)
    pairs = np.column_stack((first, np.arange(len(times)) + 1)).ravel()
    return np.asarray(np.minimum.reduceat(np.append(values, np.inf), pairs)[::2])


_EQUAL: Final = 1e-9
"""Densities that differ by a smaller share count as equal."""


@dataclass(frozen=True)
class _Held:
    """An allocation of the pool."""

    row: int
    """Its row in the table of allocations."""
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
    stopped = run.allocations.filter(pl.col("outcome").is_in(STOPPED))
    check.examined += stopped.height
    due = OUTCOME_OF.get(run.setting("power", "supply", "running"))
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
        return "qos" in run.columns_of("jobs") and not brought
    return not {"value", "qos"} & set(run.columns_of("jobs"))


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
    if "qos" in run.columns_of("jobs"):
        jobs = run.jobs.select("job_id", "qos").unique("job_id", keep="first")
        rows = rows.join(jobs, on="job_id", how="left", maintain_order="left")
        quality = pl.col("qos").fill_null(0.0)
    size = pl.col("count") * pl.col(f"one_{run.requested[0]}")
    end = pl.col("end_time_s").fill_null(float("inf"))
    stopped = pl.col("outcome").is_in(STOPPED)
    table = rows.select("row", "start_time_s", end, size.alias("size"), quality, stopped)
    table = table.filter(pl.col("size") > 0).sort("start_time_s", maintain_order=True)
    return [_Held(*values) for values in table.iter_rows()]
