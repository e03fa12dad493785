"""Power usage effectiveness: what a site draws for each W that its machines draw.

The ratio of the facility's power to the machines' (C. Belady et al., The Green Grid white paper 6,
2008). Cooling and conversion make it above 1, higher at part load and on hot days.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from simkit.errors import ScenarioError
from simkit.grid import Varying


class Pue(Protocol):
    """Gives the ratio at an instant."""

    def pue(self, machines_w: float, time_s: float) -> float:
        """Return facility power / machine power, at least 1, for the machines' power in W."""

    def next_change(self, time_s: float) -> float:
        """Return the first time in s after this one at which it may change by itself."""


@dataclass(frozen=True)
class ConstantPue:
    """The same ratio always; 1: machines alone."""

    ratio: float = 1.0

    def __post_init__(self) -> None:
        """Raise ScenarioError for a ratio below 1."""
        if not 1 <= self.ratio < math.inf:
            raise ScenarioError(f"pue: {self.ratio:g} is not at least 1; a site draws what it runs")

    def pue(self, machines_w: float, time_s: float) -> float:
        """See `Pue.pue`."""
        return self.ratio

    def next_change(self, time_s: float) -> float:
        """See `Pue.next_change`."""
        return math.inf


@dataclass(frozen=True)
class CurvedPue:
    """A ratio over the load, plus what the weather adds; straight lines between points."""

    rated_w: float
    """Machine power in W at which the load is 1."""
    by_load: Mapping[float, float]
    """Load (machine power / rated power) to ratio, at least 1; beyond the points it stays level."""
    temperature: Varying | None = None
    """Outside temperature in °C."""
    added_by_temperature: Mapping[float, float] = field(default_factory=dict)
    """Temperature in °C to what is added to the ratio, at least 0."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong."""
        problems = []
        if not 0 < self.rated_w < math.inf:
            problems.append(f"rated_w is {self.rated_w:g}; it must be above 0, in W")
        if not self.by_load or not all(1 <= ratio < math.inf for ratio in self.by_load.values()):
            problems.append("by_load needs at least one point, and ratios of at least 1")
        if not all(0 <= more < math.inf for more in self.added_by_temperature.values()):
            problems.append("added_by_temperature must be at least 0 and finite")
        if (self.temperature is None) != (not self.added_by_temperature):
            problems.append("give both temperature and added_by_temperature, or neither")
        if problems:
            raise ScenarioError(f"pue: {problem}" for problem in problems)

    def pue(self, machines_w: float, time_s: float) -> float:
        """See `Pue.pue`."""
        ratio = _between(self.by_load, machines_w / self.rated_w)
        if self.temperature is not None:
            ratio += _between(self.added_by_temperature, self.temperature.value(time_s))
        return ratio

    def next_change(self, time_s: float) -> float:
        """See `Pue.next_change`."""
        return math.inf if self.temperature is None else self.temperature.next_change(time_s)


def _between(points: Mapping[float, float], place: float) -> float:
    places = sorted(points)
    return float(np.interp(place, places, [points[p] for p in places]))
