"""A course: a recomputed signal over time, constant between instants; and how a record becomes one.

The reader of a recorded signal says what its file holds, in the ledger's units. How a year of wind
or sun meets a job log of another year is recomputed here: the values of the same month, day and
hour in the standard time of each place, or of the same instant, and what holds in gaps and past the
end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from simkit.dates import fixed_zone, parse_zone
from simkit.power.signal_trace import Gaps, PowerTrace
from simkit.verify.audit import TICK, Bools, Floats, Ints, NotAuditedError, on_grid
from simkit.verify.folder import RunFolder

MOST_PIECES = 20_000_000
"""A course of more pieces is not recomputed: what a few keys ask for must not fill the memory."""
_NEAR = 4.0 * TICK
"""A change may come so much earlier or later in the ledger, in s."""


@dataclass(frozen=True)
class Course:
    """A piecewise constant function of the run's time."""

    times: Floats
    """(n,) ascending instants in s; before the first the value is not known."""
    values: Floats
    """(n,) the value from each on; NaN where there is none."""
    slack: float = 0.0
    """By how much a value may differ, besides rounding."""

    @classmethod
    def constant(cls, value: float) -> Course:
        """Return a course that never changes."""
        return cls(np.array([-np.inf]), np.array([float(value)]))

    def at(self, times: Floats) -> Floats:
        """Return the values at (N,) instants, those of a change included; NaN where unknown."""
        row = np.searchsorted(self.times, times, side="right") - 1
        return np.where(row >= 0, self.values[row], np.nan)

    def scaled(self, factor: float) -> Course:
        """Return it times a factor."""
        return replace(self, values=self.values * factor, slack=self.slack * abs(factor))

    def integral(self, first: float, last: float) -> float:
        """Return the integral over a span in s."""
        return float(self._areas(np.array([first, last]))[0])

    def means(self, step: float, first: float, last: float) -> Course:
        """Return the means of steps from the run's zero, over the steps of a span in s."""
        pieces_of(first, last, step, "a signal of means")
        edges = step * np.arange(np.floor(first / step), np.floor(last / step) + 2.0)
        return Course(edges[:-1], self._areas(edges) / step, self.slack)

    def _areas(self, edges: Floats) -> Floats:
        """Return (k,) the integrals between (k + 1,) ascending instants; NaN where unknown."""
        cuts = np.union1d(edges, self.times[(self.times > edges[0]) & (self.times < edges[-1])])
        areas = self.at(cuts[:-1]) * np.diff(cuts)
        if len(edges) < 2:
            return np.empty(0)
        return np.asarray(np.add.reduceat(areas, np.searchsorted(cuts, edges[:-1])))


def pieces_of(first: float, last: float, step: float, what: str) -> int:
    """Return how many steps a span in s has; raises NotAuditedError if they are too many."""
    number = (last - first) / step + 2.0
    if not number <= MOST_PIECES:
        raise NotAuditedError(f"{what} has {number:.3g} pieces in the run")
    return int(number)


def total(courses: Sequence[Course]) -> Course:
    """Return the sum of courses."""
    if len(courses) == 1:
        return courses[0]
    times = np.unique(np.concatenate([course.times for course in courses]))
    values = np.sum([course.at(times) for course in courses], axis=0)
    return Course(times, values, sum(course.slack for course in courses))


def rows_that_differ(
    row: dict[str, Floats], found: Floats, course: Course, slack: Floats
) -> tuple[Bools, Floats]:
    """Return which rows of the ledger do not have the value of a course, and what they should have.

    Args:
        row: columns of the ledger.
        found: (N,) what the rows have.
        course: what they should have from start to end.
        slack: (N,) by how much they may differ.

    A change may fall a few ticks off the row's start or end; in a row of a few ticks any value
    that holds around it counts.
    """
    start, end = row["start_s"], row["end_s"]
    slack = slack + course.slack
    expected = course.at(starts_of(row))
    wrong = ~(np.abs(found - expected) <= slack)
    if wrong.any():
        short = np.flatnonzero(wrong & (end - start <= 2.0 * _NEAR))
        for times in (start[short] - _NEAR, end[short] + _NEAR):
            wrong[short] &= ~(np.abs(found[short] - course.at(times)) <= slack[short])
    at, values = changes_within(row, course)
    wrong[at[~(np.abs(found[at] - values) <= slack[at])]] = True
    return wrong, expected


