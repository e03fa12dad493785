"""What machines draw, and what the facility adds to it.

`PowerModel`: idle power, and power that rises with the use of a machine's resources. `Pue`: power
usage effectiveness, the ratio of the facility's power to the machines' (C. Belady et al., The Green
Grid white paper 6, 2008). Cooling and conversion make it larger than 1, and larger at part load and
on hot days.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.power.facts import NOT_NEGATIVE, POSITIVE, Switching, range_problems
from simkit.power.signal import Signal


@dataclass(frozen=True)
class Curve:
    """Dynamic power over utilisation: straight lines between points, 0 W at 0."""

    utilisation: tuple[float, ...]
    """Ascending from 0 to 1."""
    watts: tuple[float, ...]
    """Power above idle at each of them, in W."""

    def power_w(self, utilisation: float) -> float:
        """Return the dynamic power in W; the first and last lines continue outside 0..1."""
        if len(self.watts) == 2:
            return self.watts[1] * utilisation
        row = min(max(bisect_right(self.utilisation, utilisation) - 1, 0), len(self.watts) - 2)
        start, end = self.utilisation[row], self.utilisation[row + 1]
        low, high = self.watts[row], self.watts[row + 1]
        return low + (high - low) * (utilisation - start) / (end - start)

    def powers_w(self, utilisation: Floats) -> Floats:
        """Return (N,) dynamic powers in W at (N,) utilisations."""
        points, watts = np.array(self.utilisation), np.array(self.watts)
        row = np.searchsorted(points, utilisation, side="right") - 1
        row = np.clip(row, 0, len(points) - 2)
        slope = np.diff(watts) / np.diff(points)
        powers: Floats = watts[row] + slope[row] * (utilisation - points[row])
        return powers


@dataclass(frozen=True)
class PowerModel:
    """A kind of machine: power(u) = idle + Σ over resources of curve(u of the resource).

    Made by `linear`, `table` or `per_resource`. The power above idle is dynamic. Jobs are billed
    for dynamic power only, in proportion to what they hold of each resource.
    """

    idle_w: float
    """Power when switched on and empty."""
    resources: tuple[str, ...]
    """Names of the resources that draw dynamic power."""
    curves: tuple[Curve, ...]
    """One for each resource."""
    switching: Switching = field(default_factory=Switching)
    """While it is off, boots or shuts down."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with all that is wrong with idle power and curves."""
        problems = range_problems(self, idle_w=NOT_NEGATIVE)
        if len(self.resources) != len(self.curves):
            problems.append(f"{len(self.curves)} curves for {len(self.resources)} resources")
        for resource, curve in zip(self.resources, self.curves, strict=False):
            problems += [f"{resource}: {problem}" for problem in _curve_problems(curve)]
        if problems:
            raise ScenarioError(f"machine power: {problem}" for problem in problems)

    @classmethod
    def linear(
        cls, idle_w: float, full_w: float, resource: str = "cpu", **switching: float
    ) -> PowerModel:
        """Return idle + (full − idle) · u.

        X. Fan, W.-D. Weber and L. A. Barroso, "Power provisioning for a warehouse-sized computer",
        ISCA 2007. `switching` are keys of `Switching`. Raises ScenarioError, also for a full power
        below idle; with wrong keys of `switching`, for those alone.
        """
        return cls.per_resource(idle_w, {resource: full_w - idle_w}, **switching)

    @classmethod
    def table(cls, watts: Sequence[float], resource: str = "cpu", **switching: float) -> PowerModel:
        """Return straight lines through total powers in W at equal steps of utilisation.

        Eleven numbers are the power at 0, 10, …, 100 %, as in results of SPECpower_ssj2008 in
        reverse order, active idle first.
        """
        if len(watts) < 2:
            raise ScenarioError(
                f"machine power: the table has {len(watts)} numbers; give W at 0, 10, …, 100 %"
            )
        steps = tuple(np.linspace(0.0, 1.0, len(watts)).tolist())
        above_idle = tuple([float(w - watts[0]) for w in watts])
        return cls(
            float(watts[0]), (resource,), (Curve(steps, above_idle),), Switching(**switching)
        )

    @classmethod
    def per_resource(
        cls, idle_w: float, full_w: Mapping[str, float], **switching: float
    ) -> PowerModel:
        """Return idle + Σ full · u; `full_w` is what each resource adds in W when fully used."""
        curves = tuple([Curve((0.0, 1.0), (0.0, float(watts))) for watts in full_w.values()])
        return cls(idle_w, tuple(full_w), curves, Switching(**switching))

    @property
    def boot_power_w(self) -> float:
        """Power while booting, in W."""
        return self.idle_w if self.switching.boot_w is None else self.switching.boot_w

    @property
    def full_w(self) -> float:
        """Power with all resources in use, in W."""
        return self.idle_w + sum(curve.watts[-1] for curve in self.curves)

    def power_w(self, utilisation: Sequence[float]) -> float:
        """Return the power in W of a machine that is on, from each resource's utilisation, 0..1."""
        pairs = zip(self.curves, utilisation, strict=True)
        return self.idle_w + sum(curve.power_w(u) for curve, u in pairs)


