"""What is fixed of a site's parts before a run: its battery, its supply, the errors of forecasts.

Each class is a section of a scenario's `power` and, with the same names and units, an object in
Python: `BatteryFacts(capacity_kwh=10, floor=0.2)`. Nothing here runs: `simkit.power.battery` has
the battery's state, `simkit.engine.power_supply` lets the supply limit what runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from simkit.errors import ScenarioError
from simkit.power.signal import CARBON, PRICE, WATT
from simkit.sections import (
    AtLeastZero,
    BrokenRulesError,
    Facts,
    KeyProblem,
    Positive,
    PositiveDuration,
    Share,
    TimeSpent,
)
from simkit.units import DAY_S, HOUR_S, KWH_J

Efficiency = Annotated[float, Field(gt=0, le=1)]
"""Above 0 and at most 1."""

_RARE: Final = (
    "the dissertation's algorithm 5 creates energy (its level falls below 0), so no account of "
    "energy closes; corrected, it is linear with efficiencies of 1: write model: linear, or see "
    "rare_battery for its figures as printed"
)


class BatteryFacts(Facts):
    """A store of energy within its state of charge and C-rates.

    Two models in one, both with constant efficiencies. In the *linear* model power is limited by
    the C-rates until the battery is full or empty. *clc* is the C/L/C model of F. Kazhamiaka, C.
    Rosenberg and S. Keshav, "Tractable lithium-ion storage models for optimizing energy systems",
    Energy Informatics 2(4), 2019 (doi 10.1186/s42162-019-0070-6): constant bounds on the power,
    bounds on the content that depend linearly on the power. The faster it is discharged, the
    earlier it counts as empty; the faster it is charged, the earlier it counts as full:

        floor + discharge_slope_h · discharge rate ≤ soc ≤ ceiling − charge_slope_h · charge rate

    with rates in 1/h (power at the terminals over capacity). Solved for the rates, these are limits
    of power that fall linearly to 0 as the content nears floor or ceiling. In the paper's letters,
    for a content b and a current P / V in C-rates: u1 is `discharge_slope_h`, v1 `floor`, -u2
    `charge_slope_h` and v2 `ceiling`, all as shares of the capacity, and its η_d above 1 is
    1 / `discharge_efficiency`.
    """

    noun = "battery"

    capacity_kwh: Positive
    """Energy between state of charge 0 and 1."""
    charge_c_rate: AtLeastZero = 1.0
    """Largest charging power over the capacity, 1/h."""
    discharge_c_rate: AtLeastZero = 1.0
    """Largest discharging power over the capacity, 1/h."""
    charge_efficiency: Efficiency = 1.0
    """Share of the charging power that is stored."""
    discharge_efficiency: Efficiency = 1.0
    """Share of the power taken out that reaches the terminals."""
    floor: Share = 0.0
    """State of charge below which it is not discharged."""
    ceiling: Share = 1.0
    """State of charge above which it is not charged."""
    initial_soc: Share = 0.5
    """State of charge at the start, at most the ceiling; below the floor, it gives nothing until it
    has been charged. If not given, the value nearest to 0.5 between floor and ceiling."""
    self_discharge_per_day: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the content that is lost in a day at rest."""
    model: Literal["linear", "clc", "rare"] = "linear"
    """linear: C-rates limit power until full or empty; clc: limits fall towards full and empty."""
    charge_slope_h: AtLeastZero = 0.0
    """clc: by how much charging at 1/h lowers the ceiling, in h."""
    discharge_slope_h: AtLeastZero = 0.0
    """clc: by how much discharging at 1/h raises the floor, in h."""

    @model_validator(mode="before")
    @classmethod
    def _starts_within_the_window(cls, value: object) -> object:
        if not isinstance(value, dict) or "initial_soc" in value:
            return value
        floor, ceiling = value.get("floor", 0.0), value.get("ceiling", 1.0)
        if not (_is_share(floor) and _is_share(ceiling)):
            return value  # their own rules report what is wrong
        return {**value, "initial_soc": min(max(0.5, floor), ceiling)}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems: list[KeyProblem] = []
        if self.floor >= self.ceiling:
            text = f"must be below the ceiling, {self.ceiling:g}, not {self.floor:g}"
            problems.append((("floor",), text))
        if self.initial_soc > self.ceiling:
            text = f"must be at most the ceiling, {self.ceiling:g}, not {self.initial_soc:g}"
            problems.append((("initial_soc",), text))
        slopes = [key for key in ("charge_slope_h", "discharge_slope_h") if getattr(self, key)]
        if self.model == "rare":
            problems.append((("model",), f"rare cannot be used in a run: {_RARE}"))
        elif self.model == "linear":
            problems += [((key,), "goes with model: clc, not linear") for key in slopes]
        elif not slopes:
            problems.append((("model",), "clc needs charge_slope_h or discharge_slope_h above 0"))
        if problems:
            raise BrokenRulesError(problems)
        return self

    @property
    def capacity_j(self) -> float:
        """Energy between state of charge 0 and 1, in J."""
        return self.capacity_kwh * KWH_J

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


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


