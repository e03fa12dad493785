"""The energy system of a site in a run: settles which source serves the load, and accounts for it.

A plain object that takes times. Between two instants every power is constant:

    system.advance(now)              # account for what has flowed since the last instant
    …                                # the world changes: load, sun, prices
    system.settle(machines_w, …)     # the controller's set-points hold from now on

It wants to be settled anew at `next_event`, when the battery will be full, empty or at a level of
the controller's, and at `next_change`, when sources, grid or critical load change by themselves.
"""

from __future__ import annotations

import math
from typing import Final

from simkit.errors import ScenarioError
from simkit.power.battery import Battery
from simkit.power.controller import ControllerLevels, SiteState, check_set_points
from simkit.power.grid import GridOffer
from simkit.power.ledger import Ledger, OnRows
from simkit.power.ledger_rows import Flows
from simkit.power.machine_model import ConstantPue
from simkit.power.site import Site
from simkit.power.store_contents import StoreContents

_ROUNDS: Final = 100
_CLOSE: Final = 1e-12


class EnergySystem:
    """Sources, battery, grid and controller, and the ledger of what flowed."""

    def __init__(self, site: Site, start_s: float, on_rows: OnRows | None = None) -> None:
        """Begin at a time in s; `on_rows` takes the ledger's rows.

        Raises ScenarioError where a signal is not what it must be, such as a power below 0.
        """
        self.site = site
        self.time_s = start_s
        self.battery = None if site.battery is None else Battery(site.battery, start_s)
        stored = (
            None
            if site.battery is None or self.battery is None
            else StoreContents(self.battery.energy_j, site.battery.self_discharge_per_s)
        )
        self.ledger = Ledger(start_s, stored, on_rows)
        self.next_event = math.inf
        self.flows = Flows()
        """What flows from now on."""
        self.generation_w = 0.0
        """What all sources give now."""
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
        self._settled_for = (-1.0, -1.0)
        self._powers: list[float] = []  # of the sources, when last looked at
        self._others_until = -math.inf  # grid, critical load and weather stay so long
        self._settle = site.controller.settle
        self.look(start_s)

    def next_change(self) -> float:
        """Return the first time in s after now at which a signal of the site may change."""
        now = self.time_s
        changes = [source.power.next_change(now) for source in self.site.sources]
        return min([self._others_until, *changes])

    def look(self, now: float) -> bool:
        """Look at all signals again, now; return whether any of them has changed."""
        changed = self._look_at_sources(now)
        if now >= self._others_until:
            changed |= self._look_at_others(now)
        if changed or self._ratio is None:
            self._settled_for = (-1.0, -1.0)
        if changed:
            self._levels.start_over()
        return changed

    def _look_at_sources(self, now: float) -> bool:
        sources = self.site.sources
        powers = [source.power.value(now) for source in sources]
        if powers == self._powers:
            return False
        self._powers = powers
        for source, watts in zip(sources, powers, strict=True):
            if watts < 0:
                raise ScenarioError(
                    f"source {source.name!r} gives {watts:g} W at {now:.9g} s; power from a "
                    "source is at least 0: clip night-time readings or mend the signal"
                )
        self.generation_w = total = math.fsum(powers)
        self._price = self._carbon = 0.0
        if total:
            for source, watts in zip(sources, powers, strict=True):
                self._price += source.price_per_kwh * watts / total
                self._carbon += source.carbon_gco2_per_kwh * watts / total
        return True

    def _look_at_others(self, now: float) -> bool:
        """Look at grid and critical load, which often stay the same for long."""
        site, before = self.site, (self.critical_w, self.offer)
        critical, until = site.critical_w, site.grid.next_change(now)
        if isinstance(critical, (int, float)):
            self.critical_w = float(critical)
        else:
            self.critical_w = critical.value(now)
            until = min(until, critical.next_change(now))
        if self.critical_w < 0:
            raise ScenarioError(
                f"critical_w is {self.critical_w:g} W at {now:.9g} s; it must be at least 0"
            )
        self.offer = site.grid.offer(now)
        self._others_until = min(until, site.pue.next_change(now))
        return before != (self.critical_w, self.offer)

    def pue(self, machines_w: float) -> float:
        """Return what the site draws for each W that its machines draw."""
        if self._ratio is not None:
            return self._ratio
        return self.site.pue.pue(machines_w, self.time_s)

    def available_w(self) -> float:
        """Return the power in W that machines may draw now.

        What sources, grid and the battery (as much as it can hold for the supply's `hold_s`) give,
        less critical load, over the PUE that the site has when machines draw just that.
        """
        site = self.site
        stored = 0.0
        if self.battery is not None:
            stored = self.battery.limits(self.time_s + site.supply.hold_s).discharge_w
        total = self.generation_w + self.offer.import_limit_w + stored - self.critical_w
        return self.within(total)

    def within(self, total_w: float) -> float:
        """Return what machines may draw so that they and their overhead stay within a power in W.

        More than all machines draw when busy stands for: there is enough for everything.
        """
        if total_w <= 0:
            return 0.0
        if self._ratio is not None:
            return total_w / self._ratio
        machines_w = total_w / self.pue(self.full_w)
        if machines_w >= self.full_w:
            return machines_w
        for _ in range(_ROUNDS):  # a part load has a higher PUE: come down to where it fits
            before, machines_w = machines_w, total_w / self.pue(machines_w)
            if abs(machines_w - before) <= _CLOSE * before:
                break
        return machines_w

    def advance(self, now: float) -> None:
        """Account for what has flowed until a time in s; again at the same time it does nothing."""
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
            self._levels.pass_by(now)
            self._settled_for = (-1.0, -1.0)

    def settle(self, machines_w: float, standing_w: float) -> None:
        """Let the controller decide what flows from now on.

        Args:
            machines_w: what all machines draw.
            standing_w: what they draw of it by themselves, without tasks.

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
