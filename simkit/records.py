"""The records of a run: the columns of each table, with type and meaning.

Metrics, reports and the auditor read only these tables. Times are seconds on the trace's clock. A
null time means that it has not happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import polars as pl

JOBS: Final = {
    "job_id": "the trace's id: Int64 or String",
    "user": "Int64, or String if the trace has names; -1 if unknown",
    "group": "",
    "executable": "",
    "queue": "",
    "partition": "",
    "submit_time_s": "Float64, when the job was submitted",
    "start_time_s": "Float64, first start of any instance; null if it never started",
    "end_time_s": "Float64, end of the last instance; null if it has not ended",
    "wait_time_s": "Float64, start - submit; null if it never started",
    "turnaround_time_s": "Float64, end - submit; null if it has not ended",
    "run_time_s": "Float64, executed time: of the successful attempt, or until killed; null "
    "before. Of several tasks or instances that start one by one: end - start",
    "ideal_time_s": "Float64, of several tasks or instances that start one by one: the critical "
    "path through the tasks' dependencies, each task as long as its longest instance that finished "
    "or was killed. Null for one gang or one instance, and before the end",
    "requested_time_s": "Float64, the user's request; null if the trace has none, inf: no limit",
    "estimate_s": "Float64, what the policy was told on submission",
    "trace_run_time_s": "Float64, the longest run time the trace gives to a task of the job",
    "suspended_time_s": "Float64, time between suspension and resumption",
    "lost_time_s": "Float64, executed time whose work was lost; for a bag the mean over its "
    "instances, for several tasks the sum",
    "attempts": "Int64, how often it was started from the beginning",
    "status": "String: finished, killed, rejected; running or waiting at the run's end",
    "reason": "String, why it was rejected or killed; empty otherwise",
}
"""One row a job, in order of end (rejected ones when they are rejected; unfinished ones last).
After these columns, one a resource (`processors`, `cpu`, …): what the job asks for at once."""

JOBS_WITH_VALUE: Final = {
    "qos": "Float64, quality of service that the user asked for, in (0, 1]",
    "value": "Float64, what the job is worth if it finishes, by its true run time",
    "deadline_s": "Float64, when it must have ended; null if it has no deadline",
}
"""Further columns of the jobs, between `reason` and the resources, if the workload has them."""

JOBS_RELEASED: Final = {
    "release_time_s": "Float64, when it could run for the first time: the latest of its "
    "submission, its release time, and the ends of its preceding jobs, each with the think time; "
    "null if that has not come",
}
"""The column after these, if the workload has release times or preceding jobs."""

JOBS_CORRECTED: Final = {
    "corrected_estimate_s": "Float64, the estimate after its last correction; null before the end, "
    "for jobs of several tasks and for bags",
}
"""The column after all these, before the resources, if the scenario corrects estimates."""

JOBS_ROUTED: Final = {
    "site_partition": "String, the scenario's partition that the job went to; empty if none took it"
}
"""The last column before the resources, if the scenario has partitions."""

TASKS: Final = {
    "job_id": "as in jobs",
    "task_id": "the trace's id: Int64 or String",
    "instances": "Int64",
    "gang": "Boolean",
    "ready_time_s": "Float64, submission of its job (its release, if the jobs have one), or the "
    "end of the last task that it depends on; null if it never might start",
    "start_time_s": "Float64, first start of an instance",
    "end_time_s": "Float64, end of the last instance",
    "trace_run_time_s": "Float64, the run time the trace gives to an instance: the mean of those "
    "that start one by one, the longest of a gang's",
    "status": "String, as for jobs",
}
"""One row a task, in order of end; then one column a resource: what ONE instance asks for."""

ALLOCATIONS: Final = {
    "job_id": "as in jobs",
    "task_id": "as in tasks",
    "machine_id": "Int64, row of the machine in run.json's cluster",
    "first_instance": "Int64, the first of `count` consecutive instances",
    "count": "Int64, instances of the task on this machine",
    "attempt": "Int64, from 1; resuming keeps the number, starting over raises it",
    "start_time_s": "Float64",
    "end_time_s": "Float64; null while it runs",
    "outcome": "String: finished, killed, suspended, lost, running",
}
"""One row per (placement, machine), in order of end."""

TIMELINE: Final = {
    "time_s": "Float64, an instant at which something changed",
    "waiting": "Int64, tasks in the queue or reserved for later, after any decision",
    "backlog": "Int64, tasks that admission holds back",
    "running": "Int64, allocations that hold resources",
}
"""One row an instant at which something changed; then, for each resource, `allocated_<resource>`
and `capacity_<resource>` (Float64)."""

EVENTS: Final = {
    "time_s": "Float64",
    "kind": "String: rejected, reserved, reservation_failed, cancelled, suspended, resumed, "
    "killed, lost, capacity, switched",
    "job_id": "as in jobs; null for the cluster's own events",
    "task_id": "as in tasks; null for the cluster's own events",
    "machine_id": "Int64; null if the event concerns no machine",
    "detail": "String, for people",
}
"""What happened besides starts and ends, in order of time."""

POWER: Final = {
    "start_s": "Float64, start of a row; the rows follow each other without gaps",
    "end_s": "Float64, its end; all powers hold in between",
    "generation_w": "Float64, what sun and wind could give",
    "import_w": "Float64, from the grid",
    "discharge_w": "Float64, from the battery, at its terminals",
    "unserved_w": "Float64, load for which there is no power",
    "load_w": "Float64, what machines, cooling and the rest want",
    "charge_w": "Float64, into the battery, at its terminals",
    "export_w": "Float64, to the grid",
    "curtailment_w": "Float64, generation that is not used",
    "losses_w": "Float64, lost between sources and load",
    "pue": "Float64, facility power for each W of machine power",
    "price_per_kwh": "Float64, of imported energy",
    "export_price_per_kwh": "Float64, of exported energy",
    "carbon_gco2_per_kwh": "Float64, of imported energy, in g of CO₂ equivalent",
    "generation_price_per_kwh": "Float64, of generated energy that is used",
    "generation_gco2_per_kwh": "Float64, of generated energy that is used, over the life cycle",
    "machines_w": "Float64, what machines draw of the load, before PUE",
    "standing_w": "Float64, the part of machines_w that belongs to no job: idle, booting, off",
    "load_renewable_w": "Float64, of the load and losses: straight from sun and wind",
    "load_battery_w": "Float64, of these: from the battery",
    "load_grid_w": "Float64, of these: straight from the grid",
    "charge_renewable_w": "Float64, of what charges the battery: from sun and wind",
    "charge_grid_w": "Float64, of this: from the grid",
    "load_battery_grid_w": "Float64, of load_battery_w: energy that the grid had charged",
    "carbon_g_per_s": "Float64, of import and used generation, when it comes in",
    "cost_per_s": "Float64, of the same, less what export brings",
    "load_carbon_g_per_s": "Float64, of the load's energy; that from the battery when it is used",
    "load_cost_per_s": "Float64, cost of the load's energy; that from the battery when it is used",
    "stored_j": "Float64, the battery's content at the row's end",
    "stored_carbon_g": "Float64, what this content carries",
    "stored_cost": "Float64, cost that this content carries",
    "stored_grid_j": "Float64, the part of the content that came from the grid",
}
"""One row a stretch of time in which no power of the site changed; only in runs with power."""

ENERGY: Final = {
    "job_id": "as in jobs",
    "energy_j": "Float64, energy of the machines: the job's part of what is above idle and was "
    "served",
    "overhead_j": "Float64, its part of what the facility adds and loses",
    "renewable_j": "Float64, of both: straight from sun and wind",
    "battery_j": "Float64, of both: from the battery",
    "grid_j": "Float64, of both: straight from the grid",
    "carbon_g": "Float64, of both, in g of CO₂ equivalent; that from the battery as charged",
    "cost": "Float64, of both, in the currency of the prices",
}
"""One row a job id, in the order of jobs; only in runs with power."""

JOBS_FURTHER: Final = {**JOBS_WITH_VALUE, **JOBS_RELEASED, **JOBS_CORRECTED, **JOBS_ROUTED}
"""All that jobs may have between `reason` and the resources, in order."""
TABLES: Final = {
    "jobs": JOBS,
    "tasks": TASKS,
    "allocations": ALLOCATIONS,
    "timeline": TIMELINE,
    "events": EVENTS,
}
"""Tables of every run, in the order of the digest → the columns that they begin with."""
POWER_TABLES: Final = {"power": POWER, "energy": ENERGY}
"""Further tables of runs with power."""

STATUSES: Final = ("finished", "killed", "rejected", "running", "waiting")
OUTCOMES: Final = ("finished", "killed", "suspended", "lost", "running")


class TableSink(Protocol):
    """Takes finished chunks of tables."""

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table."""
