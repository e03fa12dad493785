"""Machine fitness by vector packing: how well a task's request suits what is free.

R. Panigrahy, K. Talwar, L. Uyeda and U. Wieder, "Heuristics for vector bin packing" (Microsoft
Research, 2011). They fill one bin at a time with the item that suits it best; here tasks come in
their order and the same measure chooses the machine. Amounts are shares of the machine's own
capacity (of a resource of which it has none: 0), and every resource has the same weight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simkit.fitness import MachineFitness
from simkit.task import Task

Floats = npt.NDArray[np.float64]


class DotProduct(MachineFitness):
    """The largest product of request and free amounts, summed over resources."""

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        """See `MachineFitness.scores`."""
        left, asked = shares(free, capacity), shares(task.request, capacity)
        product: Floats = (left * asked).sum(axis=1)
        return product


class Cosine(DotProduct):
    """The smallest angle between request and free amounts: their shapes match, whatever the size.

    The dot product, divided by both lengths; 0 for a task that asks for nothing.
    """

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        """See `MachineFitness.scores`."""
        left, asked = shares(free, capacity), shares(task.request, capacity)
        lengths = np.sqrt((left**2).sum(axis=1) * (asked**2).sum(axis=1))
        product = (left * asked).sum(axis=1)
        cosine: Floats = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
        return cosine


class L2Norm(MachineFitness):
    """The smallest distance between request and free amounts: what fits most closely."""

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        """See `MachineFitness.scores`."""
        distance = shares(free, capacity) - shares(task.request, capacity)
        nearness: Floats = -(distance**2).sum(axis=1)
        return nearness


def shares(amounts: npt.ArrayLike, capacity: Floats) -> Floats:
    """Return amounts, (n, R) or (R,), as shares of (n, R) capacities; 0 where there is none."""
    amounts = np.broadcast_to(np.asarray(amounts, dtype=np.float64), capacity.shape)
    none = np.zeros(capacity.shape)
    share: Floats = np.divide(amounts, capacity, out=none, where=capacity > 0)
    return share
