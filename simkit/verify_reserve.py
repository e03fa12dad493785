"""The audit of the default controller: its reserve is kept, and the grid charges as it may.

Each row is held against the battery's content at its start, as it was recorded, and against the
price and the carbon that the row itself carries. Nothing of the controller's code is used.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify_audit import Check
from simkit.verify_battery import TICK, Facts, battery_facts
from simkit.verify_power import SLACK, Floats, blame, columns, constant, no_power

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

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
