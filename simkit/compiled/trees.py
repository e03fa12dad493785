"""Trees in arrays, for machine code: the next of what is to come, and the first that fits.

A heap has the smallest (time, number) first. A tree over ranks knows for each range of ranks the
least demand and the least estimate of the jobs that wait there, infinite where none does; so the
first job that fits is found without looking at those that do not. Every job has its place, its
rank, from the start. A tree over vectors does the same for several resources: waiting tasks stand
in one by what an instance asks for, machines by what is free, negative.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.machine_code import inner, records

__all__ = [
    "ENTRY", "Waiting", "at_first", "first_fitting", "first_waiting", "first_within", "leaf_of",
    "least_demand", "no_vectors", "nobody_waits", "pop", "push", "put", "settle", "take_out",
]  # fmt: skip

_ANY: Final = sys.float_info.max
ENTRY: Final = np.dtype([("time", np.float64), ("number", np.int64)])


@inner
def push(heap: Any, size: int, time: float, number: int) -> None:
    """Put in an entry, where there are `size`."""
    row = size
    while row > 0:
        above = (row - 1) >> 1
        if heap[above].time < time or (heap[above].time == time and heap[above].number <= number):
            break
        heap[row].time, heap[row].number = heap[above].time, heap[above].number
        row = above
    heap[row].time, heap[row].number = time, number


@inner
def pop(heap: Any, size: int) -> int:
    """Take out the first of `size` entries; return its number."""
    first, last = heap[0].number, size - 1
    time, number, row = heap[last].time, heap[last].number, 0
    while True:
        below = 2 * row + 1
        if below >= last:
            break
        if below + 1 < last and (
            heap[below + 1].time < heap[below].time
            or (
                heap[below + 1].time == heap[below].time
                and heap[below + 1].number < heap[below].number
            )
        ):
            below += 1
        if heap[below].time > time or (heap[below].time == time and heap[below].number > number):
            break
        heap[row].time, heap[row].number = heap[below].time, heap[below].number
        row = below
    heap[row].time, heap[row].number = time, number
    return first  # type: ignore[no-any-return]


LEAST: Final = np.dtype([("demand", np.float64), ("estimate", np.float64)])
"""The least demand and the least estimate below a row."""


TREE: Final = np.dtype([("root", np.int64), ("leaves", np.int64)])
"""Where a pool's tree stands, and how many leaves it has."""


class Waiting(NamedTuple):
    """A tree for each of P pools: row 1 is the root, rows 2 i and 2 i + 1 are below row i."""

    least: Any
    """(N,) The leaf of rank r is row ``leaves + r``; rows count from the tree's `root`."""
    tree: Any
    """(P,)"""


def nobody_waits(ranks: Ints) -> Waiting:
    """Return empty trees of so many ranks, (P,)."""
    leaves = [1 << max(int(count) - 1, 0).bit_length() for count in ranks]
    least = records(np.empty(2 * sum(leaves), LEAST))
    least["demand"] = least["estimate"] = np.inf
    tree = records(np.zeros(len(leaves), TREE))
    tree["leaves"] = leaves
    tree["root"] = 2 * (np.cumsum(leaves) - leaves)
    return Waiting(least, tree)


@inner
def put(waiting: Waiting, at: int, rank: int, demand: float, estimate: float) -> None:
    """Let the job of a rank wait in a pool."""
    least, root = waiting.least, waiting.tree[at].root
    row = rank + waiting.tree[at].leaves
    least[root + row].demand, least[root + row].estimate = demand, estimate
    row >>= 1
    while row > 0:
        one, other = least[root + 2 * row], least[root + 2 * row + 1]
        demand, estimate = min(one.demand, other.demand), min(one.estimate, other.estimate)
        here = least[root + row]
        if here.demand == demand and here.estimate == estimate:
            break
        here.demand, here.estimate = demand, estimate
        row >>= 1


@inner
def take_out(waiting: Waiting, at: int, rank: int) -> None:
    """Let the job of a rank wait no more."""
    put(waiting, at, rank, np.inf, np.inf)


@inner
def least_demand(waiting: Waiting, at: int) -> float:
    """Return the least demand in a pool; infinity if nobody waits."""
    return waiting.least[waiting.tree[at].root + 1].demand  # type: ignore[no-any-return]


@inner
def first_fitting(
    waiting: Waiting, at: int, rank: int, free: float, slack: float, spare: float
) -> int:
    """Return the first rank of a pool, from one on, whose job may start; -1: none.

    It may if it asks for no more than `spare`, or for no more than `free` and for no longer than
    `slack`; all three are finite.
    """
    root, leaves = waiting.tree[at].root, waiting.tree[at].leaves
    if rank >= leaves:
        return -1
    row = rank + leaves
    while True:
        least = waiting.least[root + row]
        if least.demand <= spare or (least.demand <= free and least.estimate <= slack):
            if row >= leaves:
                return row - leaves  # type: ignore[no-any-return]
            row *= 2
            continue
        while row & 1:  # the last child: all below its parent has been seen
            row >>= 1
            if row == 0:
                return -1
        row += 1
        if row >= 2 * leaves or row & (row - 1) == 0:  # behind the end of its level
            return -1


@inner
def first_waiting(waiting: Waiting, at: int, rank: int) -> int:
    """Return the first rank of a pool, from one on, whose job waits; -1: none."""
    return first_fitting(waiting, at, rank, 0.0, 0.0, _ANY)


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
