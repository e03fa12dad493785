"""How large the machines of a log were at least: by what ran at once, and by its largest jobs.

Every job of the log fits into machines of these sizes. A log tells no more: machines that were
never full were larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.workload import Workload
from simkit.workload.recorded import Peak, Recorded


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
