"""Generation, carbon intensity and prices of public grids: EIA, ERCOT, Electricity Maps, others."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from simkit.errors import TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.traces.power.series import TableSignal
from simkit.traces.power.table import head_lines

_EIA_CODES: Final = {
    "wind": "WND",
    "solar": "SUN",
    "hydro": "WAT",
    "oil": "OIL",
    "gas": "NG",
    "coal": "COL",
    "nuclear": "NUC",
    "other": "OTH",
}
"""Our names of sources -> EIA's codes of energy sources."""


_CARBON_LAYOUTS: Final = (
    ("timestamp", "avg_CI"),
    ("Datetime (UTC)", "Carbon intensity gCO₂eq/kWh (Life cycle)"),
    ("Time", "Carbon Intensity"),
)
"""Columns (times, values) of known files: generation and carbon by EIA's codes, Electricity Maps,
and two-column series made from ENTSO-E's data."""


class GenerationSignal(TableSignal):
    """What one source feeds into a public grid; columns are named by EIA's codes (WND, SUN, …)."""

    source: Literal["wind", "solar", "hydro", "oil", "gas", "coal", "nuclear", "other"]
    """Which source."""
    time: str = "timestamp"
    """The column of times."""
    unit: str | None = None
    """Unit of the columns; null: the one in the column's name, else MW."""

    def read(self) -> PowerTrace:
        """Read the source's column, such as a balancing authority's hourly generation."""
        column = _EIA_CODES[self.source]
        return self.sheet([column], self.unit, self.time, usual="MW").trace(column)


class CarbonSignal(TableSignal):
    """The carbon intensity of a public grid; for known layouts without naming a column."""

    column: str | None = None
    """The column of values; null: that of a known layout."""
    time: str | None = None
    """The column of times; null: that of the layout."""
    unit: str | None = None
    """Unit of the values; null: the one in the column's name, else gCO2/kWh."""

    def read(self) -> PowerTrace:
        """Read the column; raises TraceError if it is not named and no layout fits."""
        time, column = self.time, self.column
        if column is None or time is None:
            known_time, known_column = _layout(Path(self.path))
            column, time = column or known_column, time or known_time
        return self.sheet([column], self.unit, time, usual="gCO2/kWh").trace(column)


class PriceSignal(TableSignal):
    """A price of energy, which may be below 0."""

    column: str
    """The column of values."""
    time: str = "time"
    """The column of times."""
    unit: str | None = None
    """price/kWh or price/MWh, in any currency, the same everywhere; null: the one in the column's
    name, else price/MWh."""

    def read(self) -> PowerTrace:
        """Read the column."""
        sheet = self.sheet([self.column], self.unit, self.time, usual="price/MWh")
        return sheet.trace(self.column)


def _layout(path: Path) -> tuple[str, str]:
    names = head_lines(path, 1)[0]
    for layout in _CARBON_LAYOUTS:
        if {*layout} <= {*names}:
            return layout
    known = "; ".join(map(", ".join, _CARBON_LAYOUTS))
    raise TraceError(
        f"{path}:1: columns {', '.join(filter(None, names))} match no known layout of carbon "
        f"intensity ({known}); name column and time"
    )
