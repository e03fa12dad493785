"""A file laid on a run by month, day and hour: the second of a leap year tells the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from simkit.verify.numbers import TICK, Floats
from simkit.verify.site.clock import DAY, Clock, standard_offset
from simkit.verify.site.course import Course, NotRecomputedError, pieces_of
from simkit.verify.site.record import Pieces, Record, filled

_LEAP_YEAR = 366.0 * DAY
_LEAP_DAY = 59.0 * DAY
"""Second of a leap year at which 29 February begins."""


def on_calendar(
    record: Record, gaps: Mapping[str, Any], clock: Clock, first: float, last: float
) -> Course:
    """Return the values of the same month, day and hour, in the standard time of each place."""
    pieces = record.pieces(gaps)
    there = standard_offset(record.zone, float(pieces.begins[0]))
    here = standard_offset(clock.zone or record.zone, clock.epoch)
    year = _leap_year(Pieces(pieces.begins + there, pieces.values, pieces.end + there))
    year = _without_gaps(year, gaps, record.usual_step)
    zero = np.round((clock.epoch + here) / TICK) * TICK
    times, values = [], []
    for begin, end, shift in _parts(zero + first, zero + last):
        pieces_of(first, last, (end - begin) / (len(year.begins) + 1.0), "a calendar")
        inside = year.begins[(year.begins > begin + shift) & (year.begins < end + shift)]
        seconds = np.append(begin + shift, inside)
        times.append(seconds - shift - zero)
        row = np.searchsorted(year.begins, seconds, side="right") - 1
        values.append(year.values[row])
    return Course(np.concatenate(times), np.concatenate(values), record.slack)


def _new_year(year: int) -> float:
    return datetime(year, 1, 1, tzinfo=UTC).timestamp()


def _parts(first: float, last: float) -> Iterator[tuple[float, float, float]]:
    """Yield (begin, end, what must be added to get the second of a leap year) over a span."""
    for year in range(_year(first), _year(last) + 1):
        begin, end = _new_year(year), _new_year(year + 1)
        leap = end - begin == _LEAP_YEAR
        turn = end if leap else begin + _LEAP_DAY
        for one, other, shift in ((begin, turn, -begin), (turn, end, DAY - begin)):
            if one < other and one <= last and other > first:
                yield max(one, first), min(other, np.nextafter(last, np.inf)), shift


def _year(unix: float) -> int:
    return datetime.fromtimestamp(np.floor(unix), UTC).year


def _leap_year(local: Pieces) -> Pieces:
    """Return the leap year of a file; NaN where no year of it has a value, else its first year's.

    In a file without 29 February, that day is like the one before.
    """
    parts = list(_parts(float(local.begins[0]), local.end))
    edges = [np.array([0.0, _LEAP_DAY, _LEAP_DAY + DAY])]
    for begin, end, shift in parts:
        own = local.begins[(local.begins >= begin) & (local.begins < end)]
        edges.append(np.concatenate(([begin], own, [end])) + shift)
    at = np.unique(np.concatenate(edges))
    before_leap_day = (at >= _LEAP_DAY - DAY) & (at < _LEAP_DAY)
    at = np.union1d(at, at[before_leap_day] + DAY)
    at = at[at < _LEAP_YEAR]
    values = np.full(len(at), np.nan)
    for begin, end, shift in parts:
        end = min(end, local.end)
        open_ = np.isnan(values) & (at >= begin + shift) & (at < end + shift)
        row = np.searchsorted(local.begins, at[open_] - shift, side="right") - 1
        values[open_] = local.values[row]
    if np.isnan(values[np.searchsorted(at, _LEAP_DAY)]):
        missing = (at >= _LEAP_DAY) & (at < _LEAP_DAY + DAY)
        row = np.searchsorted(at, at[missing] - DAY, side="right") - 1
        values[missing] = values[row]
    return Pieces(at, values, _LEAP_YEAR)


def _without_gaps(year: Pieces, gaps: Mapping[str, Any], step: float) -> Pieces:
    """Return the leap year with what its file lacks filled by the scenario's rule."""
    unknown = np.isnan(year.values)
    if not unknown.any():
        return year
    if unknown.all():
        raise NotRecomputedError("the file has no day of a year")
    firsts = np.flatnonzero(unknown & ~np.append(False, unknown[:-1]))
    afters = np.flatnonzero(np.append(~unknown, True) & np.append(False, unknown))
    kept: list[tuple[Floats, Floats]] = [(year.begins[~unknown], year.values[~unknown])]
    for one, after in zip(firsts, afters, strict=True):
        end = float(np.append(year.begins, _LEAP_YEAR)[after])
        beside = np.array([year.values[one - 1], year.values[after % len(year.values)]])
        if np.isnan(beside).any():
            raise NotRecomputedError("the file lacks both ends of a year")
        kept.append(filled(gaps, (float(year.begins[one]), end), beside, step))
    begins, values = (np.concatenate(column) for column in zip(*kept, strict=True))
    order = np.argsort(begins, kind="stable")
    return Pieces(begins[order], values[order], _LEAP_YEAR)
