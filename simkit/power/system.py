"""The energy system of a site in a run: decides which source serves the load, and accounts for it.

A plain object that takes times. Between two instants every power is constant:

    system.advance(now)              # account for what has flowed since the last instant
    …                                # the world changes: load, sun, prices
    system.settle(machines_w, …)     # the controller's set-points hold from now on

It must be settled again at `next_event`, when the battery is full, empty or at a level of the
controller, and at `next_change`, when sources, grid or critical load change.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.power.battery import Battery
from simkit.power.controller import ControllerLevels, GridOffer, SiteState, check_set_points
from simkit.power.ledger import Flows, Ledger, OnRows, StoredEnergy
from simkit.power.machine_model import ConstantPue
from simkit.power.signal import Signal
from simkit.power.site import Site

_ROUNDS: Final = 100
"""Most steps of the fixed-point iteration in `within`."""
_CLOSE: Final = 1e-12
"""Relative change at which it has converged."""
_UNSETTLED: Final = (-1.0, -1.0)


class EnergySystem:
    """Sources, battery, grid and controller, and the ledger of what flowed."""

    def __init__(self, site: Site, start_s: float, on_rows: OnRows | None = None) -> None:
        """Begin at a time in s; `on_rows` takes the ledger's rows.

        Raises ScenarioError if a signal has a value out of range, such as a power below 0.
        """
        self.site = site
        self.time_s = start_s
        self.battery: Battery | None = None
        stored = None
        if site.battery is not None:
            self.battery = Battery(site.battery, start_s)
            stored = StoredEnergy(self.battery.energy_j, site.battery.self_discharge_per_s)
        self.ledger = Ledger(start_s, stored, on_rows)
        self.next_event = math.inf
        self.flows = Flows()
        """What flows from now on."""
        self.generation_w = 0.0
        """What all sources can give now."""
        self.critical_w = 0.0
        """Load that is always on, now."""
        self.offer = GridOffer()
        """What the grid offers now."""
        self._price, self._carbon = 0.0, 0.0  # of generation
        self.full_w = site.full_w
        """What all machines draw when busy."""
        self._levels = ControllerLevels(site.controller.levels)
        self._ratio = site.pue.ratio if isinstance(site.pue, ConstantPue) else None
        self._battery_w = 0.0
        self._settled_for = _UNSETTLED
        self._powers: list[float] = []  # of the sources, when last read
        self._others_until = -math.inf  # grid, critical load and weather stay until then
        self._settle = site.controller.settle
        self.read_signals(start_s)

    def next_change(self) -> float:
        """Return the first time in s after now at which a signal of the site may change."""
        now = self.time_s
        changes = [source.power.next_change(now) for source in self.site.sources]
        return min([self._others_until, *changes])

    def read_signals(self, now: float) -> bool:
        """Read all signals at a time in s; return whether any of them has changed."""
        changed = self._read_sources(now)
        if now >= self._others_until:
            changed |= self._read_others(now)
        if changed or self._ratio is None:
            self._settled_for = _UNSETTLED
        if changed:
            self._levels.start_over()
        return changed

    def _read_sources(self, now: float) -> bool:
        sources = self.site.sources
        powers = [source.power.value(now) for source in sources]
        if powers == self._powers:
            return False
        self._powers = powers
        for source, watts in zip(sources, powers, strict=True):
            source.check(watts, now)
        self.generation_w = total = math.fsum(powers)
        self._price = self._carbon = 0.0
        if total:
            for source, watts in zip(sources, powers, strict=True):
                self._price += source.price_per_kwh * watts / total
                self._carbon += source.carbon_gco2_per_kwh * watts / total
        return True

    def _read_others(self, now: float) -> bool:
        """Read grid and critical load, which often stay the same for long."""
        site, before = self.site, (self.critical_w, self.offer)
        critical, until = site.critical_w, site.grid.next_change(now)
        if isinstance(critical, Signal):
            self.critical_w = critical.value(now)
            until = min(until, critical.next_change(now))
        else:
            self.critical_w = float(critical)
        site.check_critical(self.critical_w, now)
        self.offer = site.grid.offer(now)
        self._others_until = min(until, site.pue.next_change(now))
        return before != (self.critical_w, self.offer)

    def pue(self, machines_w: float) -> float:
        """Return facility power / machine power when machines draw so many W."""
        if self._ratio is not None:
            return self._ratio
        return self.site.pue.pue(machines_w, self.time_s)

    def available_w(self) -> float:
        """Return the power in W that machines may draw now.

        What sources, grid and the battery (with the power that it can hold for the supply's
        `hold`) can give, less critical load, over the PUE at just that machine power.
        """
        site = self.site
        stored = 0.0
        if self.battery is not None:
            stored = self.battery.limits(self.time_s + site.supply.hold).discharge_w
        total = self.generation_w + self.offer.import_limit_w + stored - self.critical_w
        return self.within(total)

    def within(self, total_w: float) -> float:
        """Return the machine power in W at which machines and overhead draw a total of `total_w`.

        A result above `full_w` means that there is enough for everything.
        """
        if total_w <= 0:
            return 0.0
        if self._ratio is not None:
            return total_w / self._ratio
        machines_w = total_w / self.pue(self.full_w)
        if machines_w >= self.full_w:
            return machines_w
        for _ in range(_ROUNDS):  # part load raises the PUE: iterate down to where it fits
            before, machines_w = machines_w, total_w / self.pue(machines_w)
            if abs(machines_w - before) <= _CLOSE * before:
                break
        return machines_w

    def all_within(self, total_w: Floats) -> Floats:
        """Return (N,) the same for (N,) totals."""
        if self._ratio is None:
            return np.array([self.within(watts) for watts in total_w.tolist()])
        return np.maximum(total_w, 0.0) / self._ratio

    def advance(self, now: float) -> None:
        """Account for what has flowed until a time in s; a second call at a time does nothing."""
        if now == self.time_s:
            return
        battery = self.battery
        if battery is None:
            self.ledger.advance(now, self.flows)
        else:
            battery.run(self._battery_w, now)
            self.ledger.advance(now, self.flows, battery.energy_j)
        self.time_s = now
        if now >= self.next_event:
            self._levels.advance(now)
            self._settled_for = _UNSETTLED

    def settle(self, machines_w: float, standing_w: float) -> None:
        """Ask the controller what flows from now on.

        Args:
            machines_w: what all machines draw.
            standing_w: the part of it that tasks do not cause.

        Raises PolicyError if the controller's set-points break a limit.
        """
        if self._settled_for == (machines_w, standing_w):
            return
        self._settled_for = (machines_w, standing_w)
        if machines_w != self.flows.machines_w:
            self._levels.start_over()
        offer, battery = self.offer, self.battery
        pue = self._ratio or self.pue(machines_w)
        load_w = pue * machines_w + self.critical_w
        if battery is None:
            state = SiteState(self.time_s, self.generation_w, load_w, offer)
        else:
            charge_w, discharge_w = battery.limits()
            state = SiteState(
                self.time_s, self.generation_w, load_w, offer, battery.soc, charge_w, discharge_w
            )
        points = self._settle(state)
        check_set_points(state, points)
        battery_w, grid_w, curtailment_w, unserved_w = points
        self.flows = Flows(
            self.generation_w,
            grid_w if grid_w > 0 else 0.0,
            -battery_w if battery_w < 0 else 0.0,
            unserved_w if unserved_w > 0 else 0.0,
            load_w,
            battery_w if battery_w > 0 else 0.0,
            -grid_w if grid_w < 0 else 0.0,
            curtailment_w if curtailment_w > 0 else 0.0,
            0.0,
            pue,
            offer.price_per_kwh,
            offer.export_price_per_kwh,
            offer.carbon_gco2_per_kwh,
            self._price,
            self._carbon,
            machines_w,
            standing_w,
        )
        self._battery_w = battery_w
        if battery is not None:
            bound_s = battery.next_event(battery_w)
            self.next_event = self._levels.await_next(battery, battery_w, bound_s)

    def close(self) -> None:
        """Hand on the rest of the ledger's rows."""
        self.ledger.close()
