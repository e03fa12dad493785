"""Compensated summation: sums of many numbers without loss of precision.

A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", Zeitschrift
für Angewandte Mathematik und Mechanik 54, 1974: the rounding errors are summed next to the sum. The
error of each addition is computed with the two-sum of D. E. Knuth, "The Art of Computer
Programming", volume 2, section 4.2.2, which needs no comparison. The error of a sum of n numbers is
then about 1e-16 of the sum, however large n is, and that of a difference of two readings about
1e-16 of the difference.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints


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
