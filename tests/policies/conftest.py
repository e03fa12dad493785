"""Replays of small workloads under a policy, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import engine_runs
import numpy as np
import pytest

from simkit.policy import Policy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster


class Run(engine_runs.Run):
    """The records of a run, in memory."""

    @property
    def starts(self) -> list[float]:
        """Start of every job in order of job id, which these tests make the order of submission."""
        return [start for (start,) in self.rows("jobs", "start_time_s", by="job_id")]


def replay(
    policy: Policy, jobs: Mapping[str, Any] | Workload, cluster: Cluster | int, **facts: Any
) -> Run:
    """Run a policy over jobs (columns, or a workload) on a cluster (or a pool of processors)."""
    workload = jobs if isinstance(jobs, Workload) else Workload.from_jobs(jobs)
    run = Run()
    engine_runs.simulate(policy, workload, cluster, run=run, **facts)
    return run


@pytest.fixture(scope="session")
def simulate() -> Callable[..., Run]:
    return replay


def columns(rows: list[tuple[float, float, int, float]]) -> dict[str, Any]:
    """Make job columns of (gap to the job before, run time, processors, requested time)."""
    gaps, run, size, requested = zip(*rows, strict=True)
    return {
        "job_id": np.arange(len(rows)),
        "submit_time_s": np.cumsum(gaps).astype(float),
        "run_time_s": np.array(run, dtype=float),
        "processors": np.array(size),
        "requested_time_s": np.array(requested, dtype=float),
    }


@pytest.fixture(scope="session")
def job_columns() -> Callable[..., dict[str, Any]]:
    return columns
