"""The rows of the ledger's table, worked out of what flowed: shares, carbon and cost."""

from __future__ import annotations

from typing import Final

import numpy as np

from simkit.grid import KWH_J
from simkit.ledger_flows import POWERS, SHARES, Columns, Floats, Flows, share_out
from simkit.ledger_store import Course, Movement, StoreContents

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
"""Columns that add up: what flows in each s. load_battery_grid is the part of load_battery whose
energy came from the grid. carbon and cost are the site's (import and generation, less what export
brings); load_carbon and load_cost are what the load's energy carries, that from the battery when
it is used."""

STORED: Final = ("stored_j", "stored_carbon_g", "stored_cost", "stored_grid_j")
"""What the battery holds at a row's end: energy, what this carries, and its part from the grid."""

COLUMNS: Final = (
    "start_s",
    "end_s",
    *Flows._fields,
    *RATES[len(POWERS) + 2 :],
    *STORED,
)
"""Columns of the table, see `records.POWER`."""


def finished_rows(kept: Columns, stored: StoreContents | None) -> dict[str, Floats]:
    """Return N rows with all `COLUMNS`.

    Args:
        kept: start_s, end_s, those of `Flows`, and stored_j; flows that balance.
        stored: what the battery holds before the first row; moves on to the last. None: no battery.
    """
    rows = {**kept, **share_out(kept)}
    course = _course(rows, stored)
    carbon, cost = _origin(rows, "load_renewable_w", "load_grid_w")
    given = rows["discharge_w"] * (rows["end_s"] - rows["start_s"])
    part = np.divide(rows["load_battery_w"], given, out=np.zeros_like(given), where=given > 0)
    rows |= {
        # a discharge leaves the mixture as it is
        "load_battery_grid_w": rows["load_battery_w"] * course.grid_share,
        **_site_rates(rows),
        "load_carbon_g_per_s": carbon + course.gone_carbon_g * part,  # the rest is exported
        "load_cost_per_s": cost + course.gone_cost * part,
        "stored_carbon_g": course.carbon_g,
        "stored_cost": course.cost,
        "stored_grid_j": rows["stored_j"] * course.grid_share,
    }
    return {name: rows[name] for name in COLUMNS}


def _course(rows: Columns, stored: StoreContents | None) -> Course:
    """Let the contents follow the battery through the rows."""
    if stored is None:
        return Course(*(np.zeros(len(rows["end_s"])) for _ in Course._fields))
    span, charge = rows["end_s"] - rows["start_s"], rows["charge_w"]
    carbon, cost = _origin(rows, "charge_renewable_w", "charge_grid_w")
    grid = np.divide(rows["charge_grid_w"], charge, out=np.zeros_like(charge), where=charge > 0)
    movement = Movement(
        span,
        rows["stored_j"],
        charge > 0,
        rows["discharge_w"] > 0,
        carbon * span,
        cost * span,
        grid,
    )
    return stored.follow(movement)


def _origin(rows: Columns, renewable: str, grid: str) -> tuple[Floats, Floats]:
    """Return carbon in g/s and cost per s of what comes straight from sun, wind and grid."""
    sun, bought = rows[renewable], rows[grid]
    carbon = sun * rows["generation_gco2_per_kwh"] + bought * rows["carbon_gco2_per_kwh"]
    cost = sun * rows["generation_price_per_kwh"] + bought * rows["price_per_kwh"]
    return carbon / KWH_J, cost / KWH_J


def _site_rates(rows: Columns) -> dict[str, Floats]:
    """Return carbon in g/s and cost per s of what the site takes in, less what export brings."""
    bought, used = rows["import_w"], rows["generation_w"] - rows["curtailment_w"]
    carbon = bought * rows["carbon_gco2_per_kwh"] + used * rows["generation_gco2_per_kwh"]
    cost = bought * rows["price_per_kwh"] + used * rows["generation_price_per_kwh"]
    brought = rows["export_w"] * rows["export_price_per_kwh"]
    return {"carbon_g_per_s": carbon / KWH_J, "cost_per_s": (cost - brought) / KWH_J}
