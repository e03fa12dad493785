"""The energy of a pool in lock-step: what its units draw in an hour, and what the site pays for it.

The flows are those of the simulation's site without a battery (`simkit.power.system`), where
its signals change at steps alone: sources serve the load first, then the grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.power.controller import SourceOrder
from simkit.power.ledger import site_rates
from simkit.power.machine_model import PowerModel, Pue
from simkit.power.site import Site
from simkit.power.system import Instants, flows_at_once, instants
from simkit.units import TIME_GRID

__all__ = ["SIGNALS", "PoolEnergy", "energy_problems", "hourly_signals"]

_GIVEN: Final = Instants._fields[Instants._fields.index("generation_w") :]
SIGNALS: Final = ("critical_w", *_GIVEN)
"""F: what the site's signals say in an hour, whatever runs; see `Instants`."""


@dataclass(frozen=True)
class PoolEnergy:
    """What a pool of one machine draws, and what the facility adds to it."""

    model: PowerModel
    """The power model of all units together."""
    resources: tuple[str, ...]
    """Names of the R resources."""
    capacity: tuple[int, ...]
    """(R,) units in all."""
    pue: Pue

    def rates(self, signals: Floats, held: Ints, powered: Ints) -> dict[str, Floats]:
        """Return `cost_per_s` and `carbon_g_per_s` of the site in K pools, (K,) each.

        Args:
            signals: (K, F) `SIGNALS`.
            held: (R, K) units that jobs hold.
            powered: (R, K) units that have power.
        """
        model, units = self.model, np.array(self.capacity)[:, None]
        use = np.divide(held, units, out=np.zeros(held.shape), where=units > 0)
        on = np.maximum(powered[0] / units[0], use.max(axis=0))
        standing = on * model.idle_w + (1.0 - on) * model.switching.off_w
        machines = standing.copy()
        for name, curve in zip(model.resources, model.curves, strict=True):
            machines += curve.powers_w(use[self.resources.index(name)])
        nowhen, (critical, *given) = np.zeros(len(standing)), signals.T
        pue = self.pue.ratios(machines, nowhen)
        at = Instants(nowhen, machines, standing, pue, pue * machines + critical, *given)
        return site_rates(flows_at_once(at))


def energy_problems(site: Site | None) -> Iterable[str]:
    """Yield what lock-step does not know of a site's energy."""
    if site is None:
        yield "power: without it energy costs nothing; add a section `power`"
        return
    if type(site.controller) is not SourceOrder:
        yield "power.controller: lock-step knows source-order; leave it out"
    if site.pue.signals:
        yield "power.pue: lock-step knows one that does not follow the weather"


def hourly_signals(site: Site, begin_s: float, step_s: float, hours: int) -> Floats:
    """Return (T, F) `SIGNALS` of each hour.

    Raises ScenarioError if any of them changes within a step.
    """
    end_s = begin_s + hours * step_s
    for signal in site.signals:
        starts, values = signal.pieces(begin_s, end_s)
        changes = starts[1:][values[1:] != values[:-1]]
        off = np.abs(np.remainder(changes - begin_s + step_s / 2, step_s) - step_s / 2) > TIME_GRID
        if off.any():
            raise ScenarioError(
                f"power: a signal changes within a step at {changes[off][0]:.9g} s; lock-step "
                "accounts for energy where signals change at steps"
            )
    times: Floats = begin_s + step_s * np.arange(hours, dtype=np.float64)
    none = np.zeros(hours)
    at = instants(site, times, none, none)
    return np.column_stack([at.load_w, *(getattr(at, name) for name in _GIVEN)])
