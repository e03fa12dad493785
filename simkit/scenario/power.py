"""The scenario's `power`: sources, grid, battery, controller, supply and forecast of a site.

`Power.build` makes a `simkit.power.site.Site` of the whole section. Signals and machines are in
`signals` and `machine_power`; a part that is its own facts is in `simkit.power.facts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from simkit import plugins
from simkit.errors import PluginError, SimkitError
from simkit.power import signal as curves
from simkit.power.facts import (
    CARBON_INTENSITY,
    ENERGY_PRICE,
    GRID,
    POWER,
    BatteryFacts,
    Noise,
    Supply,
)
from simkit.scenario.machine_power import Machines, PueCurve
from simkit.scenario.references import PluginChoice, PluginName
from simkit.scenario.signals import (
    Align,
    AmountSignal,
    Findings,
    Signal,
    SignalContext,
)
from simkit.sections import (
    AtLeastZero,
    BrokenRulesError,
    Finite,
    Positive,
    PositiveDuration,
    Section,
    SectionName,
    TimeSpent,
)
from simkit.units import KWH_J
from simkit.workload import Workload
from simkit.workload.workload import Span

if TYPE_CHECKING:  # what charges and settles is imported when a site is built
    from simkit.power import forecast as forecasts
    from simkit.power.controller import Controller
    from simkit.power.machine_model import Pue
    from simkit.power.site import Foresight, Grid, Site, Source
    from simkit.workload.cluster import Cluster

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

    looks_ahead: ClassVar[bool] = True
    """Whether it reads the truth up to its horizon, which signals must then cover."""

    def build(
        self, sources: Sequence[Source], grid: Grid | None, context: SignalContext
    ) -> Foresight:
        """Return the forecasts of the sum of all sources, and of the grid's price and carbon.

        Raises ScenarioError or TraceError if a signal cannot be made, or is too short.
        """
        from simkit.power.site import Foresight

        powers = [source.power for source in sources] or [curves.Constant(0.0)]
        truths = {"signal": powers[0] if len(powers) == 1 else curves.Sum(powers)}
        if grid is not None:
            truths["price"] = curves.as_signal(grid.price_per_kwh, curves.PRICE)
            truths["carbon"] = curves.as_signal(grid.carbon_gco2_per_kwh, curves.CARBON)
        found = {key: self.forecast(key, truth, context) for key, truth in truths.items()}
        generation = found["signal"]
        assert generation is not None  # every kind forecasts the sources
        return Foresight(
            self.horizon, self.step, generation, found.get("price"), found.get("carbon")
        )

    def forecast(
        self, key: str, truth: curves.Signal, context: SignalContext
    ) -> forecasts.Forecast | None:
        """Return the forecast of one signal; None: there is none.

        Args:
            key: signal (the sum of all sources), price or carbon.
            truth: what is forecast.
            context: of the run.
        """
        from simkit.power.forecast import PerfectForecast

        return PerfectForecast(truth)


class PerfectSection(ForecastBase):
    """The truth."""

    type: Literal["perfect"]
    """The truth."""


class PersistenceSection(ForecastBase):
    """Every value is as it was a period before."""

    type: Literal["persistence"]
    """Every value is as it was a period before."""
    period: TimeSpent = 86_400.0
    """Each step repeats the same time of the last period that is over; 0: the present value."""

    looks_ahead: ClassVar[bool] = False

    def forecast(
        self, key: str, truth: curves.Signal, context: SignalContext
    ) -> forecasts.Forecast | None:
        from simkit.power.forecast import Persistence

        return Persistence(truth, self.period)


class NoisySection(Noise, ForecastBase):
    """The truth with a random error that grows with the lead time, seeded."""

    type: Literal["noisy"]
    """The truth with a random error that grows with the lead time, seeded."""

    def forecast(
        self, key: str, truth: curves.Signal, context: SignalContext
    ) -> forecasts.Forecast | None:
        from simkit.power.forecast import NoisyForecast, PerfectForecast

        if self.kind == "absolute" and truth.unit != curves.WATT:
            return PerfectForecast(truth)
        least = -math.inf if truth.unit == curves.PRICE else 0.0
        seeds = context.seeds(f"power.forecast.{key}")
        return NoisyForecast(truth, seeds, self, bounds=(least, math.inf))


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

    looks_ahead: ClassVar[bool] = False

    def forecast(
        self, key: str, truth: curves.Signal, context: SignalContext
    ) -> forecasts.Forecast | None:
        from simkit.power.forecast import GivenForecast

        if (section := getattr(self, key)) is None:
            return None
        quantity = {"signal": POWER, "price": ENERGY_PRICE, "carbon": CARBON_INTENSITY}[key]
        context = replace(context, ahead_s=self.horizon)
        given = context.covered(section, f"power.forecast.{key}", quantity)
        return GivenForecast(truth, given)


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
        if given and not self.signal.can_be_sized:
            text = f"scales a recorded signal, not a {self.signal.type} one; leave {given[0]} out"
            raise BrokenRulesError([((given[0],), text)])
        return self

    def build(self, name: str, load_w: float, context: SignalContext) -> Source:
        """Return the source; `load_w` is what the site draws in the mean with all machines busy.

        Raises ScenarioError or TraceError if its signal cannot be made, or is too short.
        """
        from simkit.power.signal_align import check_covers
        from simkit.power.site import Source

        mean_w = None if self.times_load is None else self.times_load * load_w
        power = context.make(
            self.signal, f"power.sources.{name}", POWER, peak_w=self.peak_w, mean_w=mean_w
        )
        check_covers(power, context.span, context.ahead_s)
        return Source(name, power, self.price_per_kwh, self.carbon_gco2_per_kwh)


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

    def build(self, context: SignalContext) -> Grid:
        """Return the connection; problems of its signals are collected."""
        from simkit.power.site import Grid

        amounts = {
            key: context.amount(section, f"power.grid.{key}", quantity)
            for key, quantity in GRID.items()
            if (section := getattr(self, key)) is not None
        }
        return Grid(**amounts)


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

    def build(self) -> Controller:
        """Return the controller; raises ScenarioError, with the key, if it cannot be made."""
        from simkit.power.controller import Controller

        findings, made = Findings(), None
        with findings.at("power.controller"):
            factory = plugins.find("simkit.controllers", self.type)
            made = plugins.instantiate(repr(self.type), factory, self.args)
            if not isinstance(made, Controller):
                raise PluginError(
                    f"{self.type!r} has no levels or no settle(state); a controller needs both, "
                    "see simkit.power.controller"
                )
        findings.raise_problems()
        assert isinstance(made, Controller)
        return made


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
    """Load that is always on, on top of the machines and what the PUE adds."""
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

    def build(
        self, cluster: Cluster, workload: Workload, seed: int, most_steps: int | None = None
    ) -> Site:
        """Return the energy side of a cluster.

        `times_load` of a source refers to the mean of what the site draws when all machines are
        busy, with critical load and PUE, from the run's start until the earliest end of the last
        job. Every signal must be known over that span, and with a perfect or noisy forecast also
        over the horizon after it.

        Args:
            cluster: its machines.
            workload: its jobs; sets the run's clock and how long signals must last.
            seed: of the run; random signals and forecasts have their own streams.
            most_steps: of a signal in the time that the jobs take; None: any number.

        Raises ScenarioError with all problems, each beginning with its dotted place, such as
        ``power.sources.solar``.
        """
        from simkit.power.controller import SourceOrder
        from simkit.power.machine_model import ConstantPue, PowerModel
        from simkit.power.site import NO_GRID, Site

        ahead = self.forecast is not None and self.forecast.looks_ahead
        context = SignalContext.of_run(
            self.align, workload, seed, span=Span.of(workload), most_steps=most_steps,
            ahead_s=self.forecast.horizon if self.forecast and ahead else 0.0,
        )  # fmt: skip
        findings = context.findings
        models: tuple[PowerModel, ...] = ()
        with findings.at("power.machines"):
            models = self.machines.build(cluster)
        full_w = math.fsum(model.full_w for model in models)
        pue: Pue = ConstantPue()
        with findings.at("power.pue"):
            pue = self.pue.build(full_w, context)
        critical = context.amount(self.critical_w, "power.critical_w", POWER)
        load_w = None if findings.problems else _mean_load_w(full_w, pue, critical, context.span)
        sources = tuple(self._sources(load_w, context))
        grid = None if self.grid is None else self.grid.build(context)
        controller: Controller = SourceOrder()
        with findings.at("power.controller"):
            controller = self.controller.build()
        foresight: Foresight | None = None
        if self.forecast is not None:
            with findings.at("power.forecast"):
                foresight = self.forecast.build(sources, grid, context)
        findings.raise_problems()
        return Site(
            models=models,
            sources=sources,
            grid=grid or NO_GRID,
            battery=self.battery,
            controller=controller,
            pue=pue,
            critical_w=critical,
            supply=self.supply,
            foresight=foresight,
            inputs=tuple(dict.fromkeys(findings.inputs)),
            reports=findings.reports,
            notes=findings.notes,
            warnings=tuple(dict.fromkeys(findings.warnings)),
            facts=self._facts(full_w, load_w, context) | findings.facts,
        )

    def _sources(self, load_w: float | None, context: SignalContext) -> Iterator[Source]:
        for name, section in self.sources.items():
            if section.times_load is not None and load_w is None:
                continue  # the load's own problem is reported already
            with context.findings.at(f"power.sources.{name}"):
                yield section.build(name, load_w or 0.0, context)

    def _facts(
        self, full_w: float, load_w: float | None, context: SignalContext
    ) -> dict[str, float | str]:
        facts: dict[str, float | str] = {"align": self.align.type}
        if math.isfinite(context.epoch_s):
            facts["epoch_s"] = context.epoch_s
        if context.zone is not None:
            facts["zone"] = context.zone
        facts["machines.full_w"] = full_w
        if load_w is not None:
            facts["load_w"] = load_w
        if self.battery is not None:
            facts["battery.model"] = self.battery.model
        return facts


def _mean_load_w(full_w: float, pue: Pue, critical: curves.Amount, span: Span) -> float:
    """Return the mean of what the site draws with all machines busy, in W."""
    first, last = span
    always = critical.mean(first, last) if isinstance(critical, curves.Signal) else critical
    if last <= first:
        return pue.pue(full_w, first) * full_w + always
    parts, at = [], first
    while at < last:
        until = min(pue.next_change(at), last)
        parts.append(pue.pue(full_w, at) * (until - at))
        at = until
    return math.fsum(parts) / (last - first) * full_w + always


_MOST_STEPS_AGAIN: Final = 5_000_000
"""Changes of a signal that is read again, at most: a stranger's run.json may name any."""


