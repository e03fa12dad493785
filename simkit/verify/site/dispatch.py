"""The check of the controller: set-points follow from load, generation, offers and the battery.

The default controller is asked whenever something changes; until then its set-points are held. So
what a row of the ledger has is what the controller sets at the row's start, or what the row before
has, if nothing that it looks at has changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from simkit.scenario.power import DEFAULT_CONTROLLER
from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.battery import BatterySpec
from simkit.verify.ledger import SLACK, add_power_rows, no_power
from simkit.verify.numbers import Bools, Floats, Ints
from simkit.verify.site.course import NotRecomputedError, changes_of, starts_of

_FLOWS = ("import_w", "export_w", "charge_w", "discharge_w", "curtailment_w", "unserved_w")
"""What a controller sets."""
_SEEN = ("machines_w", "standing_w", "generation_w", "load_w", "price_per_kwh",
         "carbon_gco2_per_kwh", "pue")  # fmt: skip
"""What it is asked for again if it changes, besides the limits of the grid."""


@dataclass(frozen=True)
class _Stretches:
    """(N,) stretches of the ledger in which nothing changes: its rows, cut where limits change."""

    at: Ints
    """The row of each."""
    most_import: Floats
    most_export: Floats

    @classmethod
    def of(cls, run: AuditedRun) -> _Stretches:
        """Return those of a run; raises NotRecomputedError if a limit is not recomputed."""
        courses = [run.site.of_grid(f"{name}_limit_w") for name in ("import", "export")]
        starts = starts_of(run.power)
        times = np.unique(np.concatenate([starts, *(changes_of(run.power, c) for c in courses)]))
        at = np.searchsorted(starts, times, side="right") - 1
        return cls(at, courses[0].at(times), courses[1].at(times))


def check_dispatch(run: AuditedRun) -> Check:
    """Check that grid, battery and what is left over are set as the scenario's controller does."""
    check = Check("dispatch", "grid, battery and curtailment are set as the controller sets them")
    if skipped := no_power(run, check):
        return skipped
    rules = run.setting("power", "controller")
    if rules.type != DEFAULT_CONTROLLER:
        return check.leave_out("the set-points of a custom controller are not recomputed")
    try:
        stretches = _Stretches.of(run)
    except NotRecomputedError as error:
        return check.leave_out(str(error))
    check.examined = len(run.power["seconds"])
    wrong, expected = _wrong(run, rules.args, stretches)
    if wrong.any():
        rows = np.zeros(check.examined, dtype=bool)
        rows[stretches.at[wrong]] = True
        shown = {name: np.zeros(check.examined) for name in _FLOWS}
        for name, values in expected.items():
            shown[name][stretches.at[wrong]] = values[wrong]
        message = "the flows are not those that the controller sets"
        add_power_rows(check, run, message, rows, **shown)
    return check


def _wrong(
    run: AuditedRun, rules: dict[str, Any], stretches: _Stretches
) -> tuple[Bools, dict[str, Floats]]:
    """Return which stretches have other flows, and what the controller sets in each."""
    row, at = run.power, stretches.at
    flowing = sum(row[name] for name in ("generation_w", "load_w", "charge_w", "discharge_w"))
    slack = SLACK * (flowing + row["import_w"])[at]
    section = run.setting("power", "battery")
    battery = None if section is None else BatterySpec.of(section)
    content = np.zeros(len(at)) if battery is None else battery.contents_before(run)[at]
    everything = np.arange(len(at))
    first = _set(row, rules, stretches, battery, content, everything)
    wrong = _differ(row, at, first, slack) & ~_held(run, stretches, slack)
    if battery is not None:
        for nearby in (-SLACK, SLACK):  # at a bound rounding decides
            left = np.flatnonzero(wrong)
            nearly = content[left] + nearby * battery.capacity
            other = _set(row, rules, stretches, battery, nearly, left)
            wrong[left] = _differ(row, at[left], other, slack[left])
    return wrong, first


