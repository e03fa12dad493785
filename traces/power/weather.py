"""Weather from files: NSRDB (sun), WIND Toolkit (wind) and EnergyPlus (both, and temperature).

NSRDB and the WIND Toolkit belong to the National Renewable Energy Laboratory. In a file of
EnergyPlus (EPW), which pvlib reads, each row is an hour of the place's standard time. Irradiance is
the mean of that hour, so it is read at its middle; wind and temperature are readings at its end
(U.S. Department of Energy, "EnergyPlus Auxiliary Programs", section "EnergyPlus Weather File (EPW)
Data Dictionary"). Most such files are typical years, see `one_year`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.dates import fixed_zone
from simkit.errors import SimkitError, TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.traces.files import text_blocks
from simkit.traces.power import KeptRows, keep_rows
from simkit.traces.power.table import Table, head_lines, one_year, read_table
from simkit.traces.tables.layout import Dialect
from simkit.traces.tables.times import Instants, civil_s, on_clock
from simkit.workload import RowReport

_DATE: Final = ("Year", "Month", "Day", "Hour", "Minute")
_SUN: Final = ("GHI", "DNI", "DHI", "Temperature", "Wind Speed")
_WIND: Final = re.compile(r"wind speed at (\d+)m \(m/s\)")
_AIR: Final = re.compile(r"air temperature at (\d+)m \(C\)")
_STEPS: Final = 1e6
"""Steps in the rated power: computed powers are whole steps; weather has three digits."""


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
    ghi, dni, dhi, air, wind = (table.values[name] for name in _SUN)
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
    speeds = table.values[wind]
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
    temperature = table.values[air][kept.row] if air else np.full(len(speed), np.nan)
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
    year, month, day, hour, minute = (table.values[name] for name in _DATE)
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


def power_library(name: str, purpose: str) -> Any:
    """Return a module: pvlib, windpowerlib or a library that they need.

    Raises SimkitError, beginning with `purpose`, if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise SimkitError(
            f"{purpose}: {name} is not installed; pip install 'simkit-cluster[power]'"
        ) from error


@contextmanager
def deprecations_hidden() -> Iterator[None]:
    """Hide warnings that these libraries use deprecated functions of pandas: we cannot fix it."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)
        yield


_HOUR_S: Final = 3600.0
_HEAD_LINES: Final = 8
_WIND_HEIGHT_M: Final = 10.0
"""Height at which stations measure wind."""
_UNKNOWN: Final = {
    "ghi": 9999.0,
    "dni": 9999.0,
    "dhi": 9999.0,
    "temp_air": 99.9,
    "wind_speed": 999.0,
}
"""Column -> numbers from here on stand for no value."""


class Epw(NamedTuple):
    """The hours of a file, (n,) each, in the order of the file."""

    path: Path
    when: Instants
    """Begins of the hours."""
    table: Table
    """Values by the names of pvlib's columns; NaN where unknown."""
    place: dict[str, Any]
    """latitude, longitude, altitude, TZ in hours."""
    typical: str
    """How months of different years became one year; empty if they did not."""

    @property
    def zone(self) -> str:
        """Zone of the place."""
        return fixed_zone(_HOUR_S * float(self.place["TZ"]))

    def kept(self, *columns: str) -> KeptRows:
        """Return the rows with a time and all these values."""
        usable = np.sum([self.table.values[name] for name in columns], axis=0)
        return keep_rows(
            self.when, usable, self.table, str(self.path), times=["time"], values=columns
        )

    def sun(self) -> SolarWeather:
        """Return irradiance with the temperature and wind that cool the modules."""
        columns = ("ghi", "dni", "dhi", "temp_air", "wind_speed")
        kept = self.kept(*columns)
        ghi, dni, dhi, air, wind = (self.table.values[name][kept.row] for name in columns)
        return SolarWeather(
            name=str(self.path),
            time_s=kept.time_s + _HOUR_S / 2,
            ghi_w_m2=ghi,
            dni_w_m2=dni,
            dhi_w_m2=dhi,
            temperature_c=air,
            wind_m_s=wind,
            latitude=self.place["latitude"],
            longitude=self.place["longitude"],
            elevation_m=self.place["altitude"],
            time_zone=self.zone,
            report=kept.report,
            inputs=(self.path,),
            typical=self.typical,
        )

    def wind(self) -> WindWeather:
        """Return the wind, 10 m above ground."""
        speed = self.readings("wind_speed", "m/s")
        return WindWeather(speed, _WIND_HEIGHT_M, np.full(len(speed), np.nan))

    def readings(self, column: str, unit: str) -> PowerTrace:
        """Return a column of readings at the ends of the hours."""
        kept = self.kept(column)
        return PowerTrace(
            time_s=kept.time_s + _HOUR_S,
            value=self.table.values[column][kept.row],
            unit=unit,
            time_zone=self.zone,
            sampling="instant",
            step_s=_HOUR_S,
            name=f"{self.path}: {column}",
            report=kept.report,
            inputs=(self.path,),
            typical=bool(self.typical),
            notes=(self.typical,) if self.typical else (),
        )


