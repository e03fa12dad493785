"""A site: the energy side of a cluster. Its sources, its store, its grid, and what machines draw.

Everything here is fixed before a run and knows no simulator; `simkit.power.system` runs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from simkit.errors import ScenarioError
from simkit.power.battery import BatteryFacts
from simkit.power.controller import Controller, SourceOrder
from simkit.power.forecast import Forecast
from simkit.power.grid import KWH_J, Amount, Grid
from simkit.power.machine_model import ConstantPue, PowerModel, Pue
from simkit.power.signal import WATT, Signal
from simkit.workload import RowReport

WhenShort = Literal["drain", "suspend", "checkpoint", "requeue"]
"""What becomes of tasks when supply falls: they run on to their end; they are suspended with their
work kept; they go on from their last checkpoint; they start over from the queue."""

NO_GRID: Final = Grid(0.0, 0.0)


@dataclass(frozen=True)
class Source:
    """A generator of the site: a wind farm, a roof of panels."""

    name: str
    power: Signal
    """W, at least 0."""
    price_per_kwh: float = 0.0
    """What a kWh of it that is used costs."""
    carbon_gco2_per_kwh: float = 0.0
    """Of a kWh that is used, over the life cycle."""

    def __post_init__(self) -> None:
        """Raise ScenarioError if it is no power, or its price or carbon is no number."""
        problems = []
        if self.power.unit != WATT:
            problems.append(f"is in {self.power.unit}; a source gives power in {WATT}")
        if not math.isfinite(self.price_per_kwh):
            problems.append(f"price_per_kwh is {self.price_per_kwh:g}; it must be finite")
        if not 0 <= self.carbon_gco2_per_kwh < math.inf:
            problems.append(
                f"carbon_gco2_per_kwh is {self.carbon_gco2_per_kwh:g}; it must be at least 0"
            )
        if problems:
            raise ScenarioError(f"source {self.name!r}: {problem}" for problem in problems)


@dataclass(frozen=True)
class Checkpoints:
    """Work is saved at regular times of running, and goes on from there after a stop."""

    every_s: float
    """Run time between two checkpoints; work since the last one is lost."""
    restart_s: float = 0.0
    """Run time that going on costs: loading what was saved; nothing where nothing was."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for times that are none."""
        if not 0 < self.every_s < math.inf:
            raise ScenarioError(f"checkpoints: every_s is {self.every_s:g}; it must be above 0 s")
        if not 0 <= self.restart_s < math.inf:
            raise ScenarioError(f"checkpoints: restart_s is {self.restart_s:g}; at least 0 s")


@dataclass(frozen=True)
class Supply:
    """How the power that is there decides what may run."""

    limit: Literal["none", "power", "resources"] = "none"
    """none: everything may run, what is short is unserved. power: as many machines (of a pool:
    processors) are on as the power carries when all of them are busy. resources: the share of
    the resources is the share that the power is of `peak_w`."""
    peak_w: float | None = None
    """resources: the power, after critical load and PUE, that carries everything; None: what all
    machines draw when busy."""
    running: WhenShort = "suspend"
    """What becomes of tasks on what is switched off."""
    checkpoints: Checkpoints | None = None
    """Needed where `running` is checkpoint."""
    hold_s: float = 3600.0
    """The battery counts for the power that it can hold for so long."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong."""
        problems = []
        if self.limit not in ("none", "power", "resources"):
            problems.append(f"limit is {self.limit!r}; it is none, power or resources")
        if self.peak_w is not None and not 0 < self.peak_w < math.inf:
            problems.append(f"peak_w is {self.peak_w:g}; it must be above 0, in W")
        if self.running not in get_args(WhenShort):
            problems.append(
                f"running is {self.running!r}; it is one of {', '.join(get_args(WhenShort))}"
            )
        if (self.running == "checkpoint") != (self.checkpoints is not None):
            problems.append("running: checkpoint and checkpoints go together; give both or neither")
        if not 0 < self.hold_s < math.inf:
            problems.append(f"hold_s is {self.hold_s:g}; it must be a positive time in s")
        if problems:
            raise ScenarioError(f"supply: {problem}" for problem in problems)


@dataclass(frozen=True)
class Foresight:
    """What policies may know of the future."""

    horizon_s: float
    """How far ahead."""
    step_s: float
    """Length of a step."""
    generation: Forecast
    """Of the sum of all sources, in W."""
    price: Forecast | None = None
    """Of the grid's price; None: it is not foreseen."""
    carbon: Forecast | None = None
    """Of the grid's carbon intensity."""

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
    """(M,) what each machine draws; machines of a kind share one."""
    sources: tuple[Source, ...] = ()
    grid: Grid = NO_GRID
    battery: BatteryFacts | None = None
    controller: Controller = field(default_factory=SourceOrder)
    pue: Pue = field(default_factory=ConstantPue)
    critical_w: Amount = 0.0
    """Load that is always on, in W, beside the machines and what the PUE adds to them."""
    supply: Supply = field(default_factory=Supply)
    foresight: Foresight | None = None
    """None: policies see the present alone."""
    inputs: tuple[Path, ...] = ()
    """Files that signals were read from."""
    reports: Mapping[str, RowReport] = field(default_factory=dict)
    """What became of their rows."""
    facts: Mapping[str, float | str] = field(default_factory=dict)
    """What the run states about it, such as the factor by which a source was scaled."""

    @property
    def full_w(self) -> float:
        """What all machines draw when busy, in W."""
        return math.fsum(model.full_w for model in self.models)


# MERGED What each source of a site could give over a span of time.


def generated_by_source(site: Site, start_s: float, end_s: float) -> dict[str, float]:
    """Return what each source could give, used or not; together that is the site's generation.

    The integral of each source's power is exact but for rounding, without any sampling.

    Args:
        site: with its sources.
        start_s: start of the span on the run's clock, finite.
        end_s: its end, not before the start.

    Returns:
        Name of a source -> energy in kWh, in the order of the sources.

    Raises ValueError for a span that is none, TraceError where a source is not known over it.
    """
    return {s.name: s.power.integral(start_s, end_s) / KWH_J for s in site.sources}
