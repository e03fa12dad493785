"""Alignment: which instant of a trace is which instant of a run; and a trace made a signal.

A job log of 1998 meets the weather of 2012 in one of three ways:

- `calendar`: same month, day and hour in the standard time of each place, in any year;
- `epoch`: same instant in history;
- `offset`: the run's zero is this many seconds into the trace.

By `calendar` the trace's year is laid on a leap year, 366 days long. A run's year without 29
February skips that day; for a trace's year without it, 28 February is repeated. A run that goes on
past 31 December starts over on 1 January.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.dates import date_text, is_utc, standard_offset_s
from simkit.errors import TraceError, did_you_mean
from simkit.power.signal import WATT, PastEnd, Scaled, Signal, Steps, check_span
from simkit.power.signal_trace import (
    LONGEST_ADVISED_S,
    Gaps,
    PowerTrace,
    StepFunction,
    step_function,
)
from simkit.units import DAY_S, format_duration, time_on_grid
from simkit.workload.workload import Span


def check_covers(signal: Signal, span: Span, ahead_s: float = 0.0) -> None:
    """Raise TraceError if a signal does not cover a span of the run and `ahead_s` s after it.

    `ahead_s` is how far a forecast looks ahead.
    """
    first, last = span.first_s, span.last_s + ahead_s
    if signal.start_s <= first and signal.end_s >= last:
        return
    wanted = f"the jobs run from {first:.10g} to {last:.10g} s"
    outside = max(signal.start_s - first, last - signal.end_s)
    rules = "hold or wrap" if outside <= LONGEST_ADVISED_S else "wrap"
    remedy = f"give a longer file, past_end: {rules}, or another align"
    if ahead_s:
        wanted = (
            f"the forecast looks from {first:.10g} to {last:.10g} s, its horizon of "
            f"{ahead_s:.10g} s past the end of the last job"
        )
        remedy = f"give a shorter horizon, {remedy.removeprefix('give ')}"
    raise TraceError(
        f"covers {signal.start_s:.10g} to {signal.end_s:.10g} s of the run, but {wanted}; {remedy}"
    )


Align = Literal["calendar", "epoch", "offset"]


@dataclass(frozen=True)
class Alignment:
    """How a trace is laid on a run's clock.

    Raises TraceError if the kind is unknown, or a number is not finite or belongs to another kind.
    """

    kind: Align = "calendar"
    epoch_s: float | None = None
    """Unix time of the run's zero; `calendar` and `epoch` need it."""
    time_zone: str | None = None
    """Zone of the run's site, for `calendar`; None: the trace's."""
    offset_s: float = 0.0
    """Seconds from the trace's start to the run's zero, for `offset`."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Align):
            known = did_you_mean(self.kind, get_args(Align))
            raise TraceError(f"align: {self.kind!r} is unknown{known}")
        if self.kind != "offset" and (self.epoch_s is None or not math.isfinite(self.epoch_s)):
            raise TraceError(
                f"align {self.kind} needs the date of the run's zero, which the workload does not "
                "have; add power.align: {zero: 2019-01-01T00:00:00+00:00}, or {offset: 0}"
            )
        if not math.isfinite(self.offset_s) or (self.kind != "offset" and self.offset_s):
            raise TraceError(
                f"align {self.kind}: offset_s is {self.offset_s!r}; it must be a finite number of "
                "seconds, and belongs to align offset"
            )


def aligned(
    trace: PowerTrace,
    alignment: Alignment,
    *,
    gaps: Gaps | None = None,
    past_end: PastEnd = "error",
    factor: float = 1.0,
    needed: Span | None = None,
) -> Signal:
    """Make a signal on the run's clock from a trace.

    Args:
        trace: what was read.
        alignment: which instants belong together.
        gaps: how missing rows are filled; None: none may be missing.
        past_end: what holds before the trace's start and past its end; a calendar has no end.
        factor: multiplies all values, see `scale_factor`.
        needed: part of the run in which the signal is needed, for messages; None: not stated.

    Raises TraceError for gaps that are not allowed, a calendar year that the trace does not fill,
    a typical year by epoch, or, by calendar, a trace in UTC of an unknown place on the clock of
    another zone.
    """
    gaps = gaps or Gaps()
    if trace.typical and alignment.kind == "epoch":
        raise TraceError(
            f"{trace.name}: is a typical year, whose months are of different years, so it has no "
            "date in history; align by calendar or offset"
        )
    pieces = step_function(trace, gaps)
    if alignment.kind == "calendar":
        signal: Signal = _on_calendar(trace, pieces, alignment, gaps, needed)
    else:
        zero = alignment.epoch_s
        if zero is None:
            zero = float(pieces.starts_s[0]) + alignment.offset_s
        signal = Steps(
            pieces.starts_s - zero,
            pieces.values,
            pieces.end_s - zero,
            unit=trace.unit,
            past_end=past_end,
            name=trace.name,
        )
    return signal if factor == 1.0 else Scaled(signal, factor)


def _on_calendar(
    trace: PowerTrace, pieces: StepFunction, alignment: Alignment, gaps: Gaps, needed: Span | None
) -> CalendarYear:
    epoch = alignment.epoch_s or 0.0
    if alignment.time_zone and not trace.place_known and not is_utc(alignment.time_zone):
        raise TraceError(
            f"{trace.name}: its times are in {trace.time_zone} and nothing says where its place "
            f"is, but the run's zone is {alignment.time_zone}; align calendar would take 12:00 "
            f"{trace.time_zone} for 12:00 in {alignment.time_zone}: declare the zone of the place "
            "as site_zone (site_zone: UTC if that is meant), or align by epoch or offset"
        )
    there = standard_offset_s(trace.time_zone, float(pieces.starts_s[0]))
    here = standard_offset_s(alignment.time_zone or trace.time_zone, epoch)
    local = StepFunction(pieces.starts_s + there, pieces.values, pieces.end_s + there)
    zero = epoch + here
    wanted = "" if needed is None else dates(zero + needed.first_s, zero + needed.last_s)
    year = calendar_year(
        local, gaps=gaps, step_s=trace.step_s, unit=trace.unit, name=trace.name, needed=wanted
    )
    return CalendarYear(year, zero_s=zero)


def scale_factor(
    trace: PowerTrace, gaps: Gaps, *, peak_w: float | None = None, mean_w: float | None = None
) -> float:
    """Return the factor that gives a trace of power this peak, or this mean over time, in W.

    Gaps are filled first. Without a peak or mean the factor is 1. Raises TraceError if the trace is
    not of power, or is not above 0 at its peak or in the mean.
    """
    if peak_w is None and mean_w is None:
        return 1.0
    trace.require(WATT, "a scaled source")
    pieces = step_function(trace, gaps)
    if peak_w is not None:
        what, size, wanted = "peak", float(pieces.values.max()), peak_w
    else:
        lengths = np.diff(pieces.starts_s, append=pieces.end_s)
        size = float(pieces.values @ lengths / lengths.sum())
        what, wanted = "mean", mean_w or 0.0
    if size <= 0:
        raise TraceError(
            f"{trace.name}: its {what} is {size:g} W, which cannot be scaled; give another trace"
        )
    return wanted / size


_LEAP_YEAR_S: Final = 366 * DAY_S
_LEAP_DAY_S: Final = 59 * DAY_S
"""Where 29 February begins in a leap year."""


class _Part(NamedTuple):
    """A part of a run's year with one shift between calendar and clock."""

    start_s: float
    end_s: float
    shift_s: float
    """From run time to the second of the leap year."""


