"""Checks of the ledger: power balances in every row, and sources, carbon and cost add up.

The table "power" is checked against itself; `site.rules` compares it with the scenario's signals.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import KWH, Bools, Floats

SLACK = 1e-9
"""Relative error that is allowed in a row, as a share of the power that flows."""
_TOTAL_SLACK = 1e-12
"""Relative error that is allowed over the whole run."""

_SOURCES = ("generation_w", "import_w", "discharge_w", "unserved_w")
_USES = ("load_w", "charge_w", "export_w", "curtailment_w", "losses_w")
_PARTS = (
    "machines_w", "standing_w", "load_renewable_w", "load_battery_w", "load_grid_w",
    "charge_renewable_w", "charge_grid_w", "load_battery_grid_w",
)  # fmt: skip
_SHOWN = ("start_s", "end_s", *_SOURCES, *_USES)


def no_power(run: AuditedRun, check: Check) -> Check | None:
    """Return the check as skipped if the run has no rows of power; else None."""
    if "power" not in run.tables:
        return check.skip("the run has no power")
    if not run.tables["power"].height:
        return check.skip("no time passed in the run")
    return None


def add_power_rows(
    check: Check, run: AuditedRun, message: str, wrong: Bools, **expected: Floats
) -> None:
    """Record wrong rows of the table "power"; keywords give the expected values of a column."""
    rows = run.tables["power"].filter(pl.Series(wrong))
    names = dict.fromkeys((*_SHOWN[:2], *(expected or _SHOWN)))
    extra = [pl.Series(f"expected_{name}", values[wrong]) for name, values in expected.items()]
    check.add_rows(message, rows.select(list(names)).with_columns(extra))


def check_ledger(run: AuditedRun) -> Check:
    """Check that rows follow each other without gaps, and that power balances in each."""
    check = Check("ledger", "in every row sources equal uses, and no power is negative")
    if skipped := no_power(run, check):
        return skipped
    row = run.power
    check.examined = len(row["seconds"])
    _check_times(check, run)
    sources, uses = (sum(row[name] for name in names) for names in (_SOURCES, _USES))
    flowing = np.maximum(sources, uses)
    add_power_rows(
        check, run, "power does not balance", ~(np.abs(sources - uses) <= SLACK * flowing)
    )
    for name in (*_SOURCES, *_USES, *_PARTS):
        add_power_rows(check, run, f"{name} is below 0", ~(row[name] >= -SLACK * flowing))
    both = (row["charge_w"] > 0) & (row["discharge_w"] > 0)
    add_power_rows(check, run, "the battery charges and discharges at once", both)
    slack = SLACK * flowing
    for part, whole in (
        (row["unserved_w"], row["load_w"] + row["losses_w"]),
        (row["curtailment_w"], row["generation_w"]),
        (row["standing_w"], row["machines_w"]),
        (row["pue"] * row["machines_w"], row["load_w"]),
    ):
        add_power_rows(check, run, "a part is larger than the whole", part > whole + slack)
    _check_total(check, row)
    return check


def _check_times(check: Check, run: AuditedRun) -> None:
    """Check that the rows follow each other, from the run's begin to its end or beyond."""
    row = run.power
    add_power_rows(check, run, "the row has no length", ~(row["seconds"] > 0))
    gap = np.append(False, row["start_s"][1:] != row["end_s"][:-1])
    add_power_rows(check, run, "the row does not begin where the previous row ends", gap)
    held = run.allocations.select("start_time_s", "end_time_s")
    times = np.concatenate([held[name].drop_nulls().to_numpy() for name in held.columns])
    outside = (times < row["start_s"][0]) | (times > row["end_s"][-1])
    for time in np.unique(times[outside]).tolist():
        check.add("an allocation is outside the time of the ledger", {"time_s": time})
    if not run.complete:
        return
    submitted, seen = run.jobs["submit_time_s"].drop_nulls(), run.tables["timeline"]["time_s"]
    begin = float(submitted.to_numpy().min(initial=0.0))
    if row["start_s"][0] != begin:
        found = {"start_s": float(row["start_s"][0]), "expected": begin}
        check.add("the ledger does not begin with the run", found)
    if row["end_s"][-1] < seen.to_numpy().max(initial=-np.inf):
        found = {"end_s": float(row["end_s"][-1]), "expected": float(str(seen.max()))}
        check.add("the ledger ends before the run", found)


def _check_total(check: Check, row: dict[str, Floats]) -> None:
    """Check that energy balances over the whole run."""
    energies = {
        name: float(np.sum((row[name] * row["seconds"]).astype(np.longdouble)))
        for name in (*_SOURCES, *_USES)
    }
    given, taken = (sum(energies[name] for name in names) for names in (_SOURCES, _USES))
    if not abs(given - taken) <= _TOTAL_SLACK * max(given, taken):
        check.add("energy does not balance over the run", {"sources_j": given, "uses_j": taken})


def check_sources(run: AuditedRun) -> Check:
    """Check that renewables serve first, then battery, then grid, and carbon and cost follow."""
    check = Check("sources", "sources serve in their order, and carbon and cost follow from them")
    if skipped := no_power(run, check):
        return skipped
    row = run.power
    check.examined = len(row["seconds"])
    flowing = np.sum([row[name] for name in _SOURCES], axis=0)
    for name, expected in _shares(row).items():
        wrong = ~(np.abs(row[name] - expected) <= SLACK * flowing)
        add_power_rows(
            check,
            run,
            f"{name} does not follow from the order of sources",
            wrong,
            **{name: expected},
        )
    served = row["load_renewable_w"] + row["load_battery_w"] + row["load_grid_w"]
    wanted = row["load_w"] + row["losses_w"] - row["unserved_w"]
    add_power_rows(
        check,
        run,
        "the sources of the load do not add up",
        ~(abs(served - wanted) <= SLACK * flowing),
    )
    for name, parts in _rates(row).items():
        expected, size = np.sum(parts, axis=0), np.sum(np.abs(parts), axis=0)
        wrong = ~(np.abs(row[name] - expected) <= SLACK * size)
        add_power_rows(
            check, run, f"{name} does not follow from the flows", wrong, **{name: expected}
        )
    return check


def _shares(row: dict[str, Floats]) -> dict[str, Floats]:
    """Return how much each source serves and charges, one source after another."""
    need = row["load_w"] + row["losses_w"] - row["unserved_w"]
    used = row["generation_w"] - row["curtailment_w"]
    found: dict[str, Floats] = {}
    offers = {"renewable": used, "battery": row["discharge_w"], "grid": row["import_w"]}
    for source, offer in offers.items():
        found[f"load_{source}_w"] = taken = np.clip(np.minimum(offer, need), 0.0, None)
        need = need - taken
    left = np.clip(used - found["load_renewable_w"], 0.0, None)
    found["charge_renewable_w"] = np.minimum(left, row["charge_w"])
    found["charge_grid_w"] = row["charge_w"] - found["charge_renewable_w"]
    return found


def _rates(row: dict[str, Floats]) -> dict[str, list[Floats]]:
    """Return the parts of the site's carbon in g/s and of its cost per s."""
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
