"""The scenario's `power`: sources, grid, battery, controller, supply and forecast of a site.

Signals and machines are in `signals` and `machine_power`. `simkit.experiment.site` builds a
`simkit.power.site.Site` from the whole section.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator, model_validator

from simkit.power.facts import BatteryFacts, Noise, Supply
from simkit.scenario.machine_power import Machines, PueCurve
from simkit.scenario.references import PluginChoice, PluginName
from simkit.scenario.signals import (
    AmountSignal,
    MeansSignal,
    RecordedSignal,
    Signal,
    Zone,
)
from simkit.sections import (
    AtLeastZero,
    BrokenRulesError,
    Duration,
    Finite,
    Instant,
    Positive,
    PositiveDuration,
    Section,
    SectionName,
)

DEFAULT_CONTROLLER: Final = "source-order"
"""The controller of a site that names none."""


class ForecastBase(Section):
    """Keys of every forecast of the sum of all sources and of the grid's price and carbon."""

    type: str
    """The kind of forecast."""
    horizon: PositiveDuration = 172_800.0
    """How far ahead it reaches."""
    step: PositiveDuration = 3600.0
    """Length of a step; policies get the mean of each step."""

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
    """Every value is as it was a period before."""

    type: Literal["persistence"]
    """Every value is as it was a period before."""
    period: Annotated[Duration, Field(ge=0)] = 86_400.0
    """Each step repeats the same time of the last period that is over; 0: the present value."""


class NoisySection(Noise, ForecastBase):
    """The truth with a random error that grows with the lead time, seeded."""

    type: Literal["noisy"]
    """The truth with a random error that grows with the lead time, seeded."""


class GivenSection(ForecastBase):
    """Given signals, such as a recorded forecast."""

    type: Literal["given"]
    """Given signals, such as a recorded forecast."""
    signal: Signal
    """Forecast power of all sources together."""
    price: Signal | None = None
    """Forecast price of the grid; null: none."""
    carbon: Signal | None = None
    """Forecast carbon intensity of the grid; null: none."""


Forecast = Annotated[
    PerfectSection | PersistenceSection | NoisySection | GivenSection,
    Field(discriminator="type"),
]
"""Every kind of forecast, distinguished by `type`."""


class SourceSection(Section):
    """Something that generates power on the site: a wind farm, solar panels on a roof."""

    signal: AmountSignal
    """Its power in W; a plain number is constant."""
    peak_w: Positive | None = None
    """Scales a recorded signal to this peak; null: not scaled."""
    times_load: Positive | None = None
    """Scales a recorded signal so that its mean is this many times the load of busy machines."""
    price_per_kwh: Finite = 0.0
    """Price of each kWh that is used."""
    carbon_gco2_per_kwh: AtLeastZero = 0.0
    """Carbon of each kWh that is used, over the life cycle."""

    @model_validator(mode="after")
    def _has_one_size(self) -> Self:
        given = [key for key in ("peak_w", "times_load") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError("has both peak_w and times_load; leave one of them out")
        of = self.signal.signal if isinstance(self.signal, MeansSignal) else self.signal
        if given and not isinstance(of, RecordedSignal):
            text = f"scales a recorded signal, not a {self.signal.type} one; leave {given[0]} out"
            raise BrokenRulesError([((given[0],), text)])
        return self


class Align(Section):
    """Which instant of a file belongs to which instant of the run."""

    type: Literal["calendar", "epoch", "offset"] = "calendar"
    """The same month, day and hour of any year; the same instant in history; or an `offset`."""
    offset: Duration = 0.0
    """For type offset: time from the start of each file to the run's zero."""
    zero: Instant | None = None
    """Date of the run's zero, with its zone, not a duration; null: the log's."""
    zone: Zone | None = None
    """Time zone of the run's site; null: the log's; without one, each file's own, and for schedules
    the offset of `zero` from UTC."""

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
        """Keep the offset from UTC that the date is written with: schedules use it."""
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
    """The connection to the public grid; without limits it gives what is needed."""

    import_limit_w: AmountSignal | None = None
    """Largest import in W; a signal may cut it for a while; null: no limit."""
    export_limit_w: AmountSignal = Field(0.0, validate_default=True)
    """Largest export in W."""
    price_per_kwh: Signal = Field(0.0, validate_default=True)
    """Price of an imported kWh, in any currency, the same everywhere; may be below 0."""
    export_price_per_kwh: Signal = Field(0.0, validate_default=True)
    """Earnings for an exported kWh."""
    carbon_gco2_per_kwh: AmountSignal = Field(0.0, validate_default=True)
    """Carbon of an imported kWh."""


class ControllerChoice(PluginChoice):
    """Decides at every instant which source serves the load."""

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


class Power(Section):
    """The energy side of the cluster."""

    machines: Machines
    """What a machine draws; in a pool, what a processor draws."""
    sources: dict[SectionName, SourceSection] = Field(default_factory=dict)
    """Name → what generates power on the site."""
    align: Align = Field(default_factory=Align)
    """How files lie on the run's clock: calendar, epoch or {offset: 10d}."""
    grid: GridSection | None = None
    """The public grid; absent: none."""
    battery: BatteryFacts | None = None
    """A store; absent: none."""
    controller: ControllerChoice = Field(DEFAULT_CONTROLLER, validate_default=True)
    """Which source serves the load: a name, or arguments such as {reserve: 0.2}, with a `type` for
    another controller."""
    pue: PueCurve = Field(1.0, validate_default=True)
    """Power of the site over that of its machines: a number, or {by_load: …}."""
    critical_w: AmountSignal = Field(0.0, validate_default=True)
    """Load that is always on, besides the machines and what the PUE adds."""
    supply: Supply = Field(default_factory=Supply)
    """How power limits what may run."""
    forecast: Forecast | None = None
    """What policies may know about the future; absent: nothing."""

    @model_validator(mode="after")
    def _is_supplied(self) -> Self:
        if not self.sources and self.grid is None:
            raise ValueError(
                "nothing supplies the site; add sources, or `grid: {}` for as much as is needed"
            )
        return self