def starts_of(row: dict[str, Floats]) -> Floats:
    """Return (N,) instants just after the starts of the ledger's rows."""
    start, end = row["start_s"], row["end_s"]
    return np.asarray(np.minimum(start + _NEAR, (start + end) / 2.0))


def changes_within(row: dict[str, Floats], course: Course) -> tuple[Ints, Floats]:
    """Return (k,) the rows of the ledger in which a course changes, and (k,) to which value."""
    times = changes_of(row, course)
    return np.searchsorted(row["start_s"], times, side="right") - 1, course.at(times)


def changes_of(row: dict[str, Floats], course: Course) -> Floats:
    """Return (k,) the instants of a course that lie within rows of the ledger."""
    at = np.searchsorted(row["start_s"], course.times, side="right") - 1
    within = (at >= 0) & (course.times > starts_of(row)[at])
    return course.times[within & (course.times < row["end_s"][at] - _NEAR)]


def lowest_in_rows(row: dict[str, Floats], course: Course) -> Floats:
    """Return (N,) the lowest value of a course in each row of the ledger."""
    lowest = course.at(starts_of(row))
    np.minimum.at(lowest, *changes_within(row, course))
    return lowest


DAY = 86_400.0
_FIRST, _LAST = -2_208_988_800.0, 7_258_118_400.0
"""The years 1900 to 2199 as Unix times."""
_REGULAR = 1.5
"""Rows more than this many steps apart have a gap between them."""
_LEAP_YEAR = 366.0 * DAY
_LEAP_DAY = 59.0 * DAY
"""Second of a leap year at which 29 February begins."""


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

    Raises NotAuditedError if the scenario does not state the date of second 0 and the input that
    does is not read again, or has none.
    """
    align = run.setting("power", "align")
    zone = align.zone or run.manifest["time_zone"]
    if align.zero is None:
        kind = run.scenario.workload.type
        if kind in ("sacct", "plugin"):
            raise NotAuditedError(f"the date of second 0 of {kind} jobs is not read again")
        epoch = run.manifest["epoch_s"]
        if epoch is None:
            raise NotAuditedError("the date of second 0 is not known")
        return Clock(on_grid(float(epoch)), zone, zone or "UTC")
    ahead = align.zero.utcoffset().total_seconds()
    shown = zone or (fixed_zone(ahead) if ahead else "UTC")
    return Clock(on_grid(align.zero.timestamp()), zone, shown)


def _offset_at(zone: tzinfo, unix: float) -> float:
    """Return by how many seconds the zone's clock is ahead of UTC at a Unix time."""
    shift = datetime.fromtimestamp(unix, zone).utcoffset()
    return shift.total_seconds() if shift else 0.0


def _standard_offset(name: str, unix: float) -> float:
    """Return the zone's offset in s without daylight saving, in the year of a Unix time."""
    zone, year = parse_zone(name), datetime.fromtimestamp(unix, UTC).year
    noons = (datetime(year, month, 1, 12, tzinfo=UTC).timestamp() for month in (1, 7))
    return min(_offset_at(zone, noon) for noon in noons)


