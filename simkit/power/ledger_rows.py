"""The ledger's rows: what flows through a site, whether it balances, and what serves what.

All powers are in W and at least 0; the names give the direction:

    generation + import + discharge + unserved = load + charge + export + curtailment + losses

Battery powers are at its terminals; what it loses inside is its own account. `losses` are the
site's between sources and load, such as conversion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.power.stored_energy import BatteryRows, Footprints, StoredEnergy
from simkit.units import KWH_J

Columns = Mapping[str, Floats]
"""Columns of equal length by name."""

BALANCE: Final = 1e-9
"""Largest imbalance at an instant, as a share of the power flowing."""


class Flows(NamedTuple):
    """What flows from one event to the next."""

    generation_w: float = 0.0
    """What sun and wind could give."""
    import_w: float = 0.0
    """From the grid."""
    discharge_w: float = 0.0
    """From the battery."""
    unserved_w: float = 0.0
    """Load for which there is no power."""
    load_w: float = 0.0
    """What machines, cooling and the rest want."""
    charge_w: float = 0.0
    """Into the battery."""
    export_w: float = 0.0
    """To the grid."""
    curtailment_w: float = 0.0
    """Generation that is not used."""
    losses_w: float = 0.0
    """Lost between sources and load."""
    pue: float = 1.0
    """Facility power for each W of machine power; bills take it from here."""
    price_per_kwh: float = 0.0
    """Of imported energy."""
    export_price_per_kwh: float = 0.0
    """Of exported energy."""
    carbon_gco2_per_kwh: float = 0.0
    """Of imported energy, in g of CO₂ equivalent."""
    generation_price_per_kwh: float = 0.0
    """Of generated energy that is used."""
    generation_gco2_per_kwh: float = 0.0
    """Of generated energy that is used, over the life cycle."""
    machines_w: float = 0.0
    """What machines draw, before PUE; part of the load."""
    standing_w: float = 0.0
    """The part of it that belongs to no job: idle, booting, off."""


POWERS: Final = Flows._fields[:9]
"""The flows that balance, four sources and five uses."""

SHARES: Final = (
    "load_renewable_w",
    "load_battery_w",
    "load_grid_w",
    "charge_renewable_w",
    "charge_grid_w",
)
"""Which source serves the load and its losses, and which charges the battery."""


def first_wrong(flows: Columns) -> int:
    """Return the first of N rows whose flows do not balance; N if all do.

    They must balance to `BALANCE` of the power flowing. A row is also wrong if a flow is below 0,
    if the battery charges and discharges at once, if more is unserved than wanted, or if more is
    curtailed than generated.
    """
    made, bought, given, short, load, charge, sold, left, lost = (flows[name] for name in POWERS)
    with np.errstate(invalid="ignore"):  # infinite flows do not balance
        sources = made + bought + given + short
        uses = load + charge + sold + left + lost
        slack = BALANCE * np.maximum(sources, uses)
        right = np.abs(sources - uses) <= slack
    for power in (made, bought, given, short, load, charge, sold, left, lost):
        right &= power >= 0
    right &= (charge == 0) | (given == 0)
    right &= (short <= load + lost + slack) & (left <= made + slack)
    wrong = np.flatnonzero(~right)
    return int(wrong[0]) if len(wrong) else len(right)


def wrong_flows(time_s: float, powers: Sequence[float]) -> PolicyError:
    """Return the error about flows at a time in s that break a rule; `powers` are the `POWERS`."""
    sources, uses = sum(powers[:4]), sum(powers[4:])
    return PolicyError(
        f"the site's flows at {time_s:.9g} s are wrong: "
        + ", ".join(f"{name} {value:.9g}" for name, value in zip(POWERS, powers, strict=True))
        + f"; sources give {sources:.9g} W, uses take {uses:.9g} W; both must be equal, all flows "
        "finite and at least 0; the battery cannot charge and discharge at once, and no more can "
        "be unserved than wanted, or curtailed than generated; check the controller's set-points"
    )


def share_out(flows: Columns) -> dict[str, Floats]:
    """Return which source serves what, as columns of `SHARES`.

    The served load, with its losses, takes renewables first, then the battery, then the grid. The
    battery is charged from the remaining renewables, then from the grid. The rest is exported.
    """
    made, bought, given, short, load, charge, _, left, lost = (flows[name] for name in POWERS)
    wanted, sun = np.maximum(load + lost - short, 0.0), np.maximum(made - left, 0.0)
    renewable = np.minimum(sun, wanted)
    rest = wanted - renewable
    battery = np.minimum(given, rest)
    rest -= battery
    grid = np.minimum(bought, rest)
    stored = np.minimum(sun - renewable, charge)
    shares = (renewable, battery, grid, stored, np.minimum(charge - stored, bought - grid))
    return dict(zip(SHARES, shares, strict=True))


RATES: Final = (
    *POWERS,
    "machines_w",
    "standing_w",
    *SHARES,
    "load_battery_grid_w",
    "carbon_g_per_s",
    "cost_per_s",
    "load_carbon_g_per_s",
    "load_cost_per_s",
)
"""Columns of amounts per second, which add up. `load_battery_grid_w` is what of `load_battery_w`
came from the grid. `carbon` and `cost` are the site's: of import and generation, less what export
earns. `load_carbon` and `load_cost` are the load's; what the battery gives counts when used."""

