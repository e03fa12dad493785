"""The site of a scenario: sources, grid, battery, controller, machines' power and foresight.

Everything is checked before the run, and all that is wrong is told at once.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from simkit import plugins
from simkit.errors import PluginError
from simkit.experiment.machine_power import build_models, build_pue
from simkit.experiment.signals import (
    CLEANNESS,
    MONEY,
    POWER,
    WARMTH,
    Found,
    Quantity,
    SignalSource,
)
from simkit.plugins import instantiate
from simkit.power.battery import BatteryFacts
from simkit.power.controller import Controller, SourceOrder
from simkit.power.forecast import (
    Forecast,
    GivenForecast,
    NoisyForecast,
    PerfectForecast,
    Persistence,
)
from simkit.power.grid import KWH_J, Amount, Grid
from simkit.power.machine_model import ConstantPue, PowerModel, Pue
from simkit.power.signal import CARBON, PRICE, WATT, Constant, Signal, Sum
from simkit.power.signal_align import Span, check_covers
from simkit.power.signal_scaling import Scaling
from simkit.power.site import NO_GRID, Checkpoints, Foresight, Site, Source, Supply
from simkit.scenario.power import (
    BatterySection,
    ControllerChoice,
    GivenSection,
    GridSection,
    NoisySection,
    PersistenceSection,
    Power,
    SourceSection,
    SupplySection,
)
from simkit.scenario.power import (
    Forecast as ForecastSection,
)
from simkit.scenario.signals import ConstantSignal
from simkit.scenario.signals import Signal as SignalSection
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

# MERGED What policies may know of the future of a site, as a scenario says it.


def looks_ahead(section: ForecastSection | None) -> float:
    """Return how far behind the last job the truth must be known, in s."""
    if section is None or isinstance(section, (PersistenceSection, GivenSection)):
        return 0.0
    return section.horizon


def build_foresight(
    section: ForecastSection,
    sources: tuple[Source, ...],
    grid: Grid | None,
    signals: SignalSource,
    span: Span,
) -> Foresight:
    """Return the forecasts of generation, price and carbon.

    Args:
        section: what the scenario says.
        sources: of the site; their sum is foreseen.
        grid: its price and carbon are foreseen; None: there is none.
        signals: makes signals that are given.
        span: in which the jobs are there.

    Raises ScenarioError or TraceError, such as for a given signal that ends before the horizon.
    """
    truths = _truths(sources, grid)
    horizon = section.horizon
    found: dict[str, Forecast] = {}
    if isinstance(section, GivenSection):
        for name, kind in (("signal", POWER), ("price", MONEY), ("carbon", CLEANNESS)):
            part: SignalSection | None = getattr(section, name)
            if part is not None and name in truths:
                believed = signals.make(part, f"power.forecast.{name}", kind)
                check_covers(believed, span, horizon)
                found[name] = GivenForecast(truths[name], believed)
    else:
        for name, truth in truths.items():
            found[name] = _forecast(section, truth, signals.seeds(f"power.forecast.{name}"))
    return Foresight(
        horizon, section.step, found["signal"], found.get("price"), found.get("carbon")
    )


def _truths(sources: tuple[Source, ...], grid: Grid | None) -> dict[str, Signal]:
    """Return what is foreseen by its key in the scenario: the power is called `signal`."""
    powers = [source.power for source in sources] or [Constant(0.0)]
    truths = {"signal": powers[0] if len(powers) == 1 else Sum(powers)}
    if grid is not None:
        truths["price"] = _signal(grid.price_per_kwh, PRICE)
        truths["carbon"] = _signal(grid.carbon_gco2_per_kwh, CARBON)
    return truths


def _forecast(section: ForecastSection, truth: Signal, seeds: list[int]) -> Forecast:
    if isinstance(section, PersistenceSection):
        return Persistence(truth, section.period)
    if isinstance(section, NoisySection) and (section.kind == "relative" or truth.unit == WATT):
        return NoisyForecast(
            truth,
            seeds,
            spread=section.spread,
            kind=section.kind,
            correlation_s=section.correlation,
            issue_s=section.issue,
            bounds=(-math.inf if truth.unit == PRICE else 0.0, math.inf),
        )
    return PerfectForecast(truth)


def _signal(amount: Amount, unit: str) -> Signal:
    """Return a number as a constant signal."""
    return amount if isinstance(amount, Signal) else Constant(float(amount), unit)  # type: ignore[arg-type]


_GRID: Final = {
    "import_limit_w": POWER,
    "export_limit_w": POWER,
    "price_per_kwh": MONEY,
    "export_price_per_kwh": MONEY,
    "carbon_gco2_per_kwh": CLEANNESS,
}
"""What the keys of a grid stand for."""


def build_site(section: Power, cluster: Cluster, workload: Workload, seed: int) -> Site:
    """Return the energy side of a cluster.

    The load that a source's `times_load` refers to is what the site draws when all machines are
    busy, with critical load and PUE, in the mean from the first submission until the last job can
    have ended at the earliest. So long at least every signal must be known, and by the horizon of
    a perfect or noisy forecast longer.

    Args:
        section: the scenario's `power`.
        cluster: its machines.
        workload: its jobs: the run's clock, and how long the signals must last.
        seed: of the run; random signals and forecasts have streams of their own.

    Raises ScenarioError with all problems, each beginning with its dotted place, such as
    ``power.sources.solar``.
    """
    return _Builder(section, cluster, workload, seed).site()


class _Builder:
    """Builds one site, going on after problems until all are known."""

    def __init__(self, section: Power, cluster: Cluster, workload: Workload, seed: int) -> None:
        self._section = section
        self._cluster = cluster
        self._found = Found()
        self._span = span_of(workload)
        self._signals = SignalSource(section.align, workload, seed, self._found, self._span)
        self._ahead_s = looks_ahead(section.forecast)

    def site(self) -> Site:
        """Return the site, or raise ScenarioError."""
        section, found = self._section, self._found
        models: tuple[PowerModel, ...] = ()
        with found.at("power.machines"):
            models = build_models(section.machines, self._cluster)
        full_w = math.fsum(model.full_w for model in models)
        pue: Pue = ConstantPue()
        with found.at("power.pue"):
            pue = build_pue(section.pue, full_w, self._temperature)
        critical = self._amount(section.critical_w, "power.critical_w", POWER)
        load_w = None if found.problems else self._load_w(full_w, pue, critical)
        sources = self._sources(load_w)
        grid = NO_GRID if section.grid is None else self._grid(section.grid)
        controller: Controller = SourceOrder()
        with found.at("power.controller"):
            controller = _controller(section.controller)
        supply = Supply()
        with found.at("power.supply"):
            supply = _supply(section.supply)
        battery = None
        with found.at("power.battery"):
            battery = _battery(section.battery)
        foresight = self._foresight(sources, None if section.grid is None else grid)
        found.raise_problems()
        return Site(
            models=models,
            sources=sources,
            grid=grid,
            battery=battery,
            controller=controller,
            pue=pue,
            critical_w=critical,
            supply=supply,
            foresight=foresight,
            inputs=tuple(dict.fromkeys(found.inputs)),
            reports=found.reports,
            facts=self._facts(full_w, load_w),
        )

    def _sources(self, load_w: float | None) -> tuple[Source, ...]:
        made = []
        for name, section in self._section.sources.items():
            place = f"power.sources.{name}"
            if section.times_load is not None and load_w is None:
                continue  # what is wrong with the load is told already
            with self._found.at(place):
                made.append(self._source(name, section, place, load_w))
        return tuple(made)

    def _source(
        self, name: str, section: SourceSection, place: str, load_w: float | None
    ) -> Source:
        scaling = Scaling(section.peak_w, section.times_load)
        power = self._signals.make(section.signal, place, POWER, scaling, load_w)
        self._check_covers(power)
        return Source(name, power, section.price_per_kwh, section.carbon_gco2_per_kwh)

    def _grid(self, section: GridSection) -> Grid:
        amounts: dict[str, Any] = {}
        for name, quantity in _GRID.items():
            part: SignalSection | None = getattr(section, name)
            if part is not None:
                amounts[name] = self._amount(part, f"power.grid.{name}", quantity)
        with self._found.at("power.grid"):
            return Grid(**amounts)
        return NO_GRID

    def _amount(self, section: SignalSection, place: str, quantity: Quantity) -> Amount:
        """Return a number for a constant signal; 0 if there is a problem, which is told later."""
        with self._found.at(place):
            signal = self._signals.make(section, place, quantity)
            if isinstance(section, ConstantSignal):
                return float(section.value)
            self._check_covers(signal)
            return signal
        return 0.0

    def _temperature(self, section: SignalSection, place: str) -> Signal:
        signal = self._signals.make(section, place, WARMTH)
        check_covers(signal, self._span)
        return signal

    def _check_covers(self, signal: Signal) -> None:
        """Raise TraceError if a signal is shorter than the run is at least, or can be foreseen."""
        check_covers(signal, self._span, self._ahead_s)

    def _foresight(self, sources: tuple[Source, ...], grid: Grid | None) -> Foresight | None:
        if self._section.forecast is None:
            return None
        with self._found.at("power.forecast"):
            return build_foresight(self._section.forecast, sources, grid, self._signals, self._span)
        return None

    def _load_w(self, full_w: float, pue: Pue, critical: Amount) -> float:
        """Return the mean of what the site draws with all machines busy, in W."""
        first, last = self._span
        always = critical.mean(first, last) if isinstance(critical, Signal) else critical
        if last <= first:
            return pue.pue(full_w, first) * full_w + float(always)  # type: ignore[arg-type]
        parts, at = [], first
        while at < last:
            until = min(pue.next_change(at), last)
            parts.append(pue.pue(full_w, at) * (until - at))
            at = until
        return math.fsum(parts) / (last - first) * full_w + float(always)  # type: ignore[arg-type]

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
        return facts | self._found.facts


def span_of(workload: Workload) -> Span:
    """Return from when on a run looks at its site, and when at the earliest its last job ends."""
    if not len(workload):
        return Span(0.0, 0.0)
    submitted = np.repeat(workload.submit_time_s, np.diff(workload.first_task))
    return Span(
        min(0.0, float(workload.submit_time_s[0])),
        float((submitted + workload.run_time_s).max()),
    )


def _controller(section: ControllerChoice) -> Controller:
    factory = plugins.find("simkit.controllers", section.type)
    controller = instantiate(repr(section.type), factory, section.args)
    if not isinstance(controller, Controller):
        raise PluginError(
            f"{section.type!r} has no levels or no settle(state); a controller has both, see "
            "simkit.power.controller"
        )
    return controller


def _supply(section: SupplySection) -> Supply:
    saved = section.checkpoints
    return Supply(
        section.limit,
        section.peak_w,
        section.running,
        None if saved is None else Checkpoints(saved.every, saved.restart),
        section.hold,
    )


def _battery(section: BatterySection | None) -> BatteryFacts | None:
    if section is None:
        return None
    facts = section.facts()
    return BatteryFacts(capacity_j=facts.pop("capacity_kwh") * KWH_J, **facts)
