"""What a workload may say of the worth of its jobs: columns that a plain log leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simkit.workload import Workload

Floats = npt.NDArray[np.float64]

OF_JOBS: Final = ("qos", "value", "deadline_s")
"""Columns with a number a job; each is there or left out by itself."""
OF_TASKS: Final = ("value_per_s",)
"""Columns with a number a task."""


def value_shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    """Return the shape that each column which is there must have."""
    sizes = dict.fromkeys(OF_JOBS, len(workload.job_id))
    sizes |= dict.fromkeys(OF_TASKS, len(workload.task_id))
    return {name: (size,) for name, size in sizes.items() if len(getattr(workload, name))}


def value_rules(workload: Workload) -> dict[str, bool]:
    """Return rule in words → whether the columns keep it."""
    qos, due = workload.qos, workload.deadline_s
    worths = np.concatenate((workload.value, workload.value_per_s))
    return {
        "qos must be above 0 and at most 1": bool(((qos > 0) & (qos <= 1)).all()),
        "values must be finite and at least 0": bool((np.isfinite(worths) & (worths >= 0)).all()),
        "value_per_s needs the column value beside it": bool(
            len(workload.value) or not len(workload.value_per_s)
        ),
        "deadlines must be times, or infinite where there is none": bool((due > -np.inf).all()),
    }


def taken(workload: Workload, jobs: Any, tasks: Any) -> dict[str, Floats]:
    """Return the columns of some rows of jobs and tasks, those that are there."""
    rows = dict.fromkeys(OF_JOBS, jobs) | dict.fromkeys(OF_TASKS, tasks)
    return {
        name: getattr(workload, name)[wanted]
        for name, wanted in rows.items()
        if len(getattr(workload, name))
    }


def moved_deadlines(
    deadline_s: Floats, submit_time_s: Floats, changes: Mapping[str, Any]
) -> dict[str, Floats]:
    """Return the deadlines of jobs that are submitted at other times: as long after as before.

    Args:
        deadline_s: (J,) or empty.
        submit_time_s: (J,) the times before.
        changes: fields that a copy replaces; deadlines among them stay as they are.
    """
    if "submit_time_s" not in changes or "deadline_s" in changes or not len(deadline_s):
        return {}
    return {"deadline_s": deadline_s + (np.asarray(changes["submit_time_s"]) - submit_time_s)}
