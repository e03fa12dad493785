"""Equal units of a job: machines, gpus or processors, none with part of a processor or gpu.

A job is a gang of equal instances. Slurm says what a job has in all: 6 processors and 4 gpus on one
machine are one instance of both; 16 and 8 on two machines are two of 8 and 4. What does not split
evenly is rounded up: 64 processors and 1 gpu on two machines are two of 32 and 1.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from simkit.arrays import Bools, Floats, Ints


def units_of_jobs(processors: Floats, gpus: Floats, machines: Floats, whole: Bools) -> Ints:
    """Return (J,) into how many equal units each job is split.

    Args:
        processors: (J,) of each job, whole, at least 1.
        gpus: (J,) of each job, whole; 0: none.
        machines: (J,) that each job ran on; below 1: unknown.
        whole: (J,) True for jobs that take all memory of their machines.

    A job without gpus is split into processors, or, if it takes whole machines, into those.
    """
    units = processors.astype(np.int64)
    special = np.flatnonzero((gpus > 0) | whole)
    rows = np.column_stack([column[special] for column in (processors, gpus, machines, whole)])
    kinds, kind = np.unique(rows.astype(np.int64), axis=0, return_inverse=True)
    counts = [_units(*row) for row in kinds.tolist()]
    units[special] = np.array(counts, np.int64)[kind.reshape(-1)]
    return units


def _units(processors: int, gpus: int, machines: int, whole: int) -> int:
    """Return the number of units of one job.

    A unit is what one machine had, or less: the fewest units that are at least as many as machines
    and into which processors and gpus split evenly. Where none do, and where units take whole
    machines, each machine is a unit, so that they fit where the job ran. Without a number of
    machines: the smallest units that split evenly.
    """
    if machines < 1 and not whole:
        return gcd(processors, gpus)
    even = [] if whole else [n for n in _divisors(gcd(processors, gpus)) if n >= machines]
    return even[0] if even else min(max(machines, 1), processors)


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
