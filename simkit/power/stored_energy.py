"""The energy stored in a battery: its carbon, its cost, and how much of it came from the grid.

The store is well mixed: each joule in it carries the same. Charging adds the carbon and cost of the
energy at the terminals, so a joule inside carries 1 / charge efficiency of it. Discharging removes
a proportional part, so a joule delivered carries another 1 / discharge efficiency. Energy from a
battery charged at 500 g/kWh counts 500 / (η_c · η_d) g/kWh, whatever the grid's intensity then is.
Self-discharge loses energy and no carbon: the remaining energy carries it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints


class Footprint(NamedTuple):
    """What all the energy in a store carries."""

    carbon_g: float = 0.0
    cost: float = 0.0
    grid_share: float = 0.0
    """Share of the energy, 0..1, that came from the grid, not from renewables."""


class BatteryRows(NamedTuple):
    """N rows of time in which a battery is charged, discharged or rests."""

    span_s: Floats
    """(N,) length in s, above 0."""
    stored_j: Floats
    """(N,) content in J at the end of each."""
    charges: Bools
    """(N,) whether it is charged."""
    discharges: Bools
    """(N,) whether it is discharged; never both."""
    carbon_g: Floats
    """(N,) carbon of the energy charged, at the terminals; ignored where it is not charged."""
    cost: Floats
    """(N,) cost of the energy charged; ignored where it is not charged."""
    grid_share: Floats
    """(N,) share of it that comes from the grid."""


class Footprints(NamedTuple):
    """(N,) columns: what the store carries at the end of each row, and what left it in the row."""

    carbon_g: Floats
    cost: Floats
    grid_share: Floats
    gone_carbon_g: Floats
    gone_cost: Floats


class StoredEnergy:
    """The energy in a battery and what it carries; follows the battery's rows."""

    __slots__ = ("_leak", "carried", "energy_j")

    def __init__(
        self, energy_j: float, leak_per_s: float = 0.0, carried: Footprint | None = None
    ) -> None:
        """Begin with a battery's content in J and its `self_discharge_per_s`.

        `carried` is what this content carries; None: nothing.
        """
        self.energy_j = energy_j
        self.carried = carried or Footprint()
        self._leak = leak_per_s

    def follow(self, rows: BatteryRows) -> Footprints:
        """Move on through rows of time.

        With constant power the content e falls by discharge and by the leak λ. What it carries
        falls by discharge alone, at the rate (power out of the store) / e, whose integral is
        −ln(e₁/e₀) − λ t; so the share e₁/e₀ · exp(λ t) of it stays. After charging, the share
        e₀ · exp(−λ t) / e₁ of the content was there before.
        """
        before = np.concatenate(([self.energy_j], rows.stored_j[:-1]))
        moving = np.flatnonzero(rows.charges | rows.discharges)
        states: list[float] = [*self.carried]
        carbon, cost, share = self.carried
        for stays, more_carbon, more_cost, old, more_share in self._steps(rows, before, moving):
            carbon = carbon * stays + more_carbon
            cost = cost * stays + more_cost
            share = share * old + more_share
            states += (carbon, cost, share)
        self.carried = Footprint(carbon, cost, share)
        if len(rows.stored_j):
            self.energy_j = float(rows.stored_j[-1])
        return _spread(np.array(states).reshape(-1, 3), moving, rows.discharges)

    def _steps(
        self, rows: BatteryRows, before: Floats, moving: Ints
    ) -> Iterator[tuple[float, ...]]:
        """Yield for each moving row: the shares that stay, and what is added."""
        span, after, before = rows.span_s[moving], rows.stored_j[moving], before[moving]
        charges = rows.charges[moving]
        rest = before * np.exp(-self._leak * span) if self._leak else before
        old = _ratio(rest, after)
        columns = (
            np.where(charges, 1.0, _ratio(after, rest)),
            np.where(charges, rows.carbon_g[moving], 0.0),
            np.where(charges, rows.cost[moving], 0.0),
            np.where(charges, old, 1.0),
            np.where(charges, (1.0 - old) * rows.grid_share[moving], 0.0),
        )
        return zip(*(column.tolist() for column in columns), strict=True)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole within 0..1; 0 where the whole is 0."""
    ratio = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.clip(ratio, 0.0, 1.0)


def _spread(states: Floats, moving: Ints, discharges: Bools) -> Footprints:
    """Spread states, the first and one after each moving row, over all rows."""
    number = np.zeros(len(discharges) + 1, dtype=np.int64)
    number[moving + 1] = 1
    rows = states[np.cumsum(number)]  # (N + 1, 3): before the first row, then after each
    gone = np.where(discharges[:, None], rows[:-1] - rows[1:], 0.0)
    carbon, cost, share = rows[1:].T
    return Footprints(carbon, cost, share, gone[:, 0], gone[:, 1])
