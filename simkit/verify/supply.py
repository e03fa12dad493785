"""The audit of the supply: as many processors or machines are on as the power carries.

The rule of the scenario's `power.supply`, worked out afresh. By `power`, a machine takes of what is
available what it draws when busy more than when off, and everything else stays off; by `resources`,
the share of the resources is the share that the power is of its peak. What is to come on boots
first.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.battery import Facts, battery_facts
from simkit.verify.capacity import CapacityStep, capacity_steps
from simkit.verify.durations import seconds
from simkit.verify.ledger import SLACK, columns, constant, no_power
from simkit.verify.machine_power import Model, machine_sections, models
from simkit.verify.machines import KINDS, failing_machines, machine_lives, offered
from simkit.verify.pieces import POWER, power_instants
from simkit.verify.tasks import policy_kills

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


# MERGED What the scenario says of how power becomes capacity, as the auditor reads it.


ROUNDING: Final = 1e-9
"""Share of a unit by which power may be short of it."""


class Law(NamedTuple):
    """What the scenario says of how power becomes capacity."""

    by_power: bool
    peak_w: float
    """resources: the power that carries everything."""
    transit_s: float
    """The longest that a machine takes from being called to being on: shutdown and boot."""
    boot_s: float


def limits_capacity(run: RunFolder) -> bool:
    """Tell whether power decides about capacity in this run."""
    return run.setting("power", "supply", "limit") in ("power", "resources")


def law_of(run: RunFolder, found: dict[int, Model]) -> Law:
    """Return the law of a run, whose machines' models are `found`."""
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    sections = machine_sections(run, machines)
    boots = [seconds(section.get("boot") or 0.0) for section in sections]
    shutdowns = [seconds(section.get("shutdown") or 0.0) for section in sections]
    peak = run.setting("power", "supply", "peak_w")
    full = sum(model.full for model in found.values())
    if len(machines) == 1:  # the processors of a pool just go off
        shutdowns = [0.0]
    return Law(
        run.setting("power", "supply", "limit") == "power",
        full if peak is None else float(peak),
        max(b + s for b, s in zip(boots, shutdowns, strict=True)),
        max(boots),
    )


# MERGED What machines may draw over a run, in bounds: from the ledger's flows and the scenario.
# MERGED
# MERGED Sources, grid and battery, less critical load, over the PUE that the site then has. What a battery
# MERGED counts for follows from its content when the power was last looked at. This instant is known where
# MERGED generation or capacity changes; elsewhere the battery counts for something between nothing and its
# MERGED largest discharge.


Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TICK = 2.0**-20
"""The run's grid of times, in s."""
_CLC_HOLD_S = 60.0
"""A battery whose limits fall with its content holds a power for so long at least."""


class Available(NamedTuple):
    """What machines may draw from each instant to the next, in W; arrays of shape (T,)."""

    times: Floats
    least: Floats
    most: Floats


def available(run: RunFolder, changes: Floats, full_w: float, transit_s: float) -> Available:
    """Return what machines may draw.

    Args:
        run: a run with power.
        changes: instants in s at which capacity changes with the power.
        full_w: what all machines draw when busy.
        transit_s: how long machines may take to follow; so long after each row the bounds are
            given, too. If they follow at once, it is known what was there as they changed.

    Raises ValueError where scenario and ledger do not tell it.
    """
    row = columns(run)
    begin, end = row["start_s"], row["end_s"][-1]
    inside = changes[(changes >= begin[0]) & (changes <= end)]
    times = np.union1d(begin, inside)
    if transit_s:
        followed = begin + (transit_s + 8.0 * TICK)
        times = np.union1d(times, followed[followed <= end])
    at = np.searchsorted(begin, times, side="right") - 1
    imported = _import_limit(run)
    critical = row["load_w"] - row["pue"] * row["machines_w"]
    base = (row["generation_w"] + imported - critical)[at]
    size = row["generation_w"] + np.abs(critical) + row["load_w"]
    slack = SLACK * (size[at] + (imported if math.isfinite(imported) else 0.0))
    least, most = base - slack, base + slack
    section = run.setting("power", "battery")
    if section is not None:
        low, high = _stored(run, section, row, times, at, np.isin(times, inside) & (not transit_s))
        least, most = least + low, most + high
    pue = _Pue(run, row, full_w)
    return Available(times, pue.within(least, at), pue.within(most, at))