class CalendarYear(Signal):
    """A signal whose value is that of the same month, day and hour of its year.

    Args:
        year: over the 366 days of a leap year, from 0 s.
        zero_s: the run's zero on its own standard time, as if that were UTC: Unix time plus the
            zone's offset.
    """

    def __init__(self, year: Steps, *, zero_s: float) -> None:
        super().__init__(year.unit)
        self.year = year
        self._zero = float(time_on_grid(zero_s))
        self._part = _Part(0.0, 0.0, 0.0)

    def value(self, time_s: float) -> float:
        return self.year.value(time_s + self._part_at(time_s).shift_s)

    def next_change(self, time_s: float) -> float:
        part = self._part_at(time_s)
        edge = self.year.next_change(time_s + part.shift_s) - part.shift_s
        return min(edge, part.end_s) if edge > time_s else math.nextafter(time_s, math.inf)

    def changes(self, length_s: float) -> float:
        return self.year.changes(length_s)

    def values(self, times_s: npt.ArrayLike) -> Floats:
        local = np.asarray(times_s, dtype=np.float64) + self._zero
        years = np.floor(local).astype("datetime64[s]").astype("datetime64[Y]")
        within = local - years.astype("datetime64[s]").astype(np.int64)
        first_of_march = (years.astype("datetime64[M]") + 2).astype("datetime64[D]")
        common = (first_of_march - years.astype("datetime64[D]")).astype(np.int64) == 59
        return self.year.values(within + np.where(common & (within >= _LEAP_DAY_S), DAY_S, 0.0))

    def pieces(self, start_s: float, end_s: float) -> tuple[Floats, Floats]:
        check_span(start_s, end_s)
        starts, values = [np.empty(0)], [np.empty(0)]
        for part in self._parts(start_s, end_s):
            edges, column = self.year.pieces(part.start_s + part.shift_s, part.end_s + part.shift_s)
            starts.append(edges - part.shift_s)
            values.append(column)
        return np.concatenate(starts), np.concatenate(values)

    def integral(self, start_s: float, end_s: float) -> float:
        check_span(start_s, end_s)
        part = self._part_at(start_s)
        if end_s <= part.end_s:
            return self.year.integral(start_s + part.shift_s, end_s + part.shift_s)
        return math.fsum(
            self.year.integral(part.start_s + part.shift_s, part.end_s + part.shift_s)
            for part in self._parts(start_s, end_s)
        )

    def _parts(self, start_s: float, end_s: float) -> list[_Part]:
        parts, at = [], start_s
        while at < end_s:
            part = self._part_at(at)
            parts.append(_Part(at, min(part.end_s, end_s), part.shift_s))
            at = part.end_s
        return parts

    def _part_at(self, time_s: float) -> _Part:
        """Return the part of the calendar that contains an instant, and remember it."""
        if not self._part.start_s <= time_s < self._part.end_s:
            self._part = self._find(time_s)
        return self._part

    def _find(self, time_s: float) -> _Part:
        year = datetime.fromtimestamp(math.floor(time_s + self._zero), UTC).year
        first, after = (_new_year_s(number) - self._zero for number in (year, year + 1))
        if after - first == _LEAP_YEAR_S:
            return _Part(first, after, -first)
        leap_day = first + _LEAP_DAY_S
        if time_s < leap_day:
            return _Part(first, leap_day, -first)
        return _Part(leap_day, after, DAY_S - first)


