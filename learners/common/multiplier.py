"""A Lagrange multiplier that keeps a cost below its limit, moved by a PID controller.

A. Stooke, J. Achiam and P. Abbeel, "Responsive safety in reinforcement learning by PID Lagrangian
methods" (2020).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Gains", "Multiplier"]


@dataclass(frozen=True)
class Gains:
    """How the multiplier reacts to a cost above its limit."""

    proportional: float = 1.0
    """Gain of the excess of the cost over its limit."""
    integral: float = 0.01
    """Gain of the sum of past excesses."""
    derivative: float = 0.0
    """Gain of the cost's rise."""
    smooth_proportional: float = 0.95
    """Weight of the past in the moving mean of the excess, for the proportional term."""
    smooth_derivative: float = 0.9
    """Weight of the past in the moving mean of the cost, for the derivative term."""
    delay: int = 10
    """Number of updates over which the rise is measured."""


class Multiplier:
    """λ, at least 0: the price of a unit of cost."""

    def __init__(self, limit: float, gains: Gains) -> None:
        """Begin at 0; `limit` is in the unit of the costs."""
        self.limit, self._gains = limit, gains
        self.value = 0.0
        self._sum = 0.0
        self._mean: float | None = None  # moving mean of the excess over the limit
        self._costs: deque[float] = deque(maxlen=max(gains.delay, 1))  # moving means

    def update(self, cost: float) -> float:
        """Update λ by the mean cost under the current policy; return λ."""
        gains, excess = self._gains, cost - self.limit
        before = excess if self._mean is None else self._mean
        self._mean = gains.smooth_proportional * before
        self._mean += (1 - gains.smooth_proportional) * excess
        last = self._costs[-1] if self._costs else cost
        mean = gains.smooth_derivative * last + (1 - gains.smooth_derivative) * cost
        rise = max(mean - self._costs[0], 0.0) if self._costs else 0.0
        self._costs.append(mean)
        self._sum = max(self._sum + gains.integral * excess, 0.0)
        reaction = gains.proportional * self._mean + gains.derivative * rise
        self.value = max(reaction + self._sum, 0.0)
        return self.value

    def combine(self, gain: Any, cost: Any) -> Any:
        """Return (gain - λ · cost) / (1 + λ), the objective at the scale of its terms.

        The division keeps a large λ from making large steps (section 4.3 of the paper).
        """
        return (gain - self.value * cost) / (1.0 + self.value)

    def state(self) -> dict[str, Any]:
        """Return the whole state, as plain values."""
        return {
            "value": self.value, "sum": self._sum, "mean": self._mean, "costs": list(self._costs)
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.value, self._sum = float(state["value"]), float(state["sum"])
        self._mean = None if state["mean"] is None else float(state["mean"])
        self._costs = deque(map(float, state["costs"]), maxlen=self._costs.maxlen)
