"""Cases for the checker of policies: small workloads, each with a thing that trips policies up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from simkit.engine.simulation import Rules
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Maintenance, Partition

LONGEST_RUN_S = 60
"""Run times are short, so that a policy may ask to be woken every second."""


@dataclass(frozen=True)
class Case:
    """A workload on a cluster; every job of it fits the empty machines."""

    name: str
    workload: Workload
    cluster: Cluster
    rules: Rules = field(default_factory=Rules)


def cases(seed: int) -> Iterator[Case]:
    """Yield the cases, the simplest first; the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    pool = Cluster.pool({"processors": 16.0})
    yield Case("one job", _rigid(rng, jobs=1), pool)
    yield Case("rigid jobs on a pool", _rigid(rng, jobs=40), pool)
    yield Case("jobs that arrive at one instant", _rigid(rng, jobs=30, gap_s=0.0), pool)
    yield Case("a job as large as the pool", _large_behind_small(rng), pool)
    yield Case("gangs and bags on several machines with several resources",
               _mixed(rng), _machines())  # fmt: skip
    yield Case("partitions", _mixed(rng), _machines(partitions=_PARTITIONS))
    yield Case("maintenance", _mixed(rng), _machines(maintenance=_WINDOWS))
    yield Case("decisions every 30 s", _rigid(rng, jobs=30), pool, Rules(every_s=30.0))
    yield Case("decisions at every step", _rigid(rng, jobs=30), pool, Rules(step_s=30.0))


_CAPACITY = np.array([[4.0, 8.0], [8.0, 4.0], [2.0, 16.0]])
_PARTITIONS = (
    Partition("small", machines=(0, 1), queues=frozenset({0}), priority=1.0),
    Partition("all"),
)
# Capacity drains below what is held, and tasks come back to the queue.
_WINDOWS = (
    Maintenance(60.0, 200.0, 0, (4.0, 4.0), "drain"),
    Maintenance(90.0, 120.0, 1, (8.0, 4.0), "requeue"),
)


def _machines(
    partitions: tuple[Partition, ...] = (Partition("all"),),
    maintenance: tuple[Maintenance, ...] = (),
) -> Cluster:
    return Cluster(("cpu", "mem"), ("a", "b", "c"), _CAPACITY, partitions, maintenance)


def _rigid(rng: np.random.Generator, jobs: int, gap_s: float = 12.0) -> Workload:
    """Return jobs of 1 to 16 processors; run times from 0, estimates on both sides of the truth."""
    run = rng.integers(0, LONGEST_RUN_S + 1, jobs).astype(np.float64)
    return Workload.from_jobs(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": np.floor(np.cumsum(gap_s * rng.exponential(size=jobs))),
            "run_time_s": run,
            "requested_time_s": np.ceil(run * rng.uniform(0.8, 4.0, jobs)),
            "processors": 2 ** rng.integers(0, 5, jobs),
            "user": rng.integers(-1, 4, jobs),
        }
    )


def _large_behind_small(rng: np.random.Generator) -> Workload:
    """Return a stream of small jobs and, amid them, one that needs everything at once."""
    load = _rigid(rng, jobs=40, gap_s=6.0)
    sizes = load.instances % 5 + 1
    sizes[5] = 16
    return load.with_columns(instances=sizes)


def _mixed(rng: np.random.Generator, jobs: int = 30) -> Workload:
    """Return jobs of one to three tasks, gangs and bags; some ask for one resource or for none."""
    tasks = rng.integers(1, 4, jobs)
    total = int(tasks.sum())
    run = rng.integers(0, LONGEST_RUN_S + 1, total).astype(np.float64)
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(1, jobs + 1),
        submit_time_s=np.floor(np.cumsum(10.0 * rng.exponential(size=jobs))),
        first_task=np.concatenate(([0], np.cumsum(tasks))),
        task_id=np.arange(total),
        instances=rng.integers(1, 5, total),
        request=rng.choice([0.0, 0.5, 1.0, 2.0], (total, 2)),
        run_time_s=run,
        requested_time_s=np.ceil(run * rng.uniform(0.8, 4.0, total)),
        gang=rng.random(total) < 0.5,
        queue=rng.integers(0, 2, jobs),
        user=rng.integers(-1, 4, jobs),
    )
