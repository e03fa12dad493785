"""Times in tables: from text or numbers to Unix times, daylight saving included.

A time is either complete (``2022-01-01 00:00:00+00:00``, a Unix time) or a clock reading, which
means nothing without its time zone. In autumn such a clock shows an hour twice; the order of the
rows tells the second time, whether the file begins with the oldest row or the newest. In spring it
skips an hour that some files contain all the same.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Final, NamedTuple, Protocol

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.dates import EARLIEST_S, FIRST_YEAR, LAST_YEAR, LATEST_S, parse_zone, utc_offset_s
from simkit.errors import TraceError
from simkit.traces.tables.layout import END, MONTHS, SUGGESTED, UNITS, pattern_of

_ISO: Final = (
    r"^(?<Y>\d{4})-(?<m>\d{2})-(?<d>\d{2})(?:[ Tt](?<H>\d{2})(?::?(?<M>\d{2})"
    r"(?::?(?<S>\d{2})(?:[.,](?<f>\d{1,9}))?)?)?\s*(?<z>Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
    + END
    + "$"
)
_BASIC_ISO: Final = (
    r"^(?<Y>\d{4})(?<m>\d{2})(?<d>\d{2})T(?<H>\d{2})(?<M>\d{2})(?<S>\d{2})?"
    r"(?<z>Z|[+-]\d{2}(?::?\d{2})?)?" + END + "$"
)
_UNIX_S: Final = (6.3e8, 4.2e9)
"""Unix times, in s, of the years 1990 to 2102: numbers in this range are recognised."""
_FURTHEST_S: Final = 14.25 * 3600
"""Larger offsets from UTC do not exist; such an ending is that of an interval."""


class Form(Protocol):
    """How times are written: three of the keys of every table."""

    @property
    def time_format(self) -> str | None:
        """Directives, or the unit of numbers; None: ISO 8601 or Unix times."""

    @property
    def zone(self) -> str | None:
        """Zone of the clock; None if the times contain it."""

    @property
    def zero(self) -> str | None:
        """Date of number 0."""


class Times(NamedTuple):
    """How times are written; see `TableKeys`."""

    zone: str | None = None
    time_format: str | None = None
    zero: str | None = None


class Instants(NamedTuple):
    """Instants of rows, (n,) each."""

    time_s: Floats
    """Unix times; NaN where unknown."""
    skipped: Bools
    """The clock never showed this time."""
    second: Bools
    """The clock showed it twice, and by the order of the rows this is the second time."""
    impossible: Bools
    """The parts of a time are there, but no calendar has it: 30 February, 25:00, the year 9999."""
    said: tuple[str, ...] = ()
    """What was recognised, for the report."""
    spans: bool = False
    """Whether cells hold intervals, whose begins these are."""
    newest_first: bool = False
    """Whether the rows are in descending order."""
    doubtful: Ints = np.empty(0, np.int64)
    """Rows whose time the clock showed twice, where no order tells which: the first is taken."""


class _Clock(NamedTuple):
    """Clock readings, (n,) each."""

    naive: Floats
    """Seconds since 1970, as if the clock were in UTC."""
    offset: Floats
    """Offset from UTC in s; NaN if the time has none."""
    impossible: Bools


def instants(words: pl.Series, form: Form, place: str, *, in_order: bool = False) -> Instants:
    """Parse times.

    Args:
        words: (n,) text, in the order of the file; null where empty.
        form: how they are written.
        place: file and column, for messages.
        in_order: several rows may have one time, as jobs do: a time is the second of the night
            with 25 hours only if it lies before an earlier row's, and the rows are in order
            otherwise.

    Raises TraceError if no time has that form, if a zone is needed and not declared, or if it is
    declared and the times contain an offset.
    """
    if form.zero is not None or form.time_format in UNITS:
        return _counted(words, form, place)
    clock = _readings(words, form.time_format)
    if not (np.isfinite(clock.naive) | clock.impossible).any():
        if form.time_format is None and (unit := unix_unit(words)):
            return _counted(words, Times(form.zone, unit), place, recognised=True)
        raise TraceError(f"{place}: {_unreadable(words, form.time_format)}")
    spans = _holds_intervals(words, form.time_format)
    if np.isfinite(clock.offset).any():
        _check_offsets(clock, words, form, place)
        shown = Instants(clock.naive - clock.offset, *_never(len(words)), clock.impossible)
    elif form.zone is None:
        raise TraceError(
            f"{place}: times without a time zone; declare zone: UTC, UTC-06:00 if the clock "
            "is never put forward, or a name such as America/Chicago"
        )
    else:
        shown = on_clock(clock.naive, form.zone, in_order=in_order)
        shown = shown._replace(impossible=clock.impossible)
    said = ("intervals in one cell, whose begins count",) if spans else ()
    return shown._replace(spans=spans, said=said, newest_first=_descends(shown.time_s))


def is_date(cell: str) -> bool:
    """Return whether a cell is no number, and reads like a date."""
    try:
        float(cell)
    except ValueError:
        return bool(re.search(r"\d.*[-/.:].*\d", cell))
    return False


def unknown_instants(rows: int) -> Instants:
    """Return instants of rows whose times cannot be read."""
    return Instants(np.full(rows, np.nan), *_never(rows), np.zeros(rows, dtype=bool))


def _never(rows: int) -> tuple[Bools, Bools]:
    return np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)


def _check_offsets(clock: _Clock, words: pl.Series, form: Form, place: str) -> None:
    """Raise TraceError for offsets in spite of a zone, and for ends that look like them."""
    known = clock.offset[np.isfinite(clock.offset)]
    if np.abs(known).max() > _FURTHEST_S or len(np.unique(known)) > 6:
        example = _first(words)
        raise TraceError(
            f"{place}: times such as {example!r} end in {len(np.unique(known))} offsets from UTC, "
            'so they look like intervals; give their form, such as time_format: "%Y-%m-%d '
            '%H:%M-%H:%M", whose begin counts'
        )
    if form.zone is not None:
        raise TraceError(
            f"{place}: the times carry their own offset from UTC, but zone "
            f"{form.zone!r} is declared; leave zone out, and give the zone of the place as "
            "site_zone if it matters"
        )


# --- numbers ------------------------------------------------------------------------------------


def unix_unit(words: pl.Series) -> str:
    """Return the unit of numbers that can only be Unix times; empty if they are none.

    Numbers such as 2024010113 may be dates without marks between their parts.
    """
    numbers = _numbers(words)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return ""
    for unit in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
        low, high = (bound * UNITS[unit][1] for bound in _UNIX_S)
        if low <= numbers.min() and numbers.max() <= high:
            return "" if _written_together(words) else unit
    return ""


def _written_together(words: pl.Series) -> bool:
    """Return whether all numbers would do as dates: 2024010113 is one o'clock in the afternoon."""
    hours = r"^(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-4])$"
    return bool(words.drop_nulls().str.contains(hours).all())


