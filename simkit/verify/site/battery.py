"""Checks of the battery and its controller, row by row of the ledger.

Each row is checked by the previous row as it was recorded, so that a mistake is reported where it
was made. The content follows a closed form: with the power g into the store and the leak λ,
e₁ = e₀ exp(−λ t) + g (1 − exp(−λ t)) / λ. The controller is checked by the content at the start of
a row, and by the price and the carbon in that row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from simkit.power.facts import BatteryFacts
from simkit.scenario.power import DEFAULT_CONTROLLER
from simkit.verify.audit import (
    KWH,
    TICK,
    Bools,
    Check,
    Floats,
    Ints,
    NotApplicableError,
    NotAuditedError,
    ratio,
    rule,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.site.course import changes_of, lowest_in_rows, starts_of
from simkit.verify.site.ledger import SLACK, add_power_rows, needs_power
from simkit.verify.site.signals import SiteSignals

CLC_HOLD_S = 60.0
"""A battery whose limits fall with its content holds a power for at least this time."""


def limits(battery: BatteryFacts, content: Floats) -> tuple[Floats, Floats]:
    """Return (N,) the largest powers in W that contents in J allow to charge and to discharge.

    A battery within two ticks of a bound counts as at the bound. With slopes, a power must be
    possible for the time that it is held.
    """
    charge_slope, discharge_slope = slopes(battery)
    tapers = bool(charge_slope or discharge_slope)
    kept, reach = decay(battery, CLC_HOLD_S + 2.0 * TICK if tapers else 0.0)
    charge = np.full(len(content), battery.most_charge_w)
    discharge = np.full(len(content), battery.most_discharge_w)
    if charge_slope:
        charge = np.minimum(charge, (battery.ceiling_j - content) / charge_slope)
    if tapers:
        taken = battery.charge_efficiency * reach + charge_slope
        charge = np.minimum(charge, (battery.ceiling_j - content * kept) / taken)
        given = reach / battery.discharge_efficiency + discharge_slope
        discharge = np.minimum(discharge, (content * kept - battery.floor_j) / given)
    near_full = 2.0 * TICK * battery.charge_efficiency * battery.most_charge_w
    leaks = battery.self_discharge_per_s * content / battery.charge_efficiency
    leaks = np.minimum(battery.most_charge_w, leaks)
    empty = content - battery.floor_j <= 2.0 * TICK * fastest_fall_w(battery)
    at_full = 0.0 * leaks if charge_slope else leaks
    return (
        np.where(battery.ceiling_j - content <= near_full, at_full, charge),
        np.where(empty, 0.0, np.maximum(discharge, 0.0)),
    )


def decay(battery: BatteryFacts, span: Any) -> tuple[Any, Any]:
    """Return the share of its content that a battery keeps over a span in s, and the charged span.

    The latter is the time in which a constant power would add as much without the leak.
    """
    leak = battery.self_discharge_per_s
    return np.exp(-leak * span), -np.expm1(-leak * span) / leak if leak else span


def fastest_fall_w(battery: BatteryFacts) -> float:
    """Return how fast the content falls at most, in W."""
    discharge = battery.most_discharge_w / battery.discharge_efficiency
    return discharge + battery.self_discharge_per_s * battery.capacity_j


def slopes(battery: BatteryFacts) -> tuple[float, float]:
    """Return by how many J the ceiling sinks, and the floor rises, per W."""
    return 3600.0 * battery.charge_slope_h, 3600.0 * battery.discharge_slope_h


def contents_before(run: AuditedRun, battery: BatteryFacts) -> Floats:
    """Return the content in J at the start of each row of the ledger."""
    return np.append(battery.capacity_j * battery.initial_soc, run.power["stored_j"][:-1])


@rule
def check_battery(run: AuditedRun, check: Check) -> None:
    """The battery keeps its limits, and its content follows from its power."""
    needs_power(run)
    section = run.setting("power", "battery")
    check.examined = len(run.power["seconds"])
    if section is None:
        for name in ("charge_w", "discharge_w", "stored_j", "stored_carbon_g", "stored_cost"):
            message = "the site has no battery, but the ledger has its power"
            add_power_rows(check, run, message, run.power[name] != 0)
        raise NotApplicableError("the site has no battery")
    battery = section
    _check_content(check, run, battery)
    _check_window(check, run, battery)
    _check_carried(check, run, battery)


def _check_content(check: Check, run: AuditedRun, battery: BatteryFacts) -> None:
    row = run.power
    gain = row["charge_w"] * battery.charge_efficiency
    gain = gain - row["discharge_w"] / battery.discharge_efficiency
    kept, reach = decay(battery, row["seconds"])
    expected = contents_before(run, battery) * kept + gain * reach
    inside = np.clip(expected, 0.0, battery.capacity_j)
    wrong = ~(np.abs(row["stored_j"] - inside) <= SLACK * battery.capacity_j)
    add_power_rows(check, run, "the content does not follow", wrong, stored_j=expected)


def _check_window(check: Check, run: AuditedRun, battery: BatteryFacts) -> None:
    """Check that powers keep to the C-rates and move no content past its bounds."""
    row, before = run.power, contents_before(run, battery)
    charge, discharge, after = row["charge_w"], row["discharge_w"], row["stored_j"]
    for name, power, most in (
        ("charge", charge, battery.most_charge_w),
        ("discharge", discharge, battery.most_discharge_w),
    ):
        wrong = power > most * (1.0 + 2.0 * SLACK)
        add_power_rows(check, run, f"{name} is above its C-rate", wrong)
    # A battery stops up to a tick early or late.
    slack, (charge_slope, discharge_slope) = SLACK * battery.capacity_j, slopes(battery)
    top = np.maximum(battery.ceiling_j - charge_slope * charge, before)
    high = (charge > 0) & (after > top + 4.0 * TICK * charge + slack)
    add_power_rows(check, run, "charged above its ceiling", high)
    bottom = np.minimum(battery.floor_j + discharge_slope * discharge, before)
    low = after < bottom - 4.0 * TICK * discharge / battery.discharge_efficiency - slack
    # The leak may take the content below its floor.
    leaked = before * (1.0 - decay(battery, row["seconds"])[0])
    low &= (discharge > 0) & (after + leaked < bottom - slack)
    add_power_rows(check, run, "discharged below its floor", low)


def _check_carried(check: Check, run: AuditedRun, battery: BatteryFacts) -> None:
    """Check that carbon, cost and the grid's part enter by charging and leave by discharging."""
    row = run.power
    span, after = row["seconds"], row["stored_j"]
    old = contents_before(run, battery) * decay(battery, span)[0]
    stays = np.clip(ratio(after, old), 0.0, 1.0)
    stays[row["discharge_w"] <= 0] = 1.0
    part = ratio(row["load_battery_w"], row["discharge_w"])
    for what, unit, of_grid in (
        ("carbon_g", "gco2_per_kwh", "carbon_gco2_per_kwh"),
        ("cost", "price_per_kwh", "price_per_kwh"),
    ):
        own_rate, grid_rate = row[f"generation_{unit}"] / KWH, row[of_grid] / KWH
        held = np.append(0.0, row[f"stored_{what}"][:-1])
        entered = row["charge_renewable_w"] * own_rate + row["charge_grid_w"] * grid_rate
        expected = held * stays + entered * span
        size = np.abs(held) + np.abs(entered * span)
        name = f"stored_{what}"
        wrong = ~(np.abs(row[name] - expected) <= SLACK * size)
        add_power_rows(check, run, f"{name} does not follow", wrong, **{name: expected})
        direct = row["load_renewable_w"] * own_rate + row["load_grid_w"] * grid_rate
        amount = direct * span + held * (1.0 - stays) * part
        size = np.abs(direct * span) + np.abs(held)
        name = f"load_{what}_per_s"
        wrong = ~(np.abs(row[name] * span - amount) <= SLACK * size)
        expected = ratio(amount, span)
        add_power_rows(check, run, f"{name} does not follow", wrong, **{name: expected})
    _check_mixture(check, run, old)