def calendar_year(
    local: StepFunction, *, gaps: Gaps, step_s: float, unit: str, name: str, needed: str = ""
) -> Steps:
    """Return a leap year made from a trace; each day comes from the first year that has it.

    Args:
        local: the trace on the standard time of its place, as if that were UTC.
        gaps: how to fill what no year of the trace has.
        step_s: the trace's step in s.
        unit: of the values.
        name: of the trace, for messages.
        needed: the dates that the run needs, for messages.

    Raises TraceError if more is missing than the rule for gaps allows.
    """
    starts, values = np.array([0.0]), np.array([np.nan])
    first, last = (_year_of(at) for at in (local.starts_s[0], local.end_s - 1e-6))
    for year in range(last, first - 1, -1):  # the first year comes last, on top
        for block in _blocks(local, year):
            starts, values = _painted(starts, values, block)
    starts, values = _with_leap_day(starts, values)
    missing = _missing(starts, values)
    refused = [(at, end) for at, end in missing if gaps.refuses(end - at)]
    if refused:
        raise _not_a_year(name, dates(float(local.starts_s[0]), local.end_s), needed, gaps, refused)
    for at, end in missing:
        before = values[np.searchsorted(starts, at) - 1]  # wraps to the year's last value
        after = values[np.searchsorted(starts, end) % len(values)]
        filled = gaps.fill(at, end, before, after, step_s)
        starts, values = _painted(starts, values, StepFunction(*filled, end))
    return Steps(starts, values, _LEAP_YEAR_S, unit=unit, past_end="wrap", name=name)


