"""The ledger: where every joule of a site came from and went, exactly, with its carbon and cost.

Power is constant between two events, so energy is power times time, without any sampling: at every
event the ledger takes what has flowed since the last one. It only stores this; balance, shares,
carbon and cost are computed for many rows at once. Sums are compensated, so a year of small steps
closes as well as one step does. Tables at regular intervals are made from the rows afterwards
(`simkit.results.timeline`) and change no total.

All powers are in W and at least 0; the names give the direction:

    generation + import + discharge + unserved = load + charge + export + curtailment + losses

Battery powers are at its terminals; what it loses inside is its own account. `losses` are the
site's between sources and load, such as conversion.

The energy in a battery is well mixed: each joule carries the same carbon and cost. Charging adds
those of the energy at the terminals, so a joule inside carries 1 / charge efficiency of it.
Discharging removes a proportional part, so a joule delivered carries another 1 / discharge
efficiency: energy from a battery charged at 500 g/kWh counts 500 / (η_c · η_d) g/kWh, whatever the
grid's intensity then is. Self-discharge loses energy and no carbon: the rest carries it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, ExactSum, Floats, Ints
from simkit.errors import PolicyError
from simkit.units import KWH_J


class Footprint(NamedTuple):
    """What all the energy in a store carries."""

    carbon_g: float = 0.0
    cost: float = 0.0
    grid_share: float = 0.0
    """Share of the energy, 0..1, that came from the grid, not from renewables."""


class BatteryRows(NamedTuple):
    """N rows of time in which a battery is charged, discharged or rests."""

    span_s: Floats
    """(N,) length in s, above 0."""
    stored_j: Floats
    """(N,) content in J at the end of each."""
    charges: Bools
    """(N,) whether it is charged."""
    discharges: Bools
    """(N,) whether it is discharged; never both."""
    carbon_g: Floats
    """(N,) carbon of the energy charged, at the terminals; ignored where it is not charged."""
    cost: Floats
    """(N,) cost of the energy charged; ignored where it is not charged."""
    grid_share: Floats
    """(N,) share of it that comes from the grid."""


class Footprints(NamedTuple):
    """(N,) columns: what the store carries at the end of each row, and what left it in the row."""

    carbon_g: Floats
    cost: Floats
    grid_share: Floats
    gone_carbon_g: Floats
    gone_cost: Floats


class StoredEnergy:
    """The energy in a battery and what it carries; follows the battery's rows."""

    __slots__ = ("_leak", "carried", "energy_j")

    def __init__(
        self, energy_j: float, leak_per_s: float = 0.0, carried: Footprint | None = None
    ) -> None:
        """Begin with a battery's content in J and its `self_discharge_per_s`.

        `carried` is what this content carries; None: nothing.
        """
        self.energy_j = energy_j
        self.carried = carried or Footprint()
        self._leak = leak_per_s

    def follow(self, rows: BatteryRows) -> Footprints:
        """Move on through rows of time.

        With constant power the content e falls by discharge and by the leak λ. What it carries
        falls by discharge alone, at the rate (power out of the store) / e, whose integral is
        −ln(e₁/e₀) − λ t; so the share e₁/e₀ · exp(λ t) of it stays. After charging, the share
        e₀ · exp(−λ t) / e₁ of the content was there before.
        """
        before = np.concatenate(([self.energy_j], rows.stored_j[:-1]))
        moving = np.flatnonzero(rows.charges | rows.discharges)
        states: list[float] = [*self.carried]
        carbon, cost, share = self.carried
        for stays, more_carbon, more_cost, old, more_share in self._steps(rows, before, moving):
            carbon = carbon * stays + more_carbon
            cost = cost * stays + more_cost
            share = share * old + more_share
            states += (carbon, cost, share)
        self.carried = Footprint(carbon, cost, share)
        if len(rows.stored_j):
            self.energy_j = float(rows.stored_j[-1])
        return _spread(np.array(states).reshape(-1, 3), moving, rows.discharges)

    def _steps(
        self, rows: BatteryRows, before: Floats, moving: Ints
    ) -> Iterator[tuple[float, ...]]:
        """Yield for each moving row: the shares that stay, and what is added."""
        span, after, before = rows.span_s[moving], rows.stored_j[moving], before[moving]
        charges = rows.charges[moving]
        rest = before * np.exp(-self._leak * span) if self._leak else before
        old = _ratio(rest, after)
        columns = (
            np.where(charges, 1.0, _ratio(after, rest)),
            np.where(charges, rows.carbon_g[moving], 0.0),
            np.where(charges, rows.cost[moving], 0.0),
            np.where(charges, old, 1.0),
            np.where(charges, (1.0 - old) * rows.grid_share[moving], 0.0),
        )
        return zip(*(column.tolist() for column in columns), strict=True)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole within 0..1; 0 where the whole is 0."""
    ratio = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.clip(ratio, 0.0, 1.0)


def _spread(states: Floats, moving: Ints, discharges: Bools) -> Footprints:
    """Spread states, the first and one after each moving row, over all rows."""
    number = np.zeros(len(discharges) + 1, dtype=np.int64)
    number[moving + 1] = 1
    rows = states[np.cumsum(number)]  # (N + 1, 3): before the first row, then after each
    gone = np.where(discharges[:, None], rows[:-1] - rows[1:], 0.0)
    carbon, cost, share = rows[1:].T
    return Footprints(carbon, cost, share, gone[:, 0], gone[:, 1])


Columns = Mapping[str, Floats]
"""Columns of equal length by name."""

BALANCE: Final = 1e-9
"""Largest imbalance at an instant, as a share of the power flowing."""


class Flows(NamedTuple):
    """What flows from one event to the next."""

    generation_w: float = 0.0
    """What sun and wind could give."""
    import_w: float = 0.0
    """From the grid."""
    discharge_w: float = 0.0
    """From the battery."""
    unserved_w: float = 0.0
    """Load for which there is no power."""
    load_w: float = 0.0
    """What machines, cooling and the rest want."""
    charge_w: float = 0.0
    """Into the battery."""
    export_w: float = 0.0
    """To the grid."""
    curtailment_w: float = 0.0
    """Generation that is not used."""
    losses_w: float = 0.0
    """Lost between sources and load."""
    pue: float = 1.0
    """Facility power for each W of machine power; bills take it from here."""
    price_per_kwh: float = 0.0
    """Price of imported energy."""
    export_price_per_kwh: float = 0.0
    """Earnings for exported energy."""
    carbon_gco2_per_kwh: float = 0.0
    """Carbon of imported energy, in g of CO₂ equivalent."""
    generation_price_per_kwh: float = 0.0
    """Price of generated energy that is used."""
    generation_gco2_per_kwh: float = 0.0
    """Life-cycle carbon of generated energy that is used."""
    machines_w: float = 0.0
    """What machines draw, before PUE; part of the load."""
    standing_w: float = 0.0
    """The part of it that belongs to no job: idle, booting, off."""


POWERS: Final = Flows._fields[:9]
"""The flows that balance, four sources and five uses."""

SHARES: Final = (
    "load_renewable_w",
    "load_battery_w",
    "load_grid_w",
    "charge_renewable_w",
    "charge_grid_w",
)
"""Which source serves the load and its losses, and which charges the battery."""


def first_wrong(flows: Columns) -> int:
    """Return the first of N rows whose flows do not balance; N if all do.

    They must balance to `BALANCE` of the power flowing. A row is also wrong if a flow is below 0,
    if the battery charges and discharges at once, if more is unserved than wanted, or if more is
    curtailed than generated.
    """
    made, bought, given, short, load, charge, sold, left, lost = (flows[name] for name in POWERS)
    with np.errstate(invalid="ignore"):  # infinite flows do not balance
        sources = made + bought + given + short
        uses = load + charge + sold + left + lost
        slack = BALANCE * np.maximum(sources, uses)
        right = np.abs(sources - uses) <= slack
    for power in (made, bought, given, short, load, charge, sold, left, lost):
        right &= power >= 0
    right &= (charge == 0) | (given == 0)
    right &= (short <= load + lost + slack) & (left <= made + slack)
    wrong = np.flatnonzero(~right)
    return int(wrong[0]) if len(wrong) else len(right)


def wrong_flows(time_s: float, powers: Sequence[float]) -> PolicyError:
    """Return the error about flows at a time in s that break a rule; `powers` are the `POWERS`."""
    sources, uses = sum(powers[:4]), sum(powers[4:])
    return PolicyError(
        f"the site's flows at {time_s:.9g} s are wrong: "
        + ", ".join(f"{name} {value:.9g}" for name, value in zip(POWERS, powers, strict=True))
        + f"; sources give {sources:.9g} W, uses take {uses:.9g} W; both must be equal, all flows "
        "finite and at least 0; the battery cannot charge and discharge at once, and no more can "
        "be unserved than wanted, or curtailed than generated; check the controller's set-points"
    )


def share_out(flows: Columns) -> dict[str, Floats]:
    """Return which source serves what, as columns of `SHARES`.

    The served load, with its losses, takes renewables first, then the battery, then the grid. The
    battery is charged from the remaining renewables, then from the grid. The rest is exported.
    """
    made, bought, given, short, load, charge, _, left, lost = (flows[name] for name in POWERS)
    wanted, sun = np.maximum(load + lost - short, 0.0), np.maximum(made - left, 0.0)
    renewable = np.minimum(sun, wanted)
    rest = wanted - renewable
    battery = np.minimum(given, rest)
    rest -= battery
    grid = np.minimum(bought, rest)
    stored = np.minimum(sun - renewable, charge)
    shares = (renewable, battery, grid, stored, np.minimum(charge - stored, bought - grid))
    return dict(zip(SHARES, shares, strict=True))


RATES: Final = (
    *POWERS,
    "machines_w",
    "standing_w",
    *SHARES,
    "load_battery_grid_w",
    "carbon_g_per_s",
    "cost_per_s",
    "load_carbon_g_per_s",
    "load_cost_per_s",
)
"""Columns of amounts per second, which add up. `load_battery_grid_w` is what of `load_battery_w`
came from the grid. `carbon` and `cost` are the site's: of import and generation, less what export
earns. `load_carbon` and `load_cost` are the load's; what the battery gives counts when used."""

