"""Jobs that take all memory of their machines: how much that is, once the machines are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

MEMORY = "mem"


def fill_whole_memory(workload: Workload, cluster: Cluster) -> Workload:
    """Return the workload with an amount for each request of all memory of a machine.

    The amount is the memory of the machine on which one instance fits. Where such machines differ,
    it is that of the smallest: there the instance leaves nothing, on a larger one it leaves the
    rest. Only machines count that the partitions which take the job may use. Where an instance fits
    on none, the largest memory of all is asked for, and the job is rejected as any such job is.

    Args:
        workload: may have `Workload.whole_memory`; without it, it comes back as it is.
        cluster: has the resource mem, or the simulation refuses the jobs.
    """
    if not len(workload.whole_memory):
        return workload
    none = np.empty(0, np.bool_)
    if MEMORY not in cluster.resources or not workload.whole_memory.any():
        return workload.with_columns(whole_memory=none)
    request = np.array(workload.request)
    column = workload.resources.index(MEMORY)
    for tasks, machines in _groups(workload, cluster):
        request[tasks, column] = _memory_of_machines(workload, tasks, machines, cluster)
    return workload.with_columns(request=request, whole_memory=none)


def _groups(workload: Workload, cluster: Cluster) -> Iterator[tuple[Ints, Bools]]:
    """Yield tasks that take all memory, and (M,) the machines that their jobs' partitions have."""
    tasks = np.flatnonzero(workload.whole_memory)
    job = np.searchsorted(workload.first_task, tasks, side="right") - 1
    origin = np.column_stack((workload.queue[job], workload.partition[job]))
    kinds, kind = np.unique(origin, axis=0, return_inverse=True)
    for row, (queue, partition) in enumerate(kinds.tolist()):
        machines = np.zeros(len(cluster.capacity), dtype=np.bool_)
        for part in cluster.partitions:
            if part.takes(queue, partition):
                machines[slice(None) if part.machines is None else list(part.machines)] = True
        yield tasks[kind.reshape(-1) == row], machines


def _memory_of_machines(
    workload: Workload, tasks: Ints, machines: Bools, cluster: Cluster
) -> Floats:
    """Return (n,) the memory of the smallest of some machines that holds an instance of each."""
    memory = cluster.capacity[:, cluster.resources.index(MEMORY)]
    order = [
        cluster.resources.index(name) for name in workload.resources if name in cluster.resources
    ]
    columns = [i for i, name in enumerate(workload.resources) if name in cluster.resources]
    kinds, kind = np.unique(workload.request[tasks][:, columns], axis=0, return_inverse=True)
    amounts = []
    for asked in kinds:
        holds = (cluster.capacity[:, order] >= asked).all(axis=1) & machines & (memory > 0)
        amounts.append(memory[holds].min() if holds.any() else memory.max(initial=0.0))
    found: Floats = np.array(amounts)[kind.reshape(-1)]
    return found
