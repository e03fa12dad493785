"""Builds the site of a scenario: sources, grid, battery, controller, machine power and forecasts.

Everything is checked before the run, and all problems are reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit import plugins
from simkit.errors import PluginError, SimkitError
from simkit.experiment.machine_power import build_models, build_pue
from simkit.experiment.signals import (
    CARBON_INTENSITY,
    ENERGY_PRICE,
    POWER,
    TEMPERATURE,
    Findings,
    Quantity,
    SignalBuilder,
)
from simkit.power.controller import Controller, SourceOrder
from simkit.power.forecast import (
    Forecast,
    GivenForecast,
    NoisyForecast,
    PerfectForecast,
    Persistence,
)
from simkit.power.machine_model import ConstantPue, PowerModel, Pue
from simkit.power.signal import CARBON, PRICE, WATT, Amount, Constant, Signal, Sum
from simkit.power.signal_align import Span, check_covers
from simkit.power.site import NO_GRID, Foresight, Grid, Site, Source
from simkit.scenario import Scenario
from simkit.scenario.power import (
    ControllerChoice,
    GivenSection,
    GridSection,
    NoisySection,
    PersistenceSection,
    Power,
    SourceSection,
)
from simkit.scenario.power import Forecast as ForecastSection
from simkit.scenario.signals import ConstantSignal
from simkit.scenario.signals import Signal as SignalSection
from simkit.units import KWH_J
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

_GRID: Final = {
    "import_limit_w": POWER,
    "export_limit_w": POWER,
    "price_per_kwh": ENERGY_PRICE,
    "export_price_per_kwh": ENERGY_PRICE,
    "carbon_gco2_per_kwh": CARBON_INTENSITY,
}
"""Key of a grid -> what it measures."""
_FORECASTS: Final = {"signal": POWER, "price": ENERGY_PRICE, "carbon": CARBON_INTENSITY}
"""Key of a given forecast -> what it measures; `signal` is the sum of all sources."""


def build_site(
    section: Power,
    cluster: Cluster,
    workload: Workload,
    seed: int,
    most_steps: int | None = None,
) -> Site:
    """Return the energy side of a cluster.

    `times_load` of a source refers to the mean of what the site draws when all machines are busy,
    with critical load and PUE, from the run's start until the earliest end of the last job. Every
    signal must be known over that span, and with a perfect or noisy forecast also over the
    horizon after it.

    Args:
        section: the scenario's `power`.
        cluster: its machines.
        workload: its jobs; sets the run's clock and how long signals must last.
        seed: of the run; random signals and forecasts have their own streams.
        most_steps: of a signal in the time that the jobs take; None: any number.

    Raises ScenarioError with all problems, each beginning with its dotted place, such as
    ``power.sources.solar``.
    """
    return _SiteBuilder(section, cluster, workload, seed, most_steps).site()


def sources_again(info: Mapping[str, Any], span: Span) -> tuple[Source, ...]:
    """Return the sources of a finished run, read again from the files that its scenario names.

    Args:
        info: the content of `run.json`. Code that it names is not run.
        span: from the first row of the table "power" to the end of its last, in s.

    Empty if they cannot be read, or do not give the energy that the run recorded: a file has
    changed or is not here.
    """
    facts = info.get("power") or {}
    epoch, zone = info.get("epoch_s"), info.get("time_zone")
    try:
        section = Scenario.model_validate(info["scenario"]).power
        if section is None or not all(Path(one["path"]).is_file() for one in info["inputs"]):
            return ()
        clock = Workload.trusted(
            job_id=np.empty(0), task_id=np.empty(0),
            epoch_s=math.nan if epoch is None else float(epoch), time_zone=zone,
        )  # fmt: skip
        signals = SignalBuilder(
            section.align, clock, int(info["seed"]), Findings(), span, _MOST_STEPS_AGAIN
        )
        with plugins.code_refused():
            return tuple(
                _source_again(name, part, signals, facts, span)
                for name, part in section.sources.items()
            )
    except (SimkitError, ValueError, TypeError, LookupError, ArithmeticError, OSError):
        return ()


def _source_again(
    name: str, section: SourceSection, signals: SignalBuilder, facts: Mapping[str, Any], span: Span
) -> Source:
    """Return a source; raises ValueError if it does not give what the run recorded."""
    place = f"power.sources.{name}"
    mean_w = None if section.times_load is None else section.times_load * float(facts["load_w"])
    power = signals.make(section.signal, place, POWER, peak_w=section.peak_w, mean_w=mean_w)
    recorded = float(facts[f"sources.{name}.generation_kwh"])
    found = power.integral(span.first_s, span.last_s) / KWH_J
    if not math.isclose(found, recorded, rel_tol=1e-6, abs_tol=1e-6):
        raise ValueError(f"{name}: {found} kWh, recorded were {recorded}")
    return Source(name, power)


_MOST_STEPS_AGAIN: Final = 5_000_000
"""Changes of a signal that is read again, at most: a stranger's run.json may name any."""


