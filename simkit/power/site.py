"""A site: the energy side of a cluster, with its sources, battery, grid and machine power.

Everything here is fixed before a run and knows no simulator; `simkit.power.system` runs it.

Before a run, the site is checked for what its policy and controller read. A signal that is not
declared is 0 throughout: a rule that waits until it is low would never wait, a controller that buys
while it is low would always buy, and the run would not say so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

from simkit.errors import ScenarioError
from simkit.policy import Policy
from simkit.policy.state import Foreseen
from simkit.power.controller import Controller, GridOffer, SourceOrder
from simkit.power.facts import (
    CARBON_INTENSITY,
    ENERGY_PRICE,
    FINITE,
    GRID,
    NOT_NEGATIVE,
    POWER,
    BatteryFacts,
    Range,
    Supply,
    range_problems,
)
from simkit.power.forecast import Forecast
from simkit.power.machine_model import ConstantPue, PowerModel, Pue
from simkit.power.signal import WATT, Amount, Signal
from simkit.units import KWH_J
from simkit.workload import RowReport


@dataclass(frozen=True)
class Grid:
    """A grid connection, by default without limits; `Grid(0, 0)` means no connection."""

    import_limit_w: Amount = math.inf
    """W, at least 0; a signal may cut the connection for a while."""
    export_limit_w: Amount = 0.0
    """W, at least 0."""
    price_per_kwh: Amount = 0.0
    """Price of imported energy, in any currency, the same everywhere."""
    export_price_per_kwh: Amount = 0.0
    """Earnings for exported energy."""
    carbon_gco2_per_kwh: Amount = 0.0
    """Carbon of imported energy."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong about the numbers."""
        limit = Range("at least 0", lambda v: v >= 0)
        ranges = {POWER: limit, ENERGY_PRICE: FINITE, CARBON_INTENSITY: NOT_NEGATIVE}
        numbers = {
            name: ranges[quantity]
            for name, quantity in GRID.items()
            if not isinstance(getattr(self, name), Signal)
        }
        if problems := range_problems(self, **numbers):
            raise ScenarioError(f"grid: {problem}" for problem in problems)

    def offer(self, time_s: float) -> GridOffer:
        """Return what the grid offers at a time in s.

        Raises ScenarioError if the signal of a limit or of carbon is below 0.
        """
        offer = GridOffer(*(_at(amount, time_s) for amount in vars(self).values()))
        for name in _AT_LEAST_0:
            if not getattr(offer, name) >= 0:
                raise ScenarioError(
                    f"grid: {name} is {getattr(offer, name):g} at {time_s:.9g} s; it must be at "
                    "least 0; fix its signal"
                )
        return offer

    def next_change(self, time_s: float) -> float:
        """Return the first time in s after this one at which the offer may change."""
        signals = [amount for amount in vars(self).values() if isinstance(amount, Signal)]
        return min((signal.next_change(time_s) for signal in signals), default=math.inf)


def _at(amount: Amount, time_s: float) -> float:
    return amount.value(time_s) if isinstance(amount, Signal) else float(amount)


_AT_LEAST_0: Final = tuple([name for name, quantity in GRID.items() if quantity.least == 0])
NO_GRID: Final = Grid(0.0, 0.0)


@dataclass(frozen=True)
class Source:
    """Something that generates power on the site: a wind farm, solar panels on a roof."""

    name: str
    power: Signal
    """W, at least 0."""
    price_per_kwh: float = 0.0
    """Price of each kWh that is used."""
    carbon_gco2_per_kwh: float = 0.0
    """Life-cycle carbon of each kWh that is used."""

    def __post_init__(self) -> None:
        """Raise ScenarioError if the signal is not in W, or a number is out of range."""
        problems = range_problems(self, price_per_kwh=FINITE, carbon_gco2_per_kwh=NOT_NEGATIVE)
        if self.power.unit != WATT:
            problems.append(f"is in {self.power.unit}; a source gives power in {WATT}")
        if problems:
            raise ScenarioError(f"source {self.name!r}: {problem}" for problem in problems)

    def check(self, watts: float, time_s: float) -> None:
        """Raise ScenarioError if the power in W at a time in s is below 0 or not finite."""
        if not 0 <= watts < math.inf:
            raise ScenarioError(
                f"source {self.name!r} gives {watts:g} W at {time_s:.9g} s; power from a "
                "source is finite and at least 0: clip night-time readings or fix the signal"
            )


