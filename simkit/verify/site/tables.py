"""Tables of times and values: rows without a value leave gaps; of equal times the first counts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simkit.verify.numbers import Floats, Ints, seconds
from simkit.verify.site.clock import instants, zone_of
from simkit.verify.site.course import NotRecomputedError
from simkit.verify.site.record import Record
from simkit.verify.site.units import unit_of
from simkit.verify.task_inputs.columns import cells, known
from simkit.verify.task_inputs.text_table import read_table

_UNITS = {
    "seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86_400.0, "milliseconds": 1e-3,
    "microseconds": 1e-6, "nanoseconds": 1e-9,
}  # fmt: skip
_RECOGNISED = (6.3e8, 4.2e9)
"""Unix times in s that are recognised."""
_OFFSET = r"\s*(Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$"
_ISO = r"^\d{4}-\d{2}-\d{2}(?:[ Tt]\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?)?$"
_YEAR = 366.0 * 86_400.0
_CODES = {
    "wind": "WND", "solar": "SUN", "hydro": "WAT", "oil": "OIL", "gas": "NG", "coal": "COL",
    "nuclear": "NUC", "other": "OTH",
}  # fmt: skip
"""Sources of a public grid → the column of each in EIA's tables."""
_CARBON = (
    ("timestamp", "avg_CI"),
    ("Datetime (UTC)", "Carbon intensity gCO₂eq/kWh (Life cycle)"),
    ("Time", "Carbon Intensity"),
)
"""Columns of times and values of known tables of carbon intensity."""


class _Meant(NamedTuple):
    """Which columns a signal means."""

    time: str
    columns: tuple[str, ...]
    usual: str | None
    """Their unit if nothing says it."""


def record_of(section: Mapping[str, Any], path: Path) -> Record:
    """Return the record that a signal of the scenario reads from a table.

    Args:
        section: with all keys of its type.
        path: its file.

    Raises NotRecomputedError for what is not read again, ValueError for what cannot be read.
    """
    meant = _meant(section, path)
    table = _table(path, section, (meant.time, *meant.columns))
    unit = unit_of(
        meant.columns, section.get("unit"), meant.usual,
        names_count=section.get("unit_in_name") == "check",
    )  # fmt: skip
    in_utc = re.search(r"(?:^|[\s()])UTC(?:$|[\s()])", meant.time)
    zone = section.get("zone") or ("UTC" if in_utc else None)
    times = _unix(known(cells(table[meant.time]), section), section, zone)
    values = np.sum(
        [_numbers(known(cells(table[name]), section), section) for name in meant.columns], axis=0
    )
    rows = kept_rows(times, values)
    refuse_typical_years(times, section)
    record = Record(
        times[rows], values[rows] * unit.factor + unit.offset, unit.name,
        section.get("site_zone") or zone or "UTC",
        instant=section.get("sampling") == "instant", ends=section.get("label") == "end",
        step=seconds(section.get("step") or 0.0),
    )  # fmt: skip
    return _powers(record) if unit.per_interval else record


def _meant(section: Mapping[str, Any], path: Path) -> _Meant:
    """Return the columns of a signal by its type."""
    kind, time = section["type"], section.get("time")
    if section.get("format") is not None:
        raise NotRecomputedError(f"files of the format {section['format']} are not read again")
    if kind in ("gleamm", "gleamm-sample"):
        both = (section.get("solar", "solar_kw"), section.get("wind", "wind_kw"))
        parts = {"solar": both[:1], "wind": both[1:], "both": both}
        return _Meant(time or "time", parts[section["part"]], "kW")
    if kind == "generation":
        return _Meant(time or "timestamp", (_CODES[section["source"]],), "MW")
    if kind == "carbon" and (time is None or section.get("column") is None):
        layout = _layout(path, section)
        return _Meant(time or layout[0], (section.get("column") or layout[1],), "gCO2/kWh")
    usual = {"carbon": "gCO2/kWh", "price": "price/MWh"}.get(kind)
    return _Meant(time or "time", (section["column"],), usual)


def _layout(path: Path, section: Mapping[str, Any]) -> tuple[str, str]:
    """Return the columns of the known table that a file is."""
    for layout in _CARBON:
        try:
            read_table(path, section, layout)
        except ValueError:
            continue
        return layout
    raise NotRecomputedError("the columns of carbon intensity are not known here")


def _table(path: Path, section: Mapping[str, Any], needed: Collection[str]) -> pl.DataFrame:
    """Return a table of text; raises NotRecomputedError if lines may be left out otherwise."""
    table = read_table(path, section, needed)
    if not set(needed) <= set(table.columns):
        raise NotRecomputedError("columns of the same name are there twice")
    return table


def _numbers(words: pl.Series, section: Mapping[str, Any]) -> Floats:
    """Return a column as numbers, (n,); NaN where there is none."""
    sign = section.get("decimal")
    plain = words.cast(pl.Float64, strict=False)
    odd = words.filter(plain.is_null() & words.is_not_null())
    figures = odd.str.contains(r"^\D?\d")
    if sign == "," and not words.str.contains(r"\.").any():
        plain = words.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    elif sign == "," or figures.any():
        raise NotRecomputedError("numbers with a decimal comma or groups are not read again")
    return plain.fill_null(np.nan).to_numpy().astype(np.float64)