def _check_mixture(check: Check, run: AuditedRun, old: Floats) -> None:
    """Check that the grid's part of the content changes only while charging."""
    row = run.power
    after = row["stored_j"]
    share = ratio(row["stored_grid_j"], after)
    # An empty battery has no mixture.
    held = np.append(0.0, share[:-1])
    known = (after > 0) & (np.append(1.0, after[:-1]) > 0)
    kept = np.clip(ratio(old, after), 0.0, 1.0)
    of_grid = ratio(row["charge_grid_w"], row["charge_w"])
    expected = np.where(row["charge_w"] > 0, held * kept + of_grid * (1.0 - kept), held)
    wrong = known & ~(np.abs(share - expected) <= SLACK)
    message = "the grid's part of the content does not follow"
    add_power_rows(check, run, message, wrong, stored_grid_j=expected * after)
    given = row["load_battery_w"] * expected
    wrong = known & ~(np.abs(row["load_battery_grid_w"] - given) <= SLACK * row["load_battery_w"])
    message = "the grid's part of the discharge does not follow"
    add_power_rows(check, run, message, wrong, load_battery_grid_w=given)


@rule
def check_reserve(run: AuditedRun, check: Check) -> None:
    """The reserve serves last; the grid charges only as it may."""
    needs_power(run)
    rules, battery = run.setting("power", "controller"), run.setting("power", "battery")
    if rules.type != DEFAULT_CONTROLLER:
        raise NotApplicableError("the site has a custom controller")
    if battery is None:
        raise NotApplicableError("the site has no battery")
    limit = lowest_in_rows(run.power, run.once(SiteSignals).of_grid("import_limit_w"))
    check.examined = len(run.power["seconds"])
    _check_reserve(check, run, battery, rules.args, limit)
    _check_charge(check, run, battery, rules.args)


