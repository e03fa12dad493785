"""A moving mean; a part of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MovingMean"]


class MovingMean:
    """A mean that gives the latest numbers the most weight."""

    def __init__(self, share: float = 0.1, first: float | None = None) -> None:
        """Start at a prior estimate, or at 0 until the first number arrives.

        Args:
            share: weight of a new number; the n-th number weighs 1 / n if that is more.
            first: prior estimate, worth 1 / share numbers; None: none.
        """
        self._share = share
        self.value = 0.0 if first is None else float(first)
        self._count = 0 if first is None else round(1.0 / share)

    def take(self, number: float) -> None:
        """Add a number."""
        self._count += 1
        share = max(self._share, 1.0 / self._count)
        self.value += share * (float(number) - self.value)

    def state(self) -> dict[str, Any]:
        """Return the mean and the count of numbers."""
        return {"value": self.value, "count": self._count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.value, self._count = float(state["value"]), int(state["count"])
