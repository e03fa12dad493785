"""A grid connection: how much may be imported and exported, at what price, how clean.

What varies is a signal: an object with `value(time_s)` and `next_change(time_s)`, such as those of
`simkit.power.signal`; a number stands for a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from simkit.errors import ScenarioError

KWH_J: Final = 3.6e6
"""Joules in a kWh."""


class Varying(Protocol):
    """A piecewise constant function of time."""

    def value(self, time_s: float, /) -> float:
        """Return the value that holds at a time in s."""

    def next_change(self, time_s: float, /) -> float:
        """Return the first time in s after this one at which it may change; inf if never."""


Amount = float | Varying
"""A number, or a signal of numbers."""


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
    """A connection; without limits it is as large as needed, `Grid(0, 0)` is no connection."""

    import_limit_w: Amount = math.inf
    """W, at least 0; a signal may take the connection away for a while."""
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
        problems = []
        for name, amount in vars(self).items():
            if not isinstance(amount, (int, float)):
                continue
            if name.endswith("limit_w") and not amount >= 0:
                problems.append(f"grid: {name} is {amount:g}; it must be at least 0, in W")
            elif not name.endswith("limit_w") and not math.isfinite(amount):
                problems.append(f"grid: {name} is {amount:g}; it must be a finite number")
        if isinstance(self.carbon_gco2_per_kwh, (int, float)) and self.carbon_gco2_per_kwh < 0:
            problems.append(
                f"grid: carbon_gco2_per_kwh is {self.carbon_gco2_per_kwh:g}; "
                "it must be at least 0, in g/kWh"
            )
        if problems:
            raise ScenarioError(problems)

    def offer(self, time_s: float) -> GridOffer:
        """Return what the grid offers at a time in s.

        Raises ScenarioError where a signal of a limit or of carbon is below 0.
        """
        offer = GridOffer(*(_at(amount, time_s) for amount in vars(self).values()))
        for name in ("import_limit_w", "export_limit_w", "carbon_gco2_per_kwh"):
            if not getattr(offer, name) >= 0:
                raise ScenarioError(
                    f"grid: {name} is {getattr(offer, name):g} at {time_s:.9g} s; it must be at "
                    "least 0; mend its signal"
                )
        return offer

    def next_change(self, time_s: float) -> float:
        """Return the first time in s after this one at which the offer may change."""
        return min(
            (
                amount.next_change(time_s)
                for amount in vars(self).values()
                if not isinstance(amount, (int, float))
            ),
            default=math.inf,
        )


def _at(amount: Amount, time_s: float) -> float:
    return float(amount) if isinstance(amount, (int, float)) else amount.value(time_s)
