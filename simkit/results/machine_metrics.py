"""Metrics of machines: their utilisation, how many are in use, stranded and fragmented capacity.

Fragmentation is two measures that share only the name: `IdleGaps`, over time (is a machine's idle
time one stretch or many?), is that of Gehr and Schneider, "Measuring fragmentation of
two-dimensional resources applied to advance reservation grid scheduling", CCGrid 2009, as in
evalys for Batsim's runs. `Fragmentation`, over machines (how much of what is free could the next
task not use?), is that of Weng et al., "Beware of fragmentation: scheduling GPU-sharing workloads
with fragmentation gradient descent", USENIX ATC 2023.

`utilisation_series` gives utilisation over time, in equal bins.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.results.machine_records import MachineRecords, Requests, Segments, segments
from simkit.results.metric import (
    Found,
    Metric,
    MetricRow,
    RunWindow,
    distribution,
    metrics_of,
    share,
)
from simkit.results.timeline import bin_edges, bin_length

CELLS: Final = 1 << 21
"""Most cells of the table of requests; popular requests fill it first."""


class IdleGaps:
    """Each machine's idle time: one stretch or many pieces.

    With a machine's gaps g_1, g_2, ... (longest stretches within the window in which it is there
    and holds nothing), its fragmentation is 1 - sum(g_i^2) / (sum g_i)^2: 0 for one gap or none,
    1 - 1/n for n equal ones.
    """

    def __init__(self, machines: int) -> None:
        self.idle_s = np.zeros(machines)
        """(M,) idle seconds."""
        self.squares = np.zeros(machines)
        """(M,) sum of the squared lengths of gaps."""
        self.gaps = 0
        """Gaps of all machines."""

    def add(self, part: Segments) -> None:
        idle = (part.instances == 0) & (part.capacity > 0).any(axis=1)
        opens = idle & (part.begins | ~np.append(False, idle[:-1]))
        gap = np.cumsum(opens)[idle] - 1
        lengths = np.bincount(gap, part.seconds[idle], int(opens.sum()))
        machine, machines = part.machine[opens], len(self.idle_s)
        self.gaps += len(lengths)
        self.idle_s += np.bincount(machine, lengths, machines)
        self.squares += np.bincount(machine, lengths**2, machines)

    def shares(self) -> Floats:
        """Return (M,) the fragmentation of each machine's idle time, 0 if it has none."""
        square = self.idle_s**2
        return 1.0 - np.divide(self.squares, square, out=np.ones_like(square), where=square > 0)


class Fragmentation:
    """How much of what is free the next instance could not use, expected over the workload.

    With p_k the share of request k among all instances of the workload and free_r what machine m
    has free of resource r, the expected unusable amount is F_m,r = sum of p_k * free_r over the
    requests k that do not fit on m or do not ask for r. The metric is the integral of F over time
    and machines, divided by that of the free amounts: the chance that a random free unit is of no
    use to a random instance.

    Weng et al. state this for GPUs, where it also counts devices of a machine with too little left
    for the request; a resource here is one amount a machine and has no devices.
    """

    def __init__(
        self, resources: tuple[str, ...], machines: int, amounts: Floats, weights: Floats
    ) -> None:
        """Measure for a workload.

        Args:
            resources: R names.
            machines: number of machines.
            amounts: (K, R) distinct requests.
            weights: (K,) how often each occurs; at least 0.
        """
        self.resources = resources
        self.machines = machines
        kept = popular(amounts, weights)
        total = float(weights.sum())
        self.covered = float(weights[kept].sum()) / total if total > 0 else 0.0
        """Share of the workload's instances whose request is in the table."""
        self._tables = [FitTable(amounts[kept], weights[kept], r) for r in range(len(resources))]
        self.unusable = np.zeros(len(resources))
        """(R,) expected unusable resource-seconds."""
        self.free = np.zeros(len(resources))
        """(R,) free resource-seconds."""

    def add(self, part: Segments) -> None:
        for r, table in enumerate(self._tables):
            area = part.free[:, r] * part.seconds
            self.free[r] += float(area.sum())
            self.unusable[r] += float((area * table.unfit(part.free)).sum())

    def found(self, resource: str) -> Found:
        """Return the share of the free amounts that is of no use."""
        r = self.resources.index(resource)
        kept = "" if self.covered == 1 else f"; the most popular {self.covered:.1%} of them"
        value = share(self.unusable[r], self.free[r])
        return Found(value, self.machines, holes={"popular": kept})


class FitTable:
    """The share of a workload that cannot use what is free of one resource."""

    def __init__(self, amounts: Floats, weights: Floats, resource: int) -> None:
        """Count requests: (K, R) amounts, (K,) weights; `resource` is a column of amounts."""
        self._levels = [np.unique(column) for column in amounts.T]
        places = [
            np.searchsorted(levels, column) + 1
            for levels, column in zip(self._levels, amounts.T, strict=True)
        ]
        self._table = np.zeros([len(levels) + 1 for levels in self._levels])
        self._total = float(weights.sum())
        asks = np.where(amounts[:, resource] > 0, weights, 0.0)
        np.add.at(self._table, tuple(places), asks)
        for axis in range(self._table.ndim):
            np.cumsum(self._table, axis=axis, out=self._table)

    def unfit(self, free: Floats) -> Floats:
        """Return (N,) the share of requests that do not fit into (N, R) free amounts.

        A request that does not ask for the resource counts as one that does not fit.
        """
        place = tuple(
            np.searchsorted(levels, column, side="right")
            for levels, column in zip(self._levels, free.T, strict=True)
        )
        unfit: Floats = 1.0 - self._table[place] / (self._total or 1.0)
        return unfit


