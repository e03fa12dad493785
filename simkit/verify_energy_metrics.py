"""The auditor's numbers of energy, worked out from the table "power"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simkit.verify_power import KWH, Floats, columns

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

Numbers = dict[tuple[str, str], float | None]
"""(metric, number) → value, as ``metrics[metric][number]``."""


def energy_numbers(run: RunFolder, start_s: float, end_s: float) -> Numbers:
    """Return what the metrics of energy should be over a window of time in s."""
    if "power" not in run.tables or not run.tables["power"].height:
        return {}
    row = columns(run)
    seconds = np.clip(
        np.minimum(row["end_s"], end_s) - np.maximum(row["start_s"], start_s), 0, None
    )

    def flowed(power: Floats) -> float:
        return float(np.sum((power * seconds).astype(np.longdouble)))

    load = np.where(row["load_w"] > 0, row["load_w"], np.inf)
    jobs_w = row["machines_w"] - row["standing_w"]
    joule = {name.removesuffix("_w"): flowed(row[name]) for name in row if name.endswith("_w")}
    numbers: Numbers = {
        ("load_kwh", "value"): joule["load"] / KWH,
        ("load_kwh", "machines"): joule["machines"] / KWH,
        ("load_kwh", "idle"): joule["standing"] / KWH,
        ("load_kwh", "overhead"): flowed((row["pue"] - 1.0) * row["machines_w"]) / KWH,
        ("unserved_kwh", "value"): joule["unserved"] / KWH,
        ("unserved_kwh", "jobs"): flowed(jobs_w * row["unserved_w"] / load) / KWH,
        ("unserved_kwh", "idle"): flowed(row["standing_w"] * row["unserved_w"] / load) / KWH,
        ("generation_kwh", "value"): joule["generation"] / KWH,
        ("curtailment_kwh", "value"): joule["curtailment"] / KWH,
        ("grid_kwh", "import"): joule["import"] / KWH,
        ("grid_kwh", "export"): joule["export"] / KWH,
        ("grid_import_peak_w", "value"): float(row["import_w"][seconds > 0].max(initial=0.0)),
        ("carbon_kg", "value"): flowed(row["carbon_g_per_s"]) / 1000.0,
        ("carbon_kg", "load"): flowed(row["load_carbon_g_per_s"]) / 1000.0,
        ("energy_cost", "value"): flowed(row["cost_per_s"]),
        ("energy_cost", "load"): flowed(row["load_cost_per_s"]),
    }
    return numbers | _of_sources(joule) | _of_battery(run, joule)


def _of_sources(joule: dict[str, float]) -> Numbers:
    """Return what served the load, and how much of it and of generation was green."""
    parts = {name: joule[f"load_{name}"] for name in ("renewable", "battery", "grid")}
    served, made = sum(parts.values()), joule["generation"]
    green = parts["renewable"] + parts["battery"] - joule["load_battery_grid"]
    kept = parts["renewable"] + joule["charge_renewable"]
    numbers: Numbers = {("served_kwh", name): value / KWH for name, value in parts.items()}
    numbers["renewable_fraction", "value"] = green / served if served > 0 else None
    numbers["self_consumption", "value"] = kept / made if made > 0 else None
    return numbers


def _of_battery(run: RunFolder, joule: dict[str, float]) -> Numbers:
    """Return how the battery was used; nothing without one."""
    section = run.setting("power", "battery")
    if section is None:
        return {}
    moved = joule["charge"] * float(section["charge_efficiency"])
    moved += joule["discharge"] / float(section["discharge_efficiency"])
    return {
        ("battery_kwh", "charge"): joule["charge"] / KWH,
        ("battery_kwh", "discharge"): joule["discharge"] / KWH,
        ("battery_full_cycles", "value"): moved / (2.0 * float(section["capacity_kwh"]) * KWH),
    }
