"""A moving mean; a part of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MovingMean"]


class MovingMean:
    """A mean that weighs the latest numbers most."""

    def __init__(self, share: float = 0.1, first: float | None = None) -> None:
        """Begin with what the numbers are thought to be, or with 0 until the first one.

        Args:
            share: weight of a new number; of the n-th number at first, 1 / n.
            first: weighs as much as 1 / share numbers; None: there is none.
        """
        self._share = share
        self.value = 0.0 if first is None else float(first)
        self._count = 0 if first is None else round(1.0 / share)

    def take(self, number: float) -> None:
        """Take in a number."""
        self._count += 1
        share = max(self._share, 1.0 / self._count)
        self.value += share * (float(number) - self.value)

    def state(self) -> dict[str, Any]:
        """Return all that it knows."""
        return {"value": self.value, "count": self._count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self.value, self._count = float(state["value"]), int(state["count"])
