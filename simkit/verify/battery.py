"""The audit of the battery: its content, and what this carries, follow row by row.

Each row is held against the one before it as it was recorded, so that a mistake is named where it
was made. Contents follow a closed form: with a power g into the store and the leak λ,
e₁ = e₀ exp(−λ t) + g (1 − exp(−λ t)) / λ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify.audit import Check
from simkit.verify.ledger import KWH, SLACK, Floats, blame, columns, constant, no_power

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


TICK = 2.0**-20
"""The grid of times, in s: a battery stops up to a tick early or late."""


@dataclass(frozen=True)
class Facts:
    """What the scenario says of the battery, in J, W and s."""

    capacity: float
    most_charge: float
    most_discharge: float
    charged: float
    """Share of the charging power that is stored."""
    delivered: float
    """Share of the power taken out that arrives."""
    floor: float
    ceiling: float
    initial: float
    leak: float
    """1/s."""
    charge_slope: float
    """J by which the ceiling sinks for each W."""
    discharge_slope: float


def battery_facts(section: dict[str, Any]) -> Facts:
    """Return what a scenario's battery says, or raise KeyError, TypeError or ValueError."""
    number = {name: float(value) for name, value in section.items() if name != "model"}
    capacity = number["capacity_kwh"] * KWH
    return Facts(
        capacity,
        capacity * number["charge_c_rate"] / 3600.0,
        capacity * number["discharge_c_rate"] / 3600.0,
        number["charge_efficiency"],
        number["discharge_efficiency"],
        capacity * number["floor"],
        capacity * number["ceiling"],
        capacity * number["initial_soc"],
        -math.log(1.0 - number["self_discharge_per_day"]) / 86400.0,
        3600.0 * number.get("charge_slope_h", 0.0),
        3600.0 * number.get("discharge_slope_h", 0.0),
    )


def check_battery(run: RunFolder) -> Check:
    """The battery keeps to its limits, and holds what came in less what went out and was lost."""
    check = Check("battery", "the battery keeps its limits and loses what it should, no more")
    if skipped := no_power(run, check):
        return skipped
    row = columns(run)
    section = run.setting("power", "battery")
    if section is None:
        check.examined = len(row["seconds"])
        for name in ("charge_w", "discharge_w", "stored_j", "stored_carbon_g", "stored_cost"):
            blame(check, run, "power of a battery, and there is none", row[name] != 0)
        return check if check.found else check.skip("the site has no battery")
    check.examined = len(row["seconds"])
    facts = battery_facts(section)
    before = np.append(facts.initial, row["stored_j"][:-1])
    _check_content(check, run, row, before, facts)
    _check_window(check, run, row, before, facts)
    _check_carried(check, run, row, before, facts)
    return check


def _check_content(
    check: Check, run: RunFolder, row: dict[str, Floats], before: Floats, facts: Facts
) -> None:
    gain = row["charge_w"] * facts.charged - row["discharge_w"] / facts.delivered
    span, leak = row["seconds"], facts.leak
    reach = -np.expm1(-leak * span) / leak if leak else span
    expected = before * np.exp(-leak * span) + gain * reach
    slack = SLACK * facts.capacity
    wrong = ~(np.abs(row["stored_j"] - np.clip(expected, 0.0, facts.capacity)) <= slack)
    blame(check, run, "the content does not follow", wrong, stored_j=expected)


def _check_window(
    check: Check, run: RunFolder, row: dict[str, Floats], before: Floats, facts: Facts
) -> None:
    """Powers keep to the C-rates and push no content past its bound."""
    charge, discharge, after = row["charge_w"], row["discharge_w"], row["stored_j"]
    for name, power, most in (
        ("charge", charge, facts.most_charge),
        ("discharge", discharge, facts.most_discharge),
    ):
        blame(check, run, f"{name} above its C-rate", power > most * (1.0 + 2.0 * SLACK))
    slack = SLACK * facts.capacity
    top = np.maximum(facts.ceiling - facts.charge_slope * charge, before)
    high = (charge > 0) & (after > top + 4.0 * TICK * charge + slack)
    blame(check, run, "charged above its ceiling", high)
    bottom = np.minimum(facts.floor + facts.discharge_slope * discharge, before)
    low = (discharge > 0) & (after < bottom - 4.0 * TICK * discharge / facts.delivered - slack)
    # what leaks meanwhile may take the content below its floor
    leaked = before * -np.expm1(-facts.leak * row["seconds"])
    blame(check, run, "discharged below its floor", low & (after + leaked < bottom - slack))


def _check_carried(
    check: Check, run: RunFolder, row: dict[str, Floats], before: Floats, facts: Facts
) -> None:
    """Carbon, cost and the grid's part come in with the charge, leave with the discharge."""
    span, after = row["seconds"], row["stored_j"]
    kept = np.exp(-facts.leak * span)
    stays = np.clip(_over(after, before * kept), 0.0, 1.0)
    stays[row["discharge_w"] <= 0] = 1.0
    part = _over(row["load_battery_w"], row["discharge_w"])
    for what, unit in (("carbon_g", "gco2_per_kwh"), ("cost", "price_per_kwh")):
        grid = "carbon_gco2_per_kwh" if unit == "gco2_per_kwh" else unit
        sun_rate, grid_rate = row[f"generation_{unit}"] / KWH, row[grid] / KWH
        held = np.append(0.0, row[f"stored_{what}"][:-1])
        entered = row["charge_renewable_w"] * sun_rate + row["charge_grid_w"] * grid_rate
        expected = held * stays + entered * span
        size = np.abs(held) + np.abs(entered * span)
        name = f"stored_{what}"
        wrong = ~(np.abs(row[name] - expected) <= SLACK * size)
        blame(check, run, f"{name} does not follow", wrong, **{name: expected})
        straight = row["load_renewable_w"] * sun_rate + row["load_grid_w"] * grid_rate
        amount = straight * span + held * (1.0 - stays) * part
        size = np.abs(straight * span) + np.abs(held)
        name = f"load_{what}_per_s"
        wrong = ~(np.abs(row[name] * span - amount) <= SLACK * size)
        blame(check, run, f"{name} does not follow", wrong, **{name: _over(amount, span)})
    _check_mixture(check, run, row, before * kept)


