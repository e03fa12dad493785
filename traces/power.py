"""Power, carbon intensity and prices from CSV files: any file whose columns are named.

A file seldom says what its numbers mean, so its reader must: unit, time zone, which end of the
interval the time is, mean or instant. Nothing of it is guessed; what the file does say (a unit in
a column's name, a distance from UTC in its times) must not contradict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Final, NamedTuple

from simkit.errors import TraceError
from simkit.signal_trace import Label, PowerTrace, Sampling

from .power_series import Meaning
from .power_sheet import Clock, open_sheet

__all__ = [
    "GLEAMM_COLUMNS",
    "PowerTrace",
    "SitePower",
    "read_gleamm",
    "read_power",
    "read_sources",
    "read_total",
]

GLEAMM_COLUMNS: Final = {"time": "time", "solar": "solar_kw", "wind": "wind_kw"}
"""Columns of a site's file: ours -> the file's."""


class SitePower(NamedTuple):
    """What a site's own sources generate, in W."""

    solar: PowerTrace
    wind: PowerTrace


def read_power(
    path: str | PathLike[str],
    *,
    column: str,
    unit: str,
    time: str = "time",
    time_zone: str | None = None,
    site_zone: str | None = None,
    label: Label = "start",
    sampling: Sampling = "mean",
    step_s: float = 0.0,
    time_format: str | None = None,
) -> PowerTrace:
    """Read one column of a CSV file, plain or gzipped.

    Args:
        path: the file; its first line names the columns.
        column: the column of values.
        unit: what they are in: W, kW, MW, GW; Wh … GWh for each interval; gCO2/kWh, kgCO2/MWh,
            tCO2/MWh, lbCO2/MWh; price/kWh, price/MWh (of any currency).
        time: the column of times.
        time_zone: zone of the clock that wrote them (``UTC``, ``UTC-06:00``, ``America/Chicago``);
            None only if every time says its distance from UTC.
        site_zone: zone of the place, in whose standard time calendar alignment compares hours;
            None: `time_zone`, or UTC.
        label: whether a time is the start or the end of its interval.
        sampling: whether a value is the mean of its interval or read at an instant.
        step_s: length of the intervals in s; 0: the most frequent distance.
        time_format: form of the times, as `datetime.strptime` has it; None: ISO 8601.

    Returns:
        The trace in W, gCO2/kWh or price/kWh, with the report of its rows: those without a time or
        a value are left out and leave a gap, the first of several with the same time is kept.

    Raises TraceError for what cannot be read, is undeclared or contradicts the file.
    """
    return read_total(
        path,
        [column],
        unit=unit,
        time=time,
        time_zone=time_zone,
        site_zone=site_zone,
        label=label,
        sampling=sampling,
        step_s=step_s,
        time_format=time_format,
    )


def read_sources(
    path: str | PathLike[str],
    columns: Mapping[str, str],
    *,
    unit: str,
    time: str = "time",
    time_zone: str | None = None,
    site_zone: str | None = None,
    label: Label = "start",
    sampling: Sampling = "mean",
    step_s: float = 0.0,
    time_format: str | None = None,
) -> dict[str, PowerTrace]:
    """Read several columns of one unit.

    Args:
        path: the file.
        columns: name of a source -> its column.
        unit: see `read_power`, as the others.
        time: see there.
        time_zone: see there.
        site_zone: see there.
        label: see there.
        sampling: see there.
        step_s: see there.
        time_format: see there.

    Returns:
        Name of a source -> its trace.

    Raises TraceError as `read_power` does.
    """
    sheet = open_sheet(
        Path(path),
        list(columns.values()),
        unit,
        Meaning(site_zone or time_zone or "UTC", label, sampling, step_s),
        Clock(time, time_zone, time_format),
    )
    return {source: sheet.trace(column) for source, column in columns.items()}


def read_total(
    path: str | PathLike[str],
    columns: Sequence[str],
    *,
    unit: str,
    time: str = "time",
    time_zone: str | None = None,
    site_zone: str | None = None,
    label: Label = "start",
    sampling: Sampling = "mean",
    step_s: float = 0.0,
    time_format: str | None = None,
) -> PowerTrace:
    """Read the sum of several columns of one unit; rows that lack one of them are left out.

    Args:
        path: the file.
        columns: at least one.
        unit: see `read_power`, as the others.
        time: see there.
        time_zone: see there.
        site_zone: see there.
        label: see there.
        sampling: see there.
        step_s: see there.
        time_format: see there.

    Raises TraceError as `read_power` does.
    """
    sheet = open_sheet(
        Path(path),
        columns,
        unit,
        Meaning(site_zone or time_zone or "UTC", label, sampling, step_s),
        Clock(time, time_zone, time_format),
    )
    return sheet.trace(*columns)


def read_gleamm(
    path: str | PathLike[str],
    *,
    time_zone: str | None = None,
    columns: Mapping[str, str] | None = None,
    unit: str = "kW",
    label: Label = "start",
    site_zone: str | None = None,
) -> SitePower:
    """Read the power of a site like GLEAMM's: a time, solar kW and wind kW in each row.

    Args:
        path: the file.
        time_zone: see `read_power`.
        columns: the file's names of ``time``, ``solar``, ``wind`` where they are others than in
            `GLEAMM_COLUMNS`.
        unit: of both columns.
        label: see `read_power`.
        site_zone: see `read_power`.

    Raises TraceError as `read_power` does.
    """
    names = GLEAMM_COLUMNS | dict(columns or {})
    if unknown := names.keys() - GLEAMM_COLUMNS.keys():
        raise TraceError(
            f"{path}: columns {', '.join(sorted(map(repr, unknown)))}; a site's file has time, "
            "solar and wind: name those"
        )
    sources = {name: names[name] for name in ("solar", "wind")}
    traces = read_sources(
        path,
        sources,
        unit=unit,
        time=names["time"],
        time_zone=time_zone,
        site_zone=site_zone,
        label=label,
    )
    return SitePower(traces["solar"], traces["wind"])
