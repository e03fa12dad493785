"""The energy system of a site in a run: decides which source serves the load, and accounts for it.

A plain object that takes times. Between two instants every power is constant:

    system.advance(now)              # account for what has flowed since the last instant
    …                                # the world changes: load, sun, prices
    system.settle(machines_w, …)     # the controller's set-points hold from now on

It must be settled again at `next_event`, when the battery is full, empty or at a level of the
controller, and at `next_change`, when sources, grid or critical load change.

If nothing that flows decides what runs, nobody has to wake when the sun or a price changes: a
`LateAccount` notes the loads as they come, and later works out the flows of many instants as
columns. They are those that the system gives when it is asked at each instant in turn.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats
from simkit.power.battery import Battery
from simkit.power.controller import (
    ControllerLevels,
    GridOffer,
    SetPoints,
    SiteState,
    SourceOrder,
    check_set_points,
)
from simkit.power.ledger import Flows, Ledger, OnRows, StoredEnergy
from simkit.power.machine_model import ConstantPue
from simkit.power.signal import Amount, Signal
from simkit.power.site import Site
from simkit.units import DAY_S, TIME_GRID

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
        """Return facility power / machine power when machines draw `machines_w` (W)."""
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


MOST_NOTES: Final = 8192
"""Loads that are noted before they are accounted for."""
_MANY: Final = 65_536
"""A batch of more instants than this is followed by one of half the time."""


class Instants(NamedTuple):
    """What the site's loads and signals are from each of N ascending instants on: (N,) columns."""

    time_s: Floats
    machines_w: Floats
    standing_w: Floats
    pue: Floats
    load_w: Floats
    generation_w: Floats
    generation_price_per_kwh: Floats
    generation_gco2_per_kwh: Floats
    import_limit_w: Floats
    export_limit_w: Floats
    price_per_kwh: Floats
    export_price_per_kwh: Floats
    carbon_gco2_per_kwh: Floats

    @property
    def offer(self) -> tuple[Floats, ...]:
        """The fields of `GridOffer`."""
        return self[8:]


class LateAccount:
    """Takes the loads of a run and accounts for them in `catch_up`."""

    def __init__(self, energy: EnergySystem) -> None:
        """Begin where a system stands; nothing must have flowed in it before.

        The account moves the system's battery and ledger on, and not its time.
        """
        self._ledger, self._site = energy.ledger, energy.site
        self.time_s = energy.time_s
        """Until when everything is accounted for."""
        self.notes = array("d")
        """3 a row, in order of time: from when machines draw what, and the part of it that tasks
        do not cause, in W. Of several at an instant the last one counts."""
        self._span_s = DAY_S
        simple = energy.battery is None and type(self._site.controller) is SourceOrder
        self._flow: Callable[[Instants, float], Floats] = _at_once if simple else _InTurn(energy)

    def catch_up(self, now: float) -> None:
        """Account for everything up to a time in s, at which the last load goes on.

        Raises ScenarioError for a signal out of its range, TraceError for one without a value, and
        PolicyError if the controller's set-points break a limit.
        """
        begin, self.time_s = self.time_s, max(now, self.time_s)
        if begin >= now:
            return
        notes = np.array(self.notes).reshape(-1, 3)
        del self.notes[:-3]
        notes = notes[np.append(notes[1:, 0] != notes[:-1, 0], True)]
        while begin < now:
            begin = self._account(notes, begin, min(begin + self._span_s, now), now)

    def _account(self, notes: Floats, begin: float, end: float, last: float) -> float:
        """Account for a stretch of time, until its last instant; return when that is."""
        times = self._instants(notes[:, 0], begin, end)
        if end < last:
            if len(times) == 1:
                self._span_s *= 2
                return begin
            times, end = times[:-1], float(times[-1])
        row = np.searchsorted(notes[:, 0], times, side="right") - 1
        at = instants(self._site, times, notes[row, 1], notes[row, 2])
        self._ledger.extend(self._flow(at, end))
        self._span_s *= 0.5 if len(times) > _MANY else 2.0 if len(times) < _MANY // 4 else 1.0
        return end

    def _instants(self, noted: Floats, begin: float, end: float) -> Floats:
        """Return the instants of a stretch, the first its begin: loads are noted, signals change.

        As everywhere, a change takes effect at the next instant of the grid of times.
        """
        edges = [signal.pieces(begin, end)[0] for signal in self._site.signals]
        edges.append(noted[np.searchsorted(noted, begin) : np.searchsorted(noted, end)])
        times = np.ceil(np.concatenate([[begin], *edges]) / TIME_GRID) * TIME_GRID
        return np.unique(times[times < end])


