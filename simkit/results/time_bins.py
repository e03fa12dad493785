"""Step functions as means over bins of time: the timeline, and the table "power".

A mean over a bin is an exact integral, never a sample: the mean times the bin's length is what
flowed in it, so bins of any length add up to the same totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats
from simkit.errors import RunError
from simkit.power.ledger import COLUMNS, RATES, STORED, Flows
from simkit.units import parse_duration

_BIN_LENGTHS_S: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0, 2419200.0)
"""Familiar lengths of bins: 1 s to 4 weeks."""
MEANS: Final = tuple(name for name in Flows._fields if name not in RATES)
"""Columns of the table "power" that hold and do not flow: PUE, prices, carbon intensities."""
_MOST_ROWS: Final = 2**25
"""Most rows of the table "power" at regular times: more than a year of seconds."""
_ROWS_AT_ONCE: Final = 2**16


def bin_length(span_s: float, most: int = 800) -> float:
    """Return the shortest familiar length (s) that cuts a span into at most `most` bins."""
    for length in _BIN_LENGTHS_S:
        if span_s / length <= most:
            return length
    return float(_BIN_LENGTHS_S[-1] * np.ceil(span_s / most / _BIN_LENGTHS_S[-1]))


def bin_edges(start_s: float, end_s: float, length_s: float) -> Floats:
    """Return the edges of equal bins from the start on; the last ends at or after the end."""
    bins = max(1, int(np.ceil((end_s - start_s) / length_s)))
    edges: Floats = start_s + length_s * np.arange(bins + 1, dtype=np.float64)
    return edges


def binned_mean(time_s: Floats, values: Floats, edges: Floats, before: float = 0.0) -> Floats:
    """Return the mean of a step function over each bin.

    Args:
        time_s: (n,) ascending times in s; a value holds from its time to the next.
        values: (n,) values.
        edges: (bins + 1,) edges of the bins, in s.
        before: the value before the first time.
    """
    held = np.concatenate(([before], values))
    since = np.concatenate(([min(edges[0], time_s[0]) if len(time_s) else edges[0]], time_s))
    area = np.concatenate(([0.0], np.cumsum(held[:-1] * np.diff(since))))
    row = np.searchsorted(since, edges, side="right") - 1
    return np.diff(area[row] + held[row] * (edges - since[row])) / np.diff(edges)


def timeline_columns(timeline: pl.LazyFrame, resource: str) -> dict[str, Floats]:
    """Return time_s, allocated, capacity and waiting (queue and held back) as arrays."""
    frame = timeline.select(
        pl.col("time_s"),
        pl.col(f"allocated_{resource}").alias("allocated"),
        pl.col(f"capacity_{resource}").alias("capacity"),
        (pl.col("waiting") + pl.col("backlog")).cast(pl.Float64).alias("waiting"),
    ).collect()
    return {name: frame[name].to_numpy() for name in frame.columns}


def binned_power(
    rows: Mapping[str, Floats | Sequence[float]],
    edges: npt.ArrayLike,
    first: Mapping[str, float] | None = None,
) -> dict[str, Floats]:
    """Return the means of the rows of the table "power" over bins.

    Args:
        rows: columns of equal length, in order of time.
        edges: (bins + 1,) ascending times in s; outside the rows nothing flows.
        first: what is stored at the first row's start, by the names of `STORED`; NaN if absent.

    Returns columns of (bins,): start_s, end_s, the means of `RATES` over the bin, those of `MEANS`
    over the part of the bin that the rows cover (NaN if none), and what is stored at its end;
    within a row the stored amounts change evenly.
    """
    cuts = np.asarray(edges, dtype=np.float64)
    columns = {name: np.asarray(rows[name], dtype=np.float64) for name in rows}
    times = np.concatenate((columns["start_s"][:1], columns["end_s"]))
    within = times[np.searchsorted(times, cuts[0], "right") : np.searchsorted(times, cuts[-1])]
    points = np.union1d(cuts, within)  # between two of them everything is constant
    row = np.searchsorted(times, points[:-1], side="right") - 1
    covered = (row >= 0) & (row < len(times) - 1)
    row = np.clip(row, 0, len(times) - 2)
    span = np.where(covered, np.diff(points), 0.0)
    begin = np.searchsorted(points, cuts[:-1])
    binned = {"start_s": cuts[:-1], "end_s": cuts[1:]}
    for names, seconds in ((RATES, np.diff(cuts)), (MEANS, np.add.reduceat(span, begin))):
        for name in names:
            flowed = np.add.reduceat(columns[name][row] * span, begin)
            binned[name] = np.divide(
                flowed, seconds, out=np.full(len(begin), np.nan), where=seconds > 0
            )
    for name in STORED:
        held = np.concatenate(([(first or {}).get(name, np.nan)], columns[name]))
        binned[name] = np.interp(cuts[1:], times, held)
    return binned


def power_means(
    power: pl.DataFrame, interval: str | float, stored_j: float
) -> Iterator[pl.DataFrame]:
    """Yield the table "power" as means over equal intervals, in frames of some rows, at least one.

    Args:
        power: columns of `records.POWER`, by ascending time.
        interval: its length: seconds, or text such as ``"5m"``.
        stored_j: content of the battery at the first row's start, in J. It then carries neither
            carbon nor cost, and nothing of it came from the grid.

    Raises RunError if the interval is not above 0, or so short that the table is too long.
    """
    try:
        length = parse_duration(interval)
    except ValueError as error:
        raise RunError(f"interval: {error}") from error
    if length <= 0:
        raise RunError(f"interval: {interval!r} is not above 0; write 300, 5m or 1h")
    if not len(power):
        yield pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.Float64))
        return
    rows = {name: power[name].to_numpy() for name in COLUMNS}
    start, end = float(rows["start_s"][0]), float(rows["end_s"][-1])
    if (end - start) / length > _MOST_ROWS:
        raise RunError(
            f"power: {(end - start) / length:,.0f} intervals of {length:g} s from {start:g} s to "
            f"{end:g} s; a table has at most {_MOST_ROWS:,}: choose longer intervals"
        )
    edges = bin_edges(start, end, length)
    first = {**dict.fromkeys(STORED, 0.0), "stored_j": stored_j}
    for begin in range(0, len(edges) - 1, _ROWS_AT_ONCE):
        binned = binned_power(rows, edges[begin : begin + _ROWS_AT_ONCE + 1], first)
        yield pl.DataFrame({name: binned[name] for name in COLUMNS})
