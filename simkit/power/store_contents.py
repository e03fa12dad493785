"""What the energy in a battery has cost: its carbon, its price, and how much of it is the grid's.

The store is well mixed: all energy in it carries the same. What is charged brings along all it has
cost at the terminals, so that a J inside carries 1 / charge efficiency of it; what leaves takes
its part, so that a J delivered carries another 1 / discharge efficiency. A battery charged at
500 g/kWh bills those it serves 500 / (η_c · η_d) g/kWh, at whatever intensity the grid then has.
Self-discharge loses energy and no carbon: the rest carries it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints


class Carried(NamedTuple):
    """What the energy in a store carries."""

    carbon_g: float = 0.0
    cost: float = 0.0
    grid_share: float = 0.0
    """Share of the energy, 0..1, that came from the grid; the rest from renewables."""


class Movement(NamedTuple):
    """N rows of time, in which a battery is charged, discharged or rests."""

    span_s: Floats
    """(N,) length in s, above 0."""
    stored_j: Floats
    """(N,) content in J at the end of each."""
    charges: Bools
    """(N,) whether it is charged."""
    discharges: Bools
    """(N,) whether it is discharged; never both."""
    carbon_g: Floats
    """(N,) what the energy charged has cost at the terminals; where it is not charged, anything."""
    cost: Floats
    """(N,) likewise."""
    grid_share: Floats
    """(N,) share of the grid in what is charged."""


class Course(NamedTuple):
    """What the store carries at the end of each of N rows, and what left it meanwhile."""

    carbon_g: Floats
    cost: Floats
    grid_share: Floats
    gone_carbon_g: Floats
    gone_cost: Floats


class StoreContents:
    """The energy in a battery and what it carries; moves along with `Battery.run`."""

    __slots__ = ("_leak", "carried", "energy_j")

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
        self.carried = carried or Carried()
        self._leak = leak_per_s

    def follow(self, movement: Movement) -> Course:
        """Move on through rows of time.

        With constant power the content e falls by discharge and by the leak λ. What is carried
        falls by discharge alone, at the rate (power out of the store) / e, whose integral is
        −ln(e₁/e₀) − λ t; so the share e₁/e₀ · exp(λ t) of it stays. Of a content that is charged,
        e₀ · exp(−λ t) / e₁ is what was there before.
        """
        before = np.concatenate(([self.energy_j], movement.stored_j[:-1]))
        moving = np.flatnonzero(movement.charges | movement.discharges)
        states: list[float] = [*self.carried]
        carbon, cost, share = self.carried
        for stays, more_carbon, more_cost, old, more_share in self._steps(movement, before, moving):
            carbon = carbon * stays + more_carbon
            cost = cost * stays + more_cost
            share = share * old + more_share
            states += (carbon, cost, share)
        self.carried = Carried(carbon, cost, share)
        if len(movement.stored_j):
            self.energy_j = float(movement.stored_j[-1])
        return _course(np.array(states).reshape(-1, 3), moving, movement.discharges)

    def _steps(
        self, movement: Movement, before: Floats, moving: Ints
    ) -> Iterator[tuple[float, ...]]:
        """Yield for each movement: what stays of what is carried, and what comes in."""
        span, after, before = movement.span_s[moving], movement.stored_j[moving], before[moving]
        charges = movement.charges[moving]
        rest = before * np.exp(-self._leak * span) if self._leak else before
        old = _ratio(rest, after)
        columns = (
            np.where(charges, 1.0, _ratio(after, rest)),
            np.where(charges, movement.carbon_g[moving], 0.0),
            np.where(charges, movement.cost[moving], 0.0),
            np.where(charges, old, 1.0),
            np.where(charges, (1.0 - old) * movement.grid_share[moving], 0.0),
        )
        return zip(*(column.tolist() for column in columns), strict=True)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole within 0..1; 0 where there is no whole."""
    ratio = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.clip(ratio, 0.0, 1.0)


def _course(states: Floats, moving: Ints, discharges: Bools) -> Course:
    """Spread states, the first and one after each movement, over all rows."""
    number = np.zeros(len(discharges) + 1, dtype=np.int64)
    number[moving + 1] = 1
    rows = states[np.cumsum(number)]  # (N + 1, 3): before the first row, then after each
    gone = np.where(discharges[:, None], rows[:-1] - rows[1:], 0.0)
    carbon, cost, share = rows[1:].T
    return Course(carbon, cost, share, gone[:, 0], gone[:, 1])