def _import_limit(run: RunFolder) -> float:
    grid = run.setting("power", "grid")
    if grid is None:
        return 0.0
    section = grid.get("import_limit_w")
    limit = math.inf if section is None else constant(section)
    if limit is None:
        raise ValueError("the grid's limit of import changes, and the ledger does not tell it")
    return limit


def _stored(
    run: RunFolder,
    section: dict[str, Any],
    row: dict[str, Floats],
    times: Floats,
    at: npt.NDArray[np.int64],
    looked: Bools,
) -> tuple[Floats, Floats]:
    """Return the bounds of what the battery counts for at each instant, in W."""
    facts = battery_facts(section)
    hold = seconds(run.setting("power", "supply", "hold"))
    before = np.append(facts.initial, row["stored_j"][:-1])[at]
    content = before * np.exp(-facts.leak * (times - row["start_s"][at]))
    power, slack = _held(facts, content, hold)
    begins = times == row["start_s"][at]
    changed = np.append(True, np.diff(row["generation_w"]) != 0)[at] & begins
    known = changed | (looked & (begins | (row["charge_w"] + row["discharge_w"] == 0)[at]))
    low = np.where(known, power - slack, 0.0)
    high = np.where(known, power + slack, facts.most_discharge * (1.0 + SLACK))
    return np.maximum(low, 0.0), high


def _held(facts: Facts, content: Floats, hold: float) -> tuple[Floats, float]:
    """Return the power that contents in J hold for a time in s, and how exactly that is known.

    Until then the content falls to content * exp(-leak * t) - power / efficiency * reach, and must
    not be below the floor; close above the floor the battery counts as empty.
    """
    span = max(hold, _CLC_HOLD_S if facts.discharge_slope or facts.charge_slope else 0.0)
    span += 2.0 * TICK
    reach = -math.expm1(-facts.leak * span) / facts.leak if facts.leak else span
    left = content * math.exp(-facts.leak * span) - facts.floor
    power = np.clip(left / (reach / facts.delivered + facts.discharge_slope), 0.0, None)
    falls = facts.most_discharge / facts.delivered + facts.leak * facts.capacity
    slack = SLACK * facts.most_discharge + SLACK * facts.capacity / span + 4.0 * TICK / span * falls
    return np.minimum(power, facts.most_discharge), slack


