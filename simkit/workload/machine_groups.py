"""Machines that a log names: groups of those that the same partitions used, and how large they are.

A log that names the machines of its jobs tells how many there are, which partitions share them, and
what was in use at once on each. Every job of the log fits into machines of these sizes; machines
that were never full were larger. Jobs are taken to be spread evenly over their machines. Jobs whose
machines it does not name run on those of their partition, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.workload.recorded import Nodes, Peak, Recorded
from simkit.workload.workload import Workload


@dataclass(frozen=True)
class MachineSize:
    """Equal machines, or one without boundaries inside, that hold some jobs of a log."""

    number: int
    """The log's number of the partition whose jobs these are; -1: none, or all jobs."""
    jobs: int
    count: int
    """How many machines."""
    each: Mapping[str, float]
    """Resource → what each machine has."""
    peak: Mapping[str, Peak]
    """Resource → the most in use at once; empty if the log does not tell when jobs started."""
    largest: Mapping[str, float]
    """Resource → the most that one job asks for."""
    longest_limit_s: float
    """The longest time limit of these jobs; NaN if the log has none."""
    has_machines: bool
    """Whether the log tells on how many machines each job ran; else all is one machine."""


def machine_size(
    workload: Workload, past: Recorded, rows: Ints, number: int = -1, header: float | None = None
) -> MachineSize:
    """Return the least machines on which each of some jobs fits, and what ran at once.

    Args:
        workload: rigid jobs that ask for all that is to be counted.
        past: what the log records of them.
        rows: which jobs; at least one.
        number: the log's number of their partition.
        header: the processors that the log's header tells. They count, not what was in use at
            once: recorded times may overlap. A job that asks for more makes them as many.
    """
    asked = workload.job_request()[rows]
    names = workload.resources
    largest = dict(zip(names, asked.max(axis=0).tolist(), strict=True))
    peaks = {name: past.peak(name, rows) for name in names if name in past.held}
    peak = {name: one for name, one in peaks.items() if one is not None}
    needed = {name: max(largest[name], peak[name].amount if name in peak else 0) for name in names}
    if header is not None:
        needed[names[0]] = max(largest[names[0]], header)
    machines = past.machines[rows] if len(past.machines) else np.full(len(rows), np.nan)
    has_machines = bool((machines >= 1).all())
    if has_machines and len(names) > 1:
        most = shares(workload, rows, machines).max(axis=0)
        each = dict(zip(names, most.tolist(), strict=True))
        count = _count(workload, rows, each, needed, float(machines.max()))
    else:
        each, count = needed, 1
    limits = past.limit_s[rows]
    limits = limits[np.isfinite(limits)]
    longest = float(limits.max()) if len(limits) else math.nan
    return MachineSize(number, len(rows), count, each, peak, largest, longest, has_machines)


def shares(workload: Workload, rows: Ints, machines: Floats) -> Floats:
    """Return (n, R) the most that one machine had of each job, if its units were spread evenly.

    Args:
        workload: rigid jobs.
        rows: (n,) jobs.
        machines: (n,) on how many machines each ran.
    """
    tasks = workload.first_task[rows]
    units = np.ceil(workload.instances[tasks] / machines)
    most: Floats = units[:, None] * workload.request[tasks]
    return most


def _count(
    workload: Workload,
    rows: Ints,
    each: Mapping[str, float],
    needed: Mapping[str, float],
    most_machines: float,
) -> int:
    """Return how many machines hold what ran at once, and each job by itself."""
    fit = on_one(workload, rows, each)
    counts = [math.ceil(needed[name] / amount) for name, amount in each.items() if amount > 0]
    by_job = float(np.ceil(workload.instances[workload.first_task[rows]] / fit).max())
    return int(max(*counts, most_machines, by_job))


