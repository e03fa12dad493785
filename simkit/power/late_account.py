"""A site's account that is kept late: where power limits nothing, it is settled in batches.

If nothing that flows decides what runs, nobody has to wake when the sun or a price changes. The
loads are noted as they come, and later the flows of many instants are worked out as columns. They
are those that `simkit.power.system` gives when it is asked at each instant in turn.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats
from simkit.power.controller import (
    ControllerLevels,
    GridOffer,
    SetPoints,
    SiteState,
    SourceOrder,
    check_set_points,
)
from simkit.power.ledger import Flows
from simkit.power.signal import Amount, Signal
from simkit.power.site import Site
from simkit.power.system import EnergySystem
from simkit.units import DAY_S, TIME_GRID

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
    """Return what a site's loads and signals are at (N,) times, when machines draw so many W.

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