def _numbers(words: pl.Series) -> Floats:
    return words.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().astype(np.float64)


def _counted(words: pl.Series, form: Form, place: str, *, recognised: bool = False) -> Instants:
    """Return the instants of numbers: units of time that have passed since a date."""
    unit = form.time_format if form.time_format in UNITS else "seconds"
    factor, divisor = UNITS[unit]
    passed = _numbers(words) * factor / divisor
    known = np.isfinite(passed)
    if not known.any():
        declared = f"zero is declared, so the times are numbers of {unit}"
        if form.zero is None:
            declared = f"time_format: {unit} is declared, so the times are numbers"
        raise TraceError(
            f"{place}: {declared}, but the first is {_first(words)!r}; leave "
            f"{'zero' if form.zero is not None else 'time_format'} out"
        )
    time_s = zero_s(form, place) + np.where(known, passed, np.nan)
    impossible = known & ~_dated(time_s)
    if impossible.sum() * 2 > known.sum():
        raise TraceError(f"{place}: {_wrong_unit(words, unit)}")
    said = (f"Unix times in {unit}",) if recognised else ()
    time_s = np.where(impossible, np.nan, time_s)
    return Instants(time_s, *_never(len(words)), impossible, said, newest_first=_descends(time_s))


def zero_s(form: Form, place: str) -> float:
    """Return the Unix time of number 0."""
    if form.zero is None:
        if form.zone is not None and parse_zone(form.zone) != parse_zone("UTC"):
            raise TraceError(
                f"{place}: Unix times count from 1970 in UTC, but zone {form.zone!r} is declared; "
                "leave zone out, and give the zone of the place as site_zone if it matters"
            )
        return 0.0
    begin = instants(pl.Series([form.zero]), Times(form.zone), f"{place}: zero")
    if not np.isfinite(begin.time_s[0]):
        raise TraceError(f"{place}: zero: {form.zero!r} is no date that exists; correct it")
    return float(begin.time_s[0])