STORED: Final = ("stored_j", "stored_carbon_g", "stored_cost", "stored_grid_j")
"""What the battery holds at a row's end: energy, its carbon and cost, its part from the grid."""

COLUMNS: Final = ("start_s", "end_s", *Flows._fields, *RATES[len(POWERS) + 2 :], *STORED)
"""Columns of the table, described in `records.POWER`."""


def finished_rows(kept: Columns, stored: StoredEnergy | None) -> dict[str, Floats]:
    """Return N rows with all `COLUMNS`.

    Args:
        kept: `start_s`, `end_s`, flows that balance, and `stored_j`.
        stored: what the battery holds before the first row; is moved on to the end of the last.
            None: there is no battery.
    """
    rows = {**kept, **share_out(kept)}
    held = _footprints(rows, stored)
    carbon, cost = _direct(rows, "load_renewable_w", "load_grid_w")
    given = rows["discharge_w"] * (rows["end_s"] - rows["start_s"])
    part = np.divide(rows["load_battery_w"], given, out=np.zeros_like(given), where=given > 0)
    rows |= {
        # discharging does not change the mixture
        "load_battery_grid_w": rows["load_battery_w"] * held.grid_share,
        **site_rates(rows),
        "load_carbon_g_per_s": carbon + held.gone_carbon_g * part,  # the rest is exported
        "load_cost_per_s": cost + held.gone_cost * part,
        "stored_carbon_g": held.carbon_g,
        "stored_cost": held.cost,
        "stored_grid_j": rows["stored_j"] * held.grid_share,
    }
    return {name: rows[name] for name in COLUMNS}