def _unix(words: pl.Series, section: Mapping[str, Any], zone: str | None) -> Floats:
    """Return the Unix times of text, (n,); NaN where there is none."""
    form, zero = section.get("time_format"), section.get("zero")
    if form in _UNITS or zero is not None:
        begin = 0.0 if zero is None else float(_dates(pl.Series([zero]), None, zone)[0])
        return begin + _figures(words) * _UNITS[form or "seconds"]
    if form is None and words.cast(pl.Float64, strict=False).null_count() == words.null_count():
        return _recognised(words)
    return _dates(words, form, zone)


def _figures(words: pl.Series) -> Floats:
    return words.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().astype(np.float64)


def _recognised(words: pl.Series) -> Floats:
    """Return the Unix times of numbers of one unit, by their size."""
    figures = _figures(words)
    known_ = figures[np.isfinite(figures)]
    for unit in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
        low, high = (bound / _UNITS[unit] for bound in _RECOGNISED)
        if len(known_) and low <= known_.min() and known_.max() <= high and unit != "seconds":
            return figures * _UNITS[unit]
        if len(known_) and low <= known_.min() and known_.max() <= high:
            if words.drop_nulls().str.contains(r"^(?:19|20)\d{8}$").all():
                break  # may be dates without marks
            return figures
    raise NotRecomputedError("its times are numbers of an unknown unit")


def _dates(words: pl.Series, form: str | None, zone: str | None) -> Floats:
    """Return the Unix times of dates: with an offset of their own, or on the clock of a zone."""
    if form is not None:
        return _formed(words, form, zone)
    shift = words.str.extract(r"\d{2}:?\d{2}(?::?\d{2}(?:[.,]\d+)?)?" + _OFFSET)
    bare = words if shift.null_count() == len(shift) else words.str.replace(_OFFSET, "")
    if not bare.str.contains(_ISO).fill_null(value=True).all():
        raise NotRecomputedError("its times are not of a form that is read again")
    text = bare.str.replace("t", "T", literal=True).fill_null("NaT").to_list()
    try:
        naive = np.array(text, dtype="datetime64[us]")
    except ValueError:
        raise NotRecomputedError("its times are not of a form that is read again") from None
    unix = np.where(np.isnat(naive), np.nan, naive.astype(np.int64) / 1e6)
    if shift.null_count() == len(shift):
        if zone is None:
            raise NotRecomputedError("the zone of its times is not declared")
        return instants(unix, zone)
    ahead = np.array([_ahead(word) for word in shift.to_list()])
    return np.asarray(unix - ahead, dtype=np.float64)


def _ahead(text: str | None) -> float:
    """Return the offset from UTC in s that a time ends in."""
    if text is None:
        return float("nan")
    if text[0] not in "+-":
        return 0.0
    digits = text[1:].replace(":", "").ljust(4, "0")
    ahead = int(digits[:2]) * 3600.0 + int(digits[2:]) * 60.0
    return -ahead if text[0] == "-" else ahead


def _formed(words: pl.Series, form: str, zone: str | None) -> Floats:
    """Return the Unix times of dates of a form of `datetime.strptime`."""
    if any(form.count(f"%{letter}") > 1 for letter in "YmdHMS"):
        form, cut = form.split(" - ")[0], " - "
        words = words.str.split(cut).list.first()
    dates = []
    for word in words.to_list():
        try:
            dates.append(None if word is None else datetime.strptime(word, form))
        except ValueError:
            raise NotRecomputedError("its times are not of the declared form") from None
    aware = [date for date in dates if date is not None and date.tzinfo is not None]
    if aware:
        return np.array([np.nan if date is None else date.timestamp() for date in dates])
    utc = zone_of("UTC")
    naive = [np.nan if d is None else d.replace(tzinfo=utc).timestamp() for d in dates]
    if zone is None:
        raise NotRecomputedError("the zone of its times is not declared")
    return instants(np.array(naive), zone)


def kept_rows(times: Floats, values: Floats) -> Ints:
    """Return the positions of the rows that count, in order of time."""
    order = np.argsort(times, kind="stable")
    again = np.zeros(len(times), dtype=bool)
    again[order[1:]] = np.diff(times[order]) == 0
    good = np.isfinite(times) & np.isfinite(values) & ~again
    rows: Ints = order[good[order]]
    return rows


def refuse_typical_years(times: Floats, section: Mapping[str, Any]) -> None:
    """Raise NotRecomputedError if months of different years may make up one."""
    known_ = times[np.isfinite(times)]
    steps = np.diff(known_)
    years = known_.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64)
    jumps = ((steps < 0) | (steps > 86_400.0)) & (np.diff(years) != 0)
    if section.get("typical_year") or (section.get("typical_year") is None and jumps.any()):
        raise NotRecomputedError("a typical year is not laid on one year again")


def _powers(record: Record) -> Record:
    """Return the mean powers of intervals whose energies in J are given."""
    begins, ends = record.intervals()
    return replace(record, values=record.values / (ends - begins))
