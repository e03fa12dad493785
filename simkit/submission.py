"""Submission: the jobs of a workload become tasks, a block at a time, as their time comes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from simkit.cluster import Cluster
from simkit.errors import ScenarioError
from simkit.estimates import Predictor
from simkit.policy import Partition
from simkit.task import Task
from simkit.workload import Workload

_BLOCK = 2048  # jobs turned into Python numbers at a time: what keeps a long trace's memory flat


@dataclass(slots=True)
class Submitted:
    """A job at its submission."""

    row: int
    """Its row in the workload."""
    time_s: float
    tasks: list[Task]
    refusal: str = ""
    """Why no machine could ever run it; empty: it can run."""


class Submission:
    """Makes jobs into tasks with an estimate, a partition and the machines they may use."""

    def __init__(self, workload: Workload, cluster: Cluster, predictor: Predictor) -> None:
        if missing := [name for name in workload.resources if name not in cluster.resources]:
            raise ScenarioError(
                f"cluster: jobs ask for {', '.join(missing)}, but the machines have only "
                f"{', '.join(cluster.resources)}; add it to the machines"
            )
        self._workload = workload
        self._cluster = cluster
        self._predictor = predictor
        self._order = [
            workload.resources.index(name) if name in workload.resources else -1
            for name in cluster.resources
        ]
        first = cluster.partitions[0]
        self._only = first if cluster.partitions == (Partition(first.name),) else None
        """The partition that takes every job, where there is just one and without limits."""

    def jobs(self) -> Iterator[Submitted]:
        """Yield every job in order of submission."""
        for first in range(0, len(self._workload), _BLOCK):
            yield from self._block(first, min(first + _BLOCK, len(self._workload)))

    def _block(self, first: int, last: int) -> Iterator[Submitted]:
        load = self._workload
        begin, end = int(load.first_task[first]), int(load.first_task[last])
        tasks = self._task_facts(slice(begin, end))
        jobs = zip(
            range(first, last),
            np.diff(load.first_task[first : last + 1]).tolist(),
            load.submit_time_s[first:last].tolist(),
            load.user[first:last].tolist(),
            load.group[first:last].tolist(),
            load.queue[first:last].tolist(),
            load.partition[first:last].tolist(),
            strict=True,
        )
        only = self._only
        for row, size, submit, user, group, queue, number in jobs:
            job = Submitted(row, submit, [])
            position, partition = (0, only) if only else self._partition(queue, number)
            if position < 0:
                job.refusal = f"no partition takes queue {queue}, partition {number}"
            for index, request, demand, doubtful, count, gang, requested, estimate in islice(
                tasks, size
            ):
                task = Task(
                    index, row, submit, request, count, gang, estimate, requested, user, group,
                    queue, position, partition.priority, partition.machines, demand,
                )  # fmt: skip
                job.tasks.append(task)
                if doubtful:
                    job.refusal = job.refusal or self._refusal(task, partition)
            yield job

    def _task_facts(self, tasks: slice) -> Iterator[tuple[Any, ...]]:
        """Yield what a block's tasks are made of, in order."""
        load = self._workload
        return zip(
            range(tasks.start, tasks.stop),
            self._requests(tasks),
            self._demands(tasks),
            self._doubtful(tasks),
            load.instances[tasks].tolist(),
            load.gang[tasks].tolist(),
            load.requested_time_s[tasks].tolist(),
            self._predictor.estimates(tasks.start, tasks.stop).tolist(),
            strict=True,
        )

    def _requests(self, tasks: slice) -> list[tuple[float, ...]]:
        """Return a request per task, in the order of the cluster's resources."""
        rows = self._workload.request[tasks]
        if rows.strides[0] == 0 and len(rows):
            return [self._sorted(rows[0].tolist())] * len(rows)
        return [self._sorted(row) for row in rows.tolist()]

    def _sorted(self, row: list[float]) -> tuple[float, ...]:
        return tuple([row[r] if r >= 0 else 0.0 for r in self._order])

    def _demands(self, tasks: slice) -> list[tuple[float, ...]]:
        """Return what all instances of each task ask for together."""
        load = self._workload
        amounts = load.request[tasks] * load.instances[tasks, None]
        none = [0.0] * len(amounts)
        columns = [amounts[:, r].tolist() if r >= 0 else none for r in self._order]
        return list(zip(*columns, strict=True))

    def _doubtful(self, tasks: slice) -> list[bool]:
        """Tell which tasks have to be looked at one by one, because they might never run."""
        if self._only is None or len(self._cluster.capacity) > 1:
            return [True] * (tasks.stop - tasks.start)
        load = self._workload
        columns = [i for i, r in enumerate(self._order) if r >= 0]
        demand = load.request[tasks] * load.instances[tasks, None]
        asked = demand[:, [self._order[i] for i in columns]]
        room = self._cluster.capacity[0][columns]
        doubtful: list[bool] = (asked > room).any(axis=1).tolist()
        return doubtful

    def _partition(self, queue: int, number: int) -> tuple[int, Partition]:
        """Return the first partition that takes the job; one that names no numbers takes all."""
        for position, partition in enumerate(self._cluster.partitions):
            if (
                queue in partition.queues
                or number in partition.partitions
                or not (partition.queues or partition.partitions)
            ):
                return position, partition
        return -1, _NOWHERE

    def _refusal(self, task: Task, partition: Partition) -> str:
        room = self._cluster.most_instances(task.request, partition.machines)
        needed = task.instances if task.gang else 1
        if needed > room:
            return (
                f"asks for {needed} x {_words(task.request, self._cluster.resources)} at once"
                + (f", the machines hold {room}" if room else ", no machine can hold one")
            )
        limit = task.requested_time_s if task.requested_time_s >= 0 else task.estimate_s
        if limit > partition.max_time_s:
            return (
                f"asks for {limit:g} s, partition {partition.name} allows "
                f"{partition.max_time_s:g} s"
            )
        if task.demand[0] > partition.max_demand:
            return (
                f"asks for {task.demand[0]:g} {self._cluster.resources[0]}, partition "
                f"{partition.name} allows {partition.max_demand:g}"
            )
        return ""


_NOWHERE = Partition("none", machines=())


def _words(request: tuple[float, ...], resources: tuple[str, ...]) -> str:
    return ", ".join(f"{a:g} {name}" for a, name in zip(request, resources, strict=True) if a)