def _dated(time_s: Floats) -> Bools:
    """Return which Unix times are dates that a trace may have."""
    inside: Bools = (time_s >= EARLIEST_S) & (time_s <= LATEST_S)
    return inside


def _wrong_unit(words: pl.Series, unit: str) -> str:
    """Return what to do about numbers that would be far in the future in `unit`."""
    what = f"numbers such as {_first(words)} are no {unit} from zero: the dates would lie beyond "
    what += f"the years {FIRST_YEAR} to {LAST_YEAR}; "
    if found := unix_unit(words):
        return what + f"they look like Unix times in {found}: give time_format: {found}, no zero"
    return what + f"give their unit as time_format: {', '.join(UNITS)}"


def _first(words: pl.Series) -> str:
    return str(next((word for word in words.to_list() if word), ""))


def _unreadable(words: pl.Series, time_format: str | None) -> str:
    """Return what is wrong where no time has its form, and what to write."""
    example = _first(words)
    if forms := suggested(words):
        quoted = [f'"{form}"' for form in forms]
        remedy = f"time_format: {' or '.join(quoted)} reads them"
    elif re.fullmatch(r"-?\d+(?:\.\d*)?", example):
        remedy = (
            "if the times are numbers that count from a date, as the seconds in files of Vessim, "
            'give zero, the date of number 0: zero: "2020-01-01 00:00", and for another unit '
            "time_format, such as hours or milliseconds; otherwise write 2012-01-31 13:05:00"
        )
    elif time_format:
        remedy = "give the form that the file has, or leave time_format out for ISO 8601"
    else:
        remedy = "write 2012-01-31 13:05:00, or give time_format"
    must = f"; it must be of the form {time_format!r}" if time_format else ""
    return f"no time can be read, the first is {example!r}{must}; {remedy}"


def suggested(words: pl.Series) -> list[str]:
    """Return the known forms that read all of the first times; none if they are ISO 8601."""
    some = words.drop_nulls().head(2000)
    if not len(some) or np.isfinite(_parsed(some, _ISO).naive).any():
        return []
    return [form for form in SUGGESTED if np.isfinite(_parsed(some, pattern_of(form)).naive).all()]


# --- dates --------------------------------------------------------------------------------------


def _readings(words: pl.Series, time_format: str | None) -> _Clock:
    """Return clock readings by a form; None: ISO 8601."""
    if time_format is not None:
        return _parsed(words, pattern_of(time_format))
    clock = _parsed(words, _ISO)
    if (np.isfinite(clock.naive) | clock.impossible).any():
        return clock
    return _parsed(words, _BASIC_ISO)


def _holds_intervals(words: pl.Series, time_format: str | None) -> bool:
    """Return whether the first cell holds a begin and an end."""
    pattern = pattern_of(time_format) if time_format else _ISO
    single = pattern.replace(END, "")
    if single == pattern:  # the form itself names both
        return True
    first = words.drop_nulls().head(1)
    return bool(
        len(first) and first.str.contains(pattern).all() and not first.str.contains(single).all()
    )


