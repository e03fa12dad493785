"""Names that a resource cannot have, because the tables of a run have columns of these names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COLUMNS: Final = frozenset({
    # of jobs
    "job_id", "user", "group", "executable", "queue", "partition", "submit_time_s", "start_time_s",
    "end_time_s", "wait_time_s", "turnaround_time_s", "run_time_s", "ideal_time_s",
    "requested_time_s", "estimate_s", "trace_run_time_s", "suspended_time_s", "lost_time_s",
    "attempts", "status", "reason", "qos", "value", "deadline_s", "corrected_estimate_s",
    "site_partition", "release_time_s",
    # of tasks
    "task_id", "instances", "gang", "ready_time_s",
})  # fmt: skip


def taken_names(resources: Iterable[str]) -> list[str]:
    """Return what is wrong with names of resources, a line each."""
    return [
        f"the resource {name!r} has the name of a column of the results; name it otherwise, such "
        f"as {name}_units"
        for name in resources
        if name in COLUMNS
    ]
