"""Unix times as dates, time zones as people write them, standard time, and days of the week.

No number raises, and none far from our days is a date. The sun follows standard time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import isfinite
from typing import Final
from zoneinfo import ZoneInfo

from simkit.errors import TraceError

FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2199
EARLIEST_S: Final = -2_208_988_800.0
LATEST_S: Final = 7_258_118_400.0
"""Unix times of the years 1900 to 2199: what lies beyond is no date of a trace."""


def is_dated(epoch_s: float) -> bool:
    """Return whether a Unix time is a date of the years 1900 to 2199."""
    return EARLIEST_S <= epoch_s <= LATEST_S


def date_of(epoch_s: float, zone: tzinfo = UTC) -> datetime | None:
    """Return the date of a Unix time on a zone's clock; None beyond the years 1 to 9999."""
    if not isfinite(epoch_s):
        return None
    try:
        return datetime.fromtimestamp(epoch_s, zone)
    except (OverflowError, OSError, ValueError):
        return None


def date_text(epoch_s: float, form: str, zone: tzinfo = UTC) -> str:
    """Return a Unix time in a form of `datetime.strftime`, or as a number if it is no date."""
    date = date_of(epoch_s, zone)
    return f"Unix time {epoch_s:.15g} s" if date is None else date.strftime(form)


_NAMES_OF_UTC = ("UTC", "UCT", "GMT", "GMT0", "GMT+0", "GMT-0", "Zulu", "Universal", "Greenwich")
_FIXED = re.compile(r"(?:UTC|GMT)\s*([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)


def parse_zone(name: str) -> tzinfo:
    """Return the zone of ``UTC``, ``UTC-6``, ``UTC+05:30`` or an IANA name (``America/Chicago``).

    Raises TraceError if the zone is unknown.
    """
    text = name.strip()
    if text.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if match := _FIXED.fullmatch(text):
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        if minutes <= 14 * 60:
            return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise TraceError(
            f"{name!r} is not a valid time zone; write UTC, UTC-06:00 for a clock without daylight "
            "saving, or a name such as America/Chicago"
        ) from None


def zone_of(name: str | None) -> tuple[tzinfo, str]:
    """Return the time zone of a name, and the name; UTC if it is unknown."""
    with suppress(TraceError):
        return (parse_zone(name), name) if name else (UTC, "UTC")
    return UTC, "UTC"


def is_utc(name: str) -> bool:
    """Return whether a zone is UTC itself, which says nothing of a place; London's is not."""
    zone = parse_zone(name)
    if isinstance(zone, ZoneInfo):
        return zone.key.removeprefix("Etc/") in _NAMES_OF_UTC
    return zone.utcoffset(None) == timedelta(0)


def fixed_zone(offset_s: float) -> str:
    """Return the name of the zone with a fixed offset from UTC in s: ``UTC-06:00``."""
    minutes = round(abs(offset_s) / 60)
    return f"UTC{'-' if offset_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def utc_offset_s(zone: tzinfo, epoch_s: float) -> float:
    """Return the zone's offset from UTC in s at a Unix time, east positive; 0 if it is no date."""
    date = date_of(epoch_s, zone)
    offset = None if date is None else date.utcoffset()
    return offset.total_seconds() if offset else 0.0


def standard_offset_s(name: str, epoch_s: float) -> float:
    """Return the zone's offset from UTC in s without daylight saving, in the year of a Unix time.

    Standard time is the earlier one of January's and July's clocks.
    """
    zone = parse_zone(name)
    date = date_of(epoch_s)
    year = 2000 if date is None else date.year
    days = (datetime(year, month, 1, 12, tzinfo=UTC).timestamp() for month in (1, 7))
    return min(utc_offset_s(zone, day) for day in days)


WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def weekly(pattern: Mapping[str, Mapping[float, float]]) -> dict[float, float]:
    """Return a pattern of the week from patterns of its days.

    `pattern` maps ``mon`` … ``sun``, ``weekdays`` or ``weekend`` to second of the day -> value.
    Raises TraceError for another name.
    """
    from simkit.units import DAY_S  # loads NumPy, which the help of commands does without

    groups = {name: [day] for day, name in enumerate(WEEKDAYS)}
    groups |= {"weekdays": list(range(5)), "weekend": [5, 6]}
    if unknown := [name for name in pattern if name not in groups]:
        raise TraceError(
            f"{', '.join(map(repr, unknown))}: no such days; write {', '.join(groups)}"
        )
    return {
        day * DAY_S + at: value
        for name, entries in pattern.items()
        for day in groups[name]
        for at, value in entries.items()
    }
