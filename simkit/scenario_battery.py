"""The scenario's `power.battery`: a store of energy."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simkit.scenario_signal import AtLeastZero, Share
from simkit.scenario_types import BrokenRulesError, Positive, Section

Efficiency = Annotated[float, Field(gt=0, le=1)]

_RARE = (
    "the dissertation's algorithm 5 goes step by step and makes power out of nothing (its level "
    "falls below 0), so that no account of energy closes; corrected it is linear with efficiencies "
    "of 1: write model: linear, or see simkit.battery_rare for its figures as printed"
)


class BatterySection(Section):
    """A store of energy within its state of charge and C-rates."""

    capacity_kwh: Positive
    """Energy between state of charge 0 and 1."""
    charge_c_rate: AtLeastZero = 1.0
    """Largest charging power over the capacity, 1/h."""
    discharge_c_rate: AtLeastZero = 1.0
    """Largest discharging power over the capacity, 1/h."""
    charge_efficiency: Efficiency = 1.0
    """Share of the charging power that is stored."""
    discharge_efficiency: Efficiency = 1.0
    """Share of what is taken out that arrives."""
    floor: Share = 0.0
    """State of charge below which it is not discharged."""
    ceiling: Share = 1.0
    """State of charge above which it is not charged."""
    initial_soc: Share = 0.5
    """State of charge at the start, at most the ceiling; below the floor it gives nothing until it
    has been charged. If not given, the nearest to 0.5 between floor and ceiling."""
    self_discharge_per_day: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the content that is lost in a day at rest."""
    model: Literal["linear", "clc", "rare"] = "linear"
    """linear: limits by C-rate until full or empty; clc: they fall towards full and empty."""
    charge_slope_h: AtLeastZero = 0.0
    """clc: how much the ceiling sinks per 1/h of charging, in h."""
    discharge_slope_h: AtLeastZero = 0.0
    """clc: how much the floor rises per 1/h of discharging, in h."""

    @model_validator(mode="before")
    @classmethod
    def _starts_within_the_window(cls, value: object) -> object:
        if not isinstance(value, dict) or "initial_soc" in value:
            return value
        floor, ceiling = value.get("floor", 0.0), value.get("ceiling", 1.0)
        if not (_is_share(floor) and _is_share(ceiling)):
            return value  # what is wrong with them is told by their own rules
        return {**value, "initial_soc": min(max(0.5, floor), ceiling)}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if self.floor >= self.ceiling:
            text = f"must be below the ceiling, {self.ceiling:g}, not {self.floor:g}"
            problems.append((("floor",), text))
        if self.initial_soc > self.ceiling:
            text = f"must be at most the ceiling, {self.ceiling:g}, not {self.initial_soc:g}"
            problems.append((("initial_soc",), text))
        slopes = [key for key in ("charge_slope_h", "discharge_slope_h") if getattr(self, key)]
        if self.model == "rare":
            problems.append((("model",), f"rare cannot serve a run: {_RARE}"))
        elif self.model == "linear":
            problems += [((key,), "goes with model: clc, not linear") for key in slopes]
        elif not slopes:
            problems.append((("model",), "clc needs charge_slope_h or discharge_slope_h above 0"))
        if problems:
            raise BrokenRulesError(problems)
        return self

    def facts(self) -> dict[str, Any]:
        """Return its numbers by name, the capacity in kWh."""
        return {name: value for name, value in self if name != "model"}


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