def popular(amounts: Floats, weights: Floats) -> Ints:
    """Return the rows of the most popular requests whose table has at most `CELLS` cells.

    Args:
        amounts: (K, R) distinct requests.
        weights: (K,) how often each occurs.
    """
    order: Ints = np.argsort(-weights, kind="stable")
    kept = len(order)
    while kept > 1:
        levels = [len(np.unique(column)) + 1 for column in amounts[order[:kept]].T]
        if float(np.prod(levels, dtype=np.float64)) <= CELLS:
            break
        kept = kept * 3 // 4
    return order[:kept]


_QUANTILES: Final = {"low": 0.1, "median": 0.5, "high": 0.9}
"""Quantiles over machines, by name."""


def machine_metrics(records: MachineRecords, requests: Requests, window: RunWindow) -> list[Metric]:
    """Return the metrics of machines over a window of time, in one pass over the records.

    Capacity is what machines offer to the tasks of the run, without what is down or held by others.
    """
    names, machines = records.resources, len(records.capacity)
    least = requests.amounts.min(axis=0, initial=np.inf)
    sums = MachineSums(
        MachineUtilisation(names, machines),
        MachinesInUse(machines),
        Stranded(names, machines, np.where(np.isfinite(least), least, 0.0)),
        IdleGaps(machines),
        Fragmentation(names, machines, requests.amounts, requests.instances),
        window.end_s - window.start_s,
    )
    for part in segments(records, requests, window.start_s, window.end_s):
        for measure in sums[:-1]:
            measure.add(part)
    known = ("several resources",) if len(names) > 1 else ()
    return metrics_of(MACHINE_METRICS, sums, window, resources=names, known=known)


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
                (self.available, part.available),
            ):  # fmt: skip
                area = amount[:, r] * part.seconds
                total[:, r] += np.bincount(part.machine, area, machines)

    def found(self, resource: str) -> Found:
        r = self.resources.index(resource)
        offered = self.available[:, r] > 0
        shares = self.allocated[offered, r] / self.available[offered, r]
        return Found(distribution(shares), len(shares), len(offered) - len(shares))


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
        used_up = part.free < self.least
        number = used_up.sum(axis=1)
        for r in range(len(self.resources)):
            by_another = number - used_up[:, r] > 0
            self.stranded[r] += float((part.free[:, r] * part.seconds)[by_another].sum())
            self.available[r] += float((part.available[:, r] * part.seconds).sum())

    def found(self, resource: str) -> Found:
        r = self.resources.index(resource)
        pairs = zip(self.resources, self.least.tolist(), strict=True)
        least = ", ".join(f"{least:.6g} {name}" for name, least in pairs if name != resource)
        value = share(self.stranded[r], self.available[r])
        return Found(value, self.machines, holes={"least": least})


class MachineSums(NamedTuple):
    """What metrics of machines are made of: sums over segments of machines, and the window."""

    utilisation: MachineUtilisation
    in_use: MachinesInUse
    stranded: Stranded
    gaps: IdleGaps
    fragmentation: Fragmentation
    length_s: float


def _in_use(sums: MachineSums) -> Found:
    machines, length_s = sums.in_use, sums.length_s
    mean = machines.seconds / length_s if length_s > 0 else None
    values = {"mean": mean, "max": machines.peak(), "used": machines.used}
    return Found(values, machines.machines)


MACHINE_METRICS: Final[tuple[MetricRow[MachineSums], ...]] = (
    MetricRow(
        "machine_utilisation_{resource}",
        "1",
        "each machine's allocated {resource}-seconds / its available {resource}-seconds, then "
        "mean, std, ... over machines; censored: machines that never offered any",
        lambda sums, resource: sums.utilisation.found(resource),
        "time",
        better="high",
        share=True,
    ),
    MetricRow(
        "machines_in_use",
        "machines",
        "machines that hold at least one instance, averaged over time; max: the most at any time; "
        "used: those that ever did; count: machines of the cluster",
        _in_use,
        "time",
    ),
    MetricRow(
        "stranded_{resource}",
        "1",
        "free {resource}-seconds on machines that have less free of another resource than the "
        "least any task asks of it ({least}) / available {resource}-seconds (stranded as in Verma "
        'et al., "Large-scale cluster management at Google with Borg", 2015; the threshold is '
        "simkit's)",
        lambda sums, resource: sums.stranded.found(resource),
        "time",
        better="low",
        share=True,
        needs=("several resources",),
    ),
    MetricRow(
        "fragmentation_idle_time",
        "1",
        "a machine's 1 - sum(g^2) / (sum g)^2 over its gaps g, stretches in which it holds no "
        "instance (0 without gaps), then mean, std, ... over machines (Gehr and Schneider, "
        '"Measuring fragmentation of two-dimensional resources applied to advance reservation grid '
        "scheduling\", 2009; evalys' fragmentation)",
        lambda sums: Found(distribution(sums.gaps.shares()), len(sums.gaps.idle_s)),
        "time",
        better="low",
        share=True,
    ),
    MetricRow(
        "fragmentation_{resource}",
        "1",
        "sum(p * free {resource}-seconds of machines on which the request does not fit, or which "
        "asks no {resource}) / free {resource}-seconds, p = share of a request among the run's "
        'instances{popular} (Weng et al., "Beware of fragmentation: scheduling GPU-sharing '
        'workloads with fragmentation gradient descent", 2023)',
        lambda sums, resource: sums.fragmentation.found(resource),
        "time",
        better="low",
        share=True,
    ),
)


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
            self._available[r] += np.bincount(cell, part.available[:, r] * part.seconds, cells)

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
