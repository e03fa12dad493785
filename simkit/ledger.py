"""The ledger: where every joule of a site came from and went, exactly, with its carbon and cost.

Power is constant between two events, so energy is power times time, without any sampling: the
ledger is told at every event what has flowed since the last. Sums are compensated, so that a year
of small steps closes as well as one step does. The rows that it hands on are this same truth;
tables at regular intervals are made of them afterwards (`simkit.ledger_view`) and change no total.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from simkit.errors import PolicyError
from simkit.exact_sum import Counters, ExactSum
from simkit.grid import KWH_J
from simkit.ledger_flows import POWERS, Flows, Shares, check_balance, share_out
from simkit.ledger_store import Carried, StoreContents

Floats = npt.NDArray[np.float64]

CHUNK: Final = 32_768
"""Rows that are held before they are handed on."""

RATES: Final = (
    *POWERS,
    *Shares._fields,
    "carbon_g_per_s",
    "cost_per_s",
    "load_carbon_g_per_s",
    "load_cost_per_s",
)
"""Columns of a row that hold from its start to its end. carbon and cost are the site's (import and
generation, less what export brings); load_carbon and load_cost are what the load's energy
carries, that from the battery when it is used."""

COLUMNS: Final = ("start_s", "end_s", *RATES, "stored_j", "stored_carbon_g", "stored_cost")
"""Columns of the table; what is stored is that at the row's end."""

_STORED: Final = COLUMNS[-3:]
_KEPT: Final = ("start_s", "end_s", *Flows._fields, *Shares._fields, *RATES[-2:], *_STORED)
"""What a row is kept as until it is handed on; the site's carbon and cost follow from it."""

BILLED: Final = (
    "energy_j",
    "overhead_j",
    "renewable_j",
    "battery_j",
    "grid_j",
    "carbon_g",
    "cost",
)
"""What a W of machine power adds up to, the counters' order; see `simkit.ledger_jobs.Bill`."""


class Sink(Protocol):
    """Takes finished chunks of the table."""

    def write(self, table: str, rows: Mapping[str, Floats]) -> None:
        """Append rows, given as columns of equal length, to a table."""


