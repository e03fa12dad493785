"""Run times of single instances: which of the instances that start together end together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from simkit.task import Instances, Placement, Task
from simkit.workload import Workload


class InstanceTimes:
    """The run time of every instance of a workload."""

    def __init__(self, workload: Workload) -> None:
        self._times = workload.instance_run_time_s
        self._first = np.concatenate(([0], np.cumsum(workload.instances)))

    def split(
        self, task: Task, on: Placement, instances: Sequence[Instances]
    ) -> Iterator[tuple[float, Placement, tuple[Instances, ...]]]:
        """Split instances that start together by their run times, the shortest first.

        They are dealt out to the machines in the order of their numbers.

        Yields:
            (run time, machines and counts, runs of instances) of those that end together.
        """
        begin = int(self._first[task.index])
        rows: list[tuple[float, int, int, int]] = []  # (run time, instance, machine, attempt)
        machines = (machine for machine, count in on for _ in range(count))
        for first, count, attempt in instances:
            times = self._times[begin + first : begin + first + count].tolist()
            rows += zip(times, range(first, first + count), machines, [attempt] * count)  # noqa: B905 - hot, and `machines` goes on
        rows.sort()
        if rows[0][0] == rows[-1][0]:
            yield rows[0][0], on, tuple(instances)
            return
        for run_time, group in groupby(rows, key=lambda row: row[0]):
            together = list(group)
            if len(together) == 1:
                _, instance, machine, attempt = together[0]
                yield run_time, ((machine, 1),), ((instance, 1, attempt),)
            else:
                yield run_time, _placement(together), _runs(together)


def _placement(rows: Sequence[tuple[float, int, int, int]]) -> Placement:
    """Return how many instances are on each machine, machines in the order of the instances."""
    counts: dict[int, int] = {}
    for _, _, machine, _ in rows:
        counts[machine] = counts.get(machine, 0) + 1
    return tuple(counts.items())


def _runs(rows: Sequence[tuple[float, int, int, int]]) -> tuple[Instances, ...]:
    """Join instances with consecutive numbers and the same attempt."""
    runs: list[Instances] = []
    for _, instance, _, attempt in rows:
        if runs and instance == runs[-1][0] + runs[-1][1] and attempt == runs[-1][2]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, attempt)
        else:
            runs.append((instance, 1, attempt))
    return tuple(runs)
