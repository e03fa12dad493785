"""Random runs of pools of rigid jobs: ties, empty jobs, kills, users, refusals, maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from engine_runs import a_gang, make_jobs

import simkit
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Maintenance, Partition

FIXED: Final = (
    "fcfs", "lcfs", "sjf", "ljf", "saf", "laf", "f1", "f2", "f3", "f4", "log-r-n", "r2-n", "random",
    "largest-request", "qos",
)  # fmt: skip
CHANGING: Final = ("hrrn", "wfp3", "unicef", "saf-p", "wfp3-p-n2")
PREDICTING: Final = ("saf-p", "wfp3-p-n2")
BACKFILLS: Final[tuple[Any, ...]] = (
    "none", "easy", {"type": "easy", "order": "sjf"}, "conservative",
    {"type": "conservative", "compress": "completion"},
)  # fmt: skip
ESTIMATES: Final[tuple[Any, ...]] = (
    "requested", "actual", "user-mean", {"type": "perturbed", "factor": 2.0},
    {"type": "requested", "correction": "tsafrir"}, {"type": "user-mean", "correction": "request"},
)  # fmt: skip


class Scenario(NamedTuple):
    """What a run is made of."""

    workload: Workload
    cluster: Cluster
    overrides: Mapping[str, Any]

    def played(self, engine: str) -> simkit.Run:
        """Return its run by an engine."""
        return simkit.simulate(
            {"workload": {"type": "lublin", "jobs": 1, "processors": 1}},
            workload=self.workload,
            cluster=self.cluster,
            overrides={**self.overrides, "engine": engine},
        )


def drawn(seed: int) -> Scenario:
    """Return a random run: a few or many jobs, often at one instant, often overloaded."""
    rng = np.random.default_rng(seed)
    jobs, size = int(rng.choice([1, 5, 30, 120])), int(rng.choice([1, 4, 16, 100]))
    step = float(rng.choice([0.0, 1.0, 10.0, 60.0]))
    submit = np.sort(rng.integers(0, 3 + jobs, jobs) * step)
    run = rng.choice([0.0, 1.0, 2.0, 5.0, 17.0, 60.0, 300.0], jobs) * rng.choice([1, 1.5, 1 / 3])
    run = np.where(rng.random(jobs) < 0.3, run, np.round(run * rng.random(jobs), 3))
    requested = np.where(rng.random(jobs) < 0.5, run, run * rng.choice([0.0, 0.5, 1, 3, 20], jobs))
    requested = np.where(rng.random(jobs) < 0.1, np.nan, requested)
    requested = np.where(rng.random(jobs) < 0.05, np.inf, requested)
    demand = rng.integers(1, size + 1 + (rng.random(jobs) < 0.02), jobs)
    demand = np.where(rng.random(jobs) < 0.5, np.minimum(demand, 1 + size // 4), demand)
    columns = zip(submit, demand, run, requested, strict=True)
    workload = make_jobs(
        *((s, a_gang(n, r, q)) for s, n, r, q in columns),
        user=rng.integers(-1, 4, jobs),
        qos=rng.choice([0.25, 0.5, 1.0], jobs),
        queue=rng.integers(-1, 3, jobs),
    )
    pools = int(rng.choice([1, 1, 2, 3]))
    orders = [order for order in (*FIXED, *CHANGING) if pools == 1 or order not in PREDICTING]
    estimates = [one for one in ESTIMATES if pools == 1 or "user-mean" not in str(one)]
    overrides = {
        "policy.order": str(rng.choice(orders)),
        "policy.backfill": BACKFILLS[rng.integers(len(BACKFILLS))],
        "estimates": estimates[rng.integers(len(estimates))],
        "walltime": str(rng.choice(["kill", "ignore"])),
        "seed": seed % 7,
    }
    cluster = _cluster(rng, size, pools)
    if rng.random() < 0.4:
        cluster = replace(cluster, maintenance=_maintenance(rng, cluster, submit[-1] + 60.0))
    return Scenario(workload, cluster, overrides)


def _maintenance(
    rng: np.random.Generator, cluster: Cluster, until: float
) -> tuple[Maintenance, ...]:
    """Return windows on a pool, one after the other or at once, some before the first job."""
    windows, machine = [], int(rng.integers(len(cluster.capacity)))
    size, count = float(cluster.capacity[machine, 0]), int(rng.integers(1, 4))
    for _ in range(count):
        begin = float(rng.choice([-30.0, 0.0, np.round(until * rng.random(), 2)]))
        end = begin + float(rng.choice([1.0, 17.0, until]))
        away = float(rng.choice([0.0, size // count, size if count == 1 else 0.0]))
        windows.append(Maintenance(begin, end, machine, (away,)))
    return tuple(windows)


def _cluster(rng: np.random.Generator, size: int, pools: int) -> Cluster:
    """Return one pool, or one for each partition, which take some queues and have limits."""
    names = [f"p{row}" for row in range(pools)]
    waiting = np.array([1.0, 2.0, 5.0, np.inf, np.inf])
    if pools == 1 and rng.random() < 0.3:
        limited = Partition(
            "all",
            max_running_per_user=float(rng.choice([1, 2, 3, np.inf])),
            max_waiting_per_user=float(rng.choice(waiting)),
        )
        return Cluster.pool({"processors": float(size)}, partitions=(limited,))
    if pools == 1:
        return Cluster.pool({"processors": float(size)})
    of_queues = [frozenset(rng.choice(3, rng.integers(3)).tolist()) for _ in names]
    alone = pools == 2 and rng.random() < 0.5  # each queue has one partition
    if alone:
        of_queues, waiting = [frozenset([-1, 0]), frozenset([1, 2])], waiting[:4]
    partitions = [
        Partition(
            name,
            machines=(row,),
            priority=float(rng.integers(2)),
            max_time_s=float(rng.choice([60.0, np.inf])),
            max_running_per_user=float(rng.choice([1, 3, np.inf, np.inf])),
            max_demand=float(rng.choice([size // 2 + 1, np.inf])),
            max_waiting_per_user=float(rng.choice(waiting)) if alone else np.inf,
            queues=of_queues[row],
        )
        for row, name in enumerate(names)
    ]
    capacity = np.array([[float(rng.choice([size, size // 3 + 1]))] for _ in names])
    return Cluster(("processors",), tuple(names), capacity, tuple(partitions))
