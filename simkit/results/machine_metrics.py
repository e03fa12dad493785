"""Metrics of machines: how evenly they are used, how many are, and what of them is stranded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.results.fragmentation import Fragmentation, IdleGaps
from simkit.results.machine_records import MachineRecords, Requests
from simkit.results.machine_segments import Segments, segments, share
from simkit.results.metric import Metric, RunWindow, distribution


class Measure(Protocol):
    """A sum over segments of machines that becomes metrics."""

    def add(self, part: Segments) -> None:
        """Take in the segments of some machines, from the window's start to its end."""

    def metrics(self, window: RunWindow) -> Iterable[Metric]:
        """Return what came of it."""


def machine_metrics(records: MachineRecords, requests: Requests, window: RunWindow) -> list[Metric]:
    """Return the metrics of machines over a window of time, in one pass over the records.

    Capacity is what machines offer to the tasks of the run: what is down, or held by others, is
    not capacity.
    """
    names, machines = records.resources, len(records.capacity)
    least = requests.amounts.min(axis=0, initial=np.inf)
    measures: list[Measure] = [
        MachineUtilisation(names, machines),
        MachinesInUse(machines),
        Stranded(names, machines, np.where(np.isfinite(least), least, 0.0)),
        IdleGaps(machines),
        Fragmentation(names, machines, requests.amounts, requests.instances),
    ]
    for part in segments(records, requests, window.start_s, window.end_s):
        for measure in measures:
            measure.add(part)
    return [metric for measure in measures for metric in measure.metrics(window)]


class MachineUtilisation:
    """The utilisation of each machine, and how far machines differ."""

    def __init__(self, resources: tuple[str, ...], machines: int) -> None:
        self.resources = resources
        self.allocated = np.zeros((machines, len(resources)))
        """(M, R) resource-seconds held."""
        self.available = np.zeros((machines, len(resources)))
        """(M, R) resource-seconds offered."""

    def add(self, part: Segments) -> None:
        """Take in the segments of some machines."""
        machines = len(self.allocated)
        for r in range(len(self.resources)):
            for total, amount in (
                (self.allocated, part.allocated),
                (self.available, np.maximum(part.capacity, part.allocated)),
            ):  # fmt: skip
                area = amount[:, r] * part.seconds
                total[:, r] += np.bincount(part.machine, area, machines)

    def metrics(self, window: RunWindow) -> list[Metric]:
        """Return a distribution over machines for each resource."""
        return [self._metric(r, name, window) for r, name in enumerate(self.resources)]

    def _metric(self, r: int, name: str, window: RunWindow) -> Metric:
        offered = self.available[:, r] > 0
        shares = self.allocated[offered, r] / self.available[offered, r]
        return Metric(
            name=f"machine_utilisation_{name}",
            unit="1",
            formula=f"each machine's allocated {name}-seconds / its available {name}-seconds, then "
            "mean, std, ... over machines; censored: machines that never offered any",
            window=window.time_text,
            count=len(shares),
            censored=len(offered) - len(shares),
            values=distribution(shares),
        )


class MachinesInUse:
    """How many machines hold at least one instance."""

    def __init__(self, machines: int) -> None:
        self.machines = machines
        self.seconds = 0.0
        """Machine-seconds in use."""
        self.used = 0
        """Machines that were ever in use."""
        self._changes: list[tuple[Floats, Floats]] = []

    def add(self, part: Segments) -> None:
        """Take in the segments of some machines."""
        busy = part.instances > 0
        self.seconds += float(part.seconds[busy].sum())
        self.used += len(np.unique(part.machine[busy]))
        before = np.append(False, busy[:-1]) & ~part.begins
        ends = np.append(part.begins[1:], True)[: len(busy)] & busy
        rises, falls = busy & ~before, before & ~busy
        times = (part.start_s[rises], part.start_s[falls], (part.start_s + part.seconds)[ends])
        signs = (np.ones(rises.sum()), -np.ones(falls.sum()), -np.ones(ends.sum()))
        self._changes.append((np.concatenate(times), np.concatenate(signs)))

    def peak(self) -> int:
        """Return the most machines that were in use at once for some time."""
        if not self._changes:
            return 0
        time, sign = (np.concatenate(column) for column in zip(*self._changes, strict=True))
        order = np.argsort(time, kind="stable")
        time, number = time[order], np.cumsum(sign[order])
        return int(number[np.diff(time, append=time[-1:]) > 0].max(initial=0))

    def metrics(self, window: RunWindow) -> list[Metric]:
        """Return mean, peak and how many machines were used at all."""
        length = window.end_s - window.start_s
        metric = Metric(
            name="machines_in_use",
            unit="machines",
            formula="machines that hold at least one instance, averaged over time; max: the most "
            "at any time; used: those that ever did; count: machines of the cluster",
            window=window.time_text,
            count=self.machines,
            censored=0,
            values={
                "mean": self.seconds / length if length > 0 else None,
                "max": self.peak(),
                "used": self.used,
            },
        )
        return [metric]


class Stranded:
    """Free amounts of a resource on machines where another one is used up.

    Verma et al., "Large-scale cluster management at Google with Borg", 2015, call resources
    stranded that cannot be used because another one on the machine is fully allocated. What "fully"
    means is ours: resource s is used up where less is free than the least that any task asks of s.
    """

    def __init__(self, resources: tuple[str, ...], machines: int, least: Floats) -> None:
        """Make the measure; where less than `least` (R,) is free, a resource is used up."""
        self.resources = resources
        self.machines = machines
        self.least = least
        self.stranded = np.zeros(len(resources))
        """(R,) resource-seconds that were stranded."""
        self.available = np.zeros(len(resources))
        """(R,) resource-seconds offered."""

    def add(self, part: Segments) -> None:
        """Take in the segments of some machines."""
        used_up = part.free < self.least
        number = used_up.sum(axis=1)
        for r in range(len(self.resources)):
            by_another = number - used_up[:, r] > 0
            self.stranded[r] += float((part.free[:, r] * part.seconds)[by_another].sum())
            there = np.maximum(part.capacity[:, r], part.allocated[:, r])
            self.available[r] += float((there * part.seconds).sum())

    def metrics(self, window: RunWindow) -> list[Metric]:
        """Return the stranded share of each resource, where there is more than one."""
        if len(self.resources) < 2:
            return []
        return [
            Metric(
                name=f"stranded_{name}",
                unit="1",
                formula=f"free {name}-seconds on machines that have less free of another resource "
                f"than the least any task asks of it ({self._thresholds(r)}) / available "
                f'{name}-seconds (stranded as in Verma et al., "Large-scale cluster management at '
                "Google with Borg\", 2015; the threshold is simkit's)",
                window=window.time_text,
                count=self.machines,
                censored=0,
                values={"value": share(self.stranded[r], self.available[r])},
            )
            for r, name in enumerate(self.resources)
        ]

    def _thresholds(self, r: int) -> str:
        pairs = zip(self.resources, self.least.tolist(), strict=True)
        return ", ".join(f"{least:.6g} {name}" for n, (name, least) in enumerate(pairs) if n != r)
