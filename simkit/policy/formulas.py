"""The formulas of orders, one number at a time: smaller goes first.

The policies use them, and so do the compiled replays, which make machine code of these functions;
so they use plain arithmetic, and ``math`` for what must be equal to the last bit.

In all of them r is the estimate and w the wait in seconds, n the processors of all instances
together, s the time of the submission in seconds since that of the first job, and i the task's
place in the order of submission.
"""

from __future__ import annotations

from math import log10, sqrt
from typing import Any, Final

Number = Any
"""A number, or an array of them where a policy orders its whole queue at once."""


def first_come(r: float, n: float, s: float, i: float) -> float:
    """Return i."""
    return i


def last_come(r: float, n: float, s: float, i: float) -> float:
    """Return -i."""
    return -i


def shortest(r: float, n: float, s: float, i: float) -> float:
    """Return r."""
    return r


def longest(r: float, n: float, s: float, i: float) -> float:
    """Return -r."""
    return -r


def smallest_area(r: float, n: float, s: float, i: float) -> float:
    """Return n·r."""
    return n * r


def largest_area(r: float, n: float, s: float, i: float) -> float:
    """Return -n·r."""
    return -n * r


def f1(r: float, n: float, s: float, i: float) -> float:
    """Return log10(r)·n + 870·log10(s), r and s at least 2 in logarithms, here and below."""
    return log10(max(r, 2.0)) * n + 870.0 * log10(max(s, 2.0))


def f2(r: float, n: float, s: float, i: float) -> float:
    """Return √r·n + 25 600·log10(s)."""
    return sqrt(r) * n + 25_600.0 * log10(max(s, 2.0))


def f3(r: float, n: float, s: float, i: float) -> float:
    """Return r·n + 6 860 000·log10(s)."""
    return r * n + 6_860_000.0 * log10(max(s, 2.0))


def f4(r: float, n: float, s: float, i: float) -> float:
    """Return r·√n + 530 000·log10(s)."""
    return r * sqrt(n) + 530_000.0 * log10(max(s, 2.0))


def log_area(r: float, n: float, s: float, i: float) -> float:
    """Return log10(r)·n."""
    return log10(max(r, 2.0)) * n


def squared_area(r: float, n: float, s: float, i: float) -> float:
    """Return r²·n, r at least 10."""
    r = max(r, 10.0)
    return r * r * n


FIXED: Final = (
    first_come, last_come, shortest, longest, smallest_area, largest_area, f1, f2, f3, f4, log_area,
    squared_area,
)  # fmt: skip
"""Formulas of a number that a task keeps while it waits."""


def expansion(w: Number, r: Number, factor: Number) -> Number:
    """Return -(w + r) / r."""
    return -(w + r) / r


def cubed_wait(w: Number, r: Number, factor: Number) -> Number:
    """Return -(w / r)³·factor.

    The cube is two multiplications, which give the same bits on every machine; `pow` does not.
    """
    ratio = w / r
    return -(ratio * ratio * ratio) * factor


def wait_by_area(w: Number, r: Number, factor: Number) -> Number:
    """Return -w / (factor·r)."""
    return -w / (factor * r)


def area(w: Number, r: Number, factor: Number) -> Number:
    """Return r·factor."""
    return r * factor


CHANGING: Final = (expansion, cubed_wait, wait_by_area, area)
"""Formulas of a number that changes while a task waits, with a factor that does not."""
