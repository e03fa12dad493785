"""Columns of a power file beside the instants of its rows, opened once and read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simkit.errors import TraceError
from simkit.signal_trace import PowerTrace

from .power_series import Meaning, series
from .power_table import Table, read_table
from .power_times import Instants, instants
from .power_units import check_declared


class Clock(NamedTuple):
    """What wrote the times of a file."""

    column: str
    """The column of times."""
    time_zone: str | None
    """Its zone; None if the times or the column's name say it."""
    time_format: str | None
    """Form of the times, as `datetime.strptime` has it; None: ISO 8601."""


class Sheet(NamedTuple):
    """Columns of a file with the instants of its rows."""

    table: Table
    when: Instants
    unit: str
    meaning: Meaning

    def trace(self, *columns: str) -> PowerTrace:
        """Return a column, or the sum of several."""
        values = np.sum([self.table.numbers(column) for column in columns], axis=0)
        name = " + ".join(columns)
        path, line = self.table.path, self.table.line
        return series(self.when, values, line, self.unit, self.meaning, path, name)


def open_sheet(
    path: Path, columns: Sequence[str], unit: str, meaning: Meaning, clock: Clock
) -> Sheet:
    """Read columns and times of a file, once nothing declared contradicts it.

    Args:
        path: the file.
        columns: at least one.
        unit: of all of them, see `power.read_power`.
        meaning: what their numbers mean.
        clock: the column of times, its zone and its form.

    Raises TraceError for what cannot be read, is undeclared or contradicts the file.
    """
    if not columns:
        raise TraceError(f"{path}: no column is named; name at least one")
    for column in columns:
        check_declared(column, unit, str(path))
    _check_zone_in_name(clock.column, clock.time_zone, path)
    table = read_table(path, [clock.column, *columns])
    when = instants(
        table.columns[clock.column],
        clock.time_zone or _named_zone(clock.column),
        f"{path}: {clock.column}",
        clock.time_format,
    )
    return Sheet(table, when, unit, meaning)


def _named_zone(time: str) -> str | None:
    """Return the zone that the name of a column of times says, such as ``Datetime (UTC)``."""
    return "UTC" if "UTC" in time.replace("(", " ").replace(")", " ").split() else None


def _check_zone_in_name(time: str, time_zone: str | None, path: Path) -> None:
    said = _named_zone(time)
    if said and time_zone is not None and time_zone.upper() not in ("UTC", "GMT", "Z"):
        raise TraceError(
            f"{path}: column {time!r} is in {said}, but time_zone {time_zone!r} is declared; leave "
            "time_zone out, and give the zone of the place as site_zone"
        )
