"""A Lagrange multiplier that keeps a cost below its limit, as a controller of three terms.

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
    """How the multiplier answers a cost above its limit."""

    proportional: float = 1.0
    """By how far the cost is above it now."""
    integral: float = 0.01
    """By how far it was above it in the past, added up."""
    derivative: float = 0.0
    """By how fast it rises."""
    smooth_proportional: float = 0.95
    """Share of the earlier costs in a moving mean, for the first term."""
    smooth_derivative: float = 0.9
    """The same for the third term."""
    delay: int = 10
    """Costs are compared with those so many updates ago, for the third term."""
    twice: bool = False
    """Apply the first and third gain twice, as algorithm 7 of the dissertation "RARE" (University
    of Virginia, 2023) does by mistake."""


class Multiplier:
    """λ, at least 0: what a unit of cost is charged at."""

    def __init__(self, limit: float, gains: Gains) -> None:
        """Begin at 0; `limit` is in the unit of the costs."""
        self.limit, self._gains = limit, gains
        self.value = 0.0
        self._sum = 0.0
        self._mean: float | None = None  # of how far costs were above the limit
        self._costs: deque[float] = deque(maxlen=max(gains.delay, 1))  # moving means

    def update(self, cost: float) -> float:
        """Take in the mean cost under the present policy; return λ."""
        gains, excess = self._gains, cost - self.limit
        before = excess if self._mean is None else self._mean
        self._mean = gains.smooth_proportional * before
        self._mean += (1 - gains.smooth_proportional) * excess
        last = self._costs[-1] if self._costs else cost
        mean = gains.smooth_derivative * last + (1 - gains.smooth_derivative) * cost
        rise = max(mean - self._costs[0], 0.0) if self._costs else 0.0
        self._costs.append(mean)
        self._sum = max(self._sum + gains.integral * excess, 0.0)
        power = 2 if gains.twice else 1
        told = gains.proportional**power * self._mean + gains.derivative**power * rise
        self.value = max(told + self._sum, 0.0)
        return self.value

    def of_both(self, gain: Any, cost: Any) -> Any:
        """Return (gain - λ · cost) / (1 + λ): the sum of both, of the size of one.

        Section 4.3 there: so that a large λ does not make large steps.
        """
        return (gain - self.value * cost) / (1.0 + self.value)

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as plain values; see `restore`."""
        return {
            "value": self.value, "sum": self._sum, "mean": self._mean, "costs": list(self._costs)
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self.value, self._sum = float(state["value"]), float(state["sum"])
        self._mean = None if state["mean"] is None else float(state["mean"])
        self._costs = deque(map(float, state["costs"]), maxlen=self._costs.maxlen)