def on_one(workload: Workload, rows: Ints, each: Mapping[str, float]) -> Floats:
    """Return (n,) how many instances of each job fit on one machine at once, a whole number.

    Args:
        workload: rigid jobs.
        rows: (n,) jobs.
        each: resource → what the machine has.
    """
    tasks = workload.first_task[rows]
    fit = np.full(len(rows), np.inf)
    for r, name in enumerate(workload.resources):
        amount = workload.request[tasks, r]
        some = amount > 0
        fit[some] = np.minimum(fit[some], each[name] // amount[some])
    if len(workload.whole_memory):
        fit = np.where(workload.whole_memory[tasks], np.minimum(fit, 1), fit)
    return fit


@dataclass(frozen=True)
class MachineGroup:
    """Machines that the same partitions used; each has what the busiest of them had in use."""

    partitions: tuple[int, ...]
    """Rows of the partitions."""
    count: int
    named: int
    """How many of them the log names; the others are for jobs whose machines it does not name."""
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
    Partitions none of whose jobs names a machine are in no group.
    """
    on_each = np.diff(nodes.first)
    job = np.repeat(np.arange(len(workload)), on_each)
    uses = np.zeros((len(nodes.names), int(partition.max()) + 1), np.bool_)
    uses[nodes.machine, partition[job]] = True
    sets, group = np.unique(uses, axis=0, return_inverse=True)
    group = group.reshape(-1)
    size = np.zeros((len(nodes.names), len(workload.resources)))
    named = np.flatnonzero(on_each)
    share = np.zeros((len(workload), len(workload.resources)))
    share[named] = shares(workload, named, on_each[named].astype(np.float64))
    for r, name in enumerate(workload.resources):
        np.maximum.at(size[:, r], nodes.machine, share[job, r])
        if name in past.held:
            amount = past.held[name][job] / on_each[job]
            peak = most_by_machine(past, nodes, job, np.nan_to_num(amount))
            size[:, r] = np.maximum(size[:, r], peak if name == "mem" else np.ceil(peak))
    largest = np.zeros((len(sets), len(workload.resources)))
    np.maximum.at(largest, group, size)
    count = np.bincount(group, minlength=len(sets))
    groups = [
        MachineGroup(
            tuple(np.flatnonzero(members).tolist()), int(count[row]), int(count[row]),
            dict(zip(workload.resources, largest[row].tolist(), strict=True)),
        )
        for row, members in enumerate(sets)
    ]  # fmt: skip
    groups.sort(key=lambda one: (len(one.partitions), one.partitions))
    without = np.flatnonzero(on_each == 0)
    for part in np.unique(partition[without]).tolist():
        own = [place for place, one in enumerate(groups) if part in one.partitions]
        if own:
            place = max(own, key=lambda place: groups[place].count)
            others = [groups[place] for place in own]
            rows = without[partition[without] == part]
            peaks = _peaks(past, np.flatnonzero(partition == part))
            groups[place] = _with_room(groups[place], others, workload, past, rows, peaks)
    return groups


def _peaks(past: Recorded, rows: Ints) -> dict[str, float]:
    """Return resource → the most that some jobs had in use at once."""
    peaks = {name: past.peak(name, rows) for name in past.held}
    return {name: peak.amount for name, peak in peaks.items() if peak is not None}


def _with_room(
    group: MachineGroup,
    groups: list[MachineGroup],
    workload: Workload,
    past: Recorded,
    rows: Ints,
    peaks: Mapping[str, float],
) -> MachineGroup:
    """Return a group with room for jobs of a partition whose machines are not known.

    Args:
        group: the partition's group that is to grow.
        groups: all groups of the partition.
        workload: all jobs.
        past: what the log records of them.
        rows: (n,) these jobs.
        peaks: resource → what all jobs of the partition had in use at once.
    """
    known = past.machines[rows] >= 1
    most = workload.request[workload.first_task[rows]].max(axis=0)
    if known.any():
        share = shares(workload, rows[known], past.machines[rows[known]])
        most = np.maximum(most, share.max(axis=0))
    each = {
        name: max(group.each[name], amount)
        for name, amount in zip(workload.resources, most.tolist(), strict=True)
    }
    grown = replace(group, each=each)
    groups = [grown if one is group else one for one in groups]
    room = sum(
        (one.count * on_one(workload, rows, one.each) for one in groups), np.zeros(len(rows))
    )
    instances = workload.instances[workload.first_task[rows]]
    more = np.ceil(np.maximum(instances - room, 0) / on_one(workload, rows, each)).max()
    for name, amount in each.items():
        there = sum(one.count * one.each[name] for one in groups)
        if amount > 0:
            more = max(more, np.ceil((peaks.get(name, 0.0) - there) / amount))
    return replace(grown, count=group.count + int(more))


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
