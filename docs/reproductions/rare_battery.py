"""The battery of the RARE dissertation, its algorithm 5: as printed, and corrected.

V. Venkataswamy, "Scheduling to Ensure Performance and Cost Effectiveness in Power-Modulated
Datacenters", dissertation, University of Virginia, 2023, algorithm 5 ("Battery model: calculate
total power available for datacenter use"). It goes step by step; a level is power times step, and
powers are compared with levels, so that one step must be the unit of time. As printed it is not a
model of a battery:

1. ``c_rate`` is read and never used: any excess is charged at once.
2. The test ``battery_power < needed_power`` stands the wrong way round. Where the battery can give
   too little, the full load is reported as supplied; where it can give enough, only
   ``renew_power + battery_power``, which is then more than the load.
3. In both cases ``needed_power`` is taken off the level, also where it was not in there: the level
   falls below 0 without end, and power comes out of nothing.
4. ``renew_available`` is never defined; it is read as ``renew_power``.

`as_printed` does just this, to reproduce figures that were made with it. In `corrected` the
battery gives what it has and takes what it can, both within its rates; it is the linear model of
`simkit.power.battery` with efficiencies of 1, held for a step at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simkit.errors import ScenarioError


@dataclass(frozen=True)
class RareBattery:
    """The algorithm's parameters, all in one unit of power (a level: power times one step)."""

    battery_capacity: float
    """Highest level."""
    max_load: float
    """Load of the datacenter."""
    c_rate: float
    """Most power that charges; the dissertation's figure 4.2 has 100."""
    e_rate: float
    """Most power that discharges, likewise."""
    initial_level: float = 0.0

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong."""
        problems = [
            f"battery: {name} is {value:g}; it must be at least 0 and finite"
            for name, value in vars(self).items()
            if not 0 <= value < math.inf
        ]
        if self.initial_level > self.battery_capacity:
            problems.append(
                f"battery: initial_level {self.initial_level:g} is above battery_capacity "
                f"{self.battery_capacity:g}; start with no more than it holds"
            )
        if problems:
            raise ScenarioError(problems)


@dataclass(frozen=True)
class RareSupply:
    """What comes out, step by step."""

    available: list[float]
    """Power for the datacenter."""
    level: list[float]
    """Level at the end of the step; as printed it may be negative."""


def as_printed(battery: RareBattery, renewable: Sequence[float]) -> RareSupply:
    """Return algorithm 5 line by line, with its errors; see the module.

    Args:
        battery: its parameters.
        renewable: power from renewables, one number a step.
    """
    available, levels, level = [], [], battery.initial_level
    for power in renewable:
        if power >= battery.max_load:
            given = battery.max_load
            level = min(level + power - battery.max_load, battery.battery_capacity)
        else:
            needed = battery.max_load - power
            battery_power = min(battery.e_rate, level)
            level -= needed
            given = battery.max_load if battery_power < needed else power + battery_power
        available.append(given)
        levels.append(level)
    return RareSupply(available, levels)


def corrected(battery: RareBattery, renewable: Sequence[float]) -> RareSupply:
    """Return the supply with a battery that gives what it has and takes what it can.

    Args:
        battery: its parameters.
        renewable: power from renewables, one number a step.
    """
    available, levels, level = [], [], battery.initial_level
    for power in renewable:
        needed = battery.max_load - power
        if needed <= 0:
            given = battery.max_load
            level += min(-needed, battery.c_rate, battery.battery_capacity - level)
        else:
            battery_power = min(battery.e_rate, level, needed)
            level -= battery_power
            given = power + battery_power
        available.append(given)
        levels.append(level)
    return RareSupply(available, levels)
