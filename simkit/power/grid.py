"""A grid connection: its limits, its prices and its carbon intensity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from simkit.errors import ScenarioError
from simkit.power.ranges import FINITE, NOT_NEGATIVE, Range, range_problems
from simkit.power.signal import Signal

Amount = float | Signal
"""A number that never changes, or a signal."""


class GridOffer(NamedTuple):
    """What the grid offers at an instant."""

    import_limit_w: float = 0.0
    """Most power from the grid, at least 0."""
    export_limit_w: float = 0.0
    """Most power to the grid, at least 0."""
    price_per_kwh: float = 0.0
    """What a kWh from the grid costs; may be negative."""
    export_price_per_kwh: float = 0.0
    """What a kWh to the grid brings; may be negative."""
    carbon_gco2_per_kwh: float = 0.0
    """Carbon of a kWh from the grid, in g of CO₂ equivalent."""


@dataclass(frozen=True)
class Grid:
    """A grid connection, by default without limits; `Grid(0, 0)` means no connection."""

    import_limit_w: Amount = math.inf
    """W, at least 0; a signal may cut the connection for a while."""
    export_limit_w: Amount = 0.0
    """W, at least 0."""
    price_per_kwh: Amount = 0.0
    """Of imported energy, in any currency, the same everywhere."""
    export_price_per_kwh: Amount = 0.0
    """Of exported energy."""
    carbon_gco2_per_kwh: Amount = 0.0
    """Of imported energy."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong about the numbers."""
        limit = Range("at least 0", lambda v: v >= 0)
        ranges = {
            "import_limit_w": limit,
            "export_limit_w": limit,
            "price_per_kwh": FINITE,
            "export_price_per_kwh": FINITE,
            "carbon_gco2_per_kwh": NOT_NEGATIVE,
        }
        numbers = {n: r for n, r in ranges.items() if not isinstance(getattr(self, n), Signal)}
        if problems := range_problems(self, **numbers):
            raise ScenarioError(f"grid: {problem}" for problem in problems)

    def offer(self, time_s: float) -> GridOffer:
        """Return what the grid offers at a time in s.

        Raises ScenarioError if the signal of a limit or of carbon is below 0.
        """
        offer = GridOffer(*(_at(amount, time_s) for amount in vars(self).values()))
        for name in ("import_limit_w", "export_limit_w", "carbon_gco2_per_kwh"):
            if not getattr(offer, name) >= 0:
                raise ScenarioError(
                    f"grid: {name} is {getattr(offer, name):g} at {time_s:.9g} s; it must be at "
                    "least 0; fix its signal"
                )
        return offer

    def next_change(self, time_s: float) -> float:
        """Return the first time in s after this one at which the offer may change."""
        signals = [amount for amount in vars(self).values() if isinstance(amount, Signal)]
        return min((signal.next_change(time_s) for signal in signals), default=math.inf)


def _at(amount: Amount, time_s: float) -> float:
    return amount.value(time_s) if isinstance(amount, Signal) else float(amount)
