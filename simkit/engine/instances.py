"""Instances of a bag that start together: which go to which machine, and which end together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from simkit.policy.task import Instances, Placement, Task
from simkit.workload import Workload


def spread(
    on: Sequence[tuple[int, int]], instances: Sequence[Instances]
) -> Iterator[tuple[int, int, int, int]]:
    """Deal runs of instances out to machines: yield (machine, first, count, attempt)."""
    runs = iter(instances)
    first, size, attempt = next(runs)
    for machine, count in on:
        left = count
        while left:
            if not size:
                first, size, attempt = next(runs)
            taken = min(left, size)
            yield machine, first, taken, attempt
            first, size, left = first + taken, size - taken, left - taken


Part = tuple[Placement, int, tuple[Instances, ...] | None]
"""Instances that become an allocation: (machines and how many, how many, which; None: a gang)."""


def by_machine(on: Placement, instances: tuple[Instances, ...]) -> Iterator[Part]:
    """Deal runs of instances of a bag out to machines: yield the part of each machine."""
    if len(instances) == 1:
        first, _, attempt = instances[0]
        for machine, count in on:
            yield ((machine, count),), count, ((first, count, attempt),)
            first += count
    else:
        for machine, pieces in groupby(spread(on, instances), key=itemgetter(0)):
            runs = tuple([piece[1:] for piece in pieces])
            size = sum([run[1] for run in runs])
            yield ((machine, size),), size, runs


class InstanceTimes:
    """The run time of every instance of a workload."""

    def __init__(self, workload: Workload) -> None:
        self._times = workload.instance_run_time_s
        self._first = np.concatenate(([0], np.cumsum(workload.instances)))

    def split(
        self, task: Task, on: Placement, instances: Sequence[Instances]
    ) -> Iterator[tuple[float, Part]]:
        """Deal instances out to machines, and tell apart those that end at different times.

        Yields:
            (run time, part) of those that end together on a machine, the shortest first.
        """
        begin = int(self._first[task.index])
        rows: list[tuple[float, int, int, int]] = []  # (run time, instance, machine, attempt)
        for machine, first, count, attempt in spread(on, instances):
            times = self._times[begin + first : begin + first + count].tolist()
            rows += [(t, first + i, machine, attempt) for i, t in enumerate(times)]
        rows.sort()
        for (run_time, machine), group in groupby(rows, key=itemgetter(0, 2)):
            together = list(group)
            size = len(together)
            runs = ((together[0][1], 1, together[0][3]),) if size == 1 else _runs(together)
            yield run_time, (((machine, size),), size, runs)


def _runs(rows: Sequence[tuple[float, int, int, int]]) -> tuple[Instances, ...]:
    """Join instances with consecutive numbers and the same attempt."""
    runs: list[Instances] = []
    for _, instance, _, attempt in rows:
        if runs and instance == runs[-1][0] + runs[-1][1] and attempt == runs[-1][2]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, attempt)
        else:
            runs.append((instance, 1, attempt))
    return tuple(runs)
