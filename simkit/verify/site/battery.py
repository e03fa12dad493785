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
from simkit.verify.audit import Check, NotApplicableError, NotAuditedError, rule
from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import KWH, TICK, Bools, Floats, Ints, ratio
from simkit.verify.site.course import changes_of, lowest_in_rows, starts_of
from simkit.verify.site.ledger import SLACK, add_power_rows, needs_power

CLC_HOLD_S = 60.0
"""A battery whose limits fall with its content holds a power for at least this time."""


@dataclass(frozen=True)
class BatterySpec:
    """The battery of the scenario, in J, W and s."""

    capacity: float
    most_charge: float
    most_discharge: float
    charge_efficiency: float
    discharge_efficiency: float
    floor: float
    ceiling: float
    initial: float
    leak: float
    """Share of the content that is lost per s."""
    charge_slope: float
    """J by which the ceiling sinks per W."""
    discharge_slope: float
    """J by which the floor rises per W."""

    @classmethod
    def of(cls, section: BatteryFacts) -> BatterySpec:
        """Return the battery of a scenario's section."""
        capacity = section.capacity_kwh * KWH
        return cls(
            capacity,
            capacity * section.charge_c_rate / 3600.0,
            capacity * section.discharge_c_rate / 3600.0,
            section.charge_efficiency,
            section.discharge_efficiency,
            capacity * section.floor,
            capacity * section.ceiling,
            capacity * section.initial_soc,
            -math.log(1.0 - section.self_discharge_per_day) / 86400.0,
            3600.0 * section.charge_slope_h,
            3600.0 * section.discharge_slope_h,
        )

    def limits(self, content: Floats) -> tuple[Floats, Floats]:
        """Return (N,) the largest powers in W that contents in J allow to charge and to discharge.

        A battery within two ticks of a bound counts as at the bound. With slopes, a power must be
        possible for the time that it is held.
        """
        tapers = bool(self.charge_slope or self.discharge_slope)
        span = CLC_HOLD_S + 2.0 * TICK if tapers else 0.0
        kept = math.exp(-self.leak * span)
        reach = -math.expm1(-self.leak * span) / self.leak if self.leak else span
        charge = np.full(len(content), self.most_charge)
        discharge = np.full(len(content), self.most_discharge)
        if self.charge_slope:
            charge = np.minimum(charge, (self.ceiling - content) / self.charge_slope)
        if tapers:
            taken = self.charge_efficiency * reach + self.charge_slope
            charge = np.minimum(charge, (self.ceiling - content * kept) / taken)
            given = reach / self.discharge_efficiency + self.discharge_slope
            discharge = np.minimum(discharge, (content * kept - self.floor) / given)
        full = self.ceiling - content <= 2.0 * TICK * self.charge_efficiency * self.most_charge
        leaks = np.minimum(self.most_charge, self.leak * content / self.charge_efficiency)
        falls = self.most_discharge / self.discharge_efficiency + self.leak * self.capacity
        empty = content - self.floor <= 2.0 * TICK * falls
        return (
            np.where(full, 0.0 * leaks if self.charge_slope else leaks, charge),
            np.where(empty, 0.0, np.maximum(discharge, 0.0)),
        )

    def contents_before(self, run: AuditedRun) -> Floats:
        """Return the content in J at the start of each row of the ledger."""
        return np.append(self.initial, run.power["stored_j"][:-1])


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
    battery = BatterySpec.of(section)
    _check_content(check, run, battery)
    _check_window(check, run, battery)
    _check_carried(check, run, battery)


def _check_content(check: Check, run: AuditedRun, battery: BatterySpec) -> None:
    row, leak = run.power, battery.leak
    gain = row["charge_w"] * battery.charge_efficiency
    gain = gain - row["discharge_w"] / battery.discharge_efficiency
    kept = np.exp(-leak * row["seconds"])
    reach = -np.expm1(-leak * row["seconds"]) / leak if leak else row["seconds"]
    expected = battery.contents_before(run) * kept + gain * reach
    inside = np.clip(expected, 0.0, battery.capacity)
    wrong = ~(np.abs(row["stored_j"] - inside) <= SLACK * battery.capacity)
    add_power_rows(check, run, "the content does not follow", wrong, stored_j=expected)