def sources_again(info: Mapping[str, Any], span: Span) -> tuple[Source, ...]:
    """Return the sources of a finished run, read again from the files that its scenario names.

    Args:
        info: the content of `run.json`. Code that it names is not run.
        span: from the first row of the table "power" to the end of its last, in s.

    Empty if they cannot be read, or do not give the energy that the run recorded: a file has
    changed or is not here.
    """
    facts = info.get("power") or {}
    epoch_s, zone = info.get("epoch_s"), info.get("time_zone")
    try:
        if not all(Path(one["path"]).is_file() for one in info["inputs"]):
            return ()
        power = Power.model_validate(info["scenario"]["power"])
        clock = Workload.trusted(
            job_id=np.empty(0), task_id=np.empty(0),
            epoch_s=math.nan if epoch_s is None else float(epoch_s), time_zone=zone,
        )  # fmt: skip
        context = SignalContext.of_run(
            power.align, clock, int(info["seed"]), span=span, most_steps=_MOST_STEPS_AGAIN
        )
        with plugins.code_refused():
            return tuple(
                _source_again(name, section, context, facts)
                for name, section in power.sources.items()
            )
    except (SimkitError, ValueError, TypeError, LookupError, ArithmeticError, OSError):
        return ()


def _source_again(
    name: str, section: SourceSection, context: SignalContext, facts: Mapping[str, Any]
) -> Source:
    """Return a source; raises ValueError if it does not give what the run recorded."""
    load_w = 0.0 if section.times_load is None else float(facts["load_w"])
    source = replace(
        section.build(name, load_w, context), price_per_kwh=0.0, carbon_gco2_per_kwh=0.0
    )
    recorded = float(facts[f"sources.{name}.generation_kwh"])
    found = source.power.integral(*context.span) / KWH_J
    if not math.isclose(found, recorded, rel_tol=1e-6, abs_tol=1e-6):
        raise ValueError(f"{name}: {found} kWh, recorded were {recorded}")
    return source
