"""Random columns, drawn in blocks of fixed size.

A block is always drawn whole and the last one cut, which gives two things: the numbers next to the
column itself cost the same memory for a thousand jobs and for a million, and a longer column
begins with the shorter one of the same stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats

BLOCK = 16_384


Draw = Callable[[slice, np.random.Generator], npt.NDArray[Any]]
"""Given the rows it is for, returns BLOCK numbers; the rows past the column's end are thrown away.
It must take equally many numbers from the generator whatever the rows hold."""


def draw_column(
    draw: Draw, jobs: int, rng: np.random.Generator, dtype: type[np.generic] = np.float64
) -> npt.NDArray[Any]:
    """Return (jobs,) numbers of `dtype` made by `draw`, block by block."""
    column = np.empty(jobs, dtype)
    for first in range(0, jobs, BLOCK):
        rows = slice(first, min(first + BLOCK, jobs))
        column[rows] = draw(rows, rng)[: rows.stop - rows.start]
    return column


def redraw_above(limit: float, draw: Callable[[], Floats]) -> Floats:
    """Return draws of which none exceeds `limit`: those that do are drawn again until they fit."""
    values = draw()
    while (high := values > limit).any():
        values[high] = draw()[high]
    return values
