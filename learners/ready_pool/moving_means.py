"""What value and cost an hour brings, as a learner of a ready pool has seen it so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Means"]


class Means:
    """Moving means of value and cost per hour; a part of a checkpoint."""

    def __init__(self, share: float = 0.1) -> None:
        self._share = share
        self.value: float = 0.0
        self.cost: float = 0.0
        self._count = 0

    def take(self, value: float, cost: float) -> None:
        """Take in the means of an iteration; at first all count alike."""
        self._count += 1
        share = max(self._share, 1.0 / self._count)
        self.value += share * (float(value) - self.value)
        self.cost += share * (float(cost) - self.cost)

    def state(self) -> dict[str, Any]:
        """Return all that it knows."""
        return {"value": self.value, "cost": self.cost, "count": self._count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self.value, self.cost = float(state["value"]), float(state["cost"])
        self._count = int(state["count"])
