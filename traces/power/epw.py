"""EnergyPlus weather (EPW): sun, wind and temperature of a place, read by pvlib.

Each row is an hour of the place's standard time. Irradiance is the mean of that hour, so it is read
at its middle; wind and temperature are readings at its end (U.S. Department of Energy, "EnergyPlus
Auxiliary Programs", section "EnergyPlus Weather File (EPW) Data Dictionary"). Most files are
typical years, see `typical_year`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Ints
from simkit.dates import fixed_zone
from simkit.errors import TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.scenario.signals import FileSignal
from simkit.traces.files import text_blocks
from simkit.traces.power.libraries import power_library
from simkit.traces.power.nrel import SolarWeather, WindWeather
from simkit.traces.power.series import KeptRows, keep_rows
from simkit.traces.power.solar import SolarPlant, solar_power
from simkit.traces.power.table import Table
from simkit.traces.power.typical_year import one_year
from simkit.traces.power.wind import TurbineSignal
from simkit.traces.tables.times import Instants
from simkit.workload import RowReport

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
        usable = np.sum([self.table.numbers(name) for name in columns], axis=0)
        return keep_rows(
            self.when, usable, self.table, str(self.path), times=["time"], values=columns
        )

    def sun(self) -> SolarWeather:
        """Return irradiance with the temperature and wind that cool the modules."""
        columns = ("ghi", "dni", "dhi", "temp_air", "wind_speed")
        kept = self.kept(*columns)
        ghi, dni, dhi, air, wind = (self.table.numbers(name)[kept.row] for name in columns)
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
            value=self.table.numbers(column)[kept.row],
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


class EpwSolarSignal(SolarPlant, FileSignal):
    """Solar power from EnergyPlus weather; needs the extra `power`."""

    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def read(self) -> PowerTrace:
        """Compute the power of the plant; raises SimkitError without pvlib."""
        return solar_power(read_epw(self.path, typical_year=self.typical_year).sun(), self)


class EpwWindSignal(TurbineSignal):
    """Wind power from EnergyPlus weather, whose wind is 10 m above ground; needs `power`."""

    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def read(self) -> PowerTrace:
        """Compute the power; raises SimkitError without pvlib."""
        return self.power_of(read_epw(self.path, typical_year=self.typical_year).wind())


class EpwTemperatureSignal(FileSignal):
    """Air temperature from EnergyPlus weather, such as for `pue`; needs the extra `power`."""

    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def read(self) -> PowerTrace:
        """Read the temperature; raises SimkitError without pvlib."""
        return read_epw(self.path, typical_year=self.typical_year).readings("temp_air", "degC")
