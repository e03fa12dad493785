"""Fragmentation: free capacity in pieces, of time or of machines, that are too small to use.

Two measures that share only the name:

- `IdleGaps`, over time: is a machine's idle time one stretch or many? The measure of Gehr and
  Schneider, "Measuring fragmentation of two-dimensional resources applied to advance reservation
  grid scheduling", CCGrid 2009, as in evalys for Batsim's runs.
- `Fragmentation`, over machines: how much of what is free could the next task not use? The measure
  of Weng et al., "Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation
  gradient descent", USENIX ATC 2023.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.results.machine_segments import Segments
from simkit.results.metric import Found, share

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
