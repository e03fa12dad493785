"""The part of a run in which its jobs are there, over which every signal must be known."""

from __future__ import annotations

from typing import NamedTuple

from simkit.errors import TraceError
from simkit.signal import Signal


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
