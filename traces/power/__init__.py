"""Power, carbon intensity and prices from files: any CSV file whose columns are named, and others.

A file seldom says what its numbers mean, so the caller declares it: unit, time zone, which end of
the interval the time is, mean or instant. Nothing is guessed. What the file does say (a unit in a
column's name, an offset from UTC in its times) counts if nothing is declared, and must not
contradict the declaration. Rules, counted by name, decide which rows become values; energies, such
as kWh for each interval, become mean powers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.dates import date_text, is_utc, parse_zone
from simkit.errors import TraceError
from simkit.power.signal import WATT
from simkit.power.signal_trace import Label, PowerTrace, Sampling, intervals
from simkit.scenario.signals import FileSignal
from simkit.sections import PositiveDuration, Zone
from simkit.traces.power.table import Table, TableFormat, find_format, one_year, read_table
from simkit.traces.power.units import UnitChoice, choose_unit, unit_of
from simkit.traces.rules import FIRST_HOUR, SECOND_HOUR, Tally, first_that_applies, summary
from simkit.traces.tables.layout import Dialect, TableKeys, find_layout
from simkit.traces.tables.times import Instants, Times, instants
from simkit.workload import RowReport
from simkit.workload.trace import rows_facts

NO_TIME: Final = "time unreadable"
NO_SUCH_DATE: Final = "date that cannot be"
SKIPPED_HOUR: Final = "time skipped by the clock"
NO_NUMBER: Final = "value not a number"
NO_VALUE: Final = "value missing"
REPEATED_TIME: Final = "repeated time"
UNSORTED: Final = "out of time order"
NEWEST_FIRST: Final = "newest first"
NEGATIVE: Final = "negative power"
OTHER_LENGTH: Final = "interval of another length"

RULES: Final[dict[str, str]] = {
    NO_TIME: "The time is empty or does not have the file's format; the row is left out.",
    NO_SUCH_DATE: "The calendar has no such time: a month 13, a 45th day, 30 February, 25:00, or "
    "a year before 1900 or after 2199; the row is left out.",
    SKIPPED_HOUR: "The clock of the time zone was put forward over this time, so the time does "
    "not exist; the row is left out. If this occurs every spring, the file keeps standard time: "
    "declare a fixed zone, such as UTC-06:00.",
    NO_NUMBER: "The value is text, but none of the marks of a missing value; the row is left out "
    "and leaves a gap. `missing` names more marks, `decimal` another decimal sign.",
    NO_VALUE: "The value is missing or not finite; the row is left out and leaves a gap.",
    REPEATED_TIME: "An earlier row has the same time; the first is kept.",
    UNSORTED: "The row comes after a later time; rows are sorted.",
    NEWEST_FIRST: "The file begins with its newest row; rows are sorted.",
    NEGATIVE: "The power is below 0, as of a plant that consumes at night; it is kept.",
    OTHER_LENGTH: "The time to the next row (from the previous row, where times are ends) is not "
    "the regular step; the row's energy is divided by it. A row beside a gap, and the last (where "
    "times are ends, the first), is as long as its other neighbour, or as a declared step.",
}
"""What each rule or note means, in a sentence."""


_SAME_LENGTH: Final = 1e-6
"""Share of the step by which an interval may differ: the last digits of a time."""


class KeptRows(NamedTuple):
    """Rows that passed the rules, by ascending time."""

    row: Ints
    """(k,) positions of the kept rows."""
    time_s: Floats
    """(k,) Unix times."""
    report: RowReport
    """Counts of all rows, by rule."""


def keep_rows(
    when: Instants,
    usable: Floats,
    table: Table,
    name: str,
    *,
    times: Sequence[str],
    values: Sequence[str],
    power: bool = False,
) -> KeptRows:
    """Apply the rules for rows.

    Args:
        when: instants of the rows.
        usable: (n,) the value; or any number that is NaN where a needed value is missing.
        table: the rows, whose report is continued.
        name: file and column, for messages.
        times: columns of the times.
        values: columns of the values.
        power: note negative values.

    Raises TraceError if no row is left.
    """
    tally, line = Tally(), table.line
    tally.report = deepcopy(table.report)
    tally.read(len(line))
    for said in when.said:
        tally.note(said, line[:1])
    order = np.argsort(when.time_s, kind="stable")
    repeated = np.zeros(len(line), dtype=bool)
    repeated[order[1:]] = np.diff(when.time_s[order]) == 0
    drops = {
        SKIPPED_HOUR: when.skipped,
        NO_SUCH_DATE: when.impossible,
        NO_TIME: ~np.isfinite(when.time_s),
        NO_VALUE: ~np.isfinite(usable) & ~(unreadable := table.unreadable(values)),
        NO_NUMBER: unreadable,
        REPEATED_TIME: repeated,
    }
    kept = first_that_applies(drops, line, tally.drop)
    for rule in drops.keys() & tally.report.dropped.keys():
        row = int(np.searchsorted(line, tally.report.lines[rule][0]))
        of_value = rule in (NO_NUMBER, NO_VALUE)
        tally.show(rule, table.cells_of(values if of_value else times, row))
    _note_order(when, kept, line, tally)
    tally.note(SECOND_HOUR, line[kept & when.second])
    tally.note(FIRST_HOUR, line[when.doubtful[kept[when.doubtful]]])
    if power:
        tally.note(NEGATIVE, line[kept & (usable < 0)])
    tally.accept(int(np.count_nonzero(kept)))
    rows = order[kept[order]]
    if not len(rows):
        raise TraceError(f"{name}: no row is left: {summary(tally.report)}; check the column")
    return KeptRows(rows, when.time_s[rows], tally.report)


def _note_order(when: Instants, kept: Bools, line: Ints, tally: Tally) -> None:
    """Note that the newest row comes first, or else the rows that come after a later one."""
    if when.newest_first:
        tally.note(NEWEST_FIRST, line[kept][:1])
        return
    latest = np.maximum.accumulate(np.where(kept, when.time_s, -np.inf))
    tally.note(UNSORTED, line[kept & (when.time_s < latest)])


class TableSignal(TableKeys, FileSignal):
    """Keys of every signal from a table."""

    site_zone: Zone | None = None
    """Zone of the place, whose standard time calendar alignment uses; null: `zone`. It must be
    given for a file in UTC if the run's zone is another."""
    label: Label | None = None
    """Which end of its interval a time marks; null: start, or as the format has it."""
    unit_in_name: Literal["check", "ignore"] = "check"
    """Whether a unit in a column's name counts: it must not contradict the declared one, and
    stands for one that is not declared."""
    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def sheet(
        self,
        columns: Sequence[str],
        unit: str | None,
        time: str,
        *,
        usual: str | None = None,
        sampling: Sampling = "mean",
        step_s: float = 0.0,
    ) -> Sheet:
        """Read columns of one unit and their times, and check the declarations against the file.

        Args:
            columns: the columns of values.
            unit: unit of the values; None: the one in the columns' names, else the usual one.
            time: the column of times.
            usual: unit of such values; None: there is none.
            sampling: ``mean`` of an interval, or read at an ``instant``.
            step_s: length of the intervals in s; 0: the most frequent distance.

        Raises TraceError if the file cannot be read, something is undeclared, or a declaration
        contradicts the file.
        """
        chosen = choose_unit(columns, unit, self.path, usual, compare=self.unit_in_name == "check")
        zone_in_name = "UTC" if re.search(r"(?:^|[\s()])UTC(?:$|[\s()])", time) else None
        if zone_in_name and (self.zone or "UTC").upper() not in ("UTC", "GMT", "Z"):
            raise TraceError(
                f"{self.path}: column {time!r} is in UTC, but zone {self.zone!r} is declared; "
                "leave zone out, and give the zone of the place as site_zone"
            )
        path = Path(self.path)
        table = read_table(path, [time, *columns], dialect=self.dialect, numbers=columns)
        zone = self.zone or zone_in_name
        form = Times(zone, self.time_format, self.zero)
        when = instants(table.columns[time], form, f"{self.path}: {time}")
        if when.spans and self.label == "end":
            raise TraceError(
                f"{self.path}: cells of {time!r} hold begin and end of their intervals, and the "
                "begin counts, but label: end is declared; leave label out"
            )
        when, typical = one_year(
            when, zone or "UTC", f"{self.path}: {time}", declared=self.typical_year
        )
        site_zone = self.site_zone or zone or "UTC"
        known = self.site_zone is not None or not is_utc(site_zone)
        label = self.label or "start"
        return Sheet(table, when, chosen, site_zone, known, label, sampling, step_s, time, typical)


