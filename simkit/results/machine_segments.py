"""Machines over time: stretches in which nothing changes on a machine.

Allocations say who holds what of a machine from when to when. Here they become, machine by
machine, segments between two changes, with what is held and what the machine has: what is measured
on machines is a sum over segments. They come in batches of whole machines, so that memory stays at
a few compact columns of the allocations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.results.machine_records import Holdings, MachineRecords, Requests, read_holdings
from simkit.results.timeline_metrics import bin_edges, bin_length

CHANGES_AT_ONCE = 1 << 18
"""Changes whose segments are held at once, unless a single machine has more."""


@dataclass(frozen=True)
class Segments:
    """N stretches of time of some machines, sorted by (machine, start).

    A machine's segments follow each other without gaps from the window's start to its end.
    """

    machine: Ints
    """(N,) rows of the cluster's machines."""
    start_s: Floats
    """(N,) s on the trace's clock."""
    seconds: Floats
    """(N,) length in s, above 0."""
    instances: Floats
    """(N,) instances that hold something of the machine, whole numbers."""
    allocated: Floats
    """(N, R) what they hold."""
    capacity: Floats
    """(N, R) what the machine has."""

    @cached_property
    def free(self) -> Floats:
        """(N, R) what nobody holds; 0 where more is held than there is, as while draining."""
        free: Floats = np.maximum(self.capacity - self.allocated, 0.0)
        return free

    @cached_property
    def begins(self) -> Bools:
        """(N,) True where a machine's first segment stands."""
        begins: Bools = np.ones(len(self.machine), dtype=np.bool_)
        begins[1:] = self.machine[1:] != self.machine[:-1]
        return begins


def share(part: float, whole: float) -> float | None:
    """Return a part as a share of the whole, None if there is nothing."""
    return float(part / whole) if whole > 0 else None


def segments(
    records: MachineRecords,
    requests: Requests,
    start_s: float,
    end_s: float,
    cuts: Floats | None = None,
) -> Iterator[Segments]:
    """Yield the segments of all machines within a window of time, batch by batch.

    Args:
        records: what the run recorded.
        requests: what its tasks ask for; see `MachineRecords.requests`.
        start_s: start of the window, in s.
        end_s: its end; nothing is yielded unless it is later.
        cuts: times in s at which segments end even if nothing changes, e.g. the edges of bins.
    """
    if not end_s > start_s:
        return
    held = read_holdings(records, requests, start_s, end_s)
    changes = records.capacity_changes()
    cuts = np.empty(0) if cuts is None else cuts[(cuts > start_s) & (cuts < end_s)]
    for first, last in _bands(held.first, len(cuts)):
        made = _Changes(len(records.resources))
        made.of_capacity(records.capacity[first:last], changes, first, (start_s, end_s))
        made.of_allocations(held, requests.amounts, first, last)
        made.of_cuts(cuts, first, last)
        yield made.segments()


