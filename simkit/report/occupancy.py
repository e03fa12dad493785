"""How full bands of lanes were over time, as a grid: what the chart shows from far away."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints

BINS: Final = 8192
"""Bins of time of a grid."""
BANDS: Final = 256
"""Most bands of lanes of a grid."""


class Grid(NamedTuple):
    """Shares of a band's lanes in use in each bin of time, 0 to 255."""

    shares: npt.NDArray[np.uint8]
    """(bands, bins); anything in use is at least 1."""
    lanes_a_band: int


def occupancy(
    start: Floats, end: Floats, lane: Ints, lanes: Ints, all_lanes: int, span: float
) -> Grid:
    """Return the grid of rectangles.

    Args:
        start: (n,) where each begins, from 0.
        end: (n,) where each ends, at most `span`.
        lane: (n,) first lane.
        lanes: (n,) how many.
        all_lanes: lanes of the chart.
        span: end of the chart.
    """
    step = max(1, -(-all_lanes // BANDS))
    bands = max(1, -(-all_lanes // step))
    scale = BINS / span if span > 0 else 0.0
    rate = np.zeros(bands * (BINS + 2))
    first, last = lane // step, (lane + lanes - 1) // step
    pieces = last - first + 1
    rows = np.repeat(np.arange(len(lane)), pieces)
    band = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    low = np.maximum(lane[rows], band * step)
    high = np.minimum((lane + lanes)[rows], (band + 1) * step)
    weight = (high - low).astype(np.float64)
    for times, sign in ((start, 1.0), (end, -1.0)):
        at = np.clip(times[rows] * scale, 0.0, BINS)
        place = np.floor(at)
        part = at - place
        index = band * (BINS + 2) + place.astype(np.int64)
        rate += np.bincount(index, sign * weight * (1 - part), len(rate))
        rate += np.bincount(index + 1, sign * weight * part, len(rate))
    held = np.cumsum(rate.reshape(bands, BINS + 2), axis=1)[:, :BINS]
    there = np.minimum(step, all_lanes - step * np.arange(bands))
    share = held / np.maximum(there, 1)[:, None]
    shares = np.where(share > 1e-9, np.clip(np.rint(255 * share), 1, 255), 0)
    return Grid(shares.astype(np.uint8), step)