@dataclass(frozen=True)
class Foresight:
    """What policies may know about the future."""

    horizon_s: float
    """How far ahead, in s."""
    step_s: float
    """Length of a step, in s."""
    generation: Forecast
    """Forecast of the sum of all sources, in W."""
    price: Forecast | None = None
    """Forecast of the grid's price; None if it has none."""
    carbon: Forecast | None = None
    """Forecast of the grid's carbon intensity; None if it has none."""

    def __post_init__(self) -> None:
        """Raise ScenarioError unless 0 < step ≤ horizon."""
        if not 0 < self.step_s <= self.horizon_s < math.inf:
            raise ScenarioError(
                f"forecast: step {self.step_s:g} s and horizon {self.horizon_s:g} s; "
                "the step must be above 0 and at most the horizon"
            )


@dataclass(frozen=True)
class Site:
    """The energy side of a cluster of M machines."""

    models: tuple[PowerModel, ...]
    """(M,) the power model of each machine; machines of one kind share one."""
    sources: tuple[Source, ...] = ()
    grid: Grid = NO_GRID
    battery: BatteryFacts | None = None
    controller: Controller = field(default_factory=SourceOrder)
    pue: Pue = field(default_factory=ConstantPue)
    critical_w: Amount = 0.0
    """Load that is always on, in W, on top of the machines and what the PUE adds to them."""
    supply: Supply = field(default_factory=Supply)
    foresight: Foresight | None = None
    """None: policies know only the present."""
    inputs: tuple[Path, ...] = ()
    """Files that signals were read from."""
    reports: Mapping[str, RowReport] = field(default_factory=dict)
    """Name of a signal -> which rows of its file were read, repaired and dropped."""
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a signal -> what its reader took for granted, such as a unit from a name."""
    warnings: tuple[str, ...] = ()
    """What contradicts the declarations of signals, or is made up."""
    facts: Mapping[str, float | str] = field(default_factory=dict)
    """What the run reports about it, such as the factor by which a source was scaled."""

    def check_critical(self, watts: float, time_s: float) -> None:
        """Raise ScenarioError if the critical load at a time in s is below 0 W or not finite."""
        if not 0 <= watts < math.inf:
            raise ScenarioError(
                f"critical_w is {watts:g} W at {time_s:.9g} s; it must be finite and at least 0"
            )

    @property
    def signals(self) -> tuple[Signal, ...]:
        """All that changes with time: sources, critical load, grid, weather."""
        amounts = (*(s.power for s in self.sources), self.critical_w, *vars(self.grid).values())
        return (*(a for a in amounts if isinstance(a, Signal)), *self.pue.signals)

    def signals_of(self, what: Foreseen) -> tuple[Signal, ...]:
        """Return the signals on which a reading of policies depends."""
        sources, grid = tuple(source.power for source in self.sources), self.grid
        amounts: dict[Foreseen, tuple[Amount, ...]] = {
            "generation": sources,
            "price": (grid.price_per_kwh,),
            "carbon": (grid.carbon_gco2_per_kwh,),
            "available": (*sources, grid.import_limit_w, self.critical_w, *self.pue.signals),
        }
        return tuple(amount for amount in amounts[what] if isinstance(amount, Signal))

    @property
    def full_w(self) -> float:
        """What all machines draw when busy, in W."""
        return math.fsum(model.full_w for model in self.models)

    def generation_kwh(self, start_s: float, end_s: float) -> dict[str, float]:
        """Return what each source can give over a finite span, used or not: name -> energy in kWh.

        Each is the integral of the source's power, exact but for rounding.

        Raises ValueError if the span ends before it starts, TraceError if a source does not cover
        it.
        """
        return {s.name: s.power.integral(start_s, end_s) / KWH_J for s in self.sources}


OfGrid = Literal["price", "carbon"]

_KEYS: Final = {"price": "price_per_kwh", "carbon": "carbon_gco2_per_kwh"}
"""Signal of a grid -> its key in `power.grid`."""
_EXAMPLE: Final = "{type: perfect, horizon: 48h, step: 1h}"


@runtime_checkable
class SiteChecker(Protocol):
    """A policy or controller that can say before a run what it needs and the site lacks."""

    def check_site(self, site: Site | None) -> Iterable[str]:
        """Return problems, each with its place and its remedy; none: the run may begin.

        `site` is None if the scenario has no section `power`.
        """


def policy_problems(policy: Policy, site: Site | None) -> list[str]:
    """Return what a policy's `check_site` finds wrong; nothing if it has none."""
    return list(policy.check_site(site)) if isinstance(policy, SiteChecker) else []


