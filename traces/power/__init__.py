"""Power, carbon intensity and prices from CSV files: any file whose columns are named.

A file seldom says what its numbers mean, so its reader must: unit, time zone, which end of the
interval the time is, mean or instant. None of it is guessed; what the file does say (a unit in
a column's name, an offset from UTC in its times) must not contradict it. Rules, counted by name,
decide which rows become values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.power.signal import WATT
from simkit.power.signal_trace import Label, PowerTrace, Sampling
from simkit.traces.power import rules
from simkit.traces.power.energy import power_of_energy
from simkit.traces.power.table import Table, read_table
from simkit.traces.power.times import Instants, instants
from simkit.traces.power.units import check_declared, unit_of
from simkit.traces.rigid_jobs import first_that_applies
from simkit.traces.rules import Tally, summary
from simkit.workload import RowReport


@dataclass(frozen=True)
class Meaning:
    """What the numbers of a file mean; the file itself seldom says it."""

    time_zone: str
    """Zone of the place."""
    label: Label = "start"
    """Which end of its interval a mean's time is."""
    sampling: Sampling = "mean"
    """``mean`` of an interval, or read at an ``instant``."""
    step_s: float = 0.0
    """Regular distance of the times in s; 0: the most frequent one."""


class KeptRows(NamedTuple):
    """Rows that came through the rules, by ascending time."""

    row: Ints
    """(k,) which rows they were."""
    time_s: Floats
    """(k,) Unix times."""
    report: RowReport
    """What was done to all rows."""


def keep_rows(
    when: Instants, usable: Floats, line: Ints, name: str, *, power: bool = False
) -> KeptRows:
    """Apply the rules for rows.

    Args:
        when: instants of the rows.
        usable: (n,) the value, or anything that is NaN where a value that is needed is missing.
        line: (n,) lines, for the report.
        name: file and column, for messages.
        power: note negative values.

    Raises TraceError if no row is left.
    """
    tally = Tally()
    tally.read(len(line))
    order = np.argsort(when.time_s, kind="stable")
    repeated = np.zeros(len(line), dtype=bool)
    repeated[order[1:]] = np.diff(when.time_s[order]) == 0
    unknown = ~np.isfinite(when.time_s)
    drops = {
        rules.SKIPPED_HOUR: when.skipped,
        rules.NO_TIME: unknown,
        rules.NO_VALUE: ~np.isfinite(usable),
        rules.REPEATED_TIME: repeated,
    }
    kept = first_that_applies(drops, line, tally.drop)
    latest = np.maximum.accumulate(np.where(kept, when.time_s, -np.inf))
    tally.note(rules.UNSORTED, line[kept & (when.time_s < latest)])
    tally.note(rules.SECOND_HOUR, line[kept & when.second])
    if power:
        tally.note(rules.NEGATIVE, line[kept & (usable < 0)])
    tally.accept(int(np.count_nonzero(kept)))
    rows = order[kept[order]]
    if not len(rows):
        raise TraceError(f"{name}: no row is left: {summary(tally.report)}; check the column")
    return KeptRows(rows, when.time_s[rows], tally.report)


def series(
    when: Instants, values: Floats, line: Ints, unit: str, meaning: Meaning, path: Path, column: str
) -> PowerTrace:
    """Make a trace of one column; values in a file's `unit` become those of simkit.

    Raises TraceError if no row is left or the unit is unknown.
    """
    name = f"{path}: {column}"
    of_file = unit_of(unit, name)
    kept = keep_rows(when, values, line, name, power=of_file.name == WATT)
    trace = PowerTrace(
        time_s=kept.time_s,
        value=values[kept.row] * of_file.factor,
        unit=of_file.name,
        time_zone=meaning.time_zone,
        sampling=meaning.sampling,
        label=meaning.label,
        step_s=meaning.step_s,
        name=name,
        report=kept.report,
        inputs=(path,),
    )
    return power_of_energy(trace, line[kept.row]) if of_file.per_interval else trace


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
