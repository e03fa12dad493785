"""The scenario's `power`: sources, grid, battery, controller, supply and forecast of a site.

Signals and machines are in `signals` and `machine_power`. `simkit.experiment.site` builds a
`simkit.power.site.Site` from the whole section.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator, model_validator

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
    Share,
    TimeSpent,
)

DEFAULT_CONTROLLER: Final = "source-order"
"""The controller of a site that names none."""

Efficiency = Annotated[float, Field(gt=0, le=1)]

_RARE = (
    "the dissertation's algorithm 5 creates energy (its level falls below 0), so no account of "
    "energy closes; corrected, it is linear with efficiencies of 1: write model: linear, or see "
    "rare_battery for its figures as printed"
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
        problems: list[tuple[tuple[str | int, ...], str]] = []
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


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


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


class NoisySection(ForecastBase):
    """The truth with a random error that grows with the lead time, seeded."""

    type: Literal["noisy"]
    """The truth with a random error that grows with the lead time, seeded."""
    spread: AtLeastZero = 0.2
    """Standard deviation of the error at long lead times."""
    kind: Literal["relative", "absolute"] = "relative"
    """relative: the spread is a share of the truth; absolute: in W, for power only."""
    correlation: PositiveDuration = 21_600.0
    """How long an error lasts; also how fast it grows."""
    issue: PositiveDuration = 3600.0
    """Time between two forecasts; until the next, the last one holds."""


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


class CheckpointSection(Section):
    """Tasks save their work at regular intervals of run time and resume from there."""

    every: PositiveDuration
    """Run time between two checkpoints; work since the last one is lost."""
    restart: TimeSpent = 0.0
    """Run time that resuming from a checkpoint costs; starting over costs nothing extra."""


class SupplySection(Section):
    """How the available power limits what may run."""

    limit: Literal["none", "power", "resources"] = "none"
    """none: everything may run; power: what it can supply when busy; resources: a share of them."""
    peak_w: Positive | None = None
    """For resources: the power that supplies everything; null: what all machines draw when busy."""
    running: Literal["drain", "suspend", "checkpoint", "requeue"] = "suspend"
    """Tasks on what is switched off run on, pause, go back to a checkpoint, or start over."""
    checkpoints: CheckpointSection | None = None
    """When work is saved; needed for running: checkpoint."""
    hold: PositiveDuration = 3600.0
    """The battery counts with the power that it can hold for this long."""

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
    """What a machine draws; in a pool, what a processor draws."""
    sources: dict[SectionName, SourceSection] = Field(default_factory=dict)
    """Name → what generates power on the site."""
    align: Align = Field(default_factory=Align)
    """How files lie on the run's clock: calendar, epoch or {offset: 10d}."""
    grid: GridSection | None = None
    """The public grid; absent: none."""
    battery: BatterySection | None = None
    """A store; absent: none."""
    controller: ControllerChoice = Field(DEFAULT_CONTROLLER, validate_default=True)
    """Which source serves the load: a name, or arguments such as {reserve: 0.2}, with a `type` for
    another controller."""
    pue: PueCurve = Field(1.0, validate_default=True)
    """Power of the site over that of its machines: a number, or {by_load: …}."""
    critical_w: AmountSignal = Field(0.0, validate_default=True)
    """Load that is always on, besides the machines and what the PUE adds."""
    supply: SupplySection = Field(default_factory=SupplySection)
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
