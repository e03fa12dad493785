"""What the public grid generates, emits and costs: EIA and ERCOT, Electricity Maps, and others."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class _CarbonLayout:
    time: str
    value: str


_CARBON_LAYOUTS: Final = (
    _CarbonLayout("timestamp", "avg_CI"),
    _CarbonLayout("Datetime (UTC)", "Carbon intensity gCO₂eq/kWh (Life cycle)"),
    _CarbonLayout("Time", "Carbon Intensity"),
)
"""Known files: generation and carbon by EIA's codes, Electricity Maps, and a series of two columns
as made from ENTSO-E's data."""


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
        time_zone: None if the times say their distance from UTC.
        site_zone: zone of the grid (ERCOT: ``America/Chicago``); None: `time_zone`, or UTC.
        label: whether a time is the start or the end of its hour; such files do not say.
        unit: of the columns.

    Returns:
        Name of a source, as in `EIA_SOURCES` -> its trace in W, of those that the file has.

    Raises TraceError if the file has none of them, or cannot be read.
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
        time_zone: see `power.read_power`.
        site_zone: see there.
        label: see there.

    Returns:
        The trace in gCO2/kWh.

    Raises TraceError if no layout fits, or as `power.read_power` does.
    """
    path = Path(path)
    if column is None or time is None:
        layout = _layout(path)
        column, time = column or layout.value, time or layout.time
    return read_power(
        path,
        column=column,
        unit=unit,
        time=time,
        time_zone=time_zone,
        site_zone=site_zone,
        label=label,
    )


def _layout(path: Path) -> _CarbonLayout:
    names = head_lines(path, 1)[0]
    for layout in _CARBON_LAYOUTS:
        if layout.time in names and layout.value in names:
            return layout
    known = "; ".join(f"{layout.time}, {layout.value}" for layout in _CARBON_LAYOUTS)
    raise TraceError(
        f"{path}:1: columns {', '.join(filter(None, names))}, of no known layout of carbon "
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
    """Read a price of energy, which may be negative.

    Args:
        path: the file.
        column: the column of values.
        unit: price/kWh or price/MWh; the currency is that of the file.
        time: see `power.read_power`, as the others.
        time_zone: see there.
        site_zone: see there.
        label: see there.

    Returns:
        The trace in price/kWh.

    Raises TraceError as `power.read_power` does.
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