def offsets(name: str, first: float, last: float) -> tuple[Floats, Floats]:
    """Return (n,) Unix times from which on the clock of a zone is ahead of UTC by (n,) seconds.

    They cover a span of Unix times, the first one from its begin on.
    """
    zone = parse_zone(name)
    if not _FIRST <= first <= last <= _LAST:
        raise NotAuditedError("the run lies beyond the years 1900 to 2199")
    if not isinstance(zone, ZoneInfo):
        return np.array([first]), np.array([_offset_at(zone, first)])
    days = [first, *np.arange(np.ceil(first / DAY), np.ceil(last / DAY) + 1.0) * DAY]
    times, shifts = [first], [_offset_at(zone, first)]
    for before, after in pairwise(days):
        shift = _offset_at(zone, after)
        if shift != shifts[-1]:
            times.append(_change(zone, before, after, shifts[-1]))
            shifts.append(shift)
    return np.array(times), np.array(shifts)


def _change(zone: tzinfo, before: float, after: float, shift: float) -> float:
    """Return the first whole second at which the clock is no longer ahead by `shift`."""
    low, high = int(np.floor(before)), int(np.ceil(after))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset_at(zone, middle) == shift else (low, middle)
    return float(high)


@dataclass(frozen=True)
class Record:
    """What a file says, in the units of the ledger."""

    times: Floats
    """(n,) ascending Unix times in s."""
    values: Floats
    """(n,) numbers."""
    unit: str
    zone: str
    """Zone of the place."""
    instant: bool = False
    """Whether values are readings at an instant, not means of an interval."""
    ends: bool = False
    """Whether times are the ends of the intervals."""
    step: float = 0.0
    """Declared length of an interval in s; 0: the most frequent one."""
    slack: float = 0.0
    """By how much a value may differ, besides rounding."""

    @classmethod
    def of(cls, trace: PowerTrace, slack: float) -> Record:
        """Return what a reader has read; values may differ by `slack`."""
        return cls(
            trace.time_s, trace.value, trace.unit, trace.time_zone,
            instant=trace.sampling == "instant", ends=trace.label == "end",
            step=trace.step_s if trace.step_declared else 0.0, slack=slack,
        )  # fmt: skip

    def intervals(self) -> tuple[Floats, Floats]:
        """Return (n,) begins and ends of what the rows stand for.

        An interval lasts until the next row. Beside a gap, and at the end of the file, it is as
        long as the one on its other side, or as a step.
        """
        step, apart = self.usual_step, np.diff(self.times)
        near = apart <= _REGULAR * step
        length = np.where(near & (self.step == 0), apart, step)
        if self.ends and not self.instant:
            begins = self.times - np.append(length, step)
            begins[1:][near] = self.times[:-1][near]
            return begins, self.times
        ends = self.times + np.append(step, length)
        ends[:-1][near] = self.times[1:][near]
        return self.times, ends

    @property
    def usual_step(self) -> float:
        """The declared step, else the most frequent distance of two rows, the shortest of these."""
        if self.step:
            return self.step
        if len(self.times) < 2:
            raise NotAuditedError("a single row has no step")
        lengths, counts = np.unique(np.diff(self.times), return_counts=True)
        return float(lengths[counts.argmax()])

    def at_least(self, least: float) -> Record:
        """Return it with lower values raised: the scenario refuses them, or reads them as least."""
        return replace(self, values=np.maximum(self.values, least))

    def pieces(self, gaps: Gaps) -> Pieces:
        """Return the record without gaps, filled by the scenario's rule."""
        begins, ends = self.intervals()
        values = self.values
        if self.instant:
            near = np.diff(self.times) <= _REGULAR * self.usual_step
            means = (values[:-1] + values[1:]) / 2.0
            values = np.append(np.where(near, means, values[:-1]), values[-1:])
        holes = np.flatnonzero(begins[1:] > ends[:-1])
        parts: list[tuple[Floats, Floats]] = [(begins, values)]
        for hole in holes:
            span = float(ends[hole]), float(begins[hole + 1])
            parts.append(filled(gaps, span, values[hole : hole + 2], self.usual_step))
        times, numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(times, kind="stable")
        return Pieces(times[order], numbers[order], float(ends[-1]))