def _check_mixture(check: Check, run: RunFolder, row: dict[str, Floats], old: Floats) -> None:
    """The grid's part of the content changes with the charge alone."""
    after = row["stored_j"]
    share = _over(row["stored_grid_j"], after)
    # where the content is nothing its mixture cannot be read off
    held = np.append(0.0, share[:-1])
    known = (after > 0) & (np.append(1.0, after[:-1]) > 0)
    charges = row["charge_w"] > 0
    kept = np.clip(_over(old, after), 0.0, 1.0)
    of_grid = _over(row["charge_grid_w"], row["charge_w"])
    expected = np.where(charges, held * kept + of_grid * (1.0 - kept), held)
    wrong = known & ~(np.abs(share - expected) <= SLACK)
    blame(check, run, "the grid's part does not follow", wrong, stored_grid_j=expected * after)
    given = row["load_battery_w"] * expected
    wrong = known & ~(np.abs(row["load_battery_grid_w"] - given) <= SLACK * row["load_battery_w"])
    blame(check, run, "the grid's part is not given", wrong, load_battery_grid_w=given)


def _over(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, 0 where there is no whole."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


# MERGED The audit of the default controller: its reserve is kept, and the grid charges as it may.
# MERGED
# MERGED Each row is held against the battery's content at its start, as it was recorded, and against the
# MERGED price and the carbon that the row itself carries. Nothing of the controller's code is used.


_DEFAULT = "source-order"


def check_reserve(run: RunFolder) -> Check:
    """The battery's reserve is the last to serve, and the grid charges no more than it may."""
    check = Check("reserve", "the reserve serves last; the grid charges when and as far as it may")
    if skipped := no_power(run, check):
        return skipped
    section, battery = run.setting("power", "controller"), run.setting("power", "battery")
    rules = section if isinstance(section, dict) else {"type": section}
    if rules["type"] != _DEFAULT:
        return check.skip("the site has a controller of its own")
    if battery is None:
        return check.skip("the site has no battery")
    row, facts = columns(run), battery_facts(battery)
    check.examined = len(row["seconds"])
    before = np.append(facts.initial, row["stored_j"][:-1])
    _check_reserve(check, run, row, before, facts, rules)
    _check_charge(check, run, row, before, facts, rules)
    return check


def _check_reserve(
    check: Check,
    run: RunFolder,
    row: dict[str, Floats],
    before: Floats,
    facts: Facts,
    rules: dict[str, Any],
) -> None:
    """No discharge takes the content below the reserve while the grid has more to give."""
    limit = _import_limit(run)
    if limit is None:
        return
    discharge = row["discharge_w"]
    reserve = float(rules.get("reserve", 0.0)) * facts.capacity
    slack = SLACK * facts.capacity + 2.0 * TICK * discharge / facts.delivered
    leaked = before * -np.expm1(-facts.leak * row["seconds"])
    below = row["stored_j"] + leaked < np.minimum(reserve, before) - slack
    at_rest = before < reserve - slack  # what begins below the reserve is all of the reserve
    more = row["import_w"] < limit - SLACK * (limit if limit < math.inf else 0.0)
    wrong = (discharge > 0) & (below | at_rest) & more
    blame(check, run, "the reserve serves while the grid has more to give", wrong)


def _check_charge(
    check: Check,
    run: RunFolder,
    row: dict[str, Floats],
    before: Floats,
    facts: Facts,
    rules: dict[str, Any],
) -> None:
    """The grid charges while it is cheap or clean, within the peak, up to a level."""
    flowing = row["generation_w"] + row["import_w"] + row["discharge_w"]
    bought = row["charge_grid_w"] > 4.0 * SLACK * flowing
    cheap = row["price_per_kwh"] <= float(rules.get("charge_below_price", -math.inf))
    clean = row["carbon_gco2_per_kwh"] <= float(rules.get("charge_below_carbon", -math.inf))
    blame(check, run, "the grid charges, neither cheap nor clean", bought & ~cheap & ~clean)
    peak = float(rules.get("peak_w", math.inf))
    over = row["import_w"] > peak + SLACK * flowing
    blame(check, run, "the grid charges above its peak", bought & over)
    top = float(rules.get("charge_to", 1.0)) * facts.capacity
    slack = SLACK * facts.capacity + 2.0 * TICK * row["charge_w"]
    high = (row["stored_j"] > np.maximum(top, before) + slack) | (before > top + slack)
    blame(check, run, "the grid charges beyond charge_to", bought & high)


def _import_limit(run: RunFolder) -> float | None:
    """Return the most in W that the grid gives; inf without a limit, None if it varies."""
    grid = run.setting("power", "grid")
    if grid is None:
        return 0.0
    limit = grid.get("import_limit_w")
    return math.inf if limit is None else constant(limit)