class Switching(Facts):
    """A machine, in a pool a processor, off, booting and shutting down: times in s, powers in W."""

    noun = "machine power"

    off_w: AtLeastZero = 0.0
    """Power when switched off."""
    boot: TimeSpent = 0.0
    """Time from switching on to being ready."""
    boot_w: AtLeastZero | None = None
    """Power while booting, so that a boot takes boot_w · boot of energy; null: idle power."""
    shutdown: TimeSpent = 0.0
    """Time from switching off to being off, at idle power."""

    def scaled(self, machines: float) -> Switching:
        """Return the same for a number of machines together: their powers, and the times of one."""
        boot_w = None if self.boot_w is None else machines * self.boot_w
        return self.model_copy(update={"off_w": machines * self.off_w, "boot_w": boot_w})


class Checkpoints(Facts):
    """Tasks save their work at regular intervals of run time and resume from there."""

    noun = "checkpoints"

    every: PositiveDuration
    """Run time between two checkpoints; work since the last one is lost."""
    restart: TimeSpent = 0.0
    """Run time that resuming from a checkpoint costs; starting over costs nothing extra."""


class Supply(Facts):
    """How the available power limits what may run."""

    noun = "supply"

    limit: Literal["none", "power", "resources"] = "none"
    """none: everything may run; power: what it can supply when busy; resources: a share of them."""
    peak_w: Positive | None = None
    """For resources: the power that supplies everything; null: what all machines draw when busy."""
    running: Literal["drain", "suspend", "checkpoint", "requeue"] = "suspend"
    """Tasks on what is switched off run on, pause, go back to a checkpoint, or start over."""
    checkpoints: Checkpoints | None = None
    """When work is saved; needed for running: checkpoint."""
    hold: PositiveDuration = 3600.0
    """The battery counts with the power that it can hold for this long."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems: list[KeyProblem] = []
        if self.running == "checkpoint" and self.checkpoints is None:
            problems.append(((), "running: checkpoint needs checkpoints; add {every: 1h}"))
        if self.running != "checkpoint" and self.checkpoints is not None:
            text = f"goes with running: checkpoint, not {self.running}"
            problems.append((("checkpoints",), text))
        if self.peak_w is not None and self.limit != "resources":
            problems.append((("peak_w",), f"goes with limit: resources, not {self.limit}"))
        if problems:
            raise BrokenRulesError(problems)
        return self


class Noise(Facts):
    """The random error of a forecast; it grows with the lead time."""

    noun = "noisy forecast"

    spread: AtLeastZero = 0.2
    """Standard deviation of the error at long lead times."""
    kind: Literal["relative", "absolute"] = "relative"
    """relative: the spread is a share of the truth; absolute: in W, for power only."""
    correlation: PositiveDuration = 21_600.0
    """How long an error lasts; also how fast it grows."""
    issue: PositiveDuration = 3600.0
    """Time between two forecasts; until the next, the last one holds."""


class Quantity(NamedTuple):
    """What a signal measures."""

    unit: str
    name: str
    """Its name in messages."""
    least: float = 0.0
    """Smallest value allowed."""

    def check(self, value: float) -> None:
        """Raise ScenarioError for a value that it cannot have."""
        if value < self.least:
            raise ScenarioError(
                f"is {value:g} {self.unit}; {self.name} must be at least {self.least:g}: give the "
                "amount without a sign"
            )


POWER: Final = Quantity(WATT, "power")
ENERGY_PRICE: Final = Quantity(PRICE, "a price", -math.inf)
CARBON_INTENSITY: Final = Quantity(CARBON, "carbon intensity")
TEMPERATURE: Final = Quantity("degC", "temperature", -math.inf)
GRID: Final[Mapping[str, Quantity]] = {
    "import_limit_w": POWER,
    "export_limit_w": POWER,
    "price_per_kwh": ENERGY_PRICE,
    "export_price_per_kwh": ENERGY_PRICE,
    "carbon_gco2_per_kwh": CARBON_INTENSITY,
}
"""Key of a grid → what it measures; the limits may be infinite."""


# --- what holds signals or curves is no section, and checks its numbers itself -------------------


class Range(NamedTuple):
    """What a number may be. NaN lies in no range."""

    text: str
    """How messages say it, after "it must be"."""
    holds: Callable[[float], bool]


POSITIVE: Final = Range("above 0 and finite", lambda v: 0 < v < math.inf)
NOT_NEGATIVE: Final = Range("at least 0 and finite", lambda v: 0 <= v < math.inf)
FINITE: Final = Range("a finite number", math.isfinite)


def range_problems(thing: object, **ranges: Range) -> list[str]:
    """Return ``floor is 2; it must be in 0..1`` for every attribute outside its range.

    An attribute that is None passes.
    """
    problems = []
    for name, allowed in ranges.items():
        value = getattr(thing, name)
        if value is not None and not is_number(value):
            problems.append(f"{name} is {value!r}; it must be a number")
        elif value is not None and not allowed.holds(value):
            problems.append(f"{name} is {value:g}; it must be {allowed.text}")
    return problems


def is_number(value: object) -> bool:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool)
