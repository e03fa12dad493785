"""Generation, carbon intensity and prices of public grids: EIA, ERCOT, Electricity Maps, others."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Final

from simkit.errors import TraceError
from simkit.power.signal_trace import Label, PowerTrace
from simkit.traces.power import read_power, read_sources
from simkit.traces.power.table import head_lines

EIA_SOURCES: Final = {
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


def read_generation(
    path: str | PathLike[str],
    *,
    time: str = "timestamp",
    time_zone: str | None = None,
    site_zone: str | None = None,
    label: Label = "start",
    unit: str = "MW",
) -> dict[str, PowerTrace]:
    """Read a balancing authority's hourly generation by source, columns named by EIA's codes.

    Args:
        path: a CSV file with a column of times and some of ``WND SUN WAT OIL NG COL NUC OTH``.
        time: the column of times.
        time_zone: None if the times give their offset from UTC.
        site_zone: zone of the grid (ERCOT: ``America/Chicago``); None: `time_zone`, or UTC.
        label: whether a time is the start or the end of its hour; the file does not say.
        unit: of the columns.

    Returns:
        Name of each source in the file, as in `EIA_SOURCES` -> its trace in W.

    Raises TraceError if the file has no such column, or cannot be read.
    """
    path = Path(path)
    names = head_lines(path, 1)[0]
    found = {source: code for source, code in EIA_SOURCES.items() if code in names}
    if not found:
        raise TraceError(
            f"{path}:1: none of the columns {', '.join(EIA_SOURCES.values())}; read the file with "
            "read_sources, and name its columns"
        )
    return read_sources(
        path,
        found,
        unit=unit,
        time=time,
        time_zone=time_zone,
        site_zone=site_zone,
        label=label,
    )


def read_carbon(
    path: str | PathLike[str],
    *,
    column: str | None = None,
    time: str | None = None,
    unit: str = "gCO2/kWh",
    time_zone: str | None = None,
    site_zone: str | None = None,
    label: Label = "start",
) -> PowerTrace:
    """Read the carbon intensity of a grid.

    Args:
        path: the file.
        column: the column of values; None: that of a known layout (``avg_CI``, Electricity Maps'
            life-cycle intensity, ``Carbon Intensity``).
        time: the column of times; None: that of the layout.
        unit: of the values.
        time_zone: see `read_power`.
        site_zone: see `read_power`.
        label: see `read_power`.

    Returns:
        The trace in gCO2/kWh.

    Raises TraceError if no layout fits, or as `read_power` does.
    """
    path = Path(path)
    if column is None or time is None:
        known_time, known_column = _layout(path)
        column, time = column or known_column, time or known_time
    return read_power(
        path,
        column=column,
        unit=unit,
        time=time,
        time_zone=time_zone,
        site_zone=site_zone,
        label=label,
    )


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


def read_price(
    path: str | PathLike[str],
    *,
    column: str,
    unit: str = "price/MWh",
    time: str = "time",
    time_zone: str | None = None,
    site_zone: str | None = None,
    label: Label = "start",
) -> PowerTrace:
    """Read a price of energy, which may be negative; return it in price/kWh.

    `unit` is price/kWh or price/MWh, in the currency of the file. For the rest and for errors see
    `read_power`.
    """
    return read_power(
        path,
        column=column,
        unit=unit,
        time=time,
        time_zone=time_zone,
        site_zone=site_zone,
        label=label,
    )
