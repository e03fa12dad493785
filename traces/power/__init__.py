"""Power, carbon intensity and prices from CSV files: any file whose columns are named.

A file seldom says what its numbers mean, so the caller declares it: unit, time zone, which end of
the interval the time is, mean or instant. Nothing is guessed. What the file does say (a unit in a
column's name, an offset from UTC in its times) must not contradict the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Final, NamedTuple

from simkit.errors import TraceError
from simkit.power.signal_trace import Label, PowerTrace, Sampling
from simkit.traces.power.series import Clock, Meaning, open_sheet

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
"""Columns of a site's file: our name -> name in the file."""


class SitePower(NamedTuple):
    """Power that a site's own sources generate, in W."""

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
        unit: of the values: W, kW, MW, GW; Wh … GWh for each interval; gCO2/kWh, kgCO2/MWh,
            tCO2/MWh, lbCO2/MWh; price/kWh, price/MWh (in any currency).
        time: the column of times.
        time_zone: zone of the clock that wrote them (``UTC``, ``UTC-06:00``, ``America/Chicago``);
            None only if every time gives its offset from UTC.
        site_zone: zone of the place, in whose standard time calendar alignment compares hours;
            None: `time_zone`, or UTC.
        label: whether a time is the start or the end of its interval.
        sampling: whether a value is the mean of its interval or read at an instant.
        step_s: length of the intervals in s; 0: the most frequent distance.
        time_format: format of the times for `datetime.strptime`; None: ISO 8601.

    Returns:
        The trace in W, gCO2/kWh or price/kWh, with the report of its rows. Rows without a time or
        a value are left out and leave a gap; of several rows with the same time the first is kept.

    Raises TraceError if the file cannot be read, something is undeclared, or a declaration
    contradicts the file.
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
    """Read several columns of one unit; return the name of each source -> its trace.

    `columns` maps the name of a source to its column. For the rest, and for errors, see
    `read_power`.
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
    """Read the sum of one or more columns of one unit; rows that lack one of them are left out.

    For the arguments and errors see `read_power`.
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

    `columns` gives the file's names of ``time``, ``solar``, ``wind`` where they differ from
    `GLEAMM_COLUMNS`; `unit` is that of both columns. For the rest and for errors see
    `read_power`.
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
