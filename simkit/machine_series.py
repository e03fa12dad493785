"""The utilisation of machines over time, in equal bins: its rise and fall, and its spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.machine_records import MachineRecords
from simkit.machine_segments import Segments, segments
from simkit.metric import Floats
from simkit.series import bin_edges, bin_length

if TYPE_CHECKING:
    import polars as pl

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
        import polars as pl

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
