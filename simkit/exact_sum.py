"""Sums of many numbers that lose nothing: compensated summation.

A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", Zeitschrift
für Angewandte Mathematik und Mechanik 54, 1974: beside the sum runs what rounding took from it.
The error of each addition is computed with the two-sum of D. E. Knuth, "The Art of Computer
Programming", volume 2, section 4.2.2, which needs no comparison. The error of a sum of n numbers is
then about 1e-16 of the sum, however large n is, and that of a difference of two readings about
1e-16 of the difference.
"""

from __future__ import annotations

from collections.abc import Iterable


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


Reading = tuple[tuple[float, ...], tuple[float, ...]]
"""What counters showed at an instant: their sums, and what rounding took from these."""


class Counters:
    """Running sums of several things at once, read at two instants for what came between."""

    __slots__ = ("_rest", "_sum")

    def __init__(self, number: int) -> None:
        self._sum = [0.0] * number
        self._rest = [0.0] * number

    def add(self, values: Iterable[float], factor: float = 1.0) -> None:
        """Add factor · values, one to each counter."""
        sums, rests = self._sum, self._rest
        for i, value in enumerate(values):
            if value:
                value *= factor
                before = sums[i]
                sums[i] = after = before + value
                added = after - before
                rests[i] += (before - (after - added)) + (value - added)

    def reading(self) -> Reading:
        """Return what the counters show now."""
        return tuple(self._sum), tuple(self._rest)

    def since(self, then: Reading) -> list[float]:
        """Return what was added since a reading."""
        sums, rests = then
        return [
            (now - was) + (rest - was_rest)
            for now, was, rest, was_rest in zip(self._sum, sums, self._rest, rests, strict=True)
        ]

    @property
    def values(self) -> list[float]:
        """The sums."""
        return [value + rest for value, rest in zip(self._sum, self._rest, strict=True)]
