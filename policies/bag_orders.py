"""Orderings for bags of instances: by what is left of a task, and by how much one instance asks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simkit.policy import State, SystemInfo
from simkit.task import Task

Floats = npt.NDArray[np.float64]


class FewestRemaining:
    """The task with the fewest instances left to place first; ties go by submission."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""

    def keys(self, state: State) -> Floats:
        """See `ChangingOrder.keys`."""
        return state.queue.columns().remaining.copy()


class LargestRequest:
    """The task of which an instance has the largest dominant share first; ties go by submission.

    The dominant share is the largest, over resources, of an instance's request divided by the
    capacity of the largest machine: large pieces are packed while there are large gaps.
    """

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: note the largest machine's capacity, resource by resource."""
        self._largest: list[float] = info.capacity.max(axis=0).tolist()

    def key(self, task: Task) -> float:
        """See `Order.key`."""
        asked = zip(task.request, self._largest, strict=True)
        return -max((amount / size for amount, size in asked if amount > 0 and size > 0), default=0)