class Pieces(NamedTuple):
    """A step function of Unix time, or of the second of a year."""

    begins: Floats
    """(n,) ascending."""
    values: Floats
    """(n,)"""
    end: float

    def mean(self) -> float:
        """Return the mean over time."""
        lengths = np.diff(self.begins, append=self.end)
        return float((self.values * lengths).sum() / lengths.sum())


def filled(
    gaps: Gaps, span: tuple[float, float], beside: Floats, step: float
) -> tuple[Floats, Floats]:
    """Return begins and values of what fills a gap.

    Args:
        gaps: the scenario's rule, and the longest gap that it fills.
        span: begin and end of the gap, in s.
        beside: the values before and after it.
        step: length of the pieces of a straight line, in s.
    """
    begin, end = span
    rule = gaps.rule
    if rule == "error" or end - begin > gaps.longest_s:
        raise NotAuditedError("the file has gaps that its rule does not fill")
    if rule != "interpolate":
        return np.array([begin]), np.array([0.0 if rule == "zero" else float(beside[0])])
    number = max(1, round((end - begin) / step))
    places = np.arange(float(number))
    rise = float(beside[1] - beside[0]) / (number + 1)
    return begin + places * ((end - begin) / number), float(beside[0]) + rise * (places + 1.0)


def on_run(pieces: Pieces, zero: float, past_end: str, first: float, last: float) -> Course:
    """Return pieces on the clock of a run over a span in s.

    Args:
        pieces: of Unix time.
        zero: Unix time of second 0 of the run.
        past_end: what holds before the first piece and after the last: error, hold or wrap.
        first: begin of the span.
        last: its end.
    """
    edges = np.round((np.append(pieces.begins, pieces.end) - zero) / TICK) * TICK
    begins, end = edges[:-1], float(edges[-1])
    if past_end == "hold":
        return Course(np.append(-np.inf, begins[1:]), pieces.values)
    if past_end == "error":
        return Course(np.append(begins, end), np.append(pieces.values, np.nan))
    length = end - float(begins[0])
    pieces_of(first, last, length / len(begins), "a file that repeats")
    low, high = (np.floor((at - begins[0]) / length) for at in (first, last))
    rounds = np.arange(low, high + 1.0)
    times = (rounds[:, None] * length + begins).ravel()
    return Course(times, np.tile(pieces.values, len(rounds)))


# ---- by calendar --------------------------------------------------------------------------------


def on_calendar(record: Record, gaps: Gaps, clock: Clock, first: float, last: float) -> Course:
    """Return the values of the same month, day and hour, in the standard time of each place."""
    pieces = record.pieces(gaps)
    there = _standard_offset(record.zone, float(pieces.begins[0]))
    here = _standard_offset(clock.zone or record.zone, clock.epoch)
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


def _without_gaps(year: Pieces, gaps: Gaps, step: float) -> Pieces:
    """Return the leap year with what its file lacks filled by the scenario's rule."""
    unknown = np.isnan(year.values)
    if not unknown.any():
        return year
    if unknown.all():
        raise NotAuditedError("the file has no day of a year")
    firsts = np.flatnonzero(unknown & ~np.append(False, unknown[:-1]))
    afters = np.flatnonzero(np.append(~unknown, True) & np.append(False, unknown))
    kept: list[tuple[Floats, Floats]] = [(year.begins[~unknown], year.values[~unknown])]
    for one, after in zip(firsts, afters, strict=True):
        end = float(np.append(year.begins, _LEAP_YEAR)[after])
        beside = np.array([year.values[one - 1], year.values[after % len(year.values)]])
        if np.isnan(beside).any():
            raise NotAuditedError("the file lacks both ends of a year")
        kept.append(filled(gaps, (float(year.begins[one]), end), beside, step))
    begins, values = (np.concatenate(column) for column in zip(*kept, strict=True))
    order = np.argsort(begins, kind="stable")
    return Pieces(begins[order], values[order], _LEAP_YEAR)
