"""Instants of a table that are dates, as an auditor reads them: Unix times of text or numbers.

A cell may hold an interval, whose begin counts; 24:00 is the end of a day, and a leap second the
next minute's begin. What is not sure is not read again: an hour that a clock shows twice, or skips.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import inf, isfinite
from typing import Any, Final
from zoneinfo import ZoneInfo

import polars as pl

from simkit.verify.inputs import MissingInputError

_SECONDS: Final = {
    "seconds": (1.0, 1.0), "minutes": (60.0, 1.0), "hours": (3600.0, 1.0), "days": (86_400.0, 1.0),
    "milliseconds": (1.0, 1e3), "microseconds": (1.0, 1e6), "nanoseconds": (1.0, 1e9),
}  # fmt: skip
"""Unit of numbers → what they are multiplied and divided by to be seconds."""
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_LONG_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_TWO, _LETTERS = r"\d{1,2}", r"[^\W\d_]+\.?"
_PARTS: Final = {
    "Y": r"\d{4}", "y": r"\d{2}", "m": _TWO, "d": _TWO, "e": _TWO, "j": r"\d{1,3}", "b": _LETTERS,
    "B": _LETTERS, "h": _LETTERS, "H": _TWO, "I": _TWO, "M": _TWO, "S": _TWO, "f": r"\d{1,9}",
    "p": r"(?:[aApP]\.?[mM]\.?)", "z": r"Z|UTC|GMT|[+-]\d{2}:?\d{2}", "a": _LETTERS, "A": _LETTERS,
}  # fmt: skip
"""Directive of a form → what it stands for."""
_SAME: Final = {"B": "b", "h": "b", "A": "a", "e": "d"}
_UNTIL: Final = r"(?:(?:\s+(?:-|–|—|to|until|bis)\s+|\s*/\s*)[\dP].*)?"
"""The end of an interval in the same cell."""
_BETWEEN: Final = re.compile(r"\s*(?:-|–|—|/|\bto\b|\buntil\b|\bbis\b)\s*")
_ISO: Final = re.compile(
    r"(?P<Y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})(?:[ Tt](?P<H>\d{2})(?::?(?P<M>\d{2})"
    r"(?::?(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?)?\s*"
    r"(?P<z>Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?" + _UNTIL
)
_BASIC_ISO: Final = re.compile(
    r"(?P<Y>\d{4})(?P<m>\d{2})(?P<d>\d{2})T(?P<H>\d{2})(?P<M>\d{2})(?P<S>\d{2})?"
    r"(?P<z>Z|[+-]\d{2}(?::?\d{2})?)?" + _UNTIL
)
_YEARS: Final = (1900, 2199)
_FIRST: Final = datetime(1970, 1, 1)
_Reading = tuple[float, float | None]
"""Seconds since 1970 as a clock shows them, and its offset from UTC if that is written there."""


def are_dates(words: pl.Series, rules: Mapping[str, Any]) -> bool:
    """Return whether submit times are dates: as declared, or because the first looks like one."""
    if words.dtype.is_temporal() or rules.get("time_format") or rules.get("zero"):
        return True
    if words.dtype != pl.String or not words.count():
        return False
    first = str(words.drop_nulls()[0])
    number = pl.Series([first]).cast(pl.Float64, strict=False).null_count() == 0
    return not number and re.search(r"\d.*[-/.:].*\d", first) is not None


def unix_times(words: pl.Series, rules: Mapping[str, Any]) -> list[float | None]:
    """Return the Unix times of text; None where it is empty or no date.

    Raises MissingInputError for what an auditor does not read: an hour that the clock showed
    twice, and a cell that has another form, unless such rows are left out.
    """
    if words.dtype.is_temporal():
        words = words.dt.to_string("iso")
    cells = words.to_list()
    never = [w is not None and str(w).lower().lstrip("+") in ("inf", "infinity") for w in cells]
    finite = [None if skip else word for word, skip in zip(cells, never, strict=True)]
    if rules.get("zero") or rules.get("time_format") in _SECONDS:
        found = _counted(words, finite, rules)
    else:
        found = _dated(finite, rules)
    unread = [f is None and w is not None for f, w in zip(found, finite, strict=True)]
    if any(unread) and rules.get("on_error") != "skip":
        raise MissingInputError(f"its time {finite[unread.index(True)]!r} is not read again")
    return [inf if skip else time for time, skip in zip(found, never, strict=True)]


def start_of(rules: Mapping[str, Any]) -> float | None:
    """Return the declared Unix time of second 0; None if it is the first submit time."""
    if not rules.get("zero"):
        return None
    (start,) = _dated([str(rules["zero"])], {"zone": rules.get("zone")})
    if start is None:
        raise MissingInputError("the zero of its times is not read again")
    return start


def _counted(
    words: pl.Series, finite: Sequence[Any], rules: Mapping[str, Any]
) -> list[float | None]:
    """Return the times of numbers that count units since a date, or since 1970."""
    factor, divisor = _SECONDS[str(rules.get("time_format") or "seconds")]
    start = start_of(rules) or 0.0
    numbers = words.cast(pl.Float64, strict=False).to_list()
    passed = [
        None if n is None or word is None or not isfinite(n) else start + n * factor / divisor
        for n, word in zip(numbers, finite, strict=True)
    ]
    return [time if time is not None and _is_of_our_days(time) else None for time in passed]


def _is_of_our_days(time_s: float) -> bool:
    return -2_208_988_800.0 <= time_s <= 7_258_118_400.0


def _dated(words: Sequence[Any], rules: Mapping[str, Any]) -> list[float | None]:
    """Return the times of dates by the declared form, or ISO 8601."""
    form = rules.get("time_format")
    patterns = [_pattern_of(str(form))] if form else [_ISO, _BASIC_ISO]
    readings: list[_Reading | None] = []
    for pattern in patterns:
        matches = [None if word is None else pattern.fullmatch(str(word)) for word in words]
        readings = [None if match is None else _reading(match.groupdict()) for match in matches]
        if any(matches):
            break
    if any(reading is not None and reading[1] is not None for reading in readings):
        return [None if r is None or r[1] is None else r[0] - r[1] for r in readings]
    zone = _zone(rules.get("zone"))
    offsets: dict[float, float] = {}
    times: list[float | None] = []
    for reading in readings:
        if reading is None:
            times.append(None)
            continue
        minute = reading[0] // 60
        if minute not in offsets:
            offsets[minute] = _offset_at(minute * 60, zone)
        times.append(reading[0] - offsets[minute])
    return times


def _offset_at(shown_s: float, zone: tzinfo) -> float:
    """Return the offset from UTC of a zone's clock that shows a time, in s."""
    date = (_FIRST + timedelta(seconds=shown_s)).replace(tzinfo=zone)
    offset = date.utcoffset()
    if offset is None or offset != date.replace(fold=1).utcoffset():
        raise MissingInputError("its times lie in an hour that the clock showed twice, or never")
    return offset.total_seconds()


