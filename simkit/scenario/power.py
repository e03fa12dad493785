"""The scenario's `power`: sources, battery, grid and controller of a site, what its machines draw.

Signals, machines, the battery and forecasts have files of their own; `simkit.experiment.site` makes a
`simkit.power.site.Site` of all of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator, model_validator

from simkit.scenario.machine_power import Machines, PueCurve, TimeSpent
from simkit.scenario.recorded import RecordedSignal, Zone
from simkit.scenario.references import PluginChoice, PluginName
from simkit.scenario.signals import AtLeastZero, ConstantSignal, Finite, Share, Signal
from simkit.scenario.types import (
    BrokenRulesError,
    Duration,
    Instant,
    Positive,
    PositiveDuration,
    Section,
    SectionName,
)

# MERGED The scenario's `power.battery`: a store of energy.


Efficiency = Annotated[float, Field(gt=0, le=1)]

_RARE = (
    "the dissertation's algorithm 5 goes step by step and makes power out of nothing (its level "
    "falls below 0), so that no account of energy closes; corrected it is linear with efficiencies "
    "of 1: write model: linear, or see rare_battery for its figures as printed"
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


# MERGED The scenario's `power.forecast`: what policies may know of the power that is to come.


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


DEFAULT_CONTROLLER: Final = "source-order"
"""The controller of a site that names none."""


class SourceSection(Section):
    """A generator of the site: a wind farm, a roof of panels."""

    signal: Signal
    """Its power in W; a number is constant."""
    peak_w: Positive | None = None
    """A recorded signal is scaled so that its largest value is this; null: as it is."""
    times_load: Positive | None = None
    """It is scaled so that its mean is so many times the site's load, all machines busy."""
    price_per_kwh: Finite = 0.0
    """What a kWh of it that is used costs."""
    carbon_gco2_per_kwh: AtLeastZero = 0.0
    """Carbon of a kWh that is used, over the life cycle."""

    @model_validator(mode="after")
    def _has_one_size(self) -> Self:
        given = [key for key in ("peak_w", "times_load") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError("has both peak_w and times_load; leave one of the two out")
        if given and not isinstance(self.signal, RecordedSignal):
            text = f"scales a recorded signal; a {self.signal.type} one has a size of its own"
            raise BrokenRulesError([((given[0],), f"{text}: leave {given[0]} out")])
        if isinstance(self.signal, ConstantSignal) and self.signal.value < 0:
            text = (
                f"must be at least 0, not {self.signal.value:g}; generation is counted as positive"
            )
            raise BrokenRulesError([(("signal",), text)])
        return self


class Align(Section):
    """Which instant of a file belongs to which instant of the run."""

    type: Literal["calendar", "epoch", "offset"] = "calendar"
    """The same month, day and hour of any year; the same instant in history; or by `offset`."""
    offset: Duration = 0.0
    """For type offset: the run's zero is so long after the start of each file."""
    zero: Instant | None = None
    """Date of the run's zero, with its zone; no duration. null: as the log tells."""
    zone: Zone | None = None
    """Time zone of the run's site; null: as the log tells, else for a file its own, for a schedule
    the distance of `zero` from UTC."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if isinstance(value, str):
            return {"type": value}
        if isinstance(value, dict) and "offset" in value and "type" not in value:
            return {"type": "offset", **value}
        return value

    @field_validator("zero", mode="wrap")
    @classmethod
    def _keeps_its_offset(cls, value: object, check: ValidatorFunctionWrapHandler) -> object:
        """Keep the distance from UTC with which the date is written: schedules go by it."""
        moment = check(value)
        if not isinstance(moment, datetime):
            return moment
        written = (
            value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}".strip())
        )
        return moment.astimezone(written.tzinfo)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if self.offset and self.type != "offset":
            problems.append((("offset",), f"goes with type offset, not {self.type}"))
        if self.zero is not None and not isinstance(self.zero, datetime):
            text = "must be a date such as 2019-06-01T00:00:00-06:00, not a duration"
            problems.append((("zero",), text))
        if problems:
            raise BrokenRulesError(problems)
        return self


class GridSection(Section):
    """The connection to the public grid; without limits it is as large as needed."""

    import_limit_w: Signal | None = None
    """Most power from it; a signal may take it away for a while; null: no limit."""
    export_limit_w: Signal = Field(0.0, validate_default=True)
    """Most power to it."""
    price_per_kwh: Signal = Field(0.0, validate_default=True)
    """What a kWh from it costs, in any currency, the same everywhere; may be below 0."""
    export_price_per_kwh: Signal = Field(0.0, validate_default=True)
    """What a kWh to it brings."""
    carbon_gco2_per_kwh: Signal = Field(0.0, validate_default=True)
    """Carbon of a kWh from it."""

    @model_validator(mode="after")
    def _is_not_negative(self) -> Self:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        for key in ("import_limit_w", "export_limit_w", "carbon_gco2_per_kwh"):
            signal = getattr(self, key)
            if isinstance(signal, ConstantSignal) and signal.value < 0:
                problems.append(((key,), f"must be at least 0, not {signal.value:g}"))
        if problems:
            raise BrokenRulesError(problems)
        return self


class ControllerChoice(PluginChoice):
    """What settles, at every instant, which source serves the load."""

    type: Annotated[str, PluginName("simkit.controllers")] = DEFAULT_CONTROLLER

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        """Write out a name alone, and the form {name, args}."""
        if isinstance(value, str):
            return {"type": value}
        if isinstance(value, dict) and "name" in value and value.keys() <= {"name", "args"}:
            arguments: dict[str, Any] = value.get("args") or {}
            return {**arguments, "type": value["name"]}
        return value


class CheckpointSection(Section):
    """Work is saved at regular times of running, and goes on from there after a stop."""

    every: PositiveDuration
    """Run time between two checkpoints; work since the last one is lost."""
    restart: TimeSpent = 0.0
    """Run time that going on from a checkpoint costs; without one work begins anew, at no cost."""


class SupplySection(Section):
    """How the power that is there decides what may run."""

    limit: Literal["none", "power", "resources"] = "none"
    """none: everything may run; power: what it carries when busy; resources: a share of them."""
    peak_w: Positive | None = None
    """For resources: the power that carries everything; null: what all machines draw when busy."""
    running: Literal["drain", "suspend", "checkpoint", "requeue"] = "suspend"
    """Tasks on what is switched off run to their end, pause, go back to a checkpoint, or anew."""
    checkpoints: CheckpointSection | None = None
    """When work is saved; goes with running: checkpoint."""
    hold: PositiveDuration = 3600.0
    """The battery counts for the power that it can hold for so long."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems: list[tuple[tuple[str | int, ...], str]] = []
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


class Power(Section):
    """The energy side of the cluster."""

    machines: Machines
    """What a machine draws; in a pool, what a processor does."""
    sources: dict[SectionName, SourceSection] = Field(default_factory=dict)
    """Name → what generates power on the site."""
    align: Align = Field(default_factory=Align)
    """How files lie on the run's clock: calendar, epoch or {offset: 10d}."""
    grid: GridSection | None = None
    """The public grid; absent: none."""
    battery: BatterySection | None = None
    """A store; absent: none."""
    controller: ControllerChoice = Field(DEFAULT_CONTROLLER, validate_default=True)
    """Which source serves the load: a name, or arguments such as {reserve: 0.2}, with a `type` if
    it is another controller's."""
    pue: PueCurve = Field(1.0, validate_default=True)
    """Power of the site over that of its machines: a number, or {by_load: …}."""
    critical_w: Signal = Field(0.0, validate_default=True)
    """Load that is always on, beside the machines and what the PUE adds."""
    supply: SupplySection = Field(default_factory=SupplySection)
    """How power decides what may run."""
    forecast: Forecast | None = None
    """What policies may know of the future; absent: nothing."""

    @model_validator(mode="after")
    def _is_supplied(self) -> Self:
        if not self.sources and self.grid is None:
            raise ValueError(
                "nothing supplies the site; add sources, or `grid: {}` for as much as is needed"
            )
        critical = self.critical_w
        if isinstance(critical, ConstantSignal) and critical.value < 0:
            text = f"must be at least 0, not {critical.value:g}"
            raise BrokenRulesError([(("critical_w",), text)])
        return self
