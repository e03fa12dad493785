"""Tables of measured series: columns by name, known downloads, and typical years.

A known download (ENTSO-E, SMARD, Electricity Maps, Open-Meteo) is a set of keys of `TableKeys` with
the names of its columns; a key that the user gives takes the place of the download's.

A typical meteorological year (TMY) takes each month from the year in which it was most like the
average: January of 2007, February of 2004, … (S. Wilcox and W. Marion, "Users Manual for TMY3 Data
Sets", 2008). Its dates are no history: what counts is month, day and time of day. Such files come
from the NSRDB, PVGIS and EnergyPlus (EPW).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.dates import fixed_zone, standard_offset_s
from simkit.errors import TraceError, did_you_mean
from simkit.power.signal_trace import Sampling
from simkit.text import counted
from simkit.traces.files import text_blocks
from simkit.traces.power.units import named_unit, near_name
from simkit.traces.rules import SHOWN, Tally
from simkit.traces.tables.layout import (
    SEPARATORS,
    Dialect,
    Layout,
    find_layout,
    head,
    pattern_of,
    separator_name,
    split,
)
from simkit.traces.tables.rows import Decimals, Misfit, misfit_text, table_rows, without_marks
from simkit.traces.tables.times import Instants
from simkit.units import DAY_S
from simkit.workload import RowReport


@dataclass(frozen=True)
class Table:
    """The rows of a file as text."""

    path: Path
    columns: dict[str, pl.Series]
    """Name -> (n,) fields; null where one stands for no value."""
    line: Ints
    """(n,) the line of each row."""
    values: dict[str, Floats]
    """Name of a column of numbers -> (n,) numbers; NaN where a field is not a number."""
    cells: dict[str, pl.Series]
    """Name -> (n,) fields as the file has them, for messages."""
    report: RowReport
    """Counts of the lines that are no rows."""

    def cells_of(self, names: Sequence[str], row: int) -> str:
        """Return what the file has in a row, for a message; empty if it has nothing."""
        cells = [self.cells[name][row] or "" for name in names]
        return ", ".join(cells) if any(cells) else ""

    def unreadable(self, names: Sequence[str]) -> Bools:
        """Return (n,) which rows have text in one of these columns that is no number."""
        found = [
            self.columns[name].is_not_null().to_numpy() & np.isnan(self.values[name])
            for name in names
        ]
        any_of_them: Bools = np.any(found, axis=0)
        return any_of_them


def head_lines(path: Path, number: int) -> list[list[str]]:
    """Return the fields of the first lines of a file."""
    first = next(iter(text_blocks(path)), None)
    lines = first.text.decode("utf-8", "replace").splitlines() if first else []
    if lines and lines[0].startswith("LOCATION,"):
        raise TraceError(
            f"{path}:1: this is EnergyPlus weather (EPW), which has no line of column names; read "
            "it as type epw-solar, epw-wind or epw-temperature"
        )
    if len(lines) < number:
        raise TraceError(
            f"{path}: {counted(len(lines), 'line')}, its header alone takes {number}; check which "
            "file it is"
        )
    return [[word.strip(' "') for word in line.split(",")] for line in lines[:number]]


def read_table(
    path: Path, wanted: Sequence[str], *, dialect: Dialect, numbers: Sequence[str] | None = None
) -> Table:
    """Read columns of a table, plain or gzipped, as text.

    Args:
        path: the file.
        wanted: names of columns.
        dialect: how the table is written; its `header_line` if other lines than that of the column
            names may have them.
        numbers: the columns among them that hold numbers; None: all.

    Raises TraceError if a column is missing, a name occurs twice, a row has too many fields, or
    the decimal sign cannot be told.
    """
    layout = find_layout(path, [set(wanted)], dialect)
    head_lines(path, 1)
    names, tally = list(layout.names), Tally()
    chosen = {name: _position(name, names, layout) for name in dict.fromkeys(wanted)}
    frames, lines, misfits = [], [], list[Misfit]()
    for rows in table_rows(layout, tally, pad=True):
        frames.append(rows.frame.select(map(str, chosen.values())))
        lines.append(rows.line)
        misfits += rows.misfits
    if misfits:
        raise _misshapen(misfits, layout)
    frame = pl.concat(frames) if frames else pl.DataFrame()
    if not frame.height:
        raise TraceError(f"{path}: no rows below the header; check the file")
    columns = {
        name: without_marks(frame[str(place)], dialect.missing) for name, place in chosen.items()
    }
    cells = {name: frame[str(place)] for name, place in chosen.items()}
    decimals = Decimals(dialect.decimal, layout.separator, str(path))
    figures = list(dict.fromkeys(wanted if numbers is None else numbers))
    values = dict(zip(figures, decimals.read([columns[n] for n in figures]), strict=True))
    if decimals.said:
        tally.note(decimals.said, np.array([layout.header_line]))
    return Table(path, columns, np.concatenate(lines), values, cells, tally.report)


def _position(name: str, names: list[str], layout: Layout) -> int:
    if (found := names.count(name)) == 1:
        return names.index(name)
    place = f"{layout.path}:{layout.header_line}"
    if found:
        raise TraceError(f"{place}: column {name!r} is there {found} times; rename one")
    fields = f" (separated by {separator_name(layout.separator)})" if layout.said else ""
    raise TraceError(
        f"{place}: no column {name!r}{near_name(name, filter(None, names))}{fields}"
        + (LINES_ABOVE if len(names) < 2 or layout.above else "")
    )


LINES_ABOVE: Final = (
    "; if the column names stand in another line, below others, say which: header_line: 4"
)


def _misshapen(misfits: Sequence[Misfit], layout: Layout) -> TraceError:
    width = len(layout.names)
    problems = [f"{layout.path}:{m.line}: {misfit_text(m, layout)}" for m in misfits[:SHOWN]]
    if more := len(misfits[SHOWN:]):
        problems.append(f"… and {counted(more, 'more malformed line')}")
    if layout.separator == "," and any(m.fields > width for m in misfits):
        problems.append(
            f"{layout.path}: if the comma is the decimal sign, another mark must separate the "
            "fields, or numbers must be in quotes; export the table again"
        )
    return TraceError("\n".join(problems))


COMMON_YEAR: Final = 1990
"""A typical year is laid on this one, as users of pvlib do; it lies amid two leap years."""
LEAP_YEAR: Final = 1992
"""If it has a 29 February."""
_SLACK_S: Final = DAY_S + 3600.0
"""By how much the end of a month and the begin of the next may differ: 24:00, a doubled day."""


class _Run(NamedTuple):
    """Rows of one year that follow one another."""

    first: int
    last: int
    """Positions among the rows with a time, the last one included."""


def one_year(
    when: Instants, zone: str, place: str, *, declared: bool | None
) -> tuple[Instants, str]:
    """Return the instants of a typical year on one year, and what was done; else as they are.

    Args:
        when: instants of the rows, in the order of the file.
        zone: zone of the clock that wrote them; months begin in its standard time.
        place: file and column, for messages.
        declared: whether it is a typical year; None: if months are of different years and, by
            month and day, follow one another in a single year.

    Raises TraceError if it is declared and a part of the year is there in several years.
    """
    rows = np.flatnonzero(np.isfinite(when.time_s))
    if declared is False or not len(rows):
        return when, ""
    local = when.time_s[rows] + standard_offset_s(zone, float(when.time_s[rows[0]]))
    runs = _runs(local)
    if declared is None and len(runs) == 1:
        return when, ""
    laid = _laid(local, runs)
    if not _is_one_year(laid, runs, strict=declared is None):
        if declared:
            raise TraceError(
                f"{place}: typical_year is declared, but rows of different years have the same "
                "month and day; leave typical_year out, or cut the file to one year"
            )
        return when, ""
    time_s = when.time_s.copy()
    time_s[rows] = laid - standard_offset_s(zone, float(laid[0]))
    years = _years(local[[run.first for run in runs]])
    span = f"{years.min()} to {years.max()}" if len(set(years.tolist())) > 1 else f"{years[0]}"
    said = f"typical year: months of {span} are one year without a date, shown as {_years(laid)[0]}"
    return when._replace(time_s=time_s), said


def _years(local_s: Floats) -> Ints:
    return local_s.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970


def _runs(local_s: Floats) -> list[_Run]:
    """Return the rows between jumps to another year; the turn of a year is no jump."""
    steps = np.diff(local_s)
    jump = ((steps < 0) | (steps > DAY_S)) & (np.diff(_years(local_s)) != 0)
    edges = np.flatnonzero(jump) + 1
    firsts, ends = [0, *edges.tolist()], [*edges.tolist(), len(local_s)]
    return [_Run(first, end - 1) for first, end in zip(firsts, ends, strict=True)]


def _laid(local_s: Floats, runs: list[_Run]) -> Floats:
    """Return clock readings with the month, day and time of day of each row, in one year."""
    months = local_s.astype("datetime64[s]").astype("datetime64[M]")
    within = local_s - months.astype("datetime64[s]").astype(np.int64)
    number = months.astype(np.int64)
    leap = bool(((number % 12 == 1) & (within > 28 * DAY_S)).any())  # 24:00 is of the 28th
    first_year = np.empty(len(local_s), dtype=np.int64)
    years = _years(local_s)
    for run in runs:
        first_year[run.first : run.last + 1] = years[run.first]
    target = number + ((LEAP_YEAR if leap else COMMON_YEAR) - first_year) * 12
    begins = target.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)
    return np.asarray(begins + within, dtype=np.float64)


def _is_one_year(laid: Floats, runs: list[_Run], *, strict: bool) -> bool:
    """Return whether the runs, laid on one year, follow one another without overlap.

    If `strict`, they are of whole months and leave nothing out between them.
    """
    parts = [laid[run.first : run.last + 1] for run in runs]
    spans = np.array(sorted((float(part.min()), float(part.max())) for part in parts))
    if spans[-1, 1] - spans[0, 0] > 366 * DAY_S + _SLACK_S:
        return False
    gaps = spans[1:, 0] - spans[:-1, 1]
    if not strict:
        return bool((gaps > -_SLACK_S).all())
    return bool((np.abs(gaps) <= _SLACK_S).all() and _near_turns(spans.ravel()).all())


def _near_turns(local_s: Floats) -> Bools:
    """Return which instants are near the turn of a month."""
    turns = (local_s + _SLACK_S).astype("datetime64[s]").astype("datetime64[M]")
    near: Bools = (
        local_s + _SLACK_S - turns.astype("datetime64[s]").astype(np.int64) <= 2 * _SLACK_S
    )
    return near


TableFormat = Literal["entsoe", "smard", "electricity-maps", "open-meteo"]


@dataclass(frozen=True)
class _Format:
    """What is known of the files of a source."""

    source: str
    """Its name, for messages."""
    times: str
    """Pattern of the column of times."""
    example: str
    """Its name in a file, for messages."""
    zones: tuple[tuple[str, str], ...] = ()
    """(pattern of the name of the times' column, zone of the clock)."""
    time_formats: tuple[str, ...] = ()
    """Forms of the times; the first that fits counts. Empty: ISO 8601."""
    values: tuple[tuple[str, str], ...] = ()
    """(unit of simkit, pattern of the column of such values that is meant if none is named)."""
    means: str = ""
    """Pattern of columns that are means of the interval before; others are readings at instants."""
    place: str = ""
    """Name of the field, in the lines above, with the clock's offset from UTC in s."""


_DOTS: Final = "%d.%m.%Y %H:%M"
_SLASHES: Final = "%d/%m/%Y %H:%M"
_FORMATS: Final[dict[str, _Format]] = {
    "entsoe": _Format(
        "the Transparency Platform of ENTSO-E",
        times=r"(?:MTU|Time)(?: \(.*\))?",
        example="MTU (CET/CEST)",
        zones=((r".*\(CET/CEST\)", "Europe/Brussels"), (r".*\(UTC\)", "UTC"),
               (r".*\(WET/WEST\)", "Europe/Lisbon"), (r".*\(EET/EEST\)", "Europe/Helsinki")),
        time_formats=(f"{_DOTS} - {_DOTS}", f"{_SLASHES}:%S - {_SLASHES}:%S",
                      f"{_SLASHES} - {_SLASHES}", _DOTS, f"{_SLASHES}:%S", _SLASHES),
        values=(("price/kWh", r"Day-ahead Price.*"),),
    ),
    "smard": _Format(
        "SMARD",
        times=r"Datum von|Start date",
        example="Datum von",
        zones=((r".*", "Europe/Berlin"),),
        time_formats=(_DOTS, "%b %d, %Y %I:%M %p", "%d.%m.%Y %H:%M:%S"),
    ),
    "electricity-maps": _Format(
        "Electricity Maps",
        times=r"Datetime \(UTC\)",
        example="Datetime (UTC)",
        zones=((r".*", "UTC"),),
        values=(("gCO2/kWh", r"Carbon intensity.*\((?:Life cycle|LCA)\)"),),
    ),
    "open-meteo": _Format(
        "Open-Meteo",
        times=r"time",
        example="time",
        means=r"(?:.*_)?(?:radiation|irradiance|precipitation|rain|snowfall|duration)\b.*",
        place="utc_offset_seconds",
    ),
}  # fmt: skip


class Found(NamedTuple):
    """A file of a format: its columns and the keys that it needs."""

    time: str
    column: str
    sampling: Sampling
    keys: dict[str, Any]
    """Other keys of signals from tables."""


def find_format(path: Path, name: TableFormat, column: str | None, unit: str | None) -> Found:
    """Find the columns of a file of a known format.

    Args:
        path: the file.
        name: name of the format.
        column: column of the values, whole or without its unit; None: the only one that is meant.
        unit: what the values measure, in the unit of simkit; None: anything.

    Raises TraceError if the file has another form, or has no such column or several.
    """
    known = _FORMATS[name]
    lines = head(path)
    for at, line in enumerate(lines):
        for mark in SEPARATORS:
            names = split(line, mark) if mark in line else []
            time = next((n for n in names if re.fullmatch(known.times, n, re.IGNORECASE)), None)
            if time is not None:
                chosen = _column(names, column, unit, known, f"{path}:{at + 1}")
                zones = (zone for pattern, zone in known.zones if re.fullmatch(pattern, time))
                mean = not known.means or bool(re.fullmatch(known.means, chosen, re.IGNORECASE))
                keys = {
                    "zone": next(zones, None) or _offset(known.place, lines[:at]),
                    "header_line": at + 1,
                    "separator": mark,
                    "time_format": _form(lines[at + 1 :], mark, names.index(time), known),
                    "label": "end" if mean and known.means else "start",
                }
                return Found(time, chosen, "mean" if mean else "instant", keys)
    if not any(map(str.strip, lines)):
        raise TraceError(f"{path}: the file is empty; check it")
    raise TraceError(
        f"{path}: no line has the column of times that files of {known.source} have, "
        f"{known.example!r}; check which file it is, or leave format: {name} out and name time and "
        "column"
    )


def _column(
    names: Sequence[str], wanted: str | None, unit: str | None, known: _Format, place: str
) -> str:
    """Return the name of the column of values."""
    if wanted is not None:
        bare = wanted.casefold().strip()
        short = [n for n in names if re.split(r"[\[(]", n)[0].casefold().strip() == bare]
        if wanted in names:
            return wanted
        if len(short) == 1:
            return short[0]
        several = f"; {len(short)} are so called, give the whole name" if short else ""
        near = did_you_mean(wanted, list(filter(None, names)))
        raise TraceError(f"{place}: no column {wanted!r}{several or near}")
    meant = [pattern for of, pattern in known.values if of == unit]
    fitting = [name for name in names if unit is not None and _measures(name, unit)]
    patterns = (name for name in names for form in meant if re.fullmatch(form, name, re.I))
    if first := next(patterns, None):
        return first
    if len(fitting) == 1:
        return fitting[0]
    choices = fitting or [name for name in names if named_unit(name)] or list(names)
    raise TraceError(
        f"{place}: name the column of values: {', '.join(repr(name) for name in choices if name)}"
    )


def _form(rows: Sequence[str], mark: str, place: int, known: _Format) -> str | None:
    """Return the form of the first time."""
    for row in rows:
        fields = split(row, mark)
        if len(fields) > place and fields[place]:
            cell = pl.Series([fields[place]])
            fits = (
                form for form in known.time_formats if cell.str.contains(pattern_of(form)).all()
            )
            return next(fits, None)
    return None


def _measures(name: str, unit: str) -> bool:
    said = named_unit(name)
    return said is not None and any(reading.name == unit for reading in said.readings)


def _offset(field: str, above: Sequence[str]) -> str | None:
    """Return the zone that a field of a small table above the names gives; None without one."""
    for line, values in pairwise(above):
        facts = dict(zip(*csv.reader([line, values]), strict=False))
        if field and field in facts:
            return fixed_zone(float(facts[field]))
    return None
