"""The waiting jobs of an order that does not change: a tree over ranks.

Every job of a workload has its place, its rank, from the start; the tree knows for each range of
ranks the least demand and the least estimate of the jobs that wait there, infinite where none does.
So the first job that fits is found without looking at those that do not.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.machine_code import inner, records

_ANY: Final = sys.float_info.max

__all__ = ["Waiting", "first_fitting", "first_waiting", "nobody_waits", "put", "take_out"]


LEAST: Final = np.dtype([("demand", np.float64), ("estimate", np.float64)])
"""The least demand and the least estimate below a row."""


class Waiting(NamedTuple):
    """A tree: row 1 is the root, rows 2 i and 2 i + 1 are the children of row i."""

    least: Any
    """(2 · leaves,)"""
    leaves: int
    """The leaf of rank r is row ``leaves + r``."""


def nobody_waits(ranks: int) -> Waiting:
    """Return an empty tree of so many ranks."""
    leaves = 1
    while leaves < ranks:
        leaves *= 2
    least = np.empty(2 * leaves, LEAST)
    least["demand"] = least["estimate"] = np.inf
    return Waiting(records(least), leaves)


@inner
def put(waiting: Waiting, rank: int, demand: float, estimate: float) -> None:
    """Let the job of a rank wait."""
    least, row = waiting.least, rank + waiting.leaves
    least[row].demand, least[row].estimate = demand, estimate
    row >>= 1
    while row > 0:
        one, other = least[2 * row], least[2 * row + 1]
        demand, estimate = min(one.demand, other.demand), min(one.estimate, other.estimate)
        if least[row].demand == demand and least[row].estimate == estimate:
            break
        least[row].demand, least[row].estimate = demand, estimate
        row >>= 1


@inner
def take_out(waiting: Waiting, rank: int) -> None:
    """Let the job of a rank wait no more."""
    put(waiting, rank, np.inf, np.inf)


@inner
def first_fitting(waiting: Waiting, rank: int, free: float, slack: float, spare: float) -> int:
    """Return the first rank, from one on, whose job may start; -1: none.

    It may if it asks for no more than `spare`, or for no more than `free` and for no longer than
    `slack`; all three are finite.
    """
    row, rows = rank + waiting.leaves, 2 * waiting.leaves
    if rank >= waiting.leaves:
        return -1
    while True:
        if _may_fit(waiting, row, free, slack, spare):
            if row >= waiting.leaves:
                return row - waiting.leaves
            row *= 2
            continue
        while row & 1:  # the last child: all below its parent has been seen
            row >>= 1
            if row == 0:
                return -1
        row += 1
        if row >= rows or row & (row - 1) == 0:  # behind the end of its level
            return -1


@inner
def _may_fit(waiting: Waiting, row: int, free: float, slack: float, spare: float) -> bool:
    least = waiting.least[row]
    return least.demand <= spare or (least.demand <= free and least.estimate <= slack)  # type: ignore[no-any-return]


@inner
def first_waiting(waiting: Waiting, rank: int) -> int:
    """Return the first rank, from one on, whose job waits; -1: none."""
    return first_fitting(waiting, rank, 0.0, 0.0, _ANY)
