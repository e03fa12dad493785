"""What a W of machine power draws over time: read off the ledger's rows, between any two times.

Every W of machine power is alike: it is served as far as the load is, bears its part of what the
facility adds and loses, and has the load's mix of sources. So a bill is a number of W times what
one W has drawn meanwhile, and costs the same whether a job ran through one row or a million.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.exact_sum import RunningSums

BILLED: Final = (
    "energy_j",
    "overhead_j",
    "renewable_j",
    "battery_j",
    "grid_j",
    "carbon_g",
    "cost",
)
"""What is billed; renewable + battery + grid = energy + overhead. See `records.ENERGY`."""

COLUMNS: Final = (
    "start_s",
    "end_s",
    "unserved_w",
    "load_w",
    "pue",
    "load_renewable_w",
    "load_battery_w",
    "load_grid_w",
    "load_carbon_g_per_s",
    "load_cost_per_s",
    "standing_w",
)
"""Columns of the table "power" that bills are made of."""


_ROUNDING: Final = 1e-12
"""Share of what is drawn below which overhead is the last digits of a difference."""


class Places(NamedTuple):
    """Times as places in the ledger's rows."""

    row: Ints
    """(K,) rows that have ended by then."""
    seconds: Floats
    """(K,) since the start of the next row, in s."""


class UsagePerWatt:
    """The ledger's N rows, and how fast a W of machine power draws each of `BILLED` in them."""

    def __init__(self, power: pl.LazyFrame) -> None:
        """Read the rows of a table "power"."""
        rows = power.select(COLUMNS).collect()
        columns = {name: rows[name].to_numpy() for name in COLUMNS}
        self.standing_w: Floats = columns["standing_w"]
        """(N,) what machines draw by themselves, in W."""
        self.rates = _rates(columns)
        """One (N,) column for each of `BILLED`, per s and W."""
        self._start, self._end = columns["start_s"], columns["end_s"]
        self.seconds: Floats = self._end - self._start
        """(N,) length of each row in s."""
        self._sums = [RunningSums(rate * self.seconds) for rate in self.rates]
        self._rates = [np.append(rate, 0.0) for rate in self.rates]  # nothing after the last row

    def places(self, times: Floats) -> Places:
        """Find (K,) times in s; those outside the rows count as the first or the last instant."""
        if not len(self._end):
            return Places(np.zeros(len(times), dtype=np.int64), np.zeros(len(times)))
        inside = np.clip(times, self._start[0], self._end[-1])
        row = np.searchsorted(self._end, inside, side="right").astype(np.int64)
        return Places(row, inside - np.append(self._start, self._end[-1])[row])

    def between(self, billed: int, first: Places, last: Places) -> Floats:
        """Return (K,) what a W has drawn of a column of `BILLED` between two times."""
        rates = self._rates[billed]
        whole = self._sums[billed].between(first.row, last.row)
        parts: Floats = rates[last.row] * last.seconds - rates[first.row] * first.seconds
        return whole + parts


def _rates(rows: dict[str, Floats]) -> list[Floats]:
    """Return the columns of `BILLED`, per s and W of machine power; 0 where there is no load."""
    load = rows["load_w"]
    loaded = load > 0
    per_watt = np.divide(rows["pue"], load, out=np.zeros_like(load), where=loaded)
    short = np.divide(rows["unserved_w"], load, out=np.ones_like(load), where=loaded)
    served = np.maximum(1.0 - short, 0.0)
    sources = [rows[f"load_{source}_w"] * per_watt for source in ("renewable", "battery", "grid")]
    drawn = sources[0] + sources[1] + sources[2]
    carried = [rows[f"load_{what}_per_s"] * per_watt for what in ("carbon_g", "cost")]
    return [served, _overhead(drawn, served), *sources, *carried]


def _overhead(drawn: Floats, served: Floats) -> Floats:
    """Return what is drawn beside what machines get; exactly 0 where nothing is added."""
    more = drawn - served
    return np.where(more > _ROUNDING * drawn, more, 0.0)