class Ledger:
    """The account of a site; stands at `time_s` and moves by `advance`."""

    def __init__(
        self, start_s: float = 0.0, stored: StoreContents | None = None, sink: Sink | None = None
    ) -> None:
        """Open the account.

        Args:
            start_s: seconds on the run's clock.
            stored: what the battery holds at the start; None: there is no battery.
            sink: takes the rows, table "power"; None: only totals are kept.
        """
        self.time_s = start_s
        self.stored = stored
        self.counters = Counters(len(BILLED))
        """What 1 W of machine power, drawn from the start until now, adds up to; see `BILLED`."""
        self._sink = sink
        self._rows = array("d")
        self._totals = {name: ExactSum() for name in RATES}

    def advance(self, until: float, flows: Flows, stored_j: float | None = None) -> None:
        """Account for what has flowed from `time_s` until now.

        Args:
            until: now, in s.
            flows: constant over that time.
            stored_j: the battery's content in J now; None: as before.

        Raises PolicyError, and accounts for nothing, if time would go back, if the flows do not
        balance, or if a battery's power flows and there is none or its content is not given.
        """
        span = until - self.time_s
        if not 0 <= span < math.inf:
            raise PolicyError(
                f"ledger: cannot go from {self.time_s:.9g} s to {until:.9g} s; time only goes on"
            )
        check_balance(self.time_s, flows)
        if (flows.charge_w or flows.discharge_w) and (self.stored is None or stored_j is None):
            raise PolicyError(
                f"ledger: a battery's power flows at {self.time_s:.9g} s; give the ledger the "
                "battery's contents when it is opened, and its content after every flow"
            )
        if span:
            if stored_j is None:
                stored_j = self.stored.energy_j if self.stored else 0.0
            self._enter(until, span, flows, stored_j)

    def _enter(self, until: float, span: float, flows: Flows, stored_j: float) -> None:
        shares = share_out(flows)
        given = self._move_store(span, flows, shares, stored_j)
        carbon, cost = self._load_rates(span, flows, shares, given)
        self._count(span, flows, shares, carbon, cost)
        stored = self.stored
        held = (stored_j, stored.carbon_g, stored.cost) if stored else (0.0, 0.0, 0.0)
        self._rows.fromlist([self.time_s, until, *flows, *shares, carbon, cost, *held])
        self.time_s = until
        if len(self._rows) >= CHUNK * len(_KEPT):
            self._hand_on()

    def _move_store(
        self, span: float, flows: Flows, shares: Shares, stored_j: float
    ) -> Carried | None:
        """Let the contents follow the battery; return what a discharge took along."""
        if self.stored is None:
            return None
        if flows.discharge_w:
            return self.stored.discharge(stored_j, span)
        if flows.charge_w:
            sun, grid = shares.charge_renewable_w * span, shares.charge_grid_w * span
            carbon = sun * flows.generation_gco2_per_kwh + grid * flows.carbon_gco2_per_kwh
            cost = sun * flows.generation_price_per_kwh + grid * flows.price_per_kwh
            self.stored.charge(Carried(carbon / KWH_J, cost / KWH_J, grid), stored_j)
        else:
            self.stored.rest(stored_j)
        return None

    @staticmethod
    def _load_rates(
        span: float, flows: Flows, shares: Shares, given: Carried | None
    ) -> tuple[float, float]:
        """Return carbon in g/s and cost per s of the energy that serves the load."""
        sun, grid = shares.load_renewable_w, shares.load_grid_w
        carbon = sun * flows.generation_gco2_per_kwh + grid * flows.carbon_gco2_per_kwh
        cost = sun * flows.generation_price_per_kwh + grid * flows.price_per_kwh
        if given is None:
            return carbon / KWH_J, cost / KWH_J
        part = shares.load_battery_w / flows.discharge_w / span  # the rest of it is exported
        return carbon / KWH_J + given.carbon_g * part, cost / KWH_J + given.cost * part

    def _count(self, span: float, flows: Flows, shares: Shares, carbon: float, cost: float) -> None:
        """Move the counters on: what each W of machine power has drawn, by source."""
        if not flows.load_w:
            return
        per_watt = flows.pue / flows.load_w
        sun, battery, grid = shares[:3]
        served = 1.0 - flows.unserved_w / flows.load_w
        drawn = (sun + battery + grid) * per_watt
        self.counters.add(
            (
                served,
                drawn - served,
                sun * per_watt,
                battery * per_watt,
                grid * per_watt,
                carbon * per_watt,
                cost * per_watt,
            ),
            span,
        )

    def totals(self) -> dict[str, float]:
        """Return energies in J (`generation_j`, …), carbon in g and cost from the start until now.

        `carbon_g` and `cost` are the site's, `load_carbon_g` and `load_cost` the load's; the
        difference is what the battery still holds and what was exported.
        """
        self._hand_on()
        return {_total_name(name): total.value for name, total in self._totals.items()}

    def close(self) -> None:
        """Hand on all rows that are left."""
        self._hand_on()

    def _hand_on(self) -> None:
        if not self._rows:
            return
        rows = np.array(self._rows).reshape(-1, len(_KEPT))
        del self._rows[:]
        kept = {name: rows[:, column] for column, name in enumerate(_KEPT)}
        columns = {**kept, **_site_rates(kept)}
        span = columns["end_s"] - columns["start_s"]
        for name in RATES:
            self._totals[name].add(math.fsum((columns[name] * span).tolist()))
        if self._sink is not None:
            self._sink.write("power", {name: columns[name] for name in COLUMNS})


def _site_rates(rows: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return carbon in g/s and cost per s of what the site takes in, less what export brings."""
    bought, used = rows["import_w"], rows["generation_w"] - rows["curtailment_w"]
    carbon = bought * rows["carbon_gco2_per_kwh"] + used * rows["generation_gco2_per_kwh"]
    cost = bought * rows["price_per_kwh"] + used * rows["generation_price_per_kwh"]
    brought = rows["export_w"] * rows["export_price_per_kwh"]
    return {"carbon_g_per_s": carbon / KWH_J, "cost_per_s": (cost - brought) / KWH_J}


def _total_name(rate: str) -> str:
    """Return ``load_j`` of ``load_w``, ``carbon_g`` of ``carbon_g_per_s``."""
    return f"{rate[:-2]}_j" if rate.endswith("_w") else rate.removesuffix("_per_s")


def imbalance(totals: Mapping[str, float]) -> float:
    """Return by what share of the energy a ledger's totals do not close."""
    energies = [totals[_total_name(name)] for name in POWERS]
    flowing = max(math.fsum(energies[:4]), math.fsum(energies[4:]))
    miss = math.fsum([*energies[:4], *(-energy for energy in energies[4:])])
    return abs(miss) / flowing if flowing else 0.0
