"""The ledger: where every joule of a site came from and went, exactly, with its carbon and cost.

Power is constant between two events, so energy is power times time, without any sampling: at every
event the ledger is told what has flowed since the last one. It only stores this; balance, shares,
carbon and cost are computed for many rows at once. Sums are compensated, so a year of small steps
closes as well as one step does. Tables at regular intervals are made from the rows afterwards
(`simkit.results.time_bins`) and change no total.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
from simkit.power.stored_energy import StoredEnergy

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
"""Takes a chunk of finished rows: name of each of `ledger_rows.COLUMNS` -> (N,) values."""


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
