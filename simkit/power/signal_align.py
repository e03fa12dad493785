"""Alignment: which instant of a trace is which instant of a run; and a trace made a signal.

A job log of 1998 meets the weather of 2012 in one of three ways:

- `calendar`: same month, day and hour in the standard time of each place, in any year;
- `epoch`: same instant in history;
- `offset`: the run's zero is so many seconds into the trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from simkit.errors import TraceError, did_you_mean
from simkit.power.signal import WATT, Scaled, Signal
from simkit.power.signal_calendar import CalendarYear, calendar_year, dates
from simkit.power.signal_steps import PastEnd, Steps
from simkit.power.signal_trace import (
    LONGEST_ADVISED_S,
    Gaps,
    PowerTrace,
    StepFunction,
    step_function,
)
from simkit.power.signal_zone import is_utc, standard_offset_s


class Span(NamedTuple):
    """The part of a run in which its jobs run, in s on its clock."""

    first_s: float
    last_s: float


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
                f"align {self.kind}: the run's epoch is {self.epoch_s!r}; it needs the Unix time "
                "of the run's zero: give it, or align by offset"
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
