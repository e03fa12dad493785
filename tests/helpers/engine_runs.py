"""Small workloads, policies made of a function, and what came of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policy import Action, Place, State, SystemInfo
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Maintenance, Partition


class Run:
    """The records of a run, in memory."""

    def __init__(self) -> None:
        self._chunks: dict[str, list[pl.DataFrame]] = {}
        self.simulation: Simulation

    def write(self, table: str, rows: pl.DataFrame) -> None:
        self._chunks.setdefault(table, []).append(rows)

    def __getitem__(self, table: str) -> pl.DataFrame:
        return pl.concat(self._chunks[table])

    def rows(self, table: str, columns: str, by: str | None = None) -> list[tuple[Any, ...]]:
        """Return some columns of a table, named in one string, row by row."""
        frame = self[table] if by is None else self[table].sort(by, maintain_order=True)
        return frame.select(columns.split()).rows()

    def starts(self) -> dict[int, float]:
        """Job id → start."""
        return dict(self.rows("jobs", "job_id start_time_s", by="job_id"))


class FromFunction:
    """A policy whose `schedule` is a function, and which remembers nothing."""

    def __init__(self, schedule: Callable[[State], Iterable[Action]]) -> None:
        self.schedule = schedule

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """There is nothing to forget."""


def greedy(state: State) -> Iterator[Action]:
    """Start tasks in order of submission; one that does not fit blocks nobody."""
    for task in state.queue:
        if on := state.fit(task):
            yield Place(task, on)


def begin(
    workload: Workload,
    cluster: Cluster | float = 4,
    seed: int = 0,
    run: Run | None = None,
    **facts: Any,
) -> Run:
    """Build a simulation on a cluster or a pool of so many processors; nothing runs yet."""
    if not isinstance(cluster, Cluster):
        cluster = Cluster.pool({"processors": cluster})
    run = run or Run()
    recorder = Recorder(workload, cluster.resources, run)
    run.simulation = Simulation(workload, cluster, recorder, seed=seed, **facts)
    return run


def simulate(
    policy: Any, workload: Workload, cluster: Cluster | float = 4, seed: int = 0, **facts: Any
) -> Run:
    """Run a policy, or a function in its place."""
    if not hasattr(policy, "schedule"):
        policy = FromFunction(policy)
    run = begin(workload, cluster, seed, **facts)
    run.simulation.run(policy, seed=seed)
    return run


def rigid(*rows: tuple[float, ...]) -> Workload:
    """Make gangs of (submit, run time, processors[, requested time]); their ids count from 0."""
    return make_jobs(*((row[0], a_gang(row[2], row[1], *row[3:])) for row in rows))


TaskRow = tuple[int, tuple[float, ...], float, float, bool]


def a_gang(
    instances: float, run: float, requested: float | None = None, request: Any = (1.0,)
) -> TaskRow:
    """Describe a gang; without a requested time it asks for what it runs."""
    return int(instances), request, run, run if requested is None else requested, True


def a_bag(
    instances: float, run: float, requested: float | None = None, request: Any = (1.0,)
) -> TaskRow:
    """Describe a bag."""
    return *a_gang(instances, run, requested, request)[:4], False


def make_jobs(
    *jobs: tuple[Any, ...], resources: tuple[str, ...] = ("processors",), **facts: Any
) -> Workload:
    """Make jobs of (submit, task, task, …); ids of jobs and of tasks count from 0."""
    tasks: list[TaskRow] = [task for job in jobs for task in job[1:]]
    instances, request, run, requested, together = zip(*tasks, strict=True)
    return Workload(
        resources=resources,
        job_id=np.arange(len(jobs)),
        submit_time_s=np.array([job[0] for job in jobs], dtype=float),
        first_task=np.cumsum([0, *(len(job) - 1 for job in jobs)]),
        task_id=np.arange(len(tasks)),
        instances=np.array(instances),
        request=np.array(request, dtype=float),
        run_time_s=np.array(run, dtype=float),
        requested_time_s=np.array(requested, dtype=float),
        gang=np.array(together),
        **{name: np.array(column) for name, column in facts.items()},
    )


def pool(processors: float, *partitions: Partition, **facts: Any) -> Cluster:
    """Return a pool of processors with these partitions, or one that takes all."""
    partitions = partitions or (Partition("all"),)
    return Cluster.pool({"processors": float(processors)}, partitions=partitions, **facts)


def pool_away(*windows: tuple[float, float, float, str]) -> Cluster:
    """Return a pool of four processors with windows of (start, end, amount, running)."""
    rows = (Maintenance(begin, end, 0, (amount,), how) for begin, end, amount, how in windows)
    return pool(4, maintenance=tuple(rows))
