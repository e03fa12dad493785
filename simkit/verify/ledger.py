"""The audit of the ledger: power balances in every row, and sources, carbon and cost add up.

The table "power" is held against itself and against the scenario's grid; nothing of the ledger's
own code is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SLACK = 1e-9
"""Share of the power that flows, to which a row is held."""
TOTAL_SLACK = 1e-12
"""Share of the energy, to which the whole run is held."""
KWH = 3.6e6
"""Joules."""

SOURCES = ("generation_w", "import_w", "discharge_w", "unserved_w")
USES = ("load_w", "charge_w", "export_w", "curtailment_w", "losses_w")
_PARTS = (
    "machines_w", "standing_w", "load_renewable_w", "load_battery_w", "load_grid_w",
    "charge_renewable_w", "charge_grid_w", "load_battery_grid_w",
)  # fmt: skip
_SHOWN = ("start_s", "end_s", *SOURCES, *USES)


def no_power(run: RunFolder, check: Check) -> Check | None:
    """Return the check, skipped, if there is nothing of power to hold it against."""
    if "power" not in run.tables:
        return check.skip("the run has no power")
    if not run.tables["power"].height:
        return check.skip("no time passed in the run")
    return None


def columns(run: RunFolder) -> dict[str, Floats]:
    """Return the columns of the table "power", and `seconds`, the length of each row."""
    table = run.tables["power"]
    found = {name: table[name].to_numpy() for name in table.columns}
    return {**found, "seconds": found["end_s"] - found["start_s"]}


def blame(check: Check, run: RunFolder, message: str, wrong: Bools, **expected: Floats) -> None:
    """Record the rows that are wrong, with what was expected in place of a column."""
    rows = run.tables["power"].filter(pl.Series(wrong))
    names = dict.fromkeys((*_SHOWN[:2], *(expected or _SHOWN)))
    extra = [pl.Series(f"expected_{name}", values[wrong]) for name, values in expected.items()]
    check.add_rows(message, rows.select(list(names)).with_columns(extra))


def check_ledger(run: RunFolder) -> Check:
    """Rows follow each other without gaps, and in each as much power comes as goes."""
    check = Check("ledger", "in every row of time as much power comes as goes, none below 0")
    if skipped := no_power(run, check):
        return skipped
    row = columns(run)
    check.examined = len(row["seconds"])
    _check_times(check, run, row)
    sources, uses = (sum(row[name] for name in names) for names in (SOURCES, USES))
    flowing = np.maximum(sources, uses)
    blame(check, run, "power does not balance", ~(np.abs(sources - uses) <= SLACK * flowing))
    for name in (*SOURCES, *USES, *_PARTS):
        blame(check, run, f"{name} is below 0", ~(row[name] >= -SLACK * flowing))
    both = (row["charge_w"] > 0) & (row["discharge_w"] > 0)
    blame(check, run, "the battery charges and discharges at once", both)
    slack = SLACK * flowing
    for part, whole in (
        (row["unserved_w"], row["load_w"] + row["losses_w"]),
        (row["curtailment_w"], row["generation_w"]),
        (row["standing_w"], row["machines_w"]),
        (row["pue"] * row["machines_w"], row["load_w"]),
    ):
        blame(check, run, "a part is more than the whole", part > whole + slack)
    _check_limits(check, run, row)
    _check_total(check, row)
    return check


def _check_times(check: Check, run: RunFolder, row: dict[str, Floats]) -> None:
    """The rows cover the run: from before the first start until after the last end."""
    blame(check, run, "the row has no length", ~(row["seconds"] > 0))
    gap = np.append(False, row["start_s"][1:] != row["end_s"][:-1])
    blame(check, run, "the row does not begin where the one before it ends", gap)
    held = run.allocations.select("start_time_s", "end_time_s")
    times = np.concatenate([held[name].drop_nulls().to_numpy() for name in held.columns])
    outside = (times < row["start_s"][0]) | (times > row["end_s"][-1])
    for time in np.unique(times[outside]).tolist():
        check.add("an allocation lies outside the ledger", {"time_s": time})


def _check_limits(check: Check, run: RunFolder, row: dict[str, Floats]) -> None:
    """No more is imported or exported than the grid allows, where this is constant."""
    grid = run.setting("power", "grid")
    for name in ("import", "export"):
        limit = 0.0 if grid is None else constant(grid.get(f"{name}_limit_w"))
        if limit is not None:
            slack = SLACK * (limit + row["load_w"] + row["generation_w"])
            blame(check, run, f"{name} above the limit", row[f"{name}_w"] > limit + slack)


def constant(signal: Any) -> float | None:
    """Return the value of a signal that is a constant, else None."""
    if isinstance(signal, dict) and signal.get("type") == "constant":
        signal = signal.get("value")
    known = isinstance(signal, (int, float)) and not isinstance(signal, bool)
    return float(signal) if known else None


def _check_total(check: Check, row: dict[str, Floats]) -> None:
    """Over the whole run, energies close."""
    energies = {
        name: float(np.sum((row[name] * row["seconds"]).astype(np.longdouble)))
        for name in (*SOURCES, *USES)
    }
    given, taken = (sum(energies[name] for name in names) for names in (SOURCES, USES))
    if not abs(given - taken) <= TOTAL_SLACK * max(given, taken):
        check.add("energy does not close over the run", {"sources_j": given, "uses_j": taken})


def check_sources(run: RunFolder) -> Check:
    """The load takes renewables, then the battery, then the grid; carbon and cost follow."""
    check = Check("sources", "which source serves what, its carbon and its cost, follow the rule")
    if skipped := no_power(run, check):
        return skipped
    row = columns(run)
    check.examined = len(row["seconds"])
    flowing = np.sum([row[name] for name in SOURCES], axis=0)
    for name, expected in shares(row).items():
        wrong = ~(np.abs(row[name] - expected) <= SLACK * flowing)
        blame(check, run, f"{name} is not what the rule gives", wrong, **{name: expected})
    served = row["load_renewable_w"] + row["load_battery_w"] + row["load_grid_w"]
    wanted = row["load_w"] + row["losses_w"] - row["unserved_w"]
    blame(
        check, run, "the load's sources do not add up", ~(abs(served - wanted) <= SLACK * flowing)
    )
    for name, parts in _rates(row).items():
        expected, size = np.sum(parts, axis=0), np.sum(np.abs(parts), axis=0)
        wrong = ~(np.abs(row[name] - expected) <= SLACK * size)
        blame(check, run, f"{name} does not follow from what flows", wrong, **{name: expected})
    return check


def shares(row: dict[str, Floats]) -> dict[str, Floats]:
    """Return which source serves load and losses, and which charges, one after another."""
    need = row["load_w"] + row["losses_w"] - row["unserved_w"]
    sun = row["generation_w"] - row["curtailment_w"]
    found: dict[str, Floats] = {}
    offers = {"renewable": sun, "battery": row["discharge_w"], "grid": row["import_w"]}
    for source, offer in offers.items():
        found[f"load_{source}_w"] = taken = np.clip(np.minimum(offer, need), 0.0, None)
        need = need - taken
    left = np.clip(sun - found["load_renewable_w"], 0.0, None)
    found["charge_renewable_w"] = np.minimum(left, row["charge_w"])
    found["charge_grid_w"] = row["charge_w"] - found["charge_renewable_w"]
    return found


def _rates(row: dict[str, Floats]) -> dict[str, list[Floats]]:
    """Return the parts of the site's carbon in g/s and cost per s."""
    used, bought = row["generation_w"] - row["curtailment_w"], row["import_w"]
    return {
        "carbon_g_per_s": [
            bought * row["carbon_gco2_per_kwh"] / KWH,
            used * row["generation_gco2_per_kwh"] / KWH,
        ],
        "cost_per_s": [
            bought * row["price_per_kwh"] / KWH,
            used * row["generation_price_per_kwh"] / KWH,
            -row["export_w"] * row["export_price_per_kwh"] / KWH,
        ],
    }
