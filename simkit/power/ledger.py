"""The ledger: where every joule of a site came from and went, exactly, with its carbon and cost.

Power is constant between two events, so energy is power times time, without any sampling: the
ledger is told at every event what has flowed since the last. It takes note of that and no more;
balance, shares, carbon and cost are worked out when many rows have come together, and sums are
compensated, so that a year of small steps closes as well as one step does. The rows that it hands
on are this same truth; tables at regular intervals are made of them afterwards
(`simkit.results.time_bins`) and change no total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.exact_sum import ExactSum
from simkit.power.ledger_rows import (
    COLUMNS,
    POWERS,
    RATES,
    Columns,
    Flows,
    finished_rows,
    first_wrong,
    wrong_flows,
)
from simkit.power.store_contents import StoreContents

CHUNK: Final = 32_768
"""Rows that are held before they are handed on."""

_KEPT: Final = ("end_s", *Flows._fields, "stored_j")
"""What a row is kept as until it is handed on."""
_ROW: Final = Struct(f"{len(_KEPT)}d")
_ROW_BYTES: Final = _ROW.size
_FULL: Final = CHUNK * _ROW_BYTES
_pack: Final = _ROW.pack
_FIRST: Final = Flows()

OnRows = Callable[[dict[str, Floats]], None]
"""Takes a chunk of finished rows: column name -> (N,) values, as `ledger_rows.COLUMNS`."""


class Ledger:
    """The account of a site; stands at `time_s` and moves by `advance`."""

    def __init__(
        self,
        start_s: float = 0.0,
        stored: StoreContents | None = None,
        on_rows: OnRows | None = None,
    ) -> None:
        """Open the account.

        Args:
            start_s: seconds on the run's clock.
            stored: what the battery holds at the start; None: there is no battery.
            on_rows: called with chunks of finished rows; None: only totals are kept.
        """
        self.time_s = start_s
        self.stored = stored
        """What the battery holds, at the end of the last row that has been handed on."""
        self._stored_j = stored.energy_j if stored else 0.0
        self._on_rows = on_rows
        self._handed_on_s = start_s
        self._written = False
        self._rows = bytearray()
        self._flows: Flows = _FIRST  # of the last row
        self._totals = {name: ExactSum() for name in RATES}

    def advance(self, until: float, flows: Flows, stored_j: float | None = None) -> None:
        """Account for what has flowed from `time_s` until now.

        That flows balance is checked when the row is handed on; PolicyError then names its time.

        Args:
            until: now, in s.
            flows: constant over that time.
            stored_j: the battery's content in J now; None: as before.

        Raises PolicyError, and accounts for nothing, if time would go back, or if a battery's power
        flows and there is none or its content is not given.
        """
        if not self.time_s < until < math.inf:
            self._stay(until)
            return
        if stored_j is None:
            stored_j = self._stored_j
            if flows[2] or flows[5]:
                raise self._no_content()
        rows = self._rows
        if flows == self._flows and rows and not flows[2] and not flows[5]:
            rows[-_ROW_BYTES:] = _pack(until, *flows, stored_j)  # the last row goes on
        else:
            rows += _pack(until, *flows, stored_j)
            self._flows = flows
        self.time_s, self._stored_j = until, stored_j
        if len(rows) >= _FULL:
            self._hand_on()

    def _stay(self, until: float) -> None:
        if until != self.time_s:
            raise PolicyError(
                f"ledger: cannot go from {self.time_s:.9g} s to {until:.9g} s; time only goes on"
            )

    def _no_content(self) -> PolicyError:
        return PolicyError(
            f"ledger: a battery's power flows at {self.time_s:.9g} s; give the ledger the "
            "battery's contents when it is opened, and its content after every flow"
        )

    def totals(self) -> dict[str, float]:
        """Return energies in J (`generation_j`, …), carbon in g and cost from the start until now.

        `carbon_g` and `cost` are the site's, `load_carbon_g` and `load_cost` the load's; the
        difference is what the battery still holds and what was exported. Raises PolicyError for
        flows that do not balance.
        """
        self._hand_on()
        return {_total_name(name): total.value for name, total in self._totals.items()}

    def close(self) -> None:
        """Hand on all rows that are left, or a table without rows if there were none.

        Raises PolicyError for flows that do not balance.
        """
        self._hand_on()
        if self._on_rows is not None and not self._written:
            self._on_rows({name: np.empty(0) for name in COLUMNS})
            self._written = True

    def _hand_on(self) -> None:
        """Finish the rows that are held, add them up and hand them on."""
        if not self._rows:
            return
        table = np.frombuffer(bytes(self._rows)).reshape(-1, len(_KEPT))
        self._rows.clear()
        kept: dict[str, Floats] = dict(zip(_KEPT, np.ascontiguousarray(table.T), strict=True))
        start = np.concatenate(([self._handed_on_s], kept["end_s"][:-1]))
        kept = {"start_s": start, **kept}
        wrong = first_wrong(kept)
        if self.stored is None and (kept["charge_w"] + kept["discharge_w"]).any():
            raise self._no_content()
        self._account_for({name: column[:wrong] for name, column in kept.items()})
        if wrong < len(start):
            raise wrong_flows(float(start[wrong]), [float(kept[name][wrong]) for name in POWERS])

    def _account_for(self, kept: Columns) -> None:
        """Take rows that balance into the totals and hand them on."""
        if not len(kept["end_s"]):
            return
        columns = finished_rows(kept, self.stored)
        self._handed_on_s = float(columns["end_s"][-1])
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


def imbalance(totals: Mapping[str, float]) -> float:
    """Return by what share of the energy a ledger's totals do not close."""
    energies = [totals[_total_name(name)] for name in POWERS]
    flowing = max(math.fsum(energies[:4]), math.fsum(energies[4:]))
    miss = math.fsum([*energies[:4], *(-energy for energy in energies[4:])])
    return abs(miss) / flowing if flowing else 0.0
