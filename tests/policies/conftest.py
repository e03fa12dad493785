"""Replays of small workloads under a policy, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policy import Policy
from simkit.policy.estimates import Requested
from simkit.power.site import Site
from simkit.rules import Rules
from simkit.workload import Workload
from simkit.workload.cluster import Cluster


class Run:
    """The records of a run, in memory."""

    def __init__(self) -> None:
        self._chunks: dict[str, list[pl.DataFrame]] = {}

    def write(self, table: str, rows: pl.DataFrame) -> None:
        self._chunks.setdefault(table, []).append(rows)

    def __getitem__(self, table: str) -> pl.DataFrame:
        return pl.concat(self._chunks[table])

    @property
    def starts(self) -> list[float]:
        """Start of every job in order of job id, which these tests make the order of submission."""
        return self["jobs"].sort("job_id")["start_time_s"].to_list()


def replay(
    policy: Policy,
    jobs: Mapping[str, Any] | Workload,
    cluster: Cluster | int,
    *,
    rules: Rules | None = None,
    predictor: Requested | None = None,
    site: Site | None = None,
    seed: int = 0,
) -> Run:
    """Run a policy over jobs (columns, or a workload) on a cluster (or a pool of processors)."""
    workload = jobs if isinstance(jobs, Workload) else Workload.from_jobs(jobs)
    if isinstance(cluster, int):
        cluster = Cluster.pool({"processors": cluster})
    run = Run()
    recorder = Recorder(workload, cluster.resources, run)
    simulation = Simulation(
        workload, cluster, recorder, rules=rules, predictor=predictor, site=site, seed=seed
    )
    simulation.run(policy, seed=seed)
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
