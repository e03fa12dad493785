"""The records of a run: one flat table a fact; metrics, reports and the auditor read only these.

Times are seconds on the trace's clock. A null time means that it has not happened.
"""

from __future__ import annotations

from typing import Final

JOBS: Final = {
    "job_id": "the trace's id: Int64 or String",
    "user": "Int64 (String where the trace has names); -1 unknown; so the next four",
    "group": "",
    "executable": "",
    "queue": "",
    "partition": "",
    "submit_time_s": "Float64, when the job was submitted",
    "start_time_s": "Float64, first start of any instance; null if it never started",
    "end_time_s": "Float64, end of the last instance; null if it has not ended",
    "wait_time_s": "Float64, start - submit; null if it never started",
    "turnaround_time_s": "Float64, end - submit; null if it has not ended",
    "run_time_s": "Float64, executed time: of the successful attempt, or until killed; null before",
    "requested_time_s": "Float64, the user's estimate; null where the trace has none",
    "estimate_s": "Float64, what the policy was told on submission",
    "trace_run_time_s": "Float64, the longest run time the trace gives to a task of the job",
    "suspended_time_s": "Float64, time between suspension and resumption",
    "lost_time_s": "Float64, executed time whose work was thrown away; of a bag the mean over its "
    "instances, of several tasks the sum",
    "attempts": "Int64, how often it was started from the beginning",
    "status": "String: finished, killed, rejected; running or waiting at the run's end",
    "reason": "String, why it was rejected or killed; empty otherwise",
}
"""One row a job, in order of end (rejected ones when they are rejected; unfinished ones last).
After these columns, one a resource (`processors`, `cpu`, …): what the job asks for at once."""

TASKS: Final = {
    "job_id": "as in jobs",
    "task_id": "the trace's id: Int64 or String",
    "instances": "Int64",
    "gang": "Boolean",
    "start_time_s": "Float64, first start of an instance",
    "end_time_s": "Float64, end of the last instance",
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
    "waiting": "Int64, tasks in the queue after the decision, if there was one",
    "backlog": "Int64, tasks that admission holds back",
    "running": "Int64, allocations that hold resources",
}
"""One row an instant at which something changed; then, for each resource, `allocated_<resource>`
and `capacity_<resource>` (Float64)."""

EVENTS: Final = {
    "time_s": "Float64",
    "kind": "String: rejected, reserved, reservation_failed, cancelled, suspended, resumed, "
    "killed, lost, capacity",
    "job_id": "as in jobs; null for the cluster's own events",
    "task_id": "as in tasks; null likewise",
    "machine_id": "Int64; null where no machine is meant",
    "detail": "String, for people",
}
"""What happened besides starts and ends, in order of time."""

STATUSES: Final = ("finished", "killed", "rejected", "running", "waiting")
OUTCOMES: Final = ("finished", "killed", "suspended", "lost", "running")
