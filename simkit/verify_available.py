"""What machines may draw over a run, in bounds: from the ledger's flows and the scenario.

Sources, grid and battery, less critical load, over the PUE that the site then has. What a battery
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