def _parsed(words: pl.Series, pattern: str) -> _Clock:
    """Return the clock readings that a pattern's groups give."""
    parts = words.str.extract_groups(pattern).struct.unnest()

    def number(name: str, default: float) -> Floats:
        if name not in parts.columns:
            return np.full(len(words), default)
        return _numbers(parts[name].fill_null(str(default)))

    matched = words.str.contains(pattern).fill_null(value=False).to_numpy()
    year = number("Y", np.nan) if "Y" in parts.columns else _century(number("y", np.nan))
    hour = number("I", np.nan) % 12 if "I" in parts.columns else number("H", 0.0)
    wrong = np.zeros(len(words), dtype=bool)
    if "I" in parts.columns:
        wrong = ~((number("I", np.nan) >= 1) & (number("I", np.nan) <= 12))
        hour += (
            12.0
            * parts["p"].str.to_lowercase().str.starts_with("p").fill_null(value=False).to_numpy()
        )
    second = number("S", 0.0)
    if "f" in parts.columns:
        second = second + _numbers("0." + parts["f"].fill_null("0"))
    month, day = number("m", 1.0), number("d", 1.0)
    if "b" in parts.columns:
        names = parts["b"].str.to_lowercase().str.strip_suffix(".")
        month = names.replace_strict(MONTHS, default=None, return_dtype=pl.Float64).to_numpy()
    if "j" in parts.columns:
        naive = civil_s(year, month, np.ones(len(words)), hour, number("M", 0.0), second)
        of_year = number("j", np.nan)
        wrong |= ~((of_year >= 1) & (of_year <= np.where(_leap(year), 366, 365)))
        naive = naive + (of_year - 1) * 86_400
    else:
        naive = civil_s(year, month, day, hour, number("M", 0.0), second)
    naive = np.where(matched & ~wrong & _dated(naive), naive, np.nan)
    offset = _offset(parts["z"]) if "z" in parts.columns else np.full(len(words), np.nan)
    return _Clock(naive, np.where(matched, offset, np.nan), matched & np.isnan(naive))


def _century(year: Floats) -> Floats:
    """Return the years of two digits, as POSIX has it: 69 is 1969, 68 is 2068."""
    return np.where(year >= 69, 1900 + year, 2000 + year)


def _leap(year: Floats) -> Bools:
    leap: Bools = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return leap


def civil_s(
    year: Floats, month: Floats, day: Floats, hour: Floats, minute: Floats, second: Floats
) -> Floats:
    """Return (n,) clock readings in s since 1970 as if in UTC; NaN where no calendar has them.

    24:00 is the end of the day, as in ISO 8601; a leap second is the next minute's begin.
    """
    parts = (year, month, day, hour, minute, second)
    fits = np.all([np.isfinite(part) for part in parts], axis=0)
    fits &= (year >= FIRST_YEAR) & (year <= LAST_YEAR) & (month >= 1) & (month <= 12)
    fits &= (np.floor(year) == year) & (np.floor(month) == month) & (np.floor(day) == day)
    months = (np.where(fits, year, 1970) - 1970) * 12 + np.where(fits, month, 1) - 1
    begins, ends = (
        (months + more).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        for more in (0, 1)
    )
    fits &= (day >= 1) & (day <= ends - begins)
    in_day = hour * 3600.0 + minute * 60.0 + second
    fits &= (hour >= 0) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 61)
    fits &= (in_day <= 86_400.0) & (np.floor(hour) == hour)
    return np.where(fits, (begins + day - 1) * 86_400.0 + in_day, np.nan)


def _offset(zone: pl.Series) -> Floats:
    """Return the offsets from UTC in s that times end in; NaN where they have none."""
    text = zone.str.to_uppercase().str.replace("^(Z|UTC|GMT)$", "+0000").str.replace(":", "")
    sign = text.str.head(1).replace_strict({"+": 1.0, "-": -1.0}, default=None)
    hours = text.str.slice(1, 2).cast(pl.Float64, strict=False)
    minutes = text.str.slice(3, 2).cast(pl.Float64, strict=False).fill_null(0.0)
    offset = sign.cast(pl.Float64) * (hours * 3600 + minutes * 60)
    return offset.fill_null(np.nan).to_numpy().astype(np.float64)


# --- a zone's clock -----------------------------------------------------------------------------


