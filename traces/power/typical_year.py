"""Typical years: files whose months are of different years, laid on one year.

A typical meteorological year (TMY) takes each month from the year in which it was most like the
average: January of 2007, February of 2004, … (S. Wilcox and W. Marion, "Users Manual for TMY3 Data
Sets", 2008). Its dates are no history: what counts is month, day and time of day. Such files come
from the NSRDB, PVGIS and EnergyPlus (EPW).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.dates import standard_offset_s
from simkit.errors import TraceError
from simkit.traces.tables.times import Instants
from simkit.units import DAY_S

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