class _InTurn:
    """Follows a battery, or a controller of the user's own, from one instant to the next."""

    def __init__(self, energy: EnergySystem) -> None:
        self._battery, self._settle = energy.battery, energy.site.controller.settle
        self._levels = ControllerLevels(energy.site.controller.levels)
        self._points, self._next_event = SetPoints(), math.inf
        self._due = False  # whether the controller must be asked though nothing else has changed
        self._last: Floats | None = None  # what the loads and signals were at the last instant

    def __call__(self, at: Instants, end: float) -> Floats:
        """Return the ledger's rows of instants; the last row goes on until `end`."""
        kept = array("d")  # 7 a row: the instant's number, when the row ends, set-points, content
        battery, levels, due = self._battery, self._levels, self._due
        columns = (self._changes(at), at.time_s, np.append(at.time_s[1:], end), at.generation_w,
                   at.load_w)  # fmt: skip
        offers = zip(*(field.tolist() for field in at.offer), strict=True)
        instants = zip(*(column.tolist() for column in columns), offers, strict=True)
        for number, (changed, now, until, made_w, load_w, offer) in enumerate(instants):
            if changed:
                levels.start_over()
                due = True
            while now < until:
                if due:
                    due = False
                    self._ask(now, made_w, load_w, GridOffer._make(offer))
                event = self._next_event
                now = event if now < event < until else until
                content = 0.0
                if battery is not None:
                    battery.run(self._points.battery_w, now)
                    content = battery.energy_j
                kept.fromlist([number, now, *self._points, content])
                if now >= event:
                    levels.advance(now)
                    due = True
        self._due = due
        table = np.array(kept).reshape(-1, 7).T
        rows = table[0].astype(np.int64)
        return _ledger_rows(Instants(*(c[rows] for c in at)), table[1], table[2:6], table[6])

    def _changes(self, at: Instants) -> Bools:
        """Return (N,): whether anything differs from the instant before."""
        columns = np.vstack(at[1:])
        first = np.full((len(columns), 1), math.nan) if self._last is None else self._last
        self._last = columns[:, -1:]
        changes: Bools = (columns != np.hstack([first, columns[:, :-1]])).any(axis=0)
        return changes

    def _ask(self, now: float, made_w: float, load_w: float, offer: GridOffer) -> None:
        """Ask the controller for the set-points from now on."""
        battery = self._battery
        if battery is None:
            state = SiteState(now, made_w, load_w, offer)
        else:
            state = SiteState(now, made_w, load_w, offer, battery.soc, *battery.limits())
        self._points = points = self._settle(state)
        check_set_points(state, points)
        if battery is not None:
            power_w = points[0]
            bound_s = battery.next_event(power_w)
            self._next_event = self._levels.await_next(battery, power_w, bound_s)


def instants(site: Site, times: Floats, machines_w: Floats, standing_w: Floats) -> Instants:
    """Return what a site's loads and signals are at (N,) times, when machines draw `machines_w`.

    Raises ScenarioError for a signal out of its range, TraceError for one without a value.
    """
    pue = site.pue.ratios(machines_w, times)
    critical_w = _values(site.critical_w, times)
    _refuse_negative(critical_w, times, site.check_critical)
    offer = [_values(amount, times) for amount in vars(site.grid).values()]
    load_w = pue * machines_w + critical_w
    generation = _generation(site, times)
    at = Instants(times, machines_w, standing_w, pue, load_w, *generation, *offer)
    for limited in (at.import_limit_w, at.export_limit_w, at.carbon_gco2_per_kwh):
        _refuse_negative(limited, times, lambda _value, time_s: site.grid.offer(time_s))
    return at


def _generation(site: Site, times: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (N,) W, price per kWh and carbon in g/kWh of what all sources give."""
    total, price, carbon = (np.zeros(len(times)) for _ in range(3))
    powers = []
    for source in site.sources:
        powers.append(watts := source.power.values(times))
        _refuse_negative(watts, times, source.check)
        total += watts
    for source, watts in zip(site.sources, powers, strict=True):
        share = np.divide(watts, total, out=np.zeros_like(total), where=total > 0)
        price += source.price_per_kwh * share
        carbon += source.carbon_gco2_per_kwh * share
    return total, price, carbon


def flows_at_once(at: Instants) -> dict[str, Floats]:
    """Return the columns of `Flows` of instants that know nothing of each other.

    There is no battery, and the controller is `SourceOrder`.
    """
    return _flows(at, _points_at_once(at))


def _points_at_once(at: Instants) -> Floats:
    """Return (4, N) set-points."""
    short = at.load_w - at.generation_w
    grid = np.where(
        short > 0,
        np.minimum(short, at.import_limit_w),
        -np.minimum(-short, at.export_limit_w),
    )
    rest = short - grid  # unserved, or curtailed if below 0
    return np.array([np.zeros_like(grid), grid, -rest, rest])


def _at_once(at: Instants, end: float) -> Floats:
    """Return the ledger's rows of instants that know nothing of each other: there is no battery."""
    ends = np.append(at.time_s[1:], end)
    return _ledger_rows(at, ends, _points_at_once(at), np.zeros_like(ends))


def _ledger_rows(at: Instants, ends: Floats, points: Floats, stored_j: Floats) -> Floats:
    """Return (N, 2 + flows) rows for `Ledger.extend`; `points` are (4, N) set-points."""
    flows = _flows(at, points)
    return np.column_stack([ends, *(flows[name] for name in Flows._fields), stored_j])


def _flows(at: Instants, points: Floats) -> dict[str, Floats]:
    """Return the columns of `Flows` at (4, N) set-points."""
    battery_w, grid_w, curtailment_w, unserved_w = points
    return at._asdict() | {
        "import_w": np.maximum(grid_w, 0.0),
        "discharge_w": np.maximum(-battery_w, 0.0),
        "unserved_w": np.maximum(unserved_w, 0.0),
        "charge_w": np.maximum(battery_w, 0.0),
        "export_w": np.maximum(-grid_w, 0.0),
        "curtailment_w": np.maximum(curtailment_w, 0.0),
        "losses_w": np.zeros_like(grid_w),
    }


def _values(amount: Amount, times: Floats) -> Floats:
    if isinstance(amount, Signal):
        return amount.values(times)
    return np.full(len(times), float(amount))


def _refuse_negative(
    values: Floats, times: Floats, refuse: Callable[[float, float], object]
) -> None:
    """Pass the first value below 0, or undefined, and its time to what raises the error."""
    if not (values >= 0).all():
        row = int(np.argmin(values >= 0))
        refuse(float(values[row]), float(times[row]))