def span_of(workload: Workload) -> Span:
    """Return the run's start and the earliest time at which its last job can end, in s."""
    if not len(workload):
        return Span(0.0, 0.0)
    submitted = np.repeat(workload.submit_time_s, np.diff(workload.first_task))
    return Span(
        min(0.0, float(workload.submit_time_s[0])),
        float((submitted + workload.run_time_s).max()),
    )


class _SiteBuilder:
    """Builds one site; continues after a problem until all are known."""

    def __init__(
        self,
        section: Power,
        cluster: Cluster,
        workload: Workload,
        seed: int,
        most_steps: int | None,
    ) -> None:
        self._section = section
        self._cluster = cluster
        self._findings = Findings()
        self._span = span_of(workload)
        self._signals = SignalBuilder(
            section.align, workload, seed, self._findings, self._span, most_steps
        )
        forecast = section.forecast
        knows_future = forecast and not isinstance(forecast, (PersistenceSection, GivenSection))
        self._ahead_s = forecast.horizon if forecast and knows_future else 0.0
        """How far after the last job signals must be known, in s."""

    def site(self) -> Site:
        section, findings = self._section, self._findings
        models: tuple[PowerModel, ...] = ()
        with findings.at("power.machines"):
            models = build_models(section.machines, self._cluster)
        full_w = math.fsum(model.full_w for model in models)
        pue: Pue = ConstantPue()
        with findings.at("power.pue"):
            pue = build_pue(section.pue, full_w, self._temperature)
        critical = self._amount(section.critical_w, "power.critical_w", POWER)
        load_w = None if findings.problems else self._load_w(full_w, pue, critical)
        sources = self._sources(load_w)
        grid = NO_GRID if section.grid is None else self._grid(section.grid)
        controller: Controller = SourceOrder()
        with findings.at("power.controller"):
            controller = _controller(section.controller)
        foresight = None
        if section.forecast is not None:
            with findings.at("power.forecast"):
                foresight = self._foresight(section.forecast, sources, grid)
        findings.raise_problems()
        return Site(
            models=models,
            sources=sources,
            grid=grid,
            battery=section.battery,
            controller=controller,
            pue=pue,
            critical_w=critical,
            supply=section.supply,
            foresight=foresight,
            inputs=tuple(dict.fromkeys(findings.inputs)),
            reports=findings.reports,
            notes=findings.notes,
            warnings=tuple(dict.fromkeys(findings.warnings)),
            facts=self._facts(full_w, load_w),
        )

    def _sources(self, load_w: float | None) -> tuple[Source, ...]:
        made = []
        for name, section in self._section.sources.items():
            place = f"power.sources.{name}"
            if section.times_load is not None and load_w is None:
                continue  # the load's own problem is reported already
            with self._findings.at(place):
                made.append(self._source(name, section, place, load_w or 0.0))
        return tuple(made)

    def _source(self, name: str, section: SourceSection, place: str, load_w: float) -> Source:
        mean_w = None if section.times_load is None else section.times_load * load_w
        power = self._signals.make(
            section.signal, place, POWER, peak_w=section.peak_w, mean_w=mean_w
        )
        check_covers(power, self._span, self._ahead_s)
        return Source(name, power, section.price_per_kwh, section.carbon_gco2_per_kwh)

    def _grid(self, section: GridSection) -> Grid:
        parts: dict[str, SignalSection | None] = {name: getattr(section, name) for name in _GRID}
        amounts: dict[str, Any] = {
            name: self._amount(part, f"power.grid.{name}", _GRID[name])
            for name, part in parts.items()
            if part is not None
        }
        return Grid(**amounts)

    def _amount(self, section: SignalSection, place: str, quantity: Quantity) -> Amount:
        """Return a signal, or a number if it is constant; 0 if there is a problem."""
        with self._findings.at(place):
            signal = self._signals.make(section, place, quantity)
            if isinstance(section, ConstantSignal):
                return float(section.value)
            check_covers(signal, self._span, self._ahead_s)
            return signal
        return 0.0

    def _temperature(self, section: SignalSection, place: str) -> Signal:
        signal = self._signals.make(section, place, TEMPERATURE)
        check_covers(signal, self._span)
        return signal

    def _foresight(
        self, section: ForecastSection, sources: tuple[Source, ...], grid: Grid
    ) -> Foresight:
        """Return the forecasts of the sum of all sources, and of the grid's price and carbon."""
        powers = [source.power for source in sources] or [Constant(0.0)]
        truths = {"signal": powers[0] if len(powers) == 1 else Sum(powers)}
        if self._section.grid is not None:
            truths["price"] = _as_signal(grid.price_per_kwh, PRICE)
            truths["carbon"] = _as_signal(grid.carbon_gco2_per_kwh, CARBON)
        found: dict[str, Forecast] = {}
        for name, truth in truths.items():
            place = f"power.forecast.{name}"
            if not isinstance(section, GivenSection):
                found[name] = _forecast(section, truth, self._signals.seeds(place))
            elif (part := getattr(section, name)) is not None:
                given = self._signals.make(part, place, _FORECASTS[name])
                check_covers(given, self._span, section.horizon)
                found[name] = GivenForecast(truth, given)
        return Foresight(
            section.horizon, section.step, found["signal"], found.get("price"), found.get("carbon")
        )

    def _load_w(self, full_w: float, pue: Pue, critical: Amount) -> float:
        """Return the mean of what the site draws with all machines busy, in W."""
        first, last = self._span
        always = critical.mean(first, last) if isinstance(critical, Signal) else critical
        if last <= first:
            return pue.pue(full_w, first) * full_w + always
        parts, at = [], first
        while at < last:
            until = min(pue.next_change(at), last)
            parts.append(pue.pue(full_w, at) * (until - at))
            at = until
        return math.fsum(parts) / (last - first) * full_w + always

    def _facts(self, full_w: float, load_w: float | None) -> dict[str, float | str]:
        section, signals = self._section, self._signals
        facts: dict[str, float | str] = {"align": section.align.type}
        if math.isfinite(signals.epoch_s):
            facts["epoch_s"] = signals.epoch_s
        if signals.zone is not None:
            facts["zone"] = signals.zone
        facts["machines.full_w"] = full_w
        if load_w is not None:
            facts["load_w"] = load_w
        if section.battery is not None:
            facts["battery.model"] = section.battery.model
        return facts | self._findings.facts