STORED: Final = ("stored_j", "stored_carbon_g", "stored_cost", "stored_grid_j")
"""What the battery holds at a row's end: energy, its carbon and cost, its part from the grid."""

COLUMNS: Final = ("start_s", "end_s", *Flows._fields, *RATES[len(POWERS) + 2 :], *STORED)
"""Columns of the table, described in `records.POWER`."""


def finished_rows(kept: Columns, stored: StoredEnergy | None) -> dict[str, Floats]:
    """Return N rows with all `COLUMNS`.

    Args:
        kept: `start_s`, `end_s`, flows that balance, and `stored_j`.
        stored: what the battery holds before the first row; is moved on to the end of the last.
            None: there is no battery.
    """
    rows = {**kept, **share_out(kept)}
    held = _footprints(rows, stored)
    carbon, cost = _direct(rows, "load_renewable_w", "load_grid_w")
    given = rows["discharge_w"] * (rows["end_s"] - rows["start_s"])
    part = np.divide(rows["load_battery_w"], given, out=np.zeros_like(given), where=given > 0)
    rows |= {
        # discharging does not change the mixture
        "load_battery_grid_w": rows["load_battery_w"] * held.grid_share,
        **site_rates(rows),
        "load_carbon_g_per_s": carbon + held.gone_carbon_g * part,  # the rest is exported
        "load_cost_per_s": cost + held.gone_cost * part,
        "stored_carbon_g": held.carbon_g,
        "stored_cost": held.cost,
        "stored_grid_j": rows["stored_j"] * held.grid_share,
    }
    return {name: rows[name] for name in COLUMNS}


def _footprints(rows: Columns, stored: StoredEnergy | None) -> Footprints:
    """Move the stored energy on through the rows."""
    if stored is None:
        return Footprints(*(np.zeros(len(rows["end_s"])) for _ in Footprints._fields))
    span, charge = rows["end_s"] - rows["start_s"], rows["charge_w"]
    carbon, cost = _direct(rows, "charge_renewable_w", "charge_grid_w")
    grid = np.divide(rows["charge_grid_w"], charge, out=np.zeros_like(charge), where=charge > 0)
    return stored.follow(
        BatteryRows(
            span,
            rows["stored_j"],
            charge > 0,
            rows["discharge_w"] > 0,
            carbon * span,
            cost * span,
            grid,
        )
    )


def _direct(rows: Columns, renewable: str, grid: str) -> tuple[Floats, Floats]:
    """Return carbon in g/s and cost per s of two flows straight from renewables and grid."""
    sun, bought = rows[renewable], rows[grid]
    carbon = sun * rows["generation_gco2_per_kwh"] + bought * rows["carbon_gco2_per_kwh"]
    cost = sun * rows["generation_price_per_kwh"] + bought * rows["price_per_kwh"]
    return carbon / KWH_J, cost / KWH_J


def site_rates(rows: Columns) -> dict[str, Floats]:
    """Return the site's carbon in g/s and cost per s: of what comes in, less export's earnings."""
    bought, used = rows["import_w"], rows["generation_w"] - rows["curtailment_w"]
    carbon = bought * rows["carbon_gco2_per_kwh"] + used * rows["generation_gco2_per_kwh"]
    cost = bought * rows["price_per_kwh"] + used * rows["generation_price_per_kwh"]
    earned = rows["export_w"] * rows["export_price_per_kwh"]
    return {"carbon_g_per_s": carbon / KWH_J, "cost_per_s": (cost - earned) / KWH_J}
