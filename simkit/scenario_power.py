"""The scenario's `power`: sources, battery, grid and controller of a site, what its machines draw.

Signals, machines, the battery and forecasts have files of their own; `simkit.site_source` makes a
`simkit.site.Site` of all of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator, model_validator

from simkit.scenario_battery import BatterySection
from simkit.scenario_forecast import Forecast
from simkit.scenario_machine_power import Machines, PueCurve, TimeSpent
from simkit.scenario_named import named
from simkit.scenario_names import Choice, Plugin
from simkit.scenario_recorded import RecordedSignal, Zone
from simkit.scenario_signal import AtLeastZero, ConstantSignal, Finite, Signal
from simkit.scenario_types import (
    BrokenRulesError,
    Duration,
    Instant,
    Positive,
    PositiveDuration,
    Section,
)

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


class ControllerChoice(Choice):
    """What settles, at every instant, which source serves the load."""

    type: Annotated[str, Plugin("simkit.controllers")] = DEFAULT_CONTROLLER

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
    sources: Annotated[dict[str, SourceSection], named(SourceSection)] = Field(default_factory=dict)
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
