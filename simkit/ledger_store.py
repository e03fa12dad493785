"""What the energy in a battery has cost: its carbon, its price and how much of it was the grid's.

The store is well mixed: all energy in it carries the same. What is charged brings along all it has
cost at the terminals, so that a J inside carries 1 / charge efficiency of it; what leaves takes
its part, so that a J delivered carries another 1 / discharge efficiency. A battery charged at
500 g/kWh bills those it serves 500 / (η_c · η_d) g/kWh, at whatever intensity the grid then has.
Self-discharge loses energy and no carbon: the rest carries it.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Carried(NamedTuple):
    """What energy carries."""

    carbon_g: float = 0.0
    cost: float = 0.0
    grid_j: float = 0.0
    """Energy bought from the grid for it, in J."""


class StoreContents:
    """The energy in a battery and what it carries; moves along with `Battery.run`."""

    __slots__ = ("_leak", "carbon_g", "cost", "energy_j", "grid_j")

    def __init__(
        self, energy_j: float, leak_per_s: float = 0.0, carried: Carried | None = None
    ) -> None:
        """Begin with a content.

        Args:
            energy_j: in J, the battery's at the start.
            leak_per_s: its `self_discharge_per_s`.
            carried: what the first content carries; None: nothing.
        """
        self.energy_j = energy_j
        self.carbon_g, self.cost, self.grid_j = carried or Carried()
        self._leak = leak_per_s

    def charge(self, carried: Carried, energy_j: float) -> None:
        """Take in what flowed; `energy_j` is the battery's content in J afterwards."""
        self.carbon_g += carried.carbon_g
        self.cost += carried.cost
        self.grid_j += carried.grid_j
        self.energy_j = energy_j

    def discharge(self, energy_j: float, span_s: float) -> Carried:
        """Return what leaves with a discharge of `span_s` s to a content of `energy_j`.

        With constant power the content e falls by discharge and by the leak λ. What is carried
        falls by discharge alone, at the rate (power out of the store) / e, whose integral is
        −ln(e₁/e₀) − λ t; so the share e₁/e₀ · exp(λ t) of it stays.
        """
        stays = energy_j / self.energy_j if self.energy_j > 0 else 0.0
        if self._leak:
            stays *= math.exp(self._leak * span_s)
        stays = min(max(stays, 0.0), 1.0)
        carbon, cost, grid = self.carbon_g, self.cost, self.grid_j
        self.carbon_g, self.cost, self.grid_j = carbon * stays, cost * stays, grid * stays
        self.energy_j = energy_j
        return Carried(carbon - self.carbon_g, cost - self.cost, grid - self.grid_j)

    def rest(self, energy_j: float) -> None:
        """Take note of a content in J that only leaked."""
        self.energy_j = energy_j