def _bands(first_row: Ints, cuts: int) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of machines whose changes are to be held at once."""
    machines = len(first_row) - 1
    work = 2 * first_row + (2 + cuts) * np.arange(machines + 1)
    first = 0
    while first < machines:
        most = int(np.searchsorted(work, work[first] + CHANGES_AT_ONCE, side="right")) - 1
        last = min(max(most, first + 1), machines)
        yield first, last
        first = last


class _Changes:
    """Changes of machines, in any order: what they add to instances, allocated and capacity."""

    def __init__(self, resources: int) -> None:
        self._width = resources
        self._parts: list[tuple[npt.NDArray[np.integer], Floats, Floats]] = []

    def _add(
        self,
        machine: npt.NDArray[np.integer],
        time: Floats,
        *,
        instances: Floats | None = None,
        allocated: Floats | None = None,
        capacity: Floats | None = None,
    ) -> None:
        change = np.zeros((len(machine), 1 + 2 * self._width))
        if instances is not None:
            change[:, 0] = instances
        if allocated is not None:
            change[:, 1 : 1 + self._width] = allocated
        if capacity is not None:
            change[:, 1 + self._width :] = capacity
        self._parts.append((machine, time, change))

    def of_capacity(
        self,
        capacity: Floats,
        changes: Mapping[int, list[tuple[float, list[float]]]],
        first: int,
        window: tuple[float, float],
    ) -> None:
        """Let machines have their capacity from the window's start to its end.

        `capacity` is that of the machines from `first` on, before any change.
        """
        machine, last = first + np.arange(len(capacity)), capacity.copy()
        self._add(machine, np.full(len(machine), window[0]), capacity=capacity)
        rows, times, differences = [], [], []
        for row, number in enumerate(machine.tolist()):
            for time, amounts in changes.get(number, ()):
                rows.append(number)
                times.append(min(max(time, window[0]), window[1]))
                differences.append(np.array(amounts) - last[row])
                last[row] = amounts
        if rows:
            self._add(np.array(rows), np.array(times), capacity=np.array(differences))
        self._add(machine, np.full(len(machine), window[1]), capacity=-last)

    def of_allocations(self, held: Holdings, amounts: Floats, first: int, last: int) -> None:
        """Let allocations take what they hold and give it back."""
        rows = slice(held.first[first], held.first[last])
        machine = np.repeat(np.arange(first, last), np.diff(held.first[first : last + 1]))
        count = held.count[rows].astype(np.float64)
        taken = amounts[held.request[rows]] * count[:, None]
        self._add(machine, held.start_s[rows], instances=count, allocated=taken)
        self._add(machine, held.end_s[rows], instances=-count, allocated=-taken)

    def of_cuts(self, cuts: Floats, first: int, last: int) -> None:
        """Let every machine have a change of nothing at each of these times."""
        machine = np.repeat(np.arange(first, last), len(cuts))
        self._add(machine, np.tile(cuts, last - first))

    def segments(self) -> Segments:
        """Sum up: what holds between a machine's changes.

        A machine's changes add up to 0, so that one sum runs over all machines. Times and amounts
        lie on grids on which sums are exact.
        """
        machine, time, change = (
            np.concatenate(columns) for columns in zip(*self._parts, strict=True)
        )
        order = np.lexsort((time, machine))
        machine, time = machine[order], time[order]
        state = np.cumsum(change[order], axis=0)
        seconds = np.diff(time, append=time[-1:])
        held = (seconds > 0) & np.append(machine[1:] == machine[:-1], False)
        instances, allocated, capacity = np.split(state[held], [1, 1 + self._width], axis=1)
        return Segments(
            machine=machine[held],
            start_s=time[held],
            seconds=seconds[held],
            instances=instances[:, 0],
            allocated=allocated,
            capacity=capacity,
        )


# MERGED The utilisation of machines over time, in equal bins: its rise and fall, and its spread.


BINS: Final = 200
"""Most bins unless others are asked for."""
SPREAD: Final = {"low": 0.1, "median": 0.5, "high": 0.9}
"""Name → which quantile over machines."""


def utilisation_series(
    records: MachineRecords, start_s: float, end_s: float, *, bins: int = BINS
) -> pl.DataFrame:
    """Return means over equal bins of a window of time, exact integrals and no samples.

    Args:
        records: what the run recorded of its machines; ``MachineRecords.of(run)``.
        start_s: start of the window, in s on the trace's clock.
        end_s: its end.
        bins: the most bins; their length is a familiar one, such as a minute or an hour.

    Returns one row a bin: ``time_s``, its start; ``in_use``, machines that hold an instance; and
    for each resource ``utilisation_<r>``, allocated / available resource-seconds of all machines,
    with the quantiles 0.1, 0.5 and 0.9 over the machines that are there (``…_low``, ``…_median``,
    ``…_high``). Null where nothing is available; no rows unless the end is after the start.
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
        """Take in segments, none of which crosses the edge of a bin."""
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
        """Return the table; see `utilisation_series`."""
        seconds = np.diff(self._edges)
        columns = {"time_s": self._edges[:-1], "in_use": _divided(self._in_use, seconds)}
        for r, name in enumerate(resources):
            held, offered = (
                area[r].reshape(-1, self._bins) for area in (self._allocated, self._available)
            )
            columns[f"utilisation_{name}"] = _divided(held.sum(axis=0), offered.sum(axis=0))
            shares = _divided(held, offered)
            for word, level in SPREAD.items():
                columns[f"utilisation_{name}_{word}"] = _quantiles(shares, level)
        return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))


def _divided(part: Floats, whole: Floats) -> Floats:
    share: Floats = np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)
    return share


def _quantiles(shares: Floats, level: float) -> Floats:
    """Return (bins,) a quantile over (M, bins) machines, of those that have a share."""
    found = np.full(shares.shape[1], np.nan)
    for bin_ in range(shares.shape[1]):
        known = shares[:, bin_][~np.isnan(shares[:, bin_])]
        if len(known):
            found[bin_] = np.quantile(known, level)
    return found
