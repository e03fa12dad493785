"""Numbers as a run has them: rounded times and amounts, random streams, sums over time."""

from __future__ import annotations

from typing import Final, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TICK: Final = 2.0**-20
"""Times of a run are multiples of this, in s."""
KWH: Final = 3.6e6
"""Joules in a kilowatt-hour."""
ENDLESS: Final = 2.0**40
"""What an endless estimate counts as in a formula that needs a number, in s."""
LARGEST: Final = 2.0**33
"""Readers leave out rows with times or amounts that are not below this."""
LARGEST_ID: Final = 2.0**53
"""Readers leave out rows with ids that are not below this."""


def stream(seed: int, component: str) -> np.random.Generator:
    """Return the random numbers of a component of a run with a seed."""
    key = (crc32(component.encode()),)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def on_grid(time_s: float) -> float:
    """Return a time rounded to a multiple of `TICK`."""
    return round(time_s / TICK) * TICK


def amount_on_grid(amount: float) -> float:
    """Return an amount rounded to a multiple of 2**-30."""
    return round(float(amount) * 2**30) / 2**30


def times_on_grid(times: pl.Expr) -> pl.Expr:
    """Return times rounded to multiples of `TICK`."""
    return (times / TICK).round(mode="half_to_even") * TICK


def requests_on_grid(amounts: pl.Expr) -> pl.Expr:
    """Return requests rounded down to multiples of 2**-30; a millionth of a step is noise."""
    return (amounts * 2**30 + 1e-6).floor() / 2**30


def sum_until(
    instants: Floats, amounts: Floats, times: Floats, side: Literal["left", "right"] = "right"
) -> Floats:
    """Return the sum of the amounts at instants up to each time; before it if side is left."""
    order = np.argsort(instants, kind="stable")
    total = np.zeros(len(order) + 1, dtype=np.longdouble)
    np.cumsum(amounts[order], dtype=np.longdouble, out=total[1:])
    at = np.searchsorted(instants[order], times, side=side)
    return total.astype(np.float64)[at]


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 0 where the whole is not above 0."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