class _Pue:
    """What the site draws for each W that machines draw, as the scenario has it."""

    def __init__(self, run: RunFolder, row: dict[str, Floats], full_w: float) -> None:
        section = run.setting("power", "pue") or {}
        self._full_w, self._curve = full_w, section.get("by_load") is not None
        by_load = section.get("by_load") or {"0": section.get("ratio") or 1.0}
        points = sorted((float(place), float(ratio)) for place, ratio in by_load.items())
        self._places, self._ratios = np.array(points).T
        self._rated_w = float(section.get("rated_w") or full_w)
        # what the weather adds is what the ledger has above the curve
        self._added = row["pue"] - self._of(row["machines_w"]) if self._curve else 0 * row["pue"]

    def _of(self, machines_w: Floats) -> Floats:
        ratio: Floats = np.interp(machines_w / self._rated_w, self._places, self._ratios)
        return ratio

    def within(self, total_w: Floats, at: npt.NDArray[np.int64]) -> Floats:
        """Return (N,) what machines may draw: the most of which, with its overhead, fits in.

        Halved again and again; where all machines together fit in, over the PUE of a full site.
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


# MERGED The audit of machines that power switches: none too many is on, and none too few.
# MERGED
# MERGED A machine weighs what it takes of what is available: what it draws when busy more than when off, or
# MERGED its share of the resources. Those that are on weigh no more than the budget that the power gives.


_NOTE = "machines that stay off are not held against the power"


def check_machines_on(
    check: Check, run: RunFolder, carried: Available, found: dict[int, Model], law: Law
) -> None:
    """What is on weighs no more than the power carries, and nothing stays off that it carries."""
    weights = _weights(run, found, law)
    times = carried.times
    check.examined += len(times)
    used = _in_use(run, weights, times)
    off_w = sum(model.off for model in found.values())
    least, most = (_budget(watts, off_w, law) for watts in (carried.least, carried.most))
    facts = {"time_s": times, "on": used, "least": least, "most": most}
    slack = SLACK * sum(weights.values())
    _blame(check, "more machines are on than the power carries", used > most + slack, facts)
    equal, one = len(set(weights.values())) == 1, next(iter(weights.values()))
    if not equal or policy_kills(run) or any(run.setting("cluster", kind) for kind in KINDS):
        check.notes[_NOTE] = "they differ, or may be away for other reasons"
        return
    if law.transit_s and run.setting("power", "battery") is not None:
        check.notes[_NOTE] = (
            "they boot, and what the battery counted for meanwhile is not on record"
        )
        return
    lowest, highest = (_wanted(b, one, len(weights)) for b in (least, most))
    if law.transit_s:
        lowest = _settled(times, lowest, highest, law.transit_s + 4.0 * TICK)
    idle = used < lowest * one - slack
    _blame(check, "fewer machines are on than the power carries", idle, facts)


def _weights(run: RunFolder, found: dict[int, Model], law: Law) -> dict[int, float]:
    """Return machine → what it takes of the budget when it is on."""
    if law.by_power:
        return {machine: model.full - model.off for machine, model in found.items()}
    total = sum(capacity[0] for capacity in run.capacity.values())
    return {machine: capacity[0] / total for machine, capacity in run.capacity.items()}


def _budget(watts: Floats, off_w: float, law: Law) -> Floats:
    """Return what the machines that are on may weigh together."""
    if law.by_power:
        return (watts - off_w) * (1.0 + ROUNDING)
    return watts / law.peak_w + ROUNDING


def _in_use(run: RunFolder, weights: dict[int, float], times: Floats) -> Floats:
    """Return (T,) what the machines weigh that offer anything."""
    before: CapacityStep | None = None
    changes: list[tuple[float, float]] = []
    for step in capacity_steps(run):
        was = before is not None and before.machine_id == step.machine_id and any(before.capacity)
        changes.append((step.time_s, weights[step.machine_id] * (any(step.capacity) - was)))
        before = step
    instants, amounts = np.array(changes).T
    order = np.argsort(instants, kind="stable")
    total = np.cumsum(amounts[order].astype(np.longdouble)).astype(np.float64)
    used: Floats = total[np.searchsorted(instants[order], times, side="right") - 1]
    return used


def _wanted(budget: Floats, weight: float, machines: int) -> Floats:
    """Return how many machines of one weight a budget allows."""
    if not weight > 0:
        return np.full(len(budget), float(machines))
    allowed: Floats = np.clip(np.floor(budget / weight), 0.0, machines)
    return allowed


def _settled(times: Floats, least: Floats, most: Floats, transit_s: float) -> Floats:
    """Return how many machines have been wanted for the transit time without a break, at least.

    Those that were wanted then, less every one that was sent off since.
    """
    fallen = np.cumsum(np.maximum(np.append(0.0, most[:-1] - least[1:]), 0.0))
    then = np.maximum(np.searchsorted(times, times - transit_s, side="right") - 1, 0)
    settled: Floats = least[then] - (fallen - fallen[then])
    return settled


def _blame(
    check: Check, message: str, wrong: npt.NDArray[np.bool_], facts: dict[str, Floats]
) -> None:
    for at in np.flatnonzero(wrong).tolist():
        check.add(message, {name: float(values[at]) for name, values in facts.items()})


_GRID = 2.0**-30
"""Of amounts that are not whole."""


def check_supply(run: RunFolder) -> Check:
    """Capacity follows the power that is there, by the scenario's rule."""
    check = Check("supply", "as much is on as the power carries, no more and no less")
    if skipped := no_power(run, check):
        return skipped
    if not limits_capacity(run):
        return _nothing_moves(check, run)
    _check_manner(check, run)
    try:
        found = models(run)
        law = law_of(run, found)
        changes = power_instants(run).to_numpy()
        full = sum(model.full for model in found.values())
        carried = available(run, changes, full, law.transit_s)
        if len(run.capacity) == 1:
            _check_pool(check, run, carried, next(iter(found.values())), law)
        else:
            check_machines_on(check, run, carried, found, law)
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        return check.leave_out(f"what power carries cannot be worked out: {error}")
    return check


def _nothing_moves(check: Check, run: RunFolder) -> Check:
    """Without a limit no capacity goes with the power, unless the policy switches machines."""
    if policy_kills(run):
        return check.skip("power does not limit what may run; the policy may switch machines")
    for event, detail in _power_events(run):
        if detail.get("cause") == POWER:
            check.add("capacity changes with the power, which limits nothing", event)
    return check if check.found else check.skip("power does not limit what may run")


