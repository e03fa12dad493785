"""Formats of well-known downloads: ENTSO-E, SMARD, Electricity Maps and Open-Meteo.

A format is a set of keys of `TableKeys`, with the names of the columns of times and values. A key
that the user gives takes the place of the format's.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import polars as pl

from simkit.dates import fixed_zone
from simkit.errors import TraceError, did_you_mean
from simkit.power.signal_trace import Sampling
from simkit.traces.power.units import named_unit
from simkit.traces.tables.layout import SEPARATORS, head, split
from simkit.traces.tables.time_format import pattern_of

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
        name: of the format.
        column: of the values, whole or without its unit; None: the only one that is meant.
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
        short = [name for name in names if _without_unit(name) == wanted.casefold().strip()]
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


def _without_unit(name: str) -> str:
    return re.split(r"[\[(]", name)[0].casefold().strip()


def _offset(field: str, above: Sequence[str]) -> str | None:
    """Return the zone that a field of a small table above the names gives; None without one."""
    for line, values in pairwise(above):
        facts = dict(zip(*csv.reader([line, values]), strict=False))
        if field and field in facts:
            return fixed_zone(float(facts[field]))
    return None
