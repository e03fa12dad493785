"""The engine's starts of jobs on one pool of processors, beside which the fast simulation stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from engine_runs import simulate

from simkit.policy import Policy
from simkit.workload import Workload


def engine_starts(policy: Policy, workload: Workload, processors: int) -> list[float]:
    """Return the engine's start of every job, in order of submission."""
    start = simulate(policy, workload, processors).starts()
    return [start[job] for job in workload.job_id.tolist()]


def small_workload(rows: Sequence[tuple[float, float, int, float, int]]) -> Workload:
    """Return the jobs of (gap to the job before, run time, processors, requested time, user)."""
    gaps, run, size, requested, user = zip(*rows, strict=True)
    return Workload.from_jobs(
        {
            "job_id": np.arange(len(rows)),
            "submit_time_s": np.cumsum(gaps).astype(float),
            "run_time_s": np.array(run, dtype=float),
            "processors": np.array(size),
            "requested_time_s": np.array(requested, dtype=float),
            "user": np.array(user),
        }
    )
