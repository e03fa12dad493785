"""What policies are told of the worth of tasks: set on them as they are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from simkit.cluster import Cluster
from simkit.task import Task
from simkit.value_columns import OF_JOBS
from simkit.workload import Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class TaskWorths:
    """Gives tasks their quality of service, deadline, worth and share of the cluster.

    Of a worth that depends on the run time a task is told the worth of a second alone, so that
    its true run time stays hidden. A worth that does not is shared evenly by the job's tasks.
    """

    def __init__(self, workload: Workload, cluster: Cluster) -> None:
        self._workload = workload
        total = {
            name: float(amount)
            for name, amount in zip(cluster.resources, cluster.capacity.sum(axis=0), strict=True)
        }
        capacity = np.array([total[name] for name in workload.resources])
        self._capacity = np.where(capacity > 0, capacity, np.inf)
        self._tasks_of_job = np.diff(workload.first_task)

    @classmethod
    def of(cls, workload: Workload, cluster: Cluster) -> TaskWorths | None:
        """Return None for a workload that says nothing of worth."""
        if any(len(getattr(workload, name)) for name in OF_JOBS):
            return cls(workload, cluster)
        return None

    def give(self, tasks: Sequence[Task], rows: slice, jobs: Ints) -> None:
        """Tell the tasks of some rows; `jobs` is the row of each one's job."""
        load = self._workload
        columns = zip(
            tasks, _column(load.qos, jobs, 1.0), _column(load.deadline_s, jobs, np.inf),
            self._per_second(rows), self._fixed(jobs), self._shares(rows),
            strict=False,
        )  # fmt: skip
        for task, qos, deadline, per_second, fixed, share in columns:
            task.qos = qos
            task.deadline_s = deadline
            task.value_per_s = per_second
            task.fixed_value = fixed
            task.cluster_share = share

    def _per_second(self, rows: slice) -> Iterator[float]:
        column = self._workload.value_per_s
        return iter(column[rows].tolist()) if len(column) else repeat(0.0)

    def _fixed(self, jobs: Ints) -> Iterator[float]:
        load = self._workload
        if len(load.value_per_s) or not len(load.value):
            return repeat(0.0)
        return iter((load.value[jobs] / self._tasks_of_job[jobs]).tolist())

    def _shares(self, rows: slice) -> list[float]:
        load = self._workload
        demand = load.request[rows] * load.instances[rows, None]
        shares: list[float] = (demand / self._capacity).max(axis=1).tolist()
        return shares


def _column(column: Floats, jobs: Ints, default: float) -> Iterator[float]:
    return iter(column[jobs].tolist()) if len(column) else repeat(default)
