"""The waiting jobs of an order that does not change: a tree over ranks.

Every job of a workload has its place, its rank, from the start; the tree knows for each range of
ranks the least demand and the least estimate of the jobs that wait there, infinite where none does.
So the first job that fits is found without looking at those that do not.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Ints
from simkit.machine_code import inner, records

_ANY: Final = sys.float_info.max

__all__ = [
    "Waiting",
    "first_fitting",
    "first_waiting",
    "least_demand",
    "nobody_waits",
    "put",
    "take_out",
]


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
