"""Unix times as dates, whatever the number: none raises, and none far from our days is a date."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from math import isfinite
from typing import Final

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