def _differ(row: dict[str, Floats], at: Ints, flows: dict[str, Floats], slack: Floats) -> Bools:
    """Return which of the ledger's rows `at` do not have the flows."""
    wrong = np.zeros(len(at), dtype=bool)
    for name, expected in flows.items():
        wrong |= ~(np.abs(row[name][at] - expected) <= slack)
    return wrong


def _held(run: AuditedRun, stretches: _Stretches, slack: Floats) -> Bools:
    """Return which stretches go on with the flows of the one before, as nothing changed."""
    row, at = run.power, stretches.at
    same = np.zeros(len(at), dtype=bool)
    same[1:] = stretches.most_import[1:] == stretches.most_import[:-1]
    same[1:] &= stretches.most_export[1:] == stretches.most_export[:-1]
    for name in _SEEN:
        same[1:] &= row[name][at[1:]] == row[name][at[:-1]]
    for name in _FLOWS:
        same[1:] &= np.abs(row[name][at[1:]] - row[name][at[:-1]]) <= slack[1:]
    return same


def _set(
    row: dict[str, Floats], rules: dict[str, Any], stretches: _Stretches,
    battery: BatterySpec | None, content: Floats, chosen: Ints,
) -> dict[str, Floats]:  # fmt: skip
    """Return the flows that the default controller sets in chosen stretches.

    A surplus charges the battery, is exported, then curtailed. A deficit is met by battery and grid
    in the order of the rules, the battery only down to its reserve and the grid only up to its
    peak; then by the grid up to its limit, then by the reserve. While the grid is cheap or clean,
    it comes first, and charges the battery with what its peak leaves.
    """
    at, most_import = stretches.at[chosen], stretches.most_import[chosen]
    charge, discharge = _limits(battery, content, len(chosen))
    capacity = 1.0 if battery is None else battery.capacity
    below_peak = np.minimum(most_import, float(rules.get("peak_w", math.inf)))
    attractive = row["price_per_kwh"][at] <= float(rules.get("charge_below_price", -math.inf))
    clean = float(rules.get("charge_below_carbon", -math.inf))
    attractive |= row["carbon_gco2_per_kwh"][at] <= clean
    attractive &= most_import > 0
    surplus = row["generation_w"][at] - row["load_w"][at]
    charged = np.minimum(np.maximum(surplus, 0.0), charge)
    exported = np.minimum(np.maximum(surplus, 0.0) - charged, stretches.most_export[chosen])
    curtailed = np.maximum(surplus, 0.0) - charged - exported
    deficit = np.maximum(-surplus, 0.0)
    above = content / capacity > float(rules.get("reserve", 0.0))
    shared = np.where(above, discharge, 0.0)
    grid_first = attractive | (rules.get("first", "battery") == "grid")
    bought = np.minimum(
        np.where(grid_first, deficit, np.maximum(deficit - shared, 0.0)), below_peak
    )
    given = np.where(grid_first, np.minimum(deficit - bought, shared), np.minimum(deficit, shared))
    more = np.minimum(deficit - given - bought, most_import - bought)
    bought = bought + more
    given = given + np.minimum(deficit - given - bought, discharge - given)
    missing = np.maximum(deficit - given - bought, 0.0)
    charges = attractive & ~(given > 0) & ~(missing > 0)
    charges &= content / capacity < float(rules.get("charge_to", 1.0))
    room = np.minimum(most_import, float(rules.get("peak_w", math.inf))) - (bought - exported)
    extra = np.where(charges, np.maximum(np.minimum(charge - charged, room), 0.0), 0.0)
    grid = bought - exported + extra
    flows = (
        np.maximum(grid, 0.0),
        np.maximum(-grid, 0.0),
        charged + extra,
        given,
        curtailed,
        missing,
    )
    return dict(zip(_FLOWS, flows, strict=True))


def _limits(battery: BatterySpec | None, content: Floats, number: int) -> tuple[Floats, Floats]:
    if battery is None:
        return np.zeros(number), np.zeros(number)
    return battery.limits(content)
