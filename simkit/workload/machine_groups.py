"""Machines that a log names: groups of those that the same partitions used, and how large they are.

A log that names the machines of its jobs tells how many there are, which partitions share them, and
what was in use at once on each. Jobs are taken to be spread evenly over their machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.workload import Workload
from simkit.workload.machine_sizes import shares
from simkit.workload.recorded import Nodes, Recorded


@dataclass(frozen=True)
class MachineGroup:
    """Machines that the same partitions used; each has what the busiest of them had in use."""

    partitions: tuple[int, ...]
    """Rows of the partitions."""
    count: int
    each: Mapping[str, float]
    """Resource → what each machine has."""


def machine_groups(
    workload: Workload, past: Recorded, nodes: Nodes, partition: Ints
) -> list[MachineGroup]:
    """Return the groups of machines of a log, by their partitions.

    Args:
        workload: J rigid jobs that ask for all that is to be counted.
        past: what the log records of them.
        nodes: the machines of each job.
        partition: (J,) rows of partitions, from 0.

    Each job fits on the machines of its partition: they have its largest share of any machine.
    """
    on_each = np.diff(nodes.first)
    job = np.repeat(np.arange(len(workload)), on_each)
    uses = np.zeros((len(nodes.names), int(partition.max()) + 1), np.bool_)
    uses[nodes.machine, partition[job]] = True
    sets, group = np.unique(uses, axis=0, return_inverse=True)
    group = group.reshape(-1)
    size = np.zeros((len(nodes.names), len(workload.resources)))
    share = shares(workload, np.arange(len(workload)), on_each.astype(np.float64))
    for r, name in enumerate(workload.resources):
        np.maximum.at(size[:, r], nodes.machine, share[job, r])
        if name in past.held:
            amount = (past.held[name] / on_each)[job]
            peak = most_by_machine(past, nodes, job, np.nan_to_num(amount))
            size[:, r] = np.maximum(size[:, r], peak if name == "mem" else np.ceil(peak))
    largest = np.zeros((len(sets), len(workload.resources)))
    np.maximum.at(largest, group, size)
    groups = [
        MachineGroup(
            tuple(np.flatnonzero(members).tolist()),
            int(np.count_nonzero(group == row)),
            dict(zip(workload.resources, largest[row].tolist(), strict=True)),
        )
        for row, members in enumerate(sets)
    ]
    return sorted(groups, key=lambda one: (len(one.partitions), one.partitions))


def most_by_machine(past: Recorded, nodes: Nodes, job: Ints, amount: Floats) -> Floats:
    """Return (M,) the most in use at once on each machine.

    Args:
        past: when jobs ran.
        nodes: n pairs of a job and a machine.
        job: (n,) the job of each pair.
        amount: (n,) what the job has on the machine.
    """
    start, end = past.start_s[job], past.end_s[job]
    known = np.isfinite(start) & np.isfinite(end)
    most = np.zeros(len(nodes.names))
    if not known.any():
        return most
    machine = np.tile(nodes.machine[known], 2)
    time = np.concatenate((end[known], start[known]))
    change = np.concatenate((-amount[known], amount[known]))
    # Each machine's changes add up to 0, so that the sum begins again at 0 for the next one.
    order = np.lexsort((np.repeat((0, 1), int(known.sum())), time, machine))
    in_use, machine = np.cumsum(change[order]), machine[order]
    begins = np.flatnonzero(np.concatenate(([True], machine[1:] != machine[:-1])))
    most[machine[begins]] = np.maximum.reduceat(in_use, begins)
    rounded: Floats = np.maximum(most, 0.0).round(6)
    return rounded
