"""The nearest examples of a question: those of the same program first, then those of its size."""

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
    """Examples by the logarithms of their features.

    The distance of two is the sum of the differences of their logarithms to the base 2. That of the
    feature by which run times grow counts once, all others 32 times: an executable's code, which
    says what program it is, must agree before the size of its arrays matters.
    """

    by: int
    """The feature by which run times grow, such as the size of a program's arrays."""
    logs: Floats
    """(n, F) log2(1 + x) of the features."""

    @classmethod
    def of(cls, examples: Examples, by: str = "bss") -> Self:
        """Return the examples of which features are known."""
        return cls(examples.names.index(by), np.log2(1.0 + examples.features))

    def __len__(self) -> int:
        return len(self.logs)

    def find(self, logs: Floats, count: int) -> tuple[Floats, Ints]:
        """Return (m, count) distances of the nearest examples, ascending, and their numbers.

        Args:
            logs: (m, F) of what is asked about.
            count: at most n.
        """
        from scipy.spatial import KDTree

        tree = KDTree(self._weighted(self.logs), balanced_tree=False)
        distance, near = tree.query(self._weighted(logs), k=np.arange(1, count + 1), p=1)
        return distance, near

    def others(self, count: int) -> tuple[Floats, Ints]:
        """Return the same of each example, which itself does not count; `count` is below n."""
        distance, near = self.find(self.logs, count + 1)
        itself = near == np.arange(len(self))[:, None]
        itself[~itself.any(axis=1), -1] = True  # more than `count` examples are its equals
        shape = (len(self), count)
        return distance[~itself].reshape(shape), near[~itself].reshape(shape)

    def _weighted(self, logs: Floats) -> Floats:
        weighted = logs * _OTHERS
        weighted[:, self.by] = logs[:, self.by]
        return weighted
