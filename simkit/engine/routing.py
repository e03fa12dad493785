"""Routing: which partition takes a job, and why none does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.policy.task import Task
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Partition


class Routing:
    """Sends each job to the first partition that takes its queue and admits all of its tasks.

    A partition takes jobs of the trace's queues or partitions that it names, or all jobs if it
    names none. It admits a task that asks for no more time and processors than it allows, and that
    its machines could hold if they were empty.
    """

    def __init__(self, workload: Workload, cluster: Cluster) -> None:
        self._workload = workload
        self._cluster = cluster
        first = cluster.partitions[0]
        self.only = first if cluster.partitions == (Partition(first.name),) else None
        """The partition that takes every job, where there is just one and without limits."""
        self.partition = np.full(0 if self.only else len(workload), -1)
        """(J,) row of the partition that each job has been sent to, -1: none; empty with `only`."""

    def send(self, tasks: Sequence[Task]) -> str:
        """Send a job's tasks to their partition; return why none takes them, empty if one does."""
        row = tasks[0].job_index
        queue, number = int(self._workload.queue[row]), int(self._workload.partition[row])
        reasons = []
        for position, partition in enumerate(self._cluster.partitions):
            if _takes(partition, queue, number):
                reason = next(filter(None, (self.refusal(t, partition) for t in tasks)), "")
                if not reason:
                    for task in tasks:
                        task.partition = position
                        task.priority, task.machines = partition.priority, partition.machines
                    self.partition[row] = position
                    return ""
                reasons.append(reason)
        for task in tasks:
            task.partition = -1
        return "; ".join(reasons) or f"no partition takes queue {queue}, partition {number}"

    def refusal(self, task: Task, partition: Partition) -> str:
        """Return why a partition does not admit a task; empty: it does."""
        resources = self._cluster.resources
        room = self._cluster.most_instances(task.request, partition.machines)
        needed = task.instances if task.gang else 1
        if needed > room:
            asked = ", ".join(
                f"{a:g} {n}" for a, n in zip(task.request, resources, strict=True) if a
            )
            machines = (
                "the machines" if self.only else f"the machines of partition {partition.name}"
            )
            hold = f"{machines} hold {room}" if room else "no machine can hold one"
            return f"asks for {needed} x {asked} at once, {hold}"
        if task.requested_time_s > partition.max_time_s:
            return (
                f"asks for {task.requested_time_s:g} s, partition {partition.name} allows "
                f"{partition.max_time_s:g} s"
            )
        if task.demand[0] > partition.max_demand:
            return (
                f"asks for {task.demand[0]:g} {resources[0]}, partition {partition.name} allows "
                f"{partition.max_demand:g}"
            )
        return ""


def _takes(partition: Partition, queue: int, number: int) -> bool:
    """Return whether a partition is open to a queue and partition of the trace."""
    named = partition.queues or partition.partitions
    return not named or queue in partition.queues or number in partition.partitions
