"""Weather of the National Renewable Energy Laboratory: NSRDB (sun) and WIND Toolkit (wind)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.dates import fixed_zone
from simkit.errors import TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.traces.power.series import keep_rows
from simkit.traces.power.table import Table, head_lines, read_table
from simkit.traces.power.typical_year import one_year
from simkit.traces.tables.layout import Dialect
from simkit.traces.tables.times import Instants, civil_s, on_clock
from simkit.workload import RowReport

_DATE: Final = ("Year", "Month", "Day", "Hour", "Minute")
_SUN: Final = ("GHI", "DNI", "DHI", "Temperature", "Wind Speed")
_WIND: Final = re.compile(r"wind speed at (\d+)m \(m/s\)")
_AIR: Final = re.compile(r"air temperature at (\d+)m \(C\)")
_STEPS: Final = 1e6
"""Computed powers are whole steps, so many in the rated power; weather has three digits."""


@dataclass(frozen=True)
class SolarWeather:
    """Sunshine at a place, (n,) each, read at instants."""

    name: str
    """Name for messages."""
    time_s: Floats
    """Ascending Unix times in s."""
    ghi_w_m2: Floats
    """Global irradiance on a horizontal plane."""
    dni_w_m2: Floats
    """Direct irradiance on a plane that faces the sun."""
    dhi_w_m2: Floats
    """Diffuse irradiance on a horizontal plane."""
    temperature_c: Floats
    """Air temperature 2 m above ground."""
    wind_m_s: Floats
    """Wind speed near the ground, which cools the modules."""
    latitude: float
    """Degrees, north above 0."""
    longitude: float
    """Degrees, east above 0."""
    elevation_m: float
    """Height above sea level."""
    time_zone: str
    """Zone of the place."""
    report: RowReport | None = None
    """Counts of the rows of the file, by rule."""
    inputs: tuple[Path, ...] = ()
    """The files read."""
    typical: str = ""
    """How months of different years became one year; empty if they did not."""


@dataclass(frozen=True)
class WindWeather:
    """Wind at a place, (n,) each, read at instants."""

    speed: PowerTrace
    """Wind speed in m/s, with its times and the report."""
    height_m: float
    """Height above ground at which the wind was measured."""
    temperature_c: Floats
    """Air temperature at that height; NaN where unknown."""


def read_nsrdb(path: str | PathLike[str], *, typical_year: bool | None = None) -> SolarWeather:
    """Read a file of the National Solar Radiation Database (PSM version 3), plain or gzipped.

    Two lines give the place and the units, the third names the columns. Times are in the zone that
    the file names, without daylight saving.

    Args:
        path: the file.
        typical_year: whether months of different years make up one year; None: recognised.

    Raises TraceError if the file has another form or lacks a column.
    """
    path = Path(path)
    names, facts, _ = head_lines(path, 3)
    place = dict(zip(names, facts, strict=False))
    zone = fixed_zone(3600 * _number(place, "Time Zone", path, 2))
    table = read_table(path, [*_DATE, *_SUN], dialect=Dialect(header_line=3))
    ghi, dni, dhi, air, wind = (table.numbers(name) for name in _SUN)
    when, typical = one_year(_clock(table, zone), zone, str(path), declared=typical_year)
    usable = ghi + dni + dhi + air + wind
    kept = keep_rows(when, usable, table, str(path), times=_DATE, values=_SUN)
    return SolarWeather(
        name=str(path),
        time_s=kept.time_s,
        ghi_w_m2=ghi[kept.row],
        dni_w_m2=dni[kept.row],
        dhi_w_m2=dhi[kept.row],
        temperature_c=air[kept.row],
        wind_m_s=wind[kept.row],
        latitude=_number(place, "Latitude", path, 2),
        longitude=_number(place, "Longitude", path, 2),
        elevation_m=_number(place, "Elevation", path, 2),
        time_zone=fixed_zone(3600 * _number(place, "Local Time Zone", path, 2)),
        report=kept.report,
        inputs=(path,),
        typical=typical,
    )


def read_wind_toolkit(path: str | PathLike[str]) -> WindWeather:
    """Read a file of the WIND Toolkit, plain or gzipped.

    The first line gives the place (``SiteID,1247689,Site Timezone,-6,…``), the second names the
    columns; the name of the wind speed column gives the height. Times are in the zone that the file
    names, without daylight saving.

    Raises TraceError if the file has another form.
    """
    path = Path(path)
    facts, names = head_lines(path, 2)
    place = dict(zip(facts[::2], facts[1::2], strict=False))
    zone = fixed_zone(3600 * _number(place, "Data Timezone", path, 1))
    wind, height = _at_height(names, _WIND)
    if not wind:
        raise TraceError(
            f"{path}:2: no column 'wind speed at …m (m/s)'; a file of the WIND Toolkit has one: "
            "check which file it is, or read it as type csv"
        )
    air, _ = _at_height(names, _AIR)
    wanted = [*_DATE, wind, *([air] if air else [])]
    table = read_table(path, wanted, dialect=Dialect(header_line=2))
    speeds = table.numbers(wind)
    kept = keep_rows(_clock(table, zone), speeds, table, str(path), times=_DATE, values=[wind])
    speed = PowerTrace(
        time_s=kept.time_s,
        value=speeds[kept.row],
        unit="m/s",
        time_zone=fixed_zone(3600 * _number(place, "Site Timezone", path, 1)),
        sampling="instant",
        name=f"{path}: {wind}",
        report=kept.report,
        inputs=(path,),
    )
    temperature = table.numbers(air)[kept.row] if air else np.full(len(speed), np.nan)
    return WindWeather(speed, height, temperature)


def without_last_digits(power_w: Floats, rated_w: float) -> Floats:
    """Round power computed from weather to millionths of the rated power.

    Sines, exponentials and powers differ in their last digits from processor to processor, because
    libraries choose instructions by what a processor offers. Rounded, the same file is the same
    series everywhere.
    """
    if not rated_w:  # a curve that is 0 throughout
        return power_w
    return np.asarray(np.round(power_w / rated_w * _STEPS) / _STEPS * rated_w, dtype=np.float64)


def _at_height(names: Sequence[str], pattern: re.Pattern[str]) -> tuple[str, float]:
    """Return the first column of a kind and its height in m; empty if there is none."""
    found = (match for name in names if (match := pattern.fullmatch(name)))
    return next(((match[0], float(match[1])) for match in found), ("", 0.0))


def _clock(table: Table, zone: str) -> Instants:
    """Return the instants of rows with a date in five columns."""
    year, month, day, hour, minute = (table.numbers(name) for name in _DATE)
    naive = civil_s(year, month, day, hour, minute, np.zeros(len(year)))
    impossible = np.isfinite(year + month + day + hour + minute) & np.isnan(naive)
    return on_clock(naive, zone)._replace(impossible=impossible)


def _number(place: dict[str, str], name: str, path: Path, line: int) -> float:
    try:
        return float(place[name])
    except (KeyError, ValueError):
        raise TraceError(
            f"{path}:{line}: {name} is {place.get(name, 'missing')!r}; the header of such a "
            "file gives it as a number; check which file it is"
        ) from None