def _blocks(local: StepFunction, year: int) -> list[StepFunction]:
    """Return the parts of a year that a trace has, on the seconds of a leap year."""
    first, after = _new_year_s(year), _new_year_s(year + 1)
    if after - first == _LEAP_YEAR_S:
        spans = [(first, after, -first)]
    else:
        leap_day = first + _LEAP_DAY_S
        spans = [(first, leap_day, -first), (leap_day, after, DAY_S - first)]
    blocks = [_cut(local, start, end, shift) for start, end, shift in spans]
    return [block for block in blocks if len(block.starts_s)]


def _cut(pieces: StepFunction, start_s: float, end_s: float, shift_s: float) -> StepFunction:
    start, end = max(start_s, float(pieces.starts_s[0])), min(end_s, pieces.end_s)
    if start >= end:
        return StepFunction(np.empty(0), np.empty(0), 0.0)
    first = int(np.searchsorted(pieces.starts_s, start, side="right")) - 1
    last = int(np.searchsorted(pieces.starts_s, end, side="left"))
    starts = pieces.starts_s[first:last].copy()
    starts[0] = start
    return StepFunction(starts + shift_s, pieces.values[first:last], end + shift_s)


def _painted(starts: Floats, values: Floats, block: StepFunction) -> tuple[Floats, Floats]:
    """Return a step function over the leap year, with a block of another laid on top."""
    at, end = block.starts_s[0], block.end_s
    low = int(np.searchsorted(starts, at, side="left"))
    high = int(np.searchsorted(starts, end, side="right"))
    new_starts, new_values = [starts[:low], block.starts_s], [values[:low], block.values]
    if end < _LEAP_YEAR_S:
        new_starts.append(np.array([end]))
        new_values.append(values[high - 1 : high])
        new_starts.append(starts[high:])
        new_values.append(values[high:])
    return np.concatenate(new_starts), np.concatenate(new_values)


def _with_leap_day(starts: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the year with 28 February repeated if 29 February is missing."""
    row = int(np.searchsorted(starts, _LEAP_DAY_S, side="right")) - 1
    if not np.isnan(values[row]):
        return starts, values
    day_before = _cut(
        StepFunction(starts, values, _LEAP_YEAR_S), _LEAP_DAY_S - DAY_S, _LEAP_DAY_S, DAY_S
    )
    return _painted(starts, values, day_before)


def _missing(starts: Floats, values: Floats) -> list[tuple[float, float]]:
    """Return the spans that no year of the trace has."""
    unknown = np.isnan(values)
    before = np.append(False, unknown[:-1])
    ends = np.append(starts, _LEAP_YEAR_S)
    known_again = np.flatnonzero(np.append(~unknown, True) & np.append(False, unknown))
    first = np.flatnonzero(unknown & ~before)
    return list(zip(starts[first].tolist(), ends[known_again].tolist(), strict=True))


def _not_a_year(
    name: str, known: str, needed: str, gaps: Gaps, missing: list[tuple[float, float]]
) -> TraceError:
    spans = ", ".join(
        f"{date_text(_new_year_s(2000) + at, '%d %b %H:%M')} for {format_duration(end - at)}"
        for at, end in missing
    )
    rule = "allows no gap" if gaps.rule == "error" else f"allows {format_duration(gaps.longest_s)}"
    run = f", and the run needs power {needed}" if needed else ""
    longest = max(end - at for at, end in missing)
    remedy = (
        "fill gaps (hold, interpolate, zero) up to that length"
        if longest <= LONGEST_ADVISED_S
        else "give a file of a whole year"
    )
    return TraceError(
        f"{name}: covers {known}{run}; align calendar needs every hour of a year, however short "
        f"the run: no year in it has {spans}, and the rule for gaps {rule}; align by epoch or "
        f"offset, or {remedy}"
    )


def dates(start_s: float, end_s: float) -> str:
    """Return ``from … to …``; both times in s, as if standard time were UTC."""
    start, end = (date_text(at, "%Y-%m-%d %H:%M") for at in (start_s, end_s))
    return f"from {start} to {end}"


def _new_year_s(year: int) -> float:
    return datetime(year, 1, 1, tzinfo=UTC).timestamp()


def _year_of(time_s: float) -> int:
    return datetime.fromtimestamp(math.floor(time_s), UTC).year
