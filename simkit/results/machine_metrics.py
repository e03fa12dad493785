"""Metrics of machines: their utilisation, how many are in use, stranded and fragmented capacity.

`utilisation_series` gives utilisation over time, in equal bins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.results.fragmentation import Fragmentation, IdleGaps
from simkit.results.machine_records import MachineRecords, Requests
from simkit.results.machine_segments import Segments, segments
from simkit.results.metric import Metric, RunWindow, distribution, share
from simkit.results.time_bins import bin_edges, bin_length

_QUANTILES: Final = {"low": 0.1, "median": 0.5, "high": 0.9}
"""Quantiles over machines, by name."""


class _Measure(Protocol):
    """A sum over segments of machines that becomes metrics."""

    def add(self, part: Segments) -> None:
        """Add the segments of some machines, from the window's start to its end."""

    def metrics(self, window: RunWindow) -> Iterable[Metric]:
        """Return the metrics of all segments added."""


def machine_metrics(records: MachineRecords, requests: Requests, window: RunWindow) -> list[Metric]:
    """Return the metrics of machines over a window of time, in one pass over the records.

    Capacity is what machines offer to the tasks of the run, without what is down or held by others.
    """
    names, machines = records.resources, len(records.capacity)
    least = requests.amounts.min(axis=0, initial=np.inf)
    measures: list[_Measure] = [
        MachineUtilisation(names, machines),
        MachinesInUse(machines),
        _Stranded(names, machines, np.where(np.isfinite(least), least, 0.0)),
        IdleGaps(machines),
        Fragmentation(names, machines, requests.amounts, requests.instances),
    ]
    for part in segments(records, requests, window.start_s, window.end_s):
        for measure in measures:
            measure.add(part)
    return [metric for measure in measures for metric in measure.metrics(window)]


class MachineUtilisation:
    """The utilisation of each machine, as a distribution over machines."""

    def __init__(self, resources: tuple[str, ...], machines: int) -> None:
        self.resources = resources
        self.allocated = np.zeros((machines, len(resources)))
        """(M, R) resource-seconds held."""
        self.available = np.zeros((machines, len(resources)))
        """(M, R) resource-seconds offered."""

    def add(self, part: Segments) -> None:
        machines = len(self.allocated)
        for r in range(len(self.resources)):
            for total, amount in (
                (self.allocated, part.allocated),
                (self.available, np.maximum(part.capacity, part.allocated)),
            ):  # fmt: skip
                area = amount[:, r] * part.seconds
                total[:, r] += np.bincount(part.machine, area, machines)

    def metrics(self, window: RunWindow) -> list[Metric]:
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
        """Number of machines that were ever in use."""
        self._changes: list[tuple[Floats, Floats]] = []

    def add(self, part: Segments) -> None:
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
        length = window.end_s - window.start_s
        metric = Metric(
            name="machines_in_use",
            unit="machines",
            formula="machines that hold at least one instance, averaged over time; max: the most "
            "at any time; used: those that ever did; count: machines of the cluster",
            window=window.time_text,
            count=self.machines,
            values={
                "mean": self.seconds / length if length > 0 else None,
                "max": self.peak(),
                "used": self.used,
            },
        )
        return [metric]


class _Stranded:
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
        used_up = part.free < self.least
        number = used_up.sum(axis=1)
        for r in range(len(self.resources)):
            by_another = number - used_up[:, r] > 0
            self.stranded[r] += float((part.free[:, r] * part.seconds)[by_another].sum())
            there = np.maximum(part.capacity[:, r], part.allocated[:, r])
            self.available[r] += float((there * part.seconds).sum())

    def metrics(self, window: RunWindow) -> list[Metric]:
        if len(self.resources) < 2:
            return []  # no other resource can be used up
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
                values={"value": share(self.stranded[r], self.available[r])},
            )
            for r, name in enumerate(self.resources)
        ]

    def _thresholds(self, r: int) -> str:
        pairs = zip(self.resources, self.least.tolist(), strict=True)
        return ", ".join(f"{least:.6g} {name}" for n, (name, least) in enumerate(pairs) if n != r)


def utilisation_series(
    records: MachineRecords, start_s: float, end_s: float, *, bins: int = 200
) -> pl.DataFrame:
    """Return the utilisation of machines over time, as exact means over equal bins.

    Args:
        records: the run's records of machines, ``MachineRecords.of(run)``.
        start_s: start of the window, in s on the trace's clock.
        end_s: end of the window.
        bins: most bins; their length is a familiar one, such as a minute or an hour.

    Returns one row a bin: ``time_s``, its start; ``in_use``, machines that hold an instance; and
    for each resource ``utilisation_<r>``, allocated / available resource-seconds of all machines,
    with the quantiles 0.1, 0.5 and 0.9 over the available machines (``…_low``, ``…_median``,
    ``…_high``). Null if nothing is available; no rows unless the end is after the start.
    """
    length = bin_length(max(end_s - start_s, 0.0), bins)
    edges = np.minimum(bin_edges(start_s, max(start_s, end_s), length), end_s)
    binned = _Binned(len(records.capacity), edges, len(records.resources))
    for part in segments(records, records.requests(), start_s, end_s, cuts=edges):
        binned.add(part)
    table = binned.frame(records.resources)
    return table if end_s > start_s else table.clear()


class _Binned:
    """Integrals of machines over bins of time."""

    def __init__(self, machines: int, edges: Floats, resources: int) -> None:
        self._edges = edges
        self._bins = len(edges) - 1
        shape = (resources, machines * self._bins)
        self._allocated, self._available = np.zeros(shape), np.zeros(shape)
        self._in_use = np.zeros(self._bins)

    def add(self, part: Segments) -> None:
        """Add segments; none may cross the edge of a bin."""
        bin_ = np.searchsorted(self._edges, part.start_s, side="right") - 1
        cell, cells = part.machine * self._bins + bin_, self._allocated.shape[1]
        busy = np.where(part.instances > 0, part.seconds, 0.0)
        self._in_use += np.bincount(bin_, busy, self._bins)
        for r in range(len(self._allocated)):
            self._allocated[r] += np.bincount(cell, part.allocated[:, r] * part.seconds, cells)
            self._available[r] += np.bincount(
                cell, np.maximum(part.capacity[:, r], part.allocated[:, r]) * part.seconds, cells
            )

    def frame(self, resources: tuple[str, ...]) -> pl.DataFrame:
        """Return the table of `utilisation_series`."""
        seconds = np.diff(self._edges)
        columns = {"time_s": self._edges[:-1], "in_use": _divided(self._in_use, seconds)}
        for r, name in enumerate(resources):
            held, offered = (
                area[r].reshape(-1, self._bins) for area in (self._allocated, self._available)
            )
            columns[f"utilisation_{name}"] = _divided(held.sum(axis=0), offered.sum(axis=0))
            shares = _divided(held, offered)
            for word, level in _QUANTILES.items():
                columns[f"utilisation_{name}_{word}"] = _quantiles(shares, level)
        return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))


def _divided(part: Floats, whole: Floats) -> Floats:
    ratio: Floats = np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)
    return ratio


def _quantiles(shares: Floats, level: float) -> Floats:
    """Return (bins,) a quantile of (M, bins) shares, NaNs left out."""
    found = np.full(shares.shape[1], np.nan)
    for bin_ in range(shares.shape[1]):
        known = shares[:, bin_][~np.isnan(shares[:, bin_])]
        if len(known):
            found[bin_] = np.quantile(known, level)
    return found
