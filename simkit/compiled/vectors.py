"""A tree over vectors: the first that is at most as large as a bound, in every component.

Waiting tasks stand in one by what an instance asks for, in the order in which they are tried, and
machines by what is free, negative, in the order of their rows. So what fits is found without going
through what does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simkit.arrays import Floats
from simkit.machine_code import inner

__all__ = ["at_first", "first_within", "leaf_of", "no_vectors", "settle"]


def no_vectors(count: int, width: int) -> Floats:
    """Return a tree for so many vectors, none of which is there yet: (2 L, width).

    Row 1 is the root, rows 2 i and 2 i + 1 are below row i, and each has the least of either in
    every component. The L leaves are at the end; infinite where no vector is.
    """
    leaves = 1 << max(count - 1, 0).bit_length()
    return np.full((2 * leaves, width), np.inf)


def at_first(vectors: Floats) -> Floats:
    """Return the tree of (n, width) vectors."""
    least = no_vectors(len(vectors), vectors.shape[1])
    leaves = len(least) // 2
    least[leaves : leaves + len(vectors)] = vectors
    while leaves > 1:
        below = least[leaves : 2 * leaves]
        leaves //= 2
        least[leaves : 2 * leaves] = np.minimum(below[::2], below[1::2])
    return least


@inner
def leaf_of(least: Any, place: int) -> int:
    """Return the row of a vector; `settle` is called after it was written."""
    return len(least) // 2 + place


@inner
def settle(least: Any, place: int) -> None:
    """Bring the tree up to date after the vector at a place has changed."""
    row = leaf_of(least, place) >> 1
    while row > 0:
        same = True
        for r in range(least.shape[1]):
            smaller = min(least[2 * row, r], least[2 * row + 1, r])
            if least[row, r] != smaller:
                least[row, r] = smaller
                same = False
        if same:
            break
        row >>= 1


@inner
def first_within(least: Any, place: int, bound: Any) -> int:
    """Return the first place, from one on, whose vector is within a finite bound; -1: none."""
    leaves = len(least) // 2
    if place >= leaves:
        return -1
    row = place + leaves
    while True:
        within = True
        for r in range(least.shape[1]):
            if least[row, r] > bound[r]:
                within = False
        if within:
            if row >= leaves:
                return row - leaves
            row *= 2
            continue
        while row & 1:  # the last child: all below its parent has been seen
            row >>= 1
            if row == 0:
                return -1
        row += 1
        if row & (row - 1) == 0:  # behind the end of its level
            return -1