def controller_problems(site: Site) -> list[str]:
    """Return what the site's controller reads and the site lacks."""
    controller = site.controller
    if isinstance(controller, SiteChecker):
        return list(controller.check_site(site))
    if not isinstance(controller, SourceOrder):
        return []
    return [
        f"power.controller: {key} is {threshold:g}, but {_undeclared(site, signal)}, or leave "
        f"{key} out"
        for signal, key in (("price", "charge_below_price"), ("carbon", "charge_below_carbon"))
        if (threshold := getattr(controller, key)) > -math.inf and not _is_declared(site, signal)
    ]


def unmet_needs(
    site: Site | None,
    name: str,
    *,
    grid: Collection[OfGrid] = (),
    forecast: Collection[Foreseen] = (),
) -> list[str]:
    """Return what a policy needs and the site lacks.

    Args:
        site: None: the scenario has no section `power`.
        name: of the policy, with its place in the scenario; each problem begins with it.
        grid: signals of the grid whose present values it reads.
        forecast: what it needs forecasts of.
    """
    if site is None:
        return [
            f"{name}: it decides by the site's power, and the scenario has none; "
            "add a section power:, or use another policy"
        ]
    missing = [
        f"it decides by the {signal} of the grid, but {_undeclared(site, signal)}, or use "
        "another policy"
        for signal in grid
        if not _is_declared(site, signal)
    ]
    return [f"{name}: {text}" for text in (*missing, *_unforeseen(site, forecast))]


def _is_declared(site: Site, signal: str) -> bool:
    """Return whether the grid has a price or a carbon intensity; a constant 0 counts as none."""
    amount = getattr(site.grid, _KEYS[signal])
    return not isinstance(amount, (int, float)) or amount != 0


def _undeclared(site: Site, signal: str) -> str:
    if site.grid == NO_GRID:
        return f"the site has no grid; add power.grid with {_KEYS[signal]}"
    key = f"power.grid.{_KEYS[signal]}"
    return f"{key} is not declared, which makes it 0 throughout; declare {key}"


def _unforeseen(site: Site, forecast: Collection[Foreseen]) -> list[str]:
    """Return which forecasts are missing; every section `forecast` covers the generation."""
    foresight = site.foresight
    if forecast and foresight is None:
        what = " and ".join(forecast)
        return [f"it needs a forecast of {what}; add power.forecast, such as {_EXAMPLE}"]
    return [
        f"power.forecast does not include the {what}; add power.forecast.{what}, or use a type "
        "that includes all, such as perfect"
        for what in forecast
        if what in _KEYS and getattr(foresight, what) is None and _is_declared(site, what)
    ]
