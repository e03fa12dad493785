"""The clock of a run and of its files: time zones, their changes, and the date of second 0."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from simkit.verify.folder import RunFolder
from simkit.verify.numbers import Bools, Floats, on_grid
from simkit.verify.site.course import NotRecomputedError

DAY = 86_400.0
_FIXED = re.compile(r"(?:UTC|GMT)\s*([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_FIRST, _LAST = -2_208_988_800.0, 7_258_118_400.0
"""The years 1900 to 2199 as Unix times."""


class Clock(NamedTuple):
    """What a run's instants are called."""

    epoch: float
    """Unix time of second 0."""
    zone: str | None
    """Zone of the site; None if it is not known."""
    shown: str
    """Zone of the clock on the wall, which schedules follow."""


def clock_of(run: RunFolder) -> Clock:
    """Return the clock of a run's site.

    Raises NotRecomputedError if the scenario does not state the date of second 0 and the input that
    does is not read again, or has none.
    """
    align = run.setting("power", "align") or {}
    zone = align.get("zone") or run.manifest["time_zone"]
    if align.get("zero") is None:
        kind = run.setting("workload", "type")
        if kind in ("sacct", "plugin"):
            raise NotRecomputedError(f"the date of second 0 of {kind} jobs is not read again")
        epoch = run.manifest["epoch_s"]
        if epoch is None:
            raise NotRecomputedError("the date of second 0 is not known")
        return Clock(on_grid(float(epoch)), zone, zone or "UTC")
    zero = datetime.fromisoformat(str(align["zero"]))
    offset = zero.utcoffset() or timedelta(0)
    minutes = round(abs(offset.total_seconds()) / 60.0)
    sign = "-" if offset < timedelta(0) else "+"
    fixed = f"UTC{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return Clock(on_grid(zero.timestamp()), zone, zone or (fixed if offset else "UTC"))


def zone_of(name: str) -> tzinfo:
    """Return the zone of ``UTC``, ``UTC-06:00`` or ``America/Chicago``."""
    text = name.strip()
    if text.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if match := _FIXED.fullmatch(text):
        shift = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(-shift if match[1] == "-" else shift)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise NotRecomputedError(f"the time zone {name!r} is not known here") from None


def offset_at(zone: tzinfo, unix: float) -> float:
    """Return by how many seconds the zone's clock is ahead of UTC at a Unix time."""
    shift = datetime.fromtimestamp(unix, zone).utcoffset()
    return shift.total_seconds() if shift else 0.0


def standard_offset(name: str, unix: float) -> float:
    """Return the zone's offset in s without daylight saving, in the year of a Unix time."""
    zone, year = zone_of(name), datetime.fromtimestamp(unix, UTC).year
    noons = (datetime(year, month, 1, 12, tzinfo=UTC).timestamp() for month in (1, 7))
    return min(offset_at(zone, noon) for noon in noons)


def offsets(zone: tzinfo, first: float, last: float) -> tuple[Floats, Floats]:
    """Return (n,) Unix times from which on the clock is ahead of UTC by (n,) seconds.

    They cover a span of Unix times, the first one from its begin on.
    """
    if not _FIRST <= first <= last <= _LAST:
        raise NotRecomputedError("the run lies beyond the years 1900 to 2199")
    if not isinstance(zone, ZoneInfo):
        return np.array([first]), np.array([offset_at(zone, first)])
    days = [first, *np.arange(np.ceil(first / DAY), np.ceil(last / DAY) + 1.0) * DAY]
    times, shifts = [first], [offset_at(zone, first)]
    for before, after in pairwise(days):
        shift = offset_at(zone, after)
        if shift != shifts[-1]:
            times.append(_change(zone, before, after, shifts[-1]))
            shifts.append(shift)
    return np.array(times), np.array(shifts)


def _change(zone: tzinfo, before: float, after: float, shift: float) -> float:
    """Return the first whole second at which the clock is no longer ahead by `shift`."""
    low, high = int(np.floor(before)), int(np.ceil(after))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset_at(zone, middle) == shift else (low, middle)
    return float(high)


def instants(naive: Floats, name: str) -> Floats:
    """Return the Unix times at which a zone's clock showed (N,) readings, in the order of a file.

    Args:
        naive: readings as seconds since 1970, as if the clock were in UTC; NaN is kept.
        name: the zone.

    A reading that the clock skipped is NaN. Of an hour that it showed twice, the rows before the
    readings fall back are of the first time.

    Raises NotRecomputedError if the order of the rows does not tell.
    """
    known = naive[np.isfinite(naive)]
    zone = zone_of(name)
    if not len(known):
        return naive
    begins, shifts = offsets(zone, float(known.min()) - DAY, float(known.max()) + DAY)
    ends = np.append(begins[1:], np.inf)
    found = np.full((2, len(naive)), np.nan)
    for begin, end, shift in zip(begins, ends, shifts, strict=True):
        shown = (naive - shift >= begin) & (naive - shift < end)
        second = shown & ~np.isnan(found[0])
        found[0, shown & ~second] = naive[shown & ~second] - shift
        found[1, second] = naive[second] - shift
    twice = ~np.isnan(found[1])
    return np.asarray(np.where(_second(naive, twice), found[1], found[0]))


def _second(naive: Floats, twice: Bools) -> Bools:
    """Return which of the rows that the clock showed twice are of the second time."""
    second = np.zeros(len(naive), dtype=bool)
    rows = np.flatnonzero(twice)
    if not len(rows):
        return second
    others = np.diff(naive[np.isfinite(naive) & ~twice])
    if (others < 0).any() and (others > 0).any():
        raise NotRecomputedError("rows that are not in order have hours that the clock shows twice")
    if (others < 0).any():
        rows = rows[::-1]
    nights = np.floor((naive[rows] + DAY / 2.0) / DAY)
    for night in np.unique(nights):
        of_night = rows[nights == night]
        shown = naive[of_night]
        highest = np.append(-np.inf, np.maximum.accumulate(shown)[:-1])
        second[of_night] = np.logical_or.accumulate(shown <= highest)
    return second
