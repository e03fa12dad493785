"""What every room needs of NumPy: names of array types, exact sums, and one random stream a name.

`ExactSum` sums many numbers without loss of precision: A. Neumaier, "Rundungsfehleranalyse einiger
Verfahren zur Summation endlicher Summen", Zeitschrift für Angewandte Mathematik und Mechanik 54,
1974: the rounding errors are summed next to the sum. The error of each addition is computed with
the two-sum of D. E. Knuth, "The Art of Computer Programming", volume 2, section 4.2.2, which needs
no comparison. The error of a sum of n numbers is then about 1e-16 of the sum, however large n is,
and that of a difference of two readings about 1e-16 of the difference.

A random stream depends on the scenario's seed and a component's name alone, so adding a component
shifts no other, and the workload's stream never depends on the policy: comparisons are paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_UNROLLED = 8  # columns from which on NumPy adds up a row in another order


def row_sums(table: Floats) -> Floats:
    """Return (n,) the sums of the rows of (n, R) numbers: to the bit what NumPy's `sum` returns.

    That is many times slower where n is large and R is small.
    """
    if not 0 < table.shape[1] < _UNROLLED:
        sums: Floats = table.sum(axis=1)
        return sums
    total: Floats = table[:, 0].copy()
    for column in table.T[1:]:
        total += column
    return total


def wrong_shapes(table: object, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return ``gang has shape (3,), expected (4,)`` of each column that has another shape."""
    return [
        f"{name} has shape {getattr(table, name).shape}, expected {shape}"
        for name, shape in shapes.items()
        if getattr(table, name).shape != shape
    ]


class ExactSum:
    """A running sum."""

    __slots__ = ("_rest", "_sum")

    def __init__(self, start: float = 0.0) -> None:
        self._sum = start
        self._rest = 0.0

    def add(self, value: float) -> None:
        """Add a number."""
        before = self._sum
        after = before + value
        added = after - before
        self._rest += (before - (after - added)) + (value - added)
        self._sum = after

    @property
    def value(self) -> float:
        """The sum."""
        return self._sum + self._rest


class RunningSums:
    """The sums of the first 0, 1, …, N of N numbers; two of them give the sum between."""

    __slots__ = ("_rest", "_sum")

    def __init__(self, values: Floats) -> None:
        """Add up (N,) numbers."""
        self._sum = np.concatenate(([0.0], np.cumsum(values)))
        before, after = self._sum[:-1], self._sum[1:]
        added = after - before
        lost = (before - (after - added)) + (values - added)
        self._rest = np.concatenate(([0.0], np.cumsum(lost)))

    def between(self, first: Ints, last: Ints) -> Floats:
        """Return (K,): the sums of the numbers from `first` (K,) to before `last` (K,)."""
        rest = self._rest[last] - self._rest[first]
        sums: Floats = (self._sum[last] - self._sum[first]) + rest
        return sums


def stream(seed: int, component: str) -> np.random.Generator:
    """Return the generator of `component` under `seed` (0 is a seed like any other)."""
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(crc32(component.encode()),))
    )