# ---- forms --------------------------------------------------------------------------------------


def _pieces(form: str) -> Iterator[tuple[str, str]]:
    """Yield (directive, text) of a form: one of the two is empty."""
    text = ""
    for before, letter in re.findall(r"([^%]*)(?:%(.))?", form, re.DOTALL):
        text += before + ("%" if letter == "%" else "")
        if letter and letter != "%":
            if text:
                yield "", text
            text = ""
            yield letter, ""
    if text:
        yield "", text


def _pattern_of(form: str) -> re.Pattern[str]:
    """Return the pattern of a form, whose groups have the names of its directives."""
    pieces = list(_pieces(form))
    seen: set[str] = set()
    expression, named = "", True
    for place, (directive, text) in enumerate(pieces):
        name = _SAME.get(directive, directive)
        if name and name in seen and named:
            if place < 1 or not _BETWEEN.fullmatch(pieces[place - 1][1]):
                raise MissingInputError(f"its time_format {form!r} is not read again")
            named = False  # the end of an interval, whose begin counts
        if not directive:
            parts = re.split(r"(\s+)", text)
            expression += "".join(r"\s+" if p.isspace() else re.escape(p) for p in parts if p)
        elif directive not in _PARTS:
            raise MissingInputError(f"its time_format {form!r} is not read again")
        else:
            expression += f"(?P<{name}>" if named else "(?:"
            expression += f"{_PARTS[directive]})"
        seen.add(name)
    return re.compile(expression + (_UNTIL if named else ""))


def _reading(parts: Mapping[str, str | None]) -> _Reading | None:
    """Return what a clock shows; None if no calendar has it."""
    try:
        seconds = _clock_s(parts)
    except (ValueError, OverflowError):
        return None
    if seconds is None:
        return None
    zone = parts.get("z")
    return seconds, None if zone is None else _written_offset(zone)


def _clock_s(parts: Mapping[str, str | None]) -> float | None:
    year = _year(parts)
    hour, minute = int(parts.get("H") or 0), int(parts.get("M") or 0)
    second = float(parts.get("S") or 0) + float(f"0.{parts.get('f') or 0}")
    if (half := parts.get("I")) is not None:
        if not 1 <= int(half) <= 12:
            return None
        hour = int(half) % 12 + 12 * (parts.get("p") or "a").lower().startswith("p")
    in_day = hour * 3600.0 + minute * 60.0 + second
    if not (_YEARS[0] <= year <= _YEARS[1] and minute < 60 and second < 61 and in_day <= 86_400):
        return None
    if (of_year := parts.get("j")) is not None:
        begin = datetime(year, 1, 1) + timedelta(days=int(of_year) - 1)
        if int(of_year) < 1 or begin.year != year:
            return None
    else:
        begin = datetime(year, _month(parts), int(parts.get("d") or 1))
    return (begin - _FIRST).days * 86_400.0 + in_day


def _year(parts: Mapping[str, str | None]) -> int:
    if parts.get("Y") is not None:
        return int(str(parts["Y"]))
    short = int(str(parts["y"]))
    return short + (1900 if short >= 69 else 2000)


def _month(parts: Mapping[str, str | None]) -> int:
    if (name := parts.get("b")) is None:
        return int(parts.get("m") or 1)
    name = name.lower().removesuffix(".")
    if name == "sept":
        return 9
    return 1 + (_MONTHS.index(name) if name in _MONTHS else _LONG_MONTHS.index(name))


def _written_offset(zone: str) -> float:
    if zone.upper() in ("Z", "UTC", "GMT"):
        return 0.0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600.0 + int(digits[2:] or 0) * 60.0
    return -seconds if zone[0] == "-" else seconds


def _zone(name: str | None) -> tzinfo:
    text = (name or "UTC").strip()
    if text.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if text[:3].upper() in ("UTC", "GMT") and text[3:].strip()[:1] in ("+", "-"):
        sign, digits = text[3:].strip()[0], text[3:].strip()[1:].replace(":", "")
        hours, minutes = int(digits[:2] if len(digits) != 3 else digits[0]), int(digits[-2:] or 0)
        if len(digits) <= 2:
            minutes = 0
        return timezone((-1 if sign == "-" else 1) * timedelta(hours=hours, minutes=minutes))
    return ZoneInfo(text)
