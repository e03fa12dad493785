"""What policies may know of the future of a site, as a scenario says it."""

from __future__ import annotations

import math

from simkit.grid import Amount, Grid
from simkit.scenario_forecast import (
    Forecast as ForecastSection,
)
from simkit.scenario_forecast import (
    GivenSection,
    NoisySection,
    PersistenceSection,
)
from simkit.scenario_signal import Signal as SignalSection
from simkit.signal import CARBON, PRICE, WATT, Constant, Signal, Sum
from simkit.signal_forecast import Forecast, GivenForecast, PerfectForecast, Persistence
from simkit.signal_noise import NoisyForecast
from simkit.signal_source import (
    CLEANNESS,
    MONEY,
    POWER,
    SignalSource,
)
from simkit.signal_span import Span, check_covers
from simkit.site import Foresight, Source


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
