"""The formulas of fitness: what an instance of a task scores on a machine; the highest goes first.

The policies use them on many machines at once, and the compiled replays, which make machine code of
these functions, on one machine after the other; so they use plain arithmetic, resource by resource.

In all of them an amount is a sequence with an entry for each resource: `free` is what is free on
the machine now, `whole` its capacity, infinite where it has none, so that a share of it is 0,
`request` what an instance asks for, and `largest` the largest machine's capacity. An entry is a
number, or an array of them, one for each machine.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__ = ["MACHINE", "aligned", "mixed"]

Amounts = Any
"""An entry for each resource: a number, or (n,) numbers."""
Number = Any
"""A number, or (n,) numbers."""


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
