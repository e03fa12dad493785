"""What machines may draw over a run, in bounds: from the ledger's flows and the scenario.

Sources, grid and battery, less critical load, over the PUE of a site that is full. What a battery
counts for follows from its content when the power was last looked at. This instant is known where
generation or capacity changes; elsewhere the battery counts for something between nothing and its
largest discharge.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.verify_battery import Facts, battery_facts
from simkit.verify_maintenance import seconds
from simkit.verify_power import SLACK, columns, constant

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

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
    pue = _full_pue(run, row, full_w)[at]
    return Available(times, np.maximum(least, 0.0) / pue, np.maximum(most, 0.0) / pue)


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


def _full_pue(run: RunFolder, row: dict[str, Floats], full_w: float) -> Floats:
    """Return (N,) the PUE of a site that is full: as much above its curve as the weather adds."""
    section = run.setting("power", "pue") or {}
    if section.get("by_load") is None:
        return np.full(len(row["pue"]), float(section.get("ratio") or 1.0))
    points = sorted((float(place), float(ratio)) for place, ratio in section["by_load"].items())
    places, ratios = np.array(points).T
    rated = float(section.get("rated_w") or full_w)
    added = row["pue"] - np.interp(row["machines_w"] / rated, places, ratios)
    full: Floats = np.interp(full_w / rated, places, ratios) + added
    return full