def _footprints(rows: Columns, stored: StoredEnergy | None) -> Footprints:
    """Move the stored energy on through the rows."""
    if stored is None:
        return Footprints(*(np.zeros(len(rows["end_s"])) for _ in Footprints._fields))
    span, charge = rows["end_s"] - rows["start_s"], rows["charge_w"]
    carbon, cost = _direct(rows, "charge_renewable_w", "charge_grid_w")
    grid = np.divide(rows["charge_grid_w"], charge, out=np.zeros_like(charge), where=charge > 0)
    return stored.follow(
        BatteryRows(
            span,
            rows["stored_j"],
            charge > 0,
            rows["discharge_w"] > 0,
            carbon * span,
            cost * span,
            grid,
        )
    )


def _direct(rows: Columns, renewable: str, grid: str) -> tuple[Floats, Floats]:
    """Return carbon in g/s and cost per s of two flows straight from renewables and grid."""
    sun, bought = rows[renewable], rows[grid]
    carbon = sun * rows["generation_gco2_per_kwh"] + bought * rows["carbon_gco2_per_kwh"]
    cost = sun * rows["generation_price_per_kwh"] + bought * rows["price_per_kwh"]
    return carbon / KWH_J, cost / KWH_J


def site_rates(rows: Columns) -> dict[str, Floats]:
    """Return the site's carbon in g/s and cost per s: of what comes in, less export's earnings."""
    bought, used = rows["import_w"], rows["generation_w"] - rows["curtailment_w"]
    carbon = bought * rows["carbon_gco2_per_kwh"] + used * rows["generation_gco2_per_kwh"]
    cost = bought * rows["price_per_kwh"] + used * rows["generation_price_per_kwh"]
    earned = rows["export_w"] * rows["export_price_per_kwh"]
    return {"carbon_g_per_s": carbon / KWH_J, "cost_per_s": (cost - earned) / KWH_J}


