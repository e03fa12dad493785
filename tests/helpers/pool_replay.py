"""The engine's starts of jobs on one pool of processors, beside which the fast simulation stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policy import Policy
from simkit.results.run_writer import MemoryWriter
from simkit.workload import Workload
from simkit.workload.cluster import Cluster


def engine_starts(policy: Policy, workload: Workload, processors: int) -> list[float]:
    """Return the engine's start of every job, in order of submission."""
    cluster, kept = Cluster.pool({"processors": processors}), MemoryWriter({}, digested=False)
    simulation = Simulation(workload, cluster, Recorder(workload, cluster.resources, kept))
    simulation.run(policy, seed=0)
    kept.close_tables()
    found = kept.results().jobs
    start = dict(zip(found["job_id"].to_list(), found["start_time_s"].to_list(), strict=True))
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
