"""Alignment: which instant of a trace belongs to which instant of a run.

A job log of 1998 meets the weather of 2012 in one of three ways:

- `calendar`: same month, day and hour in the standard time of each place, whatever the year;
- `epoch`: same instant in history;
- `offset`: the run's zero is so many seconds into the trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from simkit.errors import TraceError, did_you_mean
from simkit.power.signal import Scaled, Signal
from simkit.power.signal_calendar import CalendarYear, calendar_year, dates
from simkit.power.signal_steps import PastEnd, Steps
from simkit.power.signal_trace import Gaps, Pieces, PowerTrace, pieces_of
from simkit.power.signal_zone import standard_offset_s

# MERGED The part of a run in which its jobs are there, over which every signal must be known.


class Span(NamedTuple):
    """Part of a run, in s on its clock."""

    first_s: float
    last_s: float


def check_covers(signal: Signal, span: Span, ahead_s: float = 0.0) -> None:
    """Raise TraceError unless a signal is known over a span of the run, and some time longer.

    Args:
        signal: on the run's clock.
        span: in which the jobs are there.
        ahead_s: how much further a forecast looks, in s.
    """
    first, last = span.first_s, span.last_s + ahead_s
    if signal.start_s <= first and signal.end_s >= last:
        return
    wanted = f"the jobs are there from {first:.10g} to {last:.10g} s"
    remedy = "give a longer file, past_end: hold or wrap, or another align"
    if ahead_s:
        wanted = (
            f"the forecast looks from {first:.10g} to {last:.10g} s, which is its horizon of "
            f"{ahead_s:.10g} s behind the end of the last job"
        )
        remedy = "give a shorter horizon, a longer file, past_end: hold or wrap, or another align"
    raise TraceError(
        f"is known from {signal.start_s:.10g} to {signal.end_s:.10g} s of the run, but {wanted}; "
        f"{remedy}"
    )


Align = Literal["calendar", "epoch", "offset"]


@dataclass(frozen=True)
class Alignment:
    """How a trace is laid on a run's clock.

    Raises TraceError if the kind is unknown, or a number not finite or of another kind.
    """

    kind: Align = "calendar"
    epoch_s: float | None = None
    """Unix time of the run's zero; `calendar` and `epoch` need it."""
    time_zone: str | None = None
    """Zone of the run's site, for `calendar`; None: that of the trace."""
    offset_s: float = 0.0
    """Seconds from the trace's start to the run's zero, for `offset`."""

    def __post_init__(self) -> None:
        """Check that kind and numbers go together."""
        if self.kind not in get_args(Align):
            known = did_you_mean(self.kind, get_args(Align))
            raise TraceError(f"align: {self.kind!r} is no kind{known}")
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
    """Make a signal on the run's clock of a trace.

    Args:
        trace: what was read.
        alignment: which instants belong together.
        gaps: what stands in for missing rows; None: none may be missing.
        past_end: what holds before the trace's start and past its end; a calendar has no end.
        factor: on all values, see `signal_scaling`.
        needed: part of the run in which the signal is needed, for messages; None: not said.

    Raises TraceError for gaps that are not allowed, or a calendar year that the trace does not
    fill.
    """
    gaps = gaps or Gaps()
    pieces = pieces_of(trace, gaps)
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
    trace: PowerTrace, pieces: Pieces, alignment: Alignment, gaps: Gaps, needed: Span | None
) -> CalendarYear:
    """Lay the trace's standard time on the run's."""
    epoch = alignment.epoch_s or 0.0
    there = standard_offset_s(trace.time_zone, float(pieces.starts_s[0]))
    here = standard_offset_s(alignment.time_zone or trace.time_zone, epoch)
    local = Pieces(pieces.starts_s + there, pieces.values, pieces.end_s + there)
    zero = epoch + here
    wanted = "" if needed is None else dates(zero + needed.first_s, zero + needed.last_s)
    year = calendar_year(
        local, gaps=gaps, step_s=trace.step_s, unit=trace.unit, name=trace.name, needed=wanted
    )
    return CalendarYear(year, zero_s=zero)
