"""The scenario's `power.forecast`: what policies may know of the power that is to come."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simkit.scenario_signal import AtLeastZero, Signal
from simkit.scenario_types import BrokenRulesError, Duration, PositiveDuration, Section


class ForecastBase(Section):
    """What every forecast takes; it is of the sum of all sources, the grid's price and carbon."""

    type: str
    """The kind of forecast."""
    horizon: PositiveDuration = 172_800.0
    """How far ahead it reaches."""
    step: PositiveDuration = 3600.0
    """Policies are told the mean of each step of this length."""

    @model_validator(mode="after")
    def _has_a_step(self) -> Self:
        if self.step > self.horizon:
            text = f"must be at most the horizon, {self.horizon:g} s, not {self.step:g} s"
            raise BrokenRulesError([(("step",), text)])
        return self


class PerfectSection(ForecastBase):
    """The truth."""

    type: Literal["perfect"]
    """The truth."""


class PersistenceSection(ForecastBase):
    """Everything is as it was a period before."""

    type: Literal["persistence"]
    """Everything is as it was a period before."""
    period: Annotated[Duration, Field(ge=0)] = 86_400.0
    """Each step is as at the same time of the last period that is over; 0: the value of now."""


class NoisySection(ForecastBase):
    """The truth with a random error that grows with the lead time, seeded."""

    type: Literal["noisy"]
    """The truth with a random error that grows with the lead time, seeded."""
    spread: AtLeastZero = 0.2
    """Standard deviation of the error at long lead times."""
    kind: Literal["relative", "absolute"] = "relative"
    """The spread is a share of the truth, of price and carbon too; or in W, of power alone."""
    correlation: PositiveDuration = 21_600.0
    """How long an error lasts; also how soon it grows."""
    issue: PositiveDuration = 3600.0
    """Time between two forecasts; in between the last one holds."""


class GivenSection(ForecastBase):
    """Signals of one's own, such as a forecast that was recorded."""

    type: Literal["given"]
    """Signals of one's own, such as a forecast that was recorded."""
    signal: Signal
    """The power of all sources together, as it was foreseen."""
    price: Signal | None = None
    """The grid's price as it was foreseen; null: not foreseen."""
    carbon: Signal | None = None
    """The grid's carbon intensity as it was foreseen; null: not foreseen."""


Forecast = Annotated[
    PerfectSection | PersistenceSection | NoisySection | GivenSection,
    Field(discriminator="type"),
]
"""Every kind of forecast, told apart by `type`."""