def _power_events(run: RunFolder) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = []
    for event in run.tables["events"].filter(pl.col("kind") == "capacity").iter_rows(named=True):
        try:
            detail = json.loads(event["detail"])
        except (TypeError, ValueError):
            continue  # the rule "capacity" reports it
        if isinstance(detail, dict) and detail.get("cause") == POWER:
            found.append((event, detail))
    return found


def _check_manner(check: Check, run: RunFolder) -> None:
    """Every change of capacity says of running tasks what the scenario says."""
    running = run.setting("power", "supply", "running")
    for event, detail in _power_events(run):
        if detail.get("running") != running:
            check.add("tasks are not treated as the scenario says", event | {"expected": running})


# ---- a pool -------------------------------------------------------------------------------------


def _check_pool(check: Check, run: RunFolder, carried: Available, model: Model, law: Law) -> None:
    """The processors that are on are those whose power has been there for the boot time."""
    machine, capacity = next(iter(run.capacity.items()))
    times, size = carried.times, capacity[0]
    check.examined += len(times)
    least, most = (_units(watts, size, model, law) for watts in (carried.least, carried.most))
    if law.boot_s:
        least = _lowest_since(times, least, law.boot_s + 2.0 * TICK)
        most = _lowest_since(times, most, law.boot_s - 2.0 * TICK)
    others = _taken_by_others(run, machine, times)
    found = _recorded(run, machine, times)
    left = np.maximum(np.array(capacity) - others, 0.0)
    low, high = (np.minimum(_amounts(u, capacity), left) for u in (least, most))
    if machine in failing_machines(run):
        low = np.where((found == 0).all(axis=1)[:, None], 0.0, low)
    wrong = ((found < low - 2.0 * _GRID) | (found > high + 2.0 * _GRID)).any(axis=1)
    for at in np.flatnonzero(wrong).tolist():
        facts = {"time_s": times[at], "available_w": carried.most[at]}
        for r, name in enumerate(run.resources):
            facts |= {name: found[at, r], f"least_{name}": low[at, r], f"most_{name}": high[at, r]}
        check.add(
            "the capacity is not what the power carries",
            {name: float(value) for name, value in facts.items()},
        )


def _units(watts: Floats, size: float, model: Model, law: Law) -> Floats:
    """Return how many units of a pool a power in W carries."""
    if law.by_power:
        span = model.full - model.off
        share = (watts - model.off) / span if span > 0 else np.full(len(watts), np.inf)
    else:
        share = watts / law.peak_w
    return _whole(size * np.clip(share, 0.0, 1.0), size)


def _amounts(units: Floats, capacity: tuple[float, ...]) -> Floats:
    """Return (T, R): what units of the first resource bring of each."""
    share = units / capacity[0]
    return np.column_stack([_whole(full * share, full) for full in capacity])


def _whole(amounts: Floats, full: float) -> Floats:
    """Round down to whole units where all of them are a whole number; else to the grid."""
    whole: Floats = np.floor(amounts + ROUNDING) if full % 1 == 0 else np.round(
        amounts / _GRID
    ) * _GRID  # fmt: skip
    return whole


def _lowest_since(times: Floats, values: Floats, length: float) -> Floats:
    """Return the least of values that hold from each time on, over the `length` s until now."""
    first = np.maximum(np.searchsorted(times, times - length, side="right") - 1, 0)
    pairs = np.column_stack((first, np.arange(len(times)) + 1)).ravel()
    lowest: Floats = np.minimum.reduceat(np.append(values, np.inf), pairs)[::2]
    return lowest


def _taken_by_others(run: RunFolder, machine: int, times: Floats) -> Floats:
    """Return (T, R): what maintenance and the like take of the pool."""
    capacity = np.array(run.capacity[machine])
    if not any(run.setting("cluster", kind) for kind in KINDS):
        return np.zeros((len(times), len(capacity)))
    life = machine_lives(run, float(times[-1]))[machine]
    return np.asarray(capacity - offered(life, times, len(capacity)))


def _recorded(run: RunFolder, machine: int, times: Floats) -> Floats:
    """Return (T, R): the capacity on record."""
    steps = [step for step in capacity_steps(run) if step.machine_id == machine]
    at = np.searchsorted([step.time_s for step in steps], times, side="right") - 1
    return np.array([step.capacity for step in steps])[at]