class ColumnSignal(TableSignal):
    """Keys of every signal from one column of a table."""

    format: TableFormat | None = None
    """A download of a known source: entsoe, smard, electricity-maps or open-meteo; sets the keys
    of times, zone and columns that are not given."""
    column: Annotated[str | None, Field(validate_default=True)] = None
    """The column of values; null: the one that is meant in a file of the format."""
    time: str | None = None
    """The column of times; null: time, or that of the format."""
    column_needed: ClassVar[bool] = True
    """Whether a file without a format must name its column."""

    @field_validator("column")
    @classmethod
    def _is_named(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and cls.column_needed and info.data.get("format") is None:
            raise ValueError("is missing; add it: The column of values")
        return value

    def column_trace(
        self,
        usual: str | None,
        unit: str | None,
        *,
        sampling: Sampling | None = None,
        step_s: float = 0.0,
    ) -> PowerTrace:
        """Read the column.

        Args:
            usual: unit of such values; None: there is none.
            unit: the declared unit; None: it is not declared.
            sampling: ``mean`` or ``instant``; None: mean, or as the format has it.
            step_s: see `TableSignal.sheet`.

        Raises TraceError as `TableSignal.sheet`, or if the file does not have the format.
        """
        if self.format is None:
            signal, column = self, str(self.column)
            time = "time" if self.time is None else self.time
        else:
            wanted = None if usual is None else unit_of(usual, self.path).name
            found = find_format(Path(self.path), self.format, self.column, wanted)
            time, column, sampling = (
                found.time if self.time is None else self.time,
                found.column,
                sampling or found.sampling,
            )
            given = {key for key in found.keys if getattr(self, key) is not None}
            new = {key: value for key, value in found.keys.items() if key not in given}
            signal = self.model_copy(update=new)
        sheet = signal.sheet(
            [column], unit, time, usual=usual, sampling=sampling or "mean", step_s=step_s
        )
        return sheet.trace(column)


class Sheet(NamedTuple):
    """Columns of one unit with the instants of their rows, read from a file once."""

    table: Table
    when: Instants
    unit: UnitChoice
    time_zone: str
    place_known: bool
    label: Label
    sampling: Sampling
    step_s: float
    time: str
    """The column of times."""
    typical: str
    """How months of different years became one year; empty if they did not."""

    def trace(self, *columns: str) -> PowerTrace:
        """Return a column, or the sum of several, in the units of simkit.

        Rows without a time or a value are left out and leave a gap; of several rows with the same
        time the first is kept. Raises TraceError if no row is left.
        """
        path, line = self.table.path, self.table.line
        name = f"{path}: {' + '.join(columns)}"
        unit = self.unit.unit
        values = np.sum([self.table.values[column] for column in columns], axis=0)
        kept = keep_rows(
            self.when, values, self.table, name,
            times=[self.time], values=columns, power=unit.name == WATT,
        )  # fmt: skip
        trace = PowerTrace(
            time_s=kept.time_s,
            value=values[kept.row] * unit.factor + unit.offset,
            unit=unit.name,
            time_zone=self.time_zone,
            place_known=self.place_known,
            sampling=self.sampling,
            label=self.label,
            step_s=self.step_s,
            name=name,
            report=kept.report,
            inputs=(path,),
            typical=bool(self.typical),
            notes=tuple(filter(None, (self.unit.said and f"unit {self.unit.said}", self.typical))),
            warnings=self.unit.warnings,
        )
        return _power_of_energy(trace, line[kept.row]) if unit.per_interval else trace


def _power_of_energy(trace: PowerTrace, line: Ints) -> PowerTrace:
    """Return the mean power of each interval, from the energy in it.

    For the lengths of the intervals see `intervals`. Those of another length than the step are
    noted in the trace's report.

    Args:
        trace: energies in J as its values.
        line: (n,) the line of each row, for the report.

    Raises TraceError for readings at an instant, which hold no energy.
    """
    if trace.sampling == "instant":
        raise TraceError(
            f"{trace.name}: an energy is that of an interval, not a reading at an instant; leave "
            "sampling: instant out, or give the unit of a power"
        )
    starts, ends, energy_j = intervals(trace)
    seconds = ends - starts
    other = np.abs(seconds - trace.step_s) > _SAME_LENGTH * trace.step_s
    if trace.report is not None:
        tally = Tally()
        tally.report = trace.report
        tally.note(OTHER_LENGTH, line[other])
    return replace(trace, value=energy_j * (1 / seconds))


Part = Literal["solar", "wind", "both"]
"""One of a site's sources, or their sum."""


class CsvSignal(ColumnSignal):
    """A column of any CSV file."""

    unit: str | None = None
    """Unit of the values: W, kW, MW, GW; Wh … GWh per interval; gCO2/kWh, price/kWh, degC, …; null:
    the one in the column's name."""
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


_EIA_CODES: Final = {
    "wind": "WND", "solar": "SUN", "hydro": "WAT", "oil": "OIL", "gas": "NG", "coal": "COL",
    "nuclear": "NUC", "other": "OTH",
}  # fmt: skip
"""Our names of sources -> EIA's codes of energy sources."""
_CARBON_LAYOUTS: Final = (
    ("timestamp", "avg_CI"),
    ("Datetime (UTC)", "Carbon intensity gCO₂eq/kWh (Life cycle)"),
    ("Time", "Carbon Intensity"),
)
"""Columns (times, values) of known files: generation and carbon by EIA's codes, Electricity Maps,
and two-column series made from ENTSO-E's data."""


class GenerationSignal(TableSignal):
    """What one source feeds into a public grid; columns are named by EIA's codes (WND, SUN, …)."""

    source: Literal["wind", "solar", "hydro", "oil", "gas", "coal", "nuclear", "other"]
    """Which source."""
    time: str = "timestamp"
    """The column of times."""
    unit: str | None = None
    """Unit of the columns; null: the one in the column's name, else MW."""

    def read(self) -> PowerTrace:
        """Read the source's column, such as a balancing authority's hourly generation."""
        column = _EIA_CODES[self.source]
        return self.sheet([column], self.unit, self.time, usual="MW").trace(column)


class CarbonSignal(ColumnSignal):
    """The carbon intensity of a public grid; for known layouts without naming a column."""

    column_needed: ClassVar[bool] = False

    column: str | None = None
    """The column of values; null: that of the format, or of a known layout."""
    time: str | None = None
    """The column of times; null: that of the format, or of the layout."""
    unit: str | None = None
    """Unit of the values; null: the one in the column's name, else gCO2/kWh."""

    def read(self) -> PowerTrace:
        """Read the column; raises TraceError if it is not named and no layout fits."""
        signal = self
        if self.format is None and (self.column is None or self.time is None):
            time, column = _layout(Path(self.path), self.dialect)
            known = {"column": self.column or column, "time": self.time or time}
            signal = self.model_copy(update=known)
        return signal.column_trace("gCO2/kWh", self.unit)


class PriceSignal(ColumnSignal):
    """A price of energy, which may be below 0."""

    unit: str | None = None
    """price/kWh or price/MWh, in any currency, the same everywhere; null: the one in the column's
    name, else price/MWh."""

    def read(self) -> PowerTrace:
        """Read the column."""
        return self.column_trace("price/MWh", self.unit)


def _layout(path: Path, dialect: Dialect) -> tuple[str, str]:
    found = find_layout(path, [set(layout) for layout in _CARBON_LAYOUTS], dialect)
    for layout in _CARBON_LAYOUTS:
        if {*layout} <= {*found.names}:
            return layout
    known = "; ".join(map(", ".join, _CARBON_LAYOUTS))
    raise TraceError(
        f"{path}:{found.header_line}: columns {', '.join(filter(None, found.names))} match no "
        f"known layout of carbon intensity ({known}); name column and time"
    )


GAPS_NAMED: Final = 5
"""Number of gaps that are listed, the longest first."""


def power_facts(trace: PowerTrace) -> dict[str, Any]:
    """Return the facts about a trace, as plain numbers and text.

    Returns:
        unit, time_zone, sampling, label; values, step_s, span_s (to the end of the last interval,
        gaps included), first and last (times on the clock of the place); mean, min and max of the
        values in `unit`, negative (how many); gaps: count, total_s, longest_s, and the longest of
        them with start and length_s; notes: what the reader took for granted; warnings: what
        contradicts the declarations; rows: counts of the file's rows by rule, None if unknown.
    """
    values = trace.value
    starts, ends, _ = intervals(trace)
    return {
        "name": trace.name,
        "unit": trace.unit,
        "time_zone": trace.time_zone,
        "sampling": trace.sampling,
        "label": trace.label,
        "values": len(trace),
        "step_s": trace.step_s,
        "span_s": float(ends[-1] - starts[0]),
        "first": _clock(trace, trace.time_s[0]),
        "last": _clock(trace, trace.time_s[-1]),
        "mean": float(values.mean()),
        "min": float(values.min()),
        "max": float(values.max()),
        "negative": int(np.count_nonzero(values < 0)),
        "gaps": _gaps(trace, ends[:-1], starts[1:]),
        "notes": list(trace.notes),
        "warnings": list(trace.warnings),
        "rows": rows_facts(trace.report) if trace.report is not None else None,
    }


def _gaps(trace: PowerTrace, ends: Floats, starts: Floats) -> dict[str, Any]:
    """Return the gaps between the (n - 1,) ends of intervals and the starts of the next."""
    open_s = starts - ends
    rows = np.flatnonzero(open_s > 0)
    lengths = open_s[rows]
    longest = rows[np.argsort(-lengths, kind="stable")][:GAPS_NAMED]
    return {
        "count": len(rows),
        "total_s": float(lengths.sum()),
        "longest_s": float(lengths.max(initial=0.0)),
        "longest": [
            {"start": _clock(trace, float(ends[row])), "length_s": float(open_s[row])}
            for row in longest.tolist()
        ],
    }


def _clock(trace: PowerTrace, time_s: float) -> str:
    """Return an instant as the clock of the place shows it."""
    return date_text(float(time_s), "%Y-%m-%d %H:%M %Z", parse_zone(trace.time_zone))
