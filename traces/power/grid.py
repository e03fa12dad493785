"""Generation, carbon intensity and prices of public grids: EIA, ERCOT, Electricity Maps, others."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Literal

from simkit.errors import TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.traces.power.series import ColumnSignal, TableSignal
from simkit.traces.tables.layout import Dialect, find_layout

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


class CarbonSignal(ColumnSignal):
    """The carbon intensity of a public grid; for known layouts without naming a column."""

    column_needed: ClassVar[bool] = False

    column: str | None = None
    """The column of values; null: that of the format, or of a known layout."""
    time: str | None = None
    """The column of times; null: that of the format, or of the layout."""
    unit: str | None = None
    """Unit of the values; null: the one in the column's name, else gCO2/kWh."""

    def read(self) -> PowerTrace:
        """Read the column; raises TraceError if it is not named and no layout fits."""
        signal = self
        if self.format is None and (self.column is None or self.time is None):
            time, column = _layout(Path(self.path), self.dialect)
            known = {"column": self.column or column, "time": self.time or time}
            signal = self.model_copy(update=known)
        return signal.column_trace("gCO2/kWh", self.unit)


class PriceSignal(ColumnSignal):
    """A price of energy, which may be below 0."""

    unit: str | None = None
    """price/kWh or price/MWh, in any currency, the same everywhere; null: the one in the column's
    name, else price/MWh."""

    def read(self) -> PowerTrace:
        """Read the column."""
        return self.column_trace("price/MWh", self.unit)


def _layout(path: Path, dialect: Dialect) -> tuple[str, str]:
    found = find_layout(path, [set(layout) for layout in _CARBON_LAYOUTS], dialect)
    for layout in _CARBON_LAYOUTS:
        if {*layout} <= {*found.names}:
            return layout
    known = "; ".join(map(", ".join, _CARBON_LAYOUTS))
    raise TraceError(
        f"{path}:{found.header_line}: columns {', '.join(filter(None, found.names))} match no "
        f"known layout of carbon intensity ({known}); name column and time"
    )