def _curve_problems(curve: Curve) -> list[str]:
    points, watts = np.array(curve.utilisation), np.array(curve.watts)
    if len(points) != len(watts) or len(points) < 2:
        return [f"{len(points)} utilisations for {len(watts)} powers; give at least two of each"]
    problems = []
    if points[0] != 0 or points[-1] != 1 or not (np.diff(points) > 0).all():
        problems.append("utilisations must rise from 0 to 1")
    if watts[0] != 0 or not np.isfinite(watts).all():
        problems.append("power above idle must be 0 at utilisation 0 and finite")
    elif (watts < 0).any():
        problems.append(
            f"power in use is {-watts.min():g} W below idle power; "
            "give the total power in use, at least idle power"
        )
    return problems


class Pue(Protocol):
    """Gives power usage effectiveness at an instant."""

    def pue(self, machines_w: float, time_s: float) -> float:
        """Return facility power / machine power, at least 1, when machines draw `machines_w`."""

    def ratios(self, machines_w: Floats, times_s: Floats) -> Floats:
        """Return (N,) the same at N instants."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Signals that it follows in addition to the machines' power."""

    def next_change(self, time_s: float) -> float:
        """Return the first time in s after this one at which it may change at constant power."""


@dataclass(frozen=True)
class ConstantPue:
    """The same ratio always; 1 adds nothing to the machines."""

    ratio: float = 1.0

    def __post_init__(self) -> None:
        """Raise ScenarioError for a ratio below 1."""
        if not 1 <= self.ratio < math.inf:
            raise ScenarioError(
                f"pue: {self.ratio:g} is not at least 1; a site draws what its machines do"
            )

    def pue(self, machines_w: float, time_s: float) -> float:
        return self.ratio

    def ratios(self, machines_w: Floats, times_s: Floats) -> Floats:
        return np.full(len(times_s), self.ratio)

    @property
    def signals(self) -> tuple[Signal, ...]:
        return ()

    def next_change(self, time_s: float) -> float:
        return math.inf


@dataclass(frozen=True)
class CurvedPue:
    """A ratio that depends on the load and the weather; straight lines between points.

    The scenario's `power.pue` checks the points.
    """

    rated_w: float
    """Machine power in W at which the load is 1."""
    by_load: Mapping[float, float]
    """Load (machine power / rated power) -> ratio, at least 1; level beyond the points."""
    temperature: Signal | None = None
    """Outside temperature in °C."""
    added_by_temperature: Mapping[float, float] = field(default_factory=dict)
    """Temperature in °C -> what is added to the ratio, at least 0."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for a rated power that is not positive."""
        if problems := range_problems(self, rated_w=POSITIVE):
            raise ScenarioError(f"pue: {problem}" for problem in problems)

    def pue(self, machines_w: float, time_s: float) -> float:
        ratio = _between(self.by_load, machines_w / self.rated_w)
        if self.temperature is not None:
            ratio += _between(self.added_by_temperature, self.temperature.value(time_s))
        return ratio

    def ratios(self, machines_w: Floats, times_s: Floats) -> Floats:
        ratios = _interpolated(self.by_load, machines_w / self.rated_w)
        if self.temperature is not None:
            degrees = self.temperature.values(times_s)
            ratios = ratios + _interpolated(self.added_by_temperature, degrees)
        return ratios

    @property
    def signals(self) -> tuple[Signal, ...]:
        return () if self.temperature is None else (self.temperature,)

    def next_change(self, time_s: float) -> float:
        return math.inf if self.temperature is None else self.temperature.next_change(time_s)


def _between(points: Mapping[float, float], at: float) -> float:
    return float(_interpolated(points, np.array(at)))


def _interpolated(points: Mapping[float, float], at: Floats) -> Floats:
    known = sorted(points)
    return np.asarray(np.interp(at, known, [points[x] for x in known]))