def read_epw(path: str | PathLike[str], *, typical_year: bool | None = None) -> Epw:
    """Read a file of EnergyPlus weather, plain or gzipped, by `pvlib.iotools.read_epw`.

    Args:
        path: the file.
        typical_year: whether months of different years make up one year; None: recognised.

    Raises SimkitError without pvlib, TraceError if the file has another form or several rows an
    hour.
    """
    path = Path(path)
    text = b"".join(block.text for block in text_blocks(path)).decode("utf-8", "replace")
    lines = text.splitlines()
    _check_head(path, lines[:_HEAD_LINES])
    rows = _Rows.of(lines)
    pvlib = power_library("pvlib", "EnergyPlus weather")
    try:
        data, place = pvlib.iotools.read_epw(io.StringIO(rows.text))
        table = _table(path, data, rows)
    except (ValueError, KeyError, TypeError) as error:
        why = str(error).splitlines()[0].partition(". You might")[0]
        raise TraceError(
            f"{path}: pvlib cannot read it as EnergyPlus weather: {why}; check which file it is"
        ) from error
    begins = data.index.tz_convert("UTC").tz_localize(None).to_numpy()
    time_s = begins.astype("datetime64[s]").astype(np.int64).astype(np.float64)
    never: Bools = np.zeros(len(time_s), dtype=bool)
    zone = fixed_zone(_HOUR_S * float(place["TZ"]))
    found = Instants(np.where(rows.impossible, np.nan, time_s), never, never, rows.impossible)
    when, typical = one_year(found, zone, str(path), declared=typical_year)
    return Epw(path, when, table, place, typical)


class _Rows(NamedTuple):
    """The rows of hours, (n,) each, and the file's text as pvlib can read it."""

    text: str
    """Another date stands in for an impossible one, and there are no empty lines."""
    line: Ints
    time: list[str]
    """The cells of the time."""
    impossible: Bools
    """No calendar has the date, or no clock the hour."""

    @classmethod
    def of(cls, lines: Sequence[str]) -> _Rows:
        """Return the rows of a file's lines."""
        text, at, time, impossible = list(lines[:_HEAD_LINES]), [], [], []
        for number, line in enumerate(lines[_HEAD_LINES:], _HEAD_LINES + 1):
            if not line.strip():
                continue
            cells = line.split(",", 4)
            wrong = not _is_date(cells[:4])
            at.append(number)
            time.append(",".join(cells[:4]))
            impossible.append(wrong)
            text.append(",".join(["2001,1,1,1", *cells[4:]]) if wrong else line)
        return cls("\n".join(text) + "\n", np.array(at, np.int64), time, np.array(impossible, bool))


def _is_date(cells: Sequence[str]) -> bool:
    """Return whether year, month, day and hour are those of a calendar; hours are 1 to 24."""
    try:
        year, month, day, hour = map(int, cells)
        date(year, month, day)
    except ValueError:
        return False
    return 1 <= hour <= 24


def _table(path: Path, data: Any, rows: _Rows) -> Table:
    """Return the columns that are used of pvlib's table; what is no number is NaN there."""
    cells = {
        name: pl.Series(
            [str(v) if known else None for v, known in zip(data[name], there, strict=True)],
            dtype=pl.String,
        )
        for name, there in data[[*_UNKNOWN]].notna().items()
    }
    figures = {name: cell.cast(pl.Float64, strict=False).to_numpy() for name, cell in cells.items()}
    unknown = {name: figures[name] >= least for name, least in _UNKNOWN.items()}
    return Table(
        path=path,
        columns={name: cells[name].set(pl.Series(unknown[name]), None) for name in figures},
        line=rows.line,
        values={name: np.where(unknown[name], np.nan, figures[name]) for name in figures},
        cells=cells | {"time": pl.Series(rows.time, dtype=pl.String)},
        report=RowReport(),
    )


def _check_head(path: Path, head: list[str]) -> None:
    """Raise TraceError if the first lines are not those of EnergyPlus weather with hours."""
    if len(head) < _HEAD_LINES or not head[0].startswith("LOCATION,"):
        raise TraceError(
            f"{path}:1: EnergyPlus weather begins with LOCATION and has {_HEAD_LINES} lines above "
            "its hours; check which file it is, or read it as type csv"
        )
    periods = head[_HEAD_LINES - 1].split(",")
    if periods[0] == "DATA PERIODS" and len(periods) > 2 and periods[2].strip() != "1":
        raise TraceError(
            f"{path}:{_HEAD_LINES}: {periods[2].strip()} rows an hour; only files with one row an "
            "hour are read"
        )