def _check_reserve(
    check: Check, run: AuditedRun, battery: BatteryFacts, rules: dict[str, Any], limit: Floats
) -> None:
    """Check that the battery keeps its reserve while the grid can give more."""
    row, before = run.power, contents_before(run, battery)
    reserve = float(rules.get("reserve", 0.0)) * battery.capacity_j
    drawn = row["discharge_w"] / battery.discharge_efficiency
    slack = SLACK * battery.capacity_j + 2.0 * TICK * drawn
    leaked = before * (1.0 - decay(battery, row["seconds"])[0])
    below = row["stored_j"] + leaked < np.minimum(reserve, before) - slack
    at_rest = before < reserve - slack  # all of the content is reserve
    more = row["import_w"] < limit - SLACK * np.where(np.isfinite(limit), limit, 0.0)
    wrong = (row["discharge_w"] > 0) & (below | at_rest) & more
    add_power_rows(check, run, "the reserve serves while the grid can give more", wrong)


def _check_charge(
    check: Check, run: AuditedRun, battery: BatteryFacts, rules: dict[str, Any]
) -> None:
    """Check that the grid charges only while it is cheap or clean, within the peak, to a level."""
    row, before = run.power, contents_before(run, battery)
    flowing = row["generation_w"] + row["import_w"] + row["discharge_w"]
    bought = row["charge_grid_w"] > 4.0 * SLACK * flowing
    cheap = row["price_per_kwh"] <= float(rules.get("charge_below_price", -math.inf))
    clean = row["carbon_gco2_per_kwh"] <= float(rules.get("charge_below_carbon", -math.inf))
    message = "the grid charges while it is neither cheap nor clean"
    add_power_rows(check, run, message, bought & ~cheap & ~clean)
    peak = float(rules.get("peak_w", math.inf))
    over = row["import_w"] > peak + SLACK * flowing
    add_power_rows(check, run, "the grid charges above its peak", bought & over)
    top = float(rules.get("charge_to", 1.0)) * battery.capacity_j
    slack = SLACK * battery.capacity_j + 2.0 * TICK * row["charge_w"]
    high = (row["stored_j"] > np.maximum(top, before) + slack) | (before > top + slack)
    add_power_rows(check, run, "the grid charges beyond charge_to", bought & high)


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
        """Return those of a run; raises NotAuditedError if a limit is not recomputed."""
        courses = [
            run.once(SiteSignals).of_grid(f"{name}_limit_w") for name in ("import", "export")
        ]
        starts = starts_of(run.power)
        times = np.unique(np.concatenate([starts, *(changes_of(run.power, c) for c in courses)]))
        at = np.searchsorted(starts, times, side="right") - 1
        return cls(at, courses[0].at(times), courses[1].at(times))


@rule
def check_dispatch(run: AuditedRun, check: Check) -> None:
    """Grid, battery and curtailment are set as the controller sets them."""
    needs_power(run)
    rules = run.setting("power", "controller")
    if rules.type != DEFAULT_CONTROLLER:
        raise NotAuditedError("the set-points of a custom controller are not recomputed")
    stretches = _Stretches.of(run)
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


def _wrong(
    run: AuditedRun, rules: dict[str, Any], stretches: _Stretches
) -> tuple[Bools, dict[str, Floats]]:
    """Return which stretches have other flows, and what the controller sets in each."""
    row, at = run.power, stretches.at
    flowing = sum(row[name] for name in ("generation_w", "load_w", "charge_w", "discharge_w"))
    slack = SLACK * (flowing + row["import_w"])[at]
    battery = run.setting("power", "battery")
    content = np.zeros(len(at)) if battery is None else contents_before(run, battery)[at]
    everything = np.arange(len(at))
    first = _set(row, rules, stretches, battery, content, everything)
    wrong = _differ(row, at, first, slack) & ~_held(run, stretches, slack)
    if battery is not None:
        for nearby in (-SLACK, SLACK):  # at a bound rounding decides
            left = np.flatnonzero(wrong)
            nearly = content[left] + nearby * battery.capacity_j
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
    battery: BatteryFacts | None, content: Floats, chosen: Ints,
) -> dict[str, Floats]:  # fmt: skip
    """Return the flows that the default controller sets in chosen stretches.

    A surplus charges the battery, is exported, then curtailed. A deficit is met by battery and grid
    in the order of the rules, the battery only down to its reserve and the grid only up to its
    peak; then by the grid up to its limit, then by the reserve. While the grid is cheap or clean,
    it comes first, and charges the battery with what its peak leaves.
    """
    at, most_import = stretches.at[chosen], stretches.most_import[chosen]
    nothing = np.zeros(len(chosen))
    charge, discharge = (nothing, nothing) if battery is None else limits(battery, content)
    capacity = 1.0 if battery is None else battery.capacity_j
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
