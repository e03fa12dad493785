"""Times in files of power and weather: from text to Unix times, daylight saving included.

A time is either complete (``2022-01-01 00:00:00+00:00``) or a clock reading, which means nothing
without its time zone. In autumn such a clock shows an hour twice; the order of the rows tells the
second time. In spring it skips an hour that some files contain all the same.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats
from simkit.errors import TraceError
from simkit.power.signal_zone import parse_zone, utc_offset_s

_PARTS: Final = (
    r"^(?<day>\d{4}-\d{2}-\d{2})[ T](?<clock>\d{2}:\d{2})(?<seconds>:\d{2}(?:\.\d+)?)?\s*"
    r"(?<zone>Z|[+-]\d{2}:?\d{2})?$"
)


_UNIX_FROM: Final = 1e9
"""Numbers from here on are seconds since 1970."""


class Instants(NamedTuple):
    """Instants of rows, (n,) each."""

    time_s: Floats
    """Unix times; NaN where unknown."""
    skipped: Bools
    """The clock never showed this time."""
    second: Bools
    """The clock showed it twice, and this is the second time."""


def instants(
    words: pl.Series,
    time_zone: str | None,
    place: str,
    time_format: str | None = None,
    zero: str | None = None,
) -> Instants:
    """Parse times.

    Args:
        words: (n,) dates with times of day, in the order of the file.
        time_zone: zone of the clock (see `signal_zone.parse_zone`); None if the times contain it.
        place: file and column, for messages.
        time_format: format of the times for `datetime.strptime`; None: ISO 8601.
        zero: date of second 0 if the times are numbers, seconds from there; None: they are dates.

    Raises TraceError if no time has that format, if a zone is needed and not declared, or if it is
    declared and the times contain an offset.
    """
    if zero is not None:
        return _seconds_from(zero, words, time_zone, place)
    naive, offset = _clock(words, time_format)
    if not np.isfinite(naive).any():
        example = next((word for word in words.to_list() if word), "")
        raise TraceError(
            f"{place}: no time can be read, the first is {example!r}; "
            + (f"it must be of the form {time_format!r}" if time_format else _remedy(example))
        )
    known = np.isfinite(offset)
    if known.any():
        if time_zone is not None:
            raise TraceError(
                f"{place}: the times carry their own offset from UTC, but zone "
                f"{time_zone!r} is declared; leave zone out"
            )
        return Instants(naive - offset, np.zeros(len(naive), bool), np.zeros(len(naive), bool))
    if time_zone is None:
        raise TraceError(
            f"{place}: times without a time zone; declare zone: UTC, UTC-06:00 if the clock "
            "is never put forward, or a name such as America/Chicago"
        )
    return on_clock(naive, time_zone)


def _seconds_from(zero: str, words: pl.Series, time_zone: str | None, place: str) -> Instants:
    """Return the instants of numbers: seconds that have passed since a date."""
    seconds = words.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    if not np.isfinite(seconds).any():
        example = next((word for word in words.to_list() if word), "")
        raise TraceError(
            f"{place}: zero is declared, so the times are numbers of seconds, but the first is "
            f"{example!r}; leave zero out"
        )
    day_alone = re.fullmatch(r"\d{4}-\d{2}-\d{2}", zero)
    first = pl.Series([f"{zero} 00:00" if day_alone else zero])
    begin = instants(first, time_zone, f"{place}: zero")
    never = np.zeros(len(words), dtype=bool)
    return Instants(begin.time_s[0] + np.where(np.isfinite(seconds), seconds, np.nan), never, never)


def _remedy(example: str) -> str:
    """Return what to do about times that cannot be read, the first of which is `example`."""
    try:
        number = float(example)
    except ValueError:
        return "write 2012-01-31 13:05:00, or give time_format"
    zero = "1970-01-01T00:00Z" if number >= _UNIX_FROM else '"2020-01-01 00:00"'
    return (
        "if the times are seconds from a zero, as in files of Vessim, give zero, the date of "
        f"second 0: zero: {zero}; otherwise write 2012-01-31 13:05:00"
    )


def on_clock(naive_s: Floats, time_zone: str) -> Instants:
    """Return the instants at which a zone's clock shows given times.

    Args:
        naive_s: (n,) clock readings, in seconds since 1970 as if they were UTC; NaN is kept.
        time_zone: zone of the clock.
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
    second = twice & (naive_s <= _highest_before(naive_s))
    time = np.where(first & ~second, early, late)
    skipped = np.isfinite(naive_s) & ~first & ~last
    return Instants(np.where(first | last, time, np.nan), skipped, second)


def _offsets(hours: Floats, distance: int, zone: tzinfo) -> Floats:
    """Return the zone's offset in s, `distance` hours from each of the hours since 1970."""
    days, row = np.unique((hours + distance) // 24, return_inverse=True)
    of_day = np.array([_day_offset(float(day), zone) for day in days])
    return of_day[row] if len(days) else np.zeros(1)


def _day_offset(day: float, zone: tzinfo) -> float:
    return utc_offset_s(zone, day * 86_400.0 + 43_200.0)


def _shows(time_s: Floats, naive_s: Floats, zone: tzinfo) -> Bools:
    """Return at which instants the clock shows `naive_s`."""
    known = np.flatnonzero(np.isfinite(time_s))
    hours, row = np.unique(np.floor(time_s[known] / 900), return_inverse=True)
    offset = np.array([utc_offset_s(zone, quarter * 900.0) for quarter in hours.tolist()])
    shown = np.zeros(len(time_s), dtype=bool)
    if len(known):
        shown[known] = time_s[known] + offset[row] == naive_s[known]
    return shown


def _highest_before(values: Floats) -> Floats:
    """Return the largest of the values before each; minus infinity for the first."""
    known = np.where(np.isfinite(values), values, -np.inf)
    return np.concatenate(([-np.inf], np.maximum.accumulate(known)[:-1]))


def _clock(words: pl.Series, time_format: str | None) -> tuple[Floats, Floats]:
    """Return clock readings (s since 1970, as if UTC) and their offsets in s, NaN if absent."""
    if time_format is not None:
        return _by_format(words, time_format)
    parts = words.str.extract_groups(_PARTS).struct.unnest()
    text = parts["day"] + " " + parts["clock"] + parts["seconds"].fill_null(":00")
    shown = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
    naive = shown.dt.epoch("us").cast(pl.Float64) / 1e6
    zone = parts["zone"].replace("Z", "+00:00").str.replace(":", "")
    sign = zone.str.head(1).replace_strict({"+": 1.0, "-": -1.0}, default=None)
    minutes = zone.str.slice(1, 2).cast(pl.Float64) * 60 + zone.str.slice(3, 2).cast(pl.Float64)
    offset = sign.cast(pl.Float64) * minutes * 60
    return naive.fill_null(np.nan).to_numpy(), offset.fill_null(np.nan).to_numpy()


def _by_format(words: pl.Series, time_format: str) -> tuple[Floats, Floats]:
    naive, offset = np.full(len(words), np.nan), np.full(len(words), np.nan)
    for row, word in enumerate(words.to_list()):
        try:
            read = datetime.strptime(word or "", time_format)
        except ValueError:
            continue
        naive[row] = read.replace(tzinfo=UTC).timestamp()
        if (said := read.utcoffset()) is not None:
            offset[row] = said.total_seconds()
    return naive, offset
