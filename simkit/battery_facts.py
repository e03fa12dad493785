"""What does not change about a battery: its size, its limits and its losses, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from simkit.errors import ScenarioError

HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0


@dataclass(frozen=True)
class BatteryFacts:
    """A battery as a store of energy with constant efficiencies.

    Two models in one. With both slopes 0 it is the *linear* model: power is limited by the C-rates
    until the battery is full or empty. With slopes above 0 it is the *C/L/C* model of F.
    Kazhamiaka, C. Rosenberg and S. Keshav, "Tractable lithium-ion storage models for optimizing
    energy systems", Energy Informatics 2(4), 2019 (doi 10.1186/s42162-019-0070-6): constant bounds
    on the power, bounds on the content that depend linearly on the power, constant efficiencies.
    The faster it is discharged, the earlier it counts as empty; the faster it is charged, the
    earlier as full:

        floor + discharge_slope_h · discharge rate ≤ soc ≤ ceiling − charge_slope_h · charge rate

    with rates in 1/h (power at the terminals over capacity). Solved for the rates, these are limits
    of power that fall linearly to 0 as the content nears floor or ceiling. In the paper's letters,
    for a content b and a current P / V in C-rates: u1 is `discharge_slope_h`, v1 `floor`, -u2
    `charge_slope_h` and v2 `ceiling`, all as shares of the capacity, and its η_d above 1 is
    1 / `discharge_efficiency`.
    """

    capacity_j: float
    """Energy between state of charge 0 and 1, in J; 1 kWh is 3.6e6 J."""
    charge_c_rate: float = 1.0
    """Largest charging power at the terminals over the capacity, 1/h."""
    discharge_c_rate: float = 1.0
    """Largest discharging power at the terminals over the capacity, 1/h."""
    charge_efficiency: float = 1.0
    """Share of the charging power that is stored."""
    discharge_efficiency: float = 1.0
    """Share of the power taken from the store that reaches the terminals."""
    floor: float = 0.0
    """State of charge below which it is not discharged."""
    ceiling: float = 1.0
    """State of charge above which it is not charged."""
    initial_soc: float = 0.5
    """State of charge at the start, at most the ceiling. It may lie below the floor, as after long
    rest: the battery gives nothing until it has been charged above it."""
    self_discharge_per_day: float = 0.0
    """Share of the content that is lost in a day at rest; it goes on below the floor."""
    charge_slope_h: float = 0.0
    """C/L/C: how much the ceiling sinks per 1/h of charging, in h."""
    discharge_slope_h: float = 0.0
    """C/L/C: how much the floor rises per 1/h of discharging, in h."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong."""
        problems = [*self._range_problems(), *self._window_problems()]
        if problems:
            raise ScenarioError(f"battery: {problem}" for problem in problems)

    def _range_problems(self) -> list[str]:
        rules: tuple[tuple[str, Callable[[float], bool], str], ...] = (
            ("capacity_j", lambda v: 0 < v < math.inf, "above 0 and finite, in J"),
            ("charge_c_rate", lambda v: 0 <= v < math.inf, "at least 0 and finite, in 1/h"),
            ("discharge_c_rate", lambda v: 0 <= v < math.inf, "at least 0 and finite, in 1/h"),
            ("charge_efficiency", lambda v: 0 < v <= 1, "above 0 and at most 1"),
            ("discharge_efficiency", lambda v: 0 < v <= 1, "above 0 and at most 1"),
            ("floor", lambda v: 0 <= v <= 1, "in 0..1"),
            ("ceiling", lambda v: 0 <= v <= 1, "in 0..1"),
            ("initial_soc", lambda v: 0 <= v <= 1, "in 0..1"),
            ("self_discharge_per_day", lambda v: 0 <= v < 1, "at least 0 and below 1"),
            ("charge_slope_h", lambda v: 0 <= v < math.inf, "at least 0 and finite, in h"),
            ("discharge_slope_h", lambda v: 0 <= v < math.inf, "at least 0 and finite, in h"),
        )
        return [
            f"{name} is {getattr(self, name):g}; it must be {rule}"
            for name, holds, rule in rules
            if not holds(getattr(self, name))
        ]

    def _window_problems(self) -> list[str]:
        if self.floor >= self.ceiling:
            return [
                f"floor {self.floor:g} is not below ceiling {self.ceiling:g}; "
                "leave a window of states of charge between them"
            ]
        if self.initial_soc > self.ceiling:
            return [
                f"initial_soc {self.initial_soc:g} is above ceiling {self.ceiling:g}; "
                "start within the window"
            ]
        return []

    @property
    def floor_j(self) -> float:
        """Content at the floor, in J."""
        return self.floor * self.capacity_j

    @property
    def ceiling_j(self) -> float:
        """Content at the ceiling, in J."""
        return self.ceiling * self.capacity_j

    @property
    def most_charge_w(self) -> float:
        """Charging power by C-rate alone, in W."""
        return self.charge_c_rate * self.capacity_j / HOUR_S

    @property
    def most_discharge_w(self) -> float:
        """Discharging power by C-rate alone, in W, as a positive number."""
        return self.discharge_c_rate * self.capacity_j / HOUR_S

    @property
    def self_discharge_per_s(self) -> float:
        """The rate λ in 1/s by which the content falls: content · exp(−λ t)."""
        return -math.log1p(-self.self_discharge_per_day) / DAY_S

    @property
    def tapers(self) -> bool:
        """Whether the limits of power depend on the content (C/L/C)."""
        return self.charge_slope_h > 0 or self.discharge_slope_h > 0

    def bound_j(self, power_w: float) -> float:
        """Return the content in J at which this power has to end.

        Power above 0 charges and ends at the (sunken) ceiling, below 0 at the (raised) floor.
        """
        if power_w > 0:
            return self.ceiling_j - self.charge_slope_h * HOUR_S * power_w
        return self.floor_j - self.discharge_slope_h * HOUR_S * power_w

    def config(self) -> dict[str, float]:
        """Return the facts by name, for the run's metadata."""
        return {name: float(getattr(self, name)) for name in self.__dataclass_fields__}
