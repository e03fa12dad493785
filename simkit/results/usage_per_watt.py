"""What one W of machine power has used between any two times, from the ledger's rows.

Every W of machine power is alike: it is served to the extent that the load is, bears its part of
what the facility adds and loses, and has the load's mix of sources. So a bill is a number of W
times what one W has used meanwhile, and costs the same to compute whether a job ran through one
row or a million.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints, RunningSums

BILLED: Final = (
    "energy_j", "overhead_j", "renewable_j", "battery_j", "grid_j", "carbon_g", "cost",
)  # fmt: skip
"""What is billed; renewable + battery + grid = energy + overhead. See `records.ENERGY`."""
_COLUMNS: Final = (
    "start_s", "end_s", "unserved_w", "load_w", "pue", "load_renewable_w", "load_battery_w",
    "load_grid_w", "load_carbon_g_per_s", "load_cost_per_s",
)  # fmt: skip
"""Columns of the table "power" that bills need."""
_ROUNDING: Final = 1e-12
"""Share of the power below which overhead is rounding."""


class RowTimes(NamedTuple):
    """K times as rows of the ledger."""

    row: Ints
    """(K,) number of rows that have ended by then."""
    seconds: Floats
    """(K,) since the start of the next row, in s."""


class UsagePerWatt:
    """How fast one W of machine power uses each of `BILLED` in the ledger's N rows."""

    def __init__(self, power: pl.LazyFrame) -> None:
        """Read the rows of a table "power"."""
        rows = power.select(_COLUMNS).collect()
        columns = {name: rows[name].to_numpy() for name in _COLUMNS}
        self._start, self._end = columns["start_s"], columns["end_s"]
        rates = _rates(columns)
        self._sums = [RunningSums(rate * (self._end - self._start)) for rate in rates]
        self._rates = [np.append(rate, 0.0) for rate in rates]  # nothing after the last row

    def at(self, times: Floats) -> RowTimes:
        """Find (K,) times in s; times outside the rows count as the first or the last instant."""
        if not len(self._end):
            return RowTimes(np.zeros(len(times), dtype=np.int64), np.zeros(len(times)))
        inside = np.clip(times, self._start[0], self._end[-1])
        row = np.searchsorted(self._end, inside, side="right").astype(np.int64)
        return RowTimes(row, inside - np.append(self._start, self._end[-1])[row])

    def between(self, billed: int, first: RowTimes, last: RowTimes) -> Floats:
        """Return (K,) what one W has used of a column of `BILLED` between two times."""
        rates = self._rates[billed]
        whole = self._sums[billed].between(first.row, last.row)
        parts: Floats = rates[last.row] * last.seconds - rates[first.row] * first.seconds
        return whole + parts


def _rates(rows: dict[str, Floats]) -> list[Floats]:
    """Return (N,) rates of `BILLED`, per s and W of machine power; 0 if there is no load."""
    load = rows["load_w"]
    loaded = load > 0
    per_watt = np.divide(rows["pue"], load, out=np.zeros_like(load), where=loaded)
    short = np.divide(rows["unserved_w"], load, out=np.ones_like(load), where=loaded)
    served = np.maximum(1.0 - short, 0.0)
    sources = [rows[f"load_{source}_w"] * per_watt for source in ("renewable", "battery", "grid")]
    used = sources[0] + sources[1] + sources[2]
    added = used - served
    overhead = np.where(added > _ROUNDING * used, added, 0.0)  # exactly 0 if nothing is added
    carried = [rows[f"load_{what}_per_s"] * per_watt for what in ("carbon_g", "cost")]
    return [served, overhead, *sources, *carried]
