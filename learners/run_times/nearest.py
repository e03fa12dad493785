"""Nearest neighbours of a query: first those of the same program, then those of its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.run_times.examples import Examples

__all__ = ["Nearest"]

_OTHERS = 32.0  # weight of the other features in a distance


@dataclass(frozen=True)
class Nearest:
    """Examples that can be searched for the neighbours of a query.

    The distance between two examples is the sum of the differences of log2(1 + x) over their
    features x. The feature by which run times grow has a weight of 1, all others 32: an
    executable's code, which identifies the program, must agree before the size of its arrays
    matters.
    """

    by: int
    """The feature by which run times grow, such as the size of a program's arrays."""
    logs: Floats
    """(n, F) log2(1 + x) of each feature x."""

    @classmethod
    def of(cls, examples: Examples, by: str = "bss") -> Self:
        """Return the examples for searching, with the feature by which run times grow."""
        return cls(examples.names.index(by), np.log2(1.0 + examples.features))

    def __len__(self) -> int:
        return len(self.logs)

    def find(self, logs: Floats, count: int) -> tuple[Floats, Ints]:
        """Return (m, count) distances of the nearest examples, ascending, and their row numbers.

        Args:
            logs: (m, F) log2(1 + x) of the queries' features.
            count: number of neighbours, at most n.
        """
        from scipy.spatial import KDTree

        tree = KDTree(self._weighted(self.logs), balanced_tree=False)
        distance, near = tree.query(self._weighted(logs), k=np.arange(1, count + 1), p=1)
        return distance, near

    def others(self, count: int) -> tuple[Floats, Ints]:
        """Return the same for each example among the others; `count` is below n."""
        distance, near = self.find(self.logs, count + 1)
        itself = near == np.arange(len(self))[:, None]
        itself[~itself.any(axis=1), -1] = True  # more than `count` examples are its equals
        shape = (len(self), count)
        return distance[~itself].reshape(shape), near[~itself].reshape(shape)

    def _weighted(self, logs: Floats) -> Floats:
        weighted = logs * _OTHERS
        weighted[:, self.by] = logs[:, self.by]
        return weighted
