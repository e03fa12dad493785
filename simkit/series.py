"""Step functions of a run as means over equal bins, so that years fit a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

Floats = npt.NDArray[np.float64]

BIN_CHOICES_S: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0, 2419200.0)
"""Bins that people know: 1 s to 4 weeks."""


def bin_length(span_s: float, most: int = 800) -> float:
    """Return the shortest familiar bin (s) that cuts a span into no more than `most` bins."""
    for choice in BIN_CHOICES_S:
        if span_s / choice <= most:
            return choice
    return float(BIN_CHOICES_S[-1] * np.ceil(span_s / most / BIN_CHOICES_S[-1]))


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
    import polars as pl

    frame = timeline.select(
        pl.col("time_s"),
        pl.col(f"allocated_{resource}").alias("allocated"),
        pl.col(f"capacity_{resource}").alias("capacity"),
        (pl.col("waiting") + pl.col("backlog")).cast(pl.Float64).alias("waiting"),
    ).collect()
    return {name: frame[name].to_numpy() for name in frame.columns}
