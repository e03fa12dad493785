"""The formulas of orders, in which smaller goes first, and of fitness, in which larger does.

The policies use them, and so do the compiled replays, which make machine code of these functions;
so they use plain arithmetic, and ``math`` for what must be equal to the last bit.

In orders r is the estimate and w the wait in seconds, n the processors of all instances
together, s the time of the submission in seconds since that of the first job, and i the task's
place in the order of submission.

A fitness scores an instance of a task on a machine, resource by resource: `free` is what is free
there now, `whole` the machine's capacity, infinite where it has none, so that a share of it is 0,
`request` what an instance asks for, and `largest` the largest machine's capacity. Policies score
many machines at once, compiled replays one after the other.
"""

from __future__ import annotations

from math import log10, sqrt
from typing import Any, Final

import numpy as np

Number = Any
"""A number, or an array of them where a policy orders its whole queue, or scores many machines."""
Amounts = Any
"""An entry for each resource: a number, or (n,) numbers, one for each machine."""


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


def most_left(free: Amounts, whole: Amounts, request: Amounts, largest: Amounts) -> Number:
    """Return what is free of all resources asked for, each as a share of the largest machine's."""
    total = 0.0 * free[0]
    for r in range(len(free)):
        if request[r] != 0:
            total = total + free[r] / largest[r]
    return total


def least_left(free: Amounts, whole: Amounts, request: Amounts, largest: Amounts) -> Number:
    """Return the same, negative."""
    return -most_left(free, whole, request, largest)


def emptiest(free: Amounts, whole: Amounts, request: Amounts, largest: Amounts) -> Number:
    """Return the free share of the machine, the mean over the resources that it has."""
    total, has = free[0] / whole[0], 1 * (whole[0] < np.inf)
    for r in range(1, len(free)):
        total = total + free[r] / whole[r]
        has = has + (whole[r] < np.inf)
    return total / (has + (has == 0))


def fullest(free: Amounts, whole: Amounts, request: Amounts, largest: Amounts) -> Number:
    """Return the same, negative."""
    return -emptiest(free, whole, request, largest)


def dot_product(free: Amounts, whole: Amounts, request: Amounts, largest: Amounts) -> Number:
    """Return the product of free and requested shares of the machine, summed over resources."""
    total = (free[0] / whole[0]) * (request[0] / whole[0])
    for r in range(1, len(free)):
        total = total + (free[r] / whole[r]) * (request[r] / whole[r])
    return total


def cosine(free: Amounts, whole: Amounts, request: Amounts, largest: Amounts) -> Number:
    """Return the dot product, divided by both lengths; 0 if one of them is 0."""
    left, asked = free[0] / whole[0], request[0] / whole[0]
    product, of_left, of_asked = left * asked, left * left, asked * asked
    for r in range(1, len(free)):
        left, asked = free[r] / whole[r], request[r] / whole[r]
        product = product + left * asked
        of_left = of_left + left * left
        of_asked = of_asked + asked * asked
    lengths = np.sqrt(of_left * of_asked)
    return product / (lengths + (lengths == 0))  # the product is 0 as well then


def closeness(free: Amounts, whole: Amounts, request: Amounts, largest: Amounts) -> Number:
    """Return the squared distance of free and requested shares of the machine, negative."""
    distance = free[0] / whole[0] - request[0] / whole[0]
    total = distance * distance
    for r in range(1, len(free)):
        distance = free[r] / whole[r] - request[r] / whole[r]
        total = total + distance * distance
    return -total


MACHINE: Final = (
    most_left, least_left, emptiest, fullest, dot_product, cosine, closeness,
)  # fmt: skip
"""Formulas that choose a machine for a given task."""


def aligned(free: Amounts, whole: Amounts, request: Amounts) -> Number:
    """Return the dot product, divided by the number of resources: 0 to 1."""
    return dot_product(free, whole, request, free) / len(free)


def mixed(aligned: Number, short: Number, weight: float) -> Number:
    """Return alignment and shortness, 0 to 1, by the weight of the latter."""
    return (1.0 - weight) * aligned + weight * short