def on_clock(naive_s: Floats, time_zone: str, *, in_order: bool = False) -> Instants:
    """Return the instants at which a zone's clock shows given times.

    Args:
        naive_s: (n,) clock readings, in seconds since 1970 as if they were UTC; NaN is kept.
        time_zone: zone of the clock.
        in_order: see `instants`.
    """
    zone = parse_zone(time_zone)
    # The offset is looked up a day before and a day after: where they agree there is no doubt.
    hours, row = np.unique(np.floor(naive_s / 3600), return_inverse=True)
    hours = hours[np.isfinite(hours)]
    before, after = _offsets(hours, -24, zone), _offsets(hours, 24, zone)
    row = np.minimum(row, max(len(hours) - 1, 0))
    early = naive_s - before[row]  # read with the offset of before a change
    late = naive_s - after[row]
    first, last = _shows(early, naive_s, zone), _shows(late, naive_s, zone)
    twice = first & last & (early != late)
    second, doubtful = _second_time(naive_s, twice, in_order=in_order)
    time = np.where(first & ~second, early, late)
    skipped = np.isfinite(naive_s) & ~first & ~last
    never = np.zeros(len(naive_s), dtype=bool)
    time = np.where(first | last, time, np.nan)
    return Instants(time, skipped, second, never, doubtful=np.flatnonzero(doubtful))


def _second_time(naive_s: Floats, twice: Bools, *, in_order: bool) -> tuple[Bools, Bools]:
    """Return which rows of an hour shown twice are from the second time, and which from either.

    In each such night the readings ascend, fall back and ascend again (in a file whose newest row
    comes first, seen from below): rows from the fall on are from the second time. Rows of a night
    without a fall may be from either.
    """
    second, doubtful = np.zeros(len(naive_s), dtype=bool), np.zeros(len(naive_s), dtype=bool)
    rows = np.flatnonzero(twice)
    if not len(rows) or (in_order and not _nearly_ascends(naive_s, twice)):
        return second, twice
    nights = np.floor((naive_s[rows] + 43_200.0) / 86_400.0)
    for night in np.unique(nights).tolist():
        of_night = rows[nights == night]
        if _falls(naive_s, int(of_night[0]), int(of_night[-1])):
            of_night = of_night[::-1]
        shown = naive_s[of_night]
        highest = np.concatenate(([-np.inf], np.maximum.accumulate(shown)[:-1]))
        back = shown < highest if in_order else shown <= highest
        second[of_night] = np.logical_or.accumulate(back)
        doubtful[of_night] = not back.any()
    return second, doubtful


def _falls(naive_s: Floats, first: int, last: int) -> bool:
    """Return whether the readings descend around these rows of one night, or in the whole file."""
    before, after = naive_s[:first], naive_s[last + 1 :]
    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    if len(before) and len(after):
        return bool(before[-1] > after[0])
    return _descends(naive_s)


def _nearly_ascends(naive_s: Floats, twice: Bools) -> bool:
    """Return whether the rows outside the repeated hours are in ascending order."""
    others = naive_s[np.isfinite(naive_s) & ~twice]
    return bool((np.diff(others) >= 0).all())


def _descends(time_s: Floats) -> bool:
    """Return whether most rows come before the one above them."""
    steps = np.diff(time_s[np.isfinite(time_s)])
    return bool((steps < 0).sum() > (steps > 0).sum())


def _offsets(hours: Floats, distance: int, zone: tzinfo) -> Floats:
    """Return the zone's offset in s, `distance` hours from each of the hours since 1970."""
    days, row = np.unique((hours + distance) // 24, return_inverse=True)
    of_day = np.array([utc_offset_s(zone, float(day) * 86_400.0 + 43_200.0) for day in days])
    return of_day[row] if len(days) else np.zeros(1)


def _shows(time_s: Floats, naive_s: Floats, zone: tzinfo) -> Bools:
    """Return at which instants the clock shows `naive_s`."""
    known = np.flatnonzero(np.isfinite(time_s))
    hours, row = np.unique(np.floor(time_s[known] / 900), return_inverse=True)
    offset = np.array([utc_offset_s(zone, quarter * 900.0) for quarter in hours.tolist()])
    shown = np.zeros(len(time_s), dtype=bool)
    if len(known):
        shown[known] = time_s[known] + offset[row] == naive_s[known]
    return shown
