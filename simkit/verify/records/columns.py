"""The check of columns: every table has its columns, in their order, and there are no others."""

from __future__ import annotations

from typing import Final

from simkit.verify.audit import Check
from simkit.verify.folder import RunFolder

_FIXED: Final = {
    "jobs": (
        "job_id user group executable queue partition submit_time_s start_time_s end_time_s "
        "wait_time_s turnaround_time_s run_time_s ideal_time_s requested_time_s estimate_s "
        "trace_run_time_s suspended_time_s lost_time_s attempts status reason"
    ),
    "tasks": (
        "job_id task_id instances gang ready_time_s start_time_s end_time_s trace_run_time_s status"
    ),
    "allocations": (
        "job_id task_id machine_id first_instance count attempt start_time_s end_time_s outcome"
    ),
    "timeline": "time_s waiting backlog running",
    "events": "time_s kind job_id task_id machine_id detail",
    "power": (
        "start_s end_s generation_w import_w discharge_w unserved_w load_w charge_w export_w "
        "curtailment_w losses_w pue price_per_kwh export_price_per_kwh carbon_gco2_per_kwh "
        "generation_price_per_kwh generation_gco2_per_kwh machines_w standing_w load_renewable_w "
        "load_battery_w load_grid_w charge_renewable_w charge_grid_w load_battery_grid_w "
        "carbon_g_per_s cost_per_s load_carbon_g_per_s load_cost_per_s stored_j stored_carbon_g "
        "stored_cost stored_grid_j"
    ),
    "energy": "job_id energy_j overhead_j renewable_j battery_j grid_j carbon_g cost",
}
"""Table → the columns that it begins with, in order."""
_OPTIONAL: Final = (
    "qos", "value", "deadline_s", "release_time_s", "corrected_estimate_s", "site_partition",
)  # fmt: skip
"""Columns that jobs may have after these, in order; then one a resource."""


def columns_of(run: RunFolder, table: str) -> list[str]:
    """Return the columns that a table of the run must have, in order."""
    fixed = _FIXED[table].split()
    there = run.columns_of(table)
    if table == "jobs":
        asked = [name for name in there if name in run.resources]
        return [*fixed, *(name for name in _OPTIONAL if name in there), *asked]
    if table == "tasks":  # in the order of the jobs'
        return [*fixed, *(n for n in run.columns_of("jobs") if n in run.resources)]
    if table == "timeline":
        kinds = ("allocated", "capacity")
        return [*fixed, *(f"{kind}_{name}" for kind in kinds for name in run.resources)]
    return fixed


def check_columns(run: RunFolder) -> Check:
    """Check the columns of every table, and that the folder holds no other table."""
    check = Check("columns", "tables have the columns of a run, in order, and there are no others")
    for name in run.tables:
        there = run.columns_of(name)
        check.examined += len(there)
        expected = columns_of(run, name)
        if strange := [column for column in there if column not in expected]:
            row = {"table": name, "columns": ", ".join(strange)}
            check.add("the table has columns that a run does not have", row)
        if missing := [column for column in expected if column not in there]:
            row = {"table": name, "columns": ", ".join(missing)}
            check.add("the table lacks columns", row)
        elif not strange and there != expected:
            row = {"table": name, "found": ", ".join(there)}
            check.add("the columns are not in their order", row)
    for path in sorted(run.path.glob("*.parquet")):
        if path.stem not in run.tables:
            check.add("the folder has a table that the run does not have", {"file": path.name})
    return check
