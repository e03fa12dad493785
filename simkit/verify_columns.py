"""The columns that the auditor reads, with their types: its own list, not the engine's."""

from __future__ import annotations

from typing import Final

_TIMES = ("start_time_s", "end_time_s")
COLUMNS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "jobs": {
        "id": ("job_id",),
        "Float64": (
            "submit_time_s", *_TIMES, "wait_time_s", "turnaround_time_s", "run_time_s",
            "requested_time_s", "estimate_s", "trace_run_time_s", "suspended_time_s", "lost_time_s",
        ),
        "Int64": ("attempts",),
        "String": ("status", "reason"),
    },
    "tasks": {
        "id": ("job_id", "task_id"),
        "Int64": ("instances",),
        "Boolean": ("gang",),
        "Float64": _TIMES,
        "String": ("status",),
    },
    "allocations": {
        "id": ("job_id", "task_id"),
        "Int64": ("machine_id", "first_instance", "count", "attempt"),
        "Float64": _TIMES,
        "String": ("outcome",),
    },
    "timeline": {"Float64": ("time_s",), "Int64": ("waiting", "backlog", "running")},
    "events": {"Float64": ("time_s",), "String": ("kind", "detail"), "Int64": ("machine_id",)},
}  # fmt: skip
"""Columns that the checks read: table → type → names; an id is Int64 or String."""
POWER_COLUMNS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "power": {
        "Float64": (
            "start_s", "end_s", "generation_w", "import_w", "discharge_w", "unserved_w", "load_w",
            "charge_w", "export_w", "curtailment_w", "losses_w", "pue", "price_per_kwh",
            "export_price_per_kwh", "carbon_gco2_per_kwh", "generation_price_per_kwh",
            "generation_gco2_per_kwh", "machines_w", "standing_w", "load_renewable_w",
            "load_battery_w", "load_grid_w", "charge_renewable_w", "charge_grid_w",
            "load_battery_grid_w", "carbon_g_per_s", "cost_per_s", "load_carbon_g_per_s",
            "load_cost_per_s", "stored_j", "stored_carbon_g", "stored_cost", "stored_grid_j",
        ),
    },
    "energy": {
        "id": ("job_id",),
        "Float64": (
            "energy_j", "overhead_j", "renewable_j", "battery_j", "grid_j", "carbon_g", "cost",
        ),
    },
}  # fmt: skip
"""The same of the tables that runs with power have besides."""