def _forecast(section: ForecastSection, truth: Signal, seeds: list[int]) -> Forecast:
    if isinstance(section, PersistenceSection):
        return Persistence(truth, section.period)
    if isinstance(section, NoisySection) and (section.kind == "relative" or truth.unit == WATT):
        least = -math.inf if truth.unit == PRICE else 0.0
        return NoisyForecast(truth, seeds, section, bounds=(least, math.inf))
    return PerfectForecast(truth)


def _as_signal(amount: Amount, unit: str) -> Signal:
    return amount if isinstance(amount, Signal) else Constant(amount, unit)


def build_controller(scenario: Scenario) -> Controller | None:
    """Return the controller of a scenario's site; None without power.

    Raises ScenarioError or PluginError, with the key, if it cannot be made.
    """
    if scenario.power is None:
        return None
    findings, made = Findings(), None
    with findings.at("power.controller"):
        made = _controller(scenario.power.controller)
    findings.raise_problems()
    return made


def _controller(section: ControllerChoice) -> Controller:
    factory = plugins.find("simkit.controllers", section.type)
    controller = plugins.instantiate(repr(section.type), factory, section.args)
    if not isinstance(controller, Controller):
        raise PluginError(
            f"{section.type!r} has no levels or no settle(state); a controller needs both, see "
            "simkit.power.controller"
        )
    return controller