CHUNK: Final = 32_768
"""Rows that are held before they are finished and handed on."""

_KEPT: Final = ("end_s", *Flows._fields, "stored_j")
"""Columns of a row before it is finished."""
_ROW: Final = Struct(f"{len(_KEPT)}d")
_ROW_BYTES: Final = _ROW.size
_CHARGE: Final = _KEPT.index("charge_w")
_DISCHARGE: Final = _KEPT.index("discharge_w")
_FULL: Final = CHUNK * _ROW_BYTES
_pack: Final = _ROW.pack

OnRows = Callable[[dict[str, Floats]], None]
"""Takes a chunk of finished rows: name of each of `COLUMNS` -> (N,) values."""


class Ledger:
    """The account of a site until `time_s`; `advance` moves it on."""

    def __init__(
        self,
        start_s: float = 0.0,
        stored: StoredEnergy | None = None,
        on_rows: OnRows | None = None,
    ) -> None:
        """Open the account at a time in s.

        Args:
            start_s: on the run's clock.
            stored: what the battery holds at the start; None: there is no battery.
            on_rows: called with chunks of finished rows; None: only totals are kept.
        """
        self.time_s = start_s
        self.stored = stored
        """What the battery holds at the end of the last finished row."""
        self._stored_j = stored.energy_j if stored else 0.0
        self._on_rows = on_rows
        self._finished_s = start_s
        self._written = False
        self._rows = bytearray()
        self._flows = Flows()  # of the last row
        self._totals = {name: ExactSum() for name in RATES}

    def advance(self, until: float, flows: Flows, stored_j: float | None = None) -> None:
        """Account for what has flowed since `time_s`.

        Whether the flows balance is checked when the row is finished; PolicyError then gives the
        row's time.

        Args:
            until: now, in s.
            flows: constant over that time.
            stored_j: the battery's content in J now; None: as before.

        Raises PolicyError, and accounts for nothing, if time would go back, or if a battery's power
        flows without a battery or without its content.
        """
        if not self.time_s < until < math.inf:
            if until != self.time_s:
                raise PolicyError(
                    f"ledger: cannot go from {self.time_s:.9g} s to {until:.9g} s; "
                    "time cannot go back"
                )
            return
        if stored_j is None:
            stored_j = self._stored_j
            if flows[2] or flows[5]:
                raise self._no_content()
        rows = self._rows
        if flows == self._flows and rows and not flows[2] and not flows[5]:
            rows[-_ROW_BYTES:] = _pack(until, *flows, stored_j)  # extend the last row
        else:
            rows += _pack(until, *flows, stored_j)
            self._flows = flows
        self.time_s, self._stored_j = until, stored_j
        if len(rows) >= _FULL:
            self._finish()

    def extend(self, rows: Floats) -> None:
        """Account for many stretches of time at once, as `advance` does one by one.

        Args:
            rows: (N, 2 + flows) when each ends, in s, ascending from after `time_s`; its `Flows`;
                the battery's content in J at its end, 0 without a battery.
        """
        if not len(rows):
            return
        if self._rows:  # the last one may go on
            rows = np.vstack([np.frombuffer(self._rows[-_ROW_BYTES:]), rows])
            del self._rows[-_ROW_BYTES:]
        same = (rows[1:, 1:-1] == rows[:-1, 1:-1]).all(axis=1)
        same &= (rows[1:, _CHARGE] == 0) & (rows[1:, _DISCHARGE] == 0)
        rows = rows[np.append(~same, True)]
        for first in range(0, len(rows), CHUNK):
            self._rows += rows[first : first + CHUNK].tobytes()
            if len(self._rows) >= _FULL:
                self._finish()
        last = rows[-1].tolist()
        self.time_s, self._flows, self._stored_j = last[0], Flows(*last[1:-1]), last[-1]

    def _no_content(self) -> PolicyError:
        return PolicyError(
            f"ledger: a battery's power flows at {self.time_s:.9g} s; give the ledger the "
            "battery's stored energy when it is opened, and its content after every flow"
        )

    def totals(self) -> dict[str, float]:
        """Return energies in J (`generation_j`, …), carbon in g and cost from the start until now.

        `carbon_g` and `cost` are the site's, `load_carbon_g` and `load_cost` the load's. They
        differ by what was exported and what the battery still holds.

        Raises PolicyError for flows that do not balance.
        """
        self._finish()
        return {_total_name(name): total.value for name, total in self._totals.items()}

    def close(self) -> None:
        """Finish the remaining rows; without any, hand on an empty chunk.

        Raises PolicyError for flows that do not balance.
        """
        self._finish()
        if self._on_rows is not None and not self._written:
            self._on_rows({name: np.empty(0) for name in COLUMNS})
            self._written = True

    def _finish(self) -> None:
        """Finish the rows held so far, add them to the totals and hand them on."""
        if not self._rows:
            return
        table = np.frombuffer(bytes(self._rows)).reshape(-1, len(_KEPT))
        self._rows.clear()
        kept: dict[str, Floats] = dict(zip(_KEPT, np.ascontiguousarray(table.T), strict=True))
        start = np.concatenate(([self._finished_s], kept["end_s"][:-1]))
        kept = {"start_s": start, **kept}
        wrong = first_wrong(kept)
        if self.stored is None and (kept["charge_w"] + kept["discharge_w"]).any():
            raise self._no_content()
        self._account_for({name: column[:wrong] for name, column in kept.items()})
        if wrong < len(start):
            raise wrong_flows(float(start[wrong]), [float(kept[name][wrong]) for name in POWERS])

    def _account_for(self, kept: Columns) -> None:
        """Add rows that balance to the totals and hand them on."""
        if not len(kept["end_s"]):
            return
        columns = finished_rows(kept, self.stored)
        self._finished_s = float(columns["end_s"][-1])
        span = columns["end_s"] - columns["start_s"]
        for name, total in self._totals.items():
            amount = np.add.reduce(columns[name] * span, dtype=np.longdouble)
            whole = float(amount)
            total.add(whole)
            total.add(float(amount - whole))
        if self._on_rows is not None:
            self._on_rows(columns)
            self._written = True


def _total_name(rate: str) -> str:
    """Return ``load_j`` of ``load_w``, ``carbon_g`` of ``carbon_g_per_s``."""
    return f"{rate[:-2]}_j" if rate.endswith("_w") else rate.removesuffix("_per_s")
