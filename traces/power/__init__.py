"""Power, carbon intensity and prices from files: any CSV file whose columns are named, and others.

A file seldom says what its numbers mean, so the caller declares it: unit, time zone, which end of
the interval the time is, mean or instant. Nothing is guessed. What the file does say (a unit in a
column's name, an offset from UTC in its times) counts if nothing is declared, and must not
contradict the declaration.
"""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, NamedTuple

from simkit.power.signal_trace import PowerTrace, Sampling
from simkit.sections import PositiveDuration
from simkit.traces.power.series import ColumnSignal, TableSignal

__all__ = ["PowerTrace", "SitePower", "read_gleamm", "read_power"]

Part = Literal["solar", "wind", "both"]
"""One of a site's sources, or their sum."""


class CsvSignal(ColumnSignal):
    """A column of any CSV file."""

    unit: str | None = None
    """Their unit: W, kW, MW, GW; Wh … GWh per interval; gCO2/kWh, price/kWh, degC, …; null: the
    one in the column's name."""
    sampling: Sampling | None = None
    """A value is the mean of its interval, or read at an instant; null: mean, or as the format
    has it."""
    step: PositiveDuration | None = None
    """Length of the intervals; null: the most frequent step of the times."""

    def read(self) -> PowerTrace:
        """Read the column."""
        return self.column_trace(None, self.unit, sampling=self.sampling, step_s=self.step or 0.0)


class GleammSignal(TableSignal):
    """A file like GLEAMM's: a time, solar power and wind power in each row."""

    part: Part = "both"
    """Which of the two, or their sum."""
    time: str = "time"
    """The column of times."""
    solar: str = "solar_kw"
    """The column of solar power."""
    wind: str = "wind_kw"
    """The column of wind power."""
    unit: str | None = None
    """Unit of both; null: the one in the columns' names, else kW."""

    def read(self) -> PowerTrace:
        """Read the part; rows that lack one of the two are left out of their sum."""
        columns = {"solar": [self.solar], "wind": [self.wind], "both": [self.solar, self.wind]}
        sheet = self.sheet(columns[self.part], self.unit, self.time, usual="kW")
        return sheet.trace(*columns[self.part])


class SitePower(NamedTuple):
    """Power that a site's own sources generate, in W."""

    solar: PowerTrace
    wind: PowerTrace


def read_power(path: str | PathLike[str], **arguments: Any) -> PowerTrace:
    """Read one column of a CSV file, plain or gzipped.

    Args:
        path: the file; its first line names the columns.
        arguments: the other fields of `CsvSignal`: `column`, `unit`, `time`, `zone`, `site_zone`,
            `label`, `sampling`, `step`, `time_format`, `zero`, `format`, ….

    Returns:
        The trace in W, gCO2/kWh or price/kWh, with the report of its rows. Rows without a time or
        a value are left out and leave a gap; of several rows with the same time the first is kept.

    Raises TraceError if the file cannot be read, something is undeclared, or a declaration
    contradicts the file.
    """
    return CsvSignal.of(path=path, **arguments).read()


def read_gleamm(path: str | PathLike[str], **arguments: Any) -> SitePower:
    """Read the power of a site like GLEAMM's: a time, solar kW and wind kW in each row.

    `arguments` are the other fields of `GleammSignal`; `solar`, `wind` and `time` name columns that
    are called otherwise. For errors see `read_power`.
    """
    site = GleammSignal.of(path=path, **arguments)
    sheet = site.sheet([site.solar, site.wind], site.unit, site.time, usual="kW")
    return SitePower(sheet.trace(site.solar), sheet.trace(site.wind))