def _check_window(check: Check, run: AuditedRun, battery: BatterySpec) -> None:
    """Check that powers keep to the C-rates and move no content past its bounds."""
    row, before = run.power, battery.contents_before(run)
    charge, discharge, after = row["charge_w"], row["discharge_w"], row["stored_j"]
    for name, power, most in (
        ("charge", charge, battery.most_charge),
        ("discharge", discharge, battery.most_discharge),
    ):
        wrong = power > most * (1.0 + 2.0 * SLACK)
        add_power_rows(check, run, f"{name} is above its C-rate", wrong)
    # A battery stops up to a tick early or late.
    slack = SLACK * battery.capacity
    top = np.maximum(battery.ceiling - battery.charge_slope * charge, before)
    high = (charge > 0) & (after > top + 4.0 * TICK * charge + slack)
    add_power_rows(check, run, "charged above its ceiling", high)
    bottom = np.minimum(battery.floor + battery.discharge_slope * discharge, before)
    low = after < bottom - 4.0 * TICK * discharge / battery.discharge_efficiency - slack
    # The leak may take the content below its floor.
    leaked = before * -np.expm1(-battery.leak * row["seconds"])
    low &= (discharge > 0) & (after + leaked < bottom - slack)
    add_power_rows(check, run, "discharged below its floor", low)


def _check_carried(check: Check, run: AuditedRun, battery: BatterySpec) -> None:
    """Check that carbon, cost and the grid's part enter by charging and leave by discharging."""
    row = run.power
    span, after = row["seconds"], row["stored_j"]
    old = battery.contents_before(run) * np.exp(-battery.leak * span)
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
    limit = lowest_in_rows(run.power, run.site.of_grid("import_limit_w"))
    check.examined = len(run.power["seconds"])
    _check_reserve(check, run, BatterySpec.of(battery), rules.args, limit)
    _check_charge(check, run, BatterySpec.of(battery), rules.args)


def _check_reserve(
    check: Check, run: AuditedRun, battery: BatterySpec, rules: dict[str, Any], limit: Floats
) -> None:
    """Check that the battery keeps its reserve while the grid can give more."""
    row, before = run.power, battery.contents_before(run)
    reserve = float(rules.get("reserve", 0.0)) * battery.capacity
    drawn = row["discharge_w"] / battery.discharge_efficiency
    slack = SLACK * battery.capacity + 2.0 * TICK * drawn
    leaked = before * -np.expm1(-battery.leak * row["seconds"])
    below = row["stored_j"] + leaked < np.minimum(reserve, before) - slack
    at_rest = before < reserve - slack  # all of the content is reserve
    more = row["import_w"] < limit - SLACK * np.where(np.isfinite(limit), limit, 0.0)
    wrong = (row["discharge_w"] > 0) & (below | at_rest) & more
    add_power_rows(check, run, "the reserve serves while the grid can give more", wrong)


def _check_charge(
    check: Check, run: AuditedRun, battery: BatterySpec, rules: dict[str, Any]
) -> None:
    """Check that the grid charges only while it is cheap or clean, within the peak, to a level."""
    row, before = run.power, battery.contents_before(run)
    flowing = row["generation_w"] + row["import_w"] + row["discharge_w"]
    bought = row["charge_grid_w"] > 4.0 * SLACK * flowing
    cheap = row["price_per_kwh"] <= float(rules.get("charge_below_price", -math.inf))
    clean = row["carbon_gco2_per_kwh"] <= float(rules.get("charge_below_carbon", -math.inf))
    message = "the grid charges while it is neither cheap nor clean"
    add_power_rows(check, run, message, bought & ~cheap & ~clean)
    peak = float(rules.get("peak_w", math.inf))
    over = row["import_w"] > peak + SLACK * flowing
    add_power_rows(check, run, "the grid charges above its peak", bought & over)
    top = float(rules.get("charge_to", 1.0)) * battery.capacity
    slack = SLACK * battery.capacity + 2.0 * TICK * row["charge_w"]
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
        courses = [run.site.of_grid(f"{name}_limit_w") for name in ("import", "export")]
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
