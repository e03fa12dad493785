"""From a trace's rows to a step function without holes: labels, means, instants and gaps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, get_args

import numpy as np

from simkit.errors import TraceError, did_you_mean
from simkit.signal import Floats
from simkit.signal_trace import LONGEST_REGULAR_STEP, PowerTrace
from simkit.signal_zone import parse_zone
from simkit.units import format_duration

GapRule = Literal["error", "hold", "interpolate", "zero"]

GAPS_NAMED = 5
"""So many gaps a message names."""


@dataclass(frozen=True)
class Gaps:
    """What stands in for missing rows.

    Raises TraceError if the rule is unknown or the length negative.
    """

    rule: GapRule = "error"
    """``hold``: the last value; ``interpolate``: a straight line, in steps of the trace; ``zero``;
    ``error``: no gap is allowed."""
    longest_s: float = 10_800.0
    """Longer gaps are refused under any rule, in s."""

    def __post_init__(self) -> None:
        """Check both."""
        if self.rule not in get_args(GapRule):
            raise TraceError(
                f"gaps: {self.rule!r} is no rule{did_you_mean(self.rule, get_args(GapRule))}"
            )
        if not self.longest_s >= 0:
            raise TraceError(f"gaps: longest_s is {self.longest_s!r}; it must be 0 or more, in s")

    def refuses(self, length_s: float) -> bool:
        """Tell whether a gap is not allowed."""
        return self.rule == "error" or length_s > self.longest_s

    def fill(
        self, start_s: float, end_s: float, before: float, after: float, step_s: float
    ) -> tuple[Floats, Floats]:
        """Return the pieces that bridge [start_s, end_s): (k,) starts in s and (k,) values.

        Args:
            start_s: start of the gap.
            end_s: end of the gap.
            before: the value that ends where the gap begins.
            after: the value that begins where the gap ends.
            step_s: length of the pieces of a straight line.
        """
        if self.rule != "interpolate":
            return np.array([start_s]), np.array([0.0 if self.rule == "zero" else before])
        pieces = max(1, round((end_s - start_s) / step_s))
        share = np.arange(pieces) / pieces
        line = before + (after - before) * np.arange(1, pieces + 1) / (pieces + 1)
        return start_s + share * (end_s - start_s), line


class Pieces(NamedTuple):
    """A step function on Unix time without holes."""

    starts_s: Floats
    """(n,) ascending starts in s."""
    values: Floats
    """(n,) values."""
    end_s: float
    """Where the last piece ends."""


def pieces_of(trace: PowerTrace, gaps: Gaps) -> Pieces:
    """Turn a trace into a step function.

    A mean holds over its interval. A reading at an instant says nothing of the time between; there
    the mean of two neighbours holds, whose integral is that of the straight line between them, and
    the last reading for one more step. Where the next row is further away than 1.5 steps, a value
    holds for one step and a gap follows.

    Raises TraceError, naming the gaps, for gaps that are not allowed.
    """
    starts, ends, values = intervals(trace)
    holes = np.flatnonzero(starts[1:] > ends[:-1])
    refused = [row for row in holes.tolist() if gaps.refuses(starts[row + 1] - ends[row])]
    if refused:
        raise _too_long(trace, gaps, [(ends[row], starts[row + 1]) for row in refused])
    if len(holes):
        fills = [
            gaps.fill(ends[row], starts[row + 1], values[row], values[row + 1], trace.step_s)
            for row in holes.tolist()
        ]
        at = np.repeat(holes + 1, [len(times) for times, _ in fills])
        starts = np.insert(starts, at, np.concatenate([times for times, _ in fills]))
        values = np.insert(values, at, np.concatenate([filled for _, filled in fills]))
    return Pieces(starts, values, float(ends[-1]))


def intervals(trace: PowerTrace) -> tuple[Floats, Floats, Floats]:
    """Return starts, ends and values of the trace's own pieces, (n,) each; see `pieces_of`."""
    times, values, step = trace.time_s, trace.value, trace.step_s
    near = np.diff(times) <= LONGEST_REGULAR_STEP * step
    if trace.sampling == "mean" and trace.label == "end":
        starts = times - step
        starts[1:] = np.where(near, times[:-1], starts[1:])
        return starts, times, values
    ends = times + step
    ends[:-1] = np.where(near, times[1:], ends[:-1])
    if trace.sampling == "instant":
        values = values.copy()
        values[:-1] = np.where(near, (values[:-1] + values[1:]) / 2, values[:-1])
    return times, ends, values


def _too_long(trace: PowerTrace, gaps: Gaps, spans: list[tuple[float, float]]) -> TraceError:
    """Return an error that names the first gaps in the clock of the place."""
    zone = parse_zone(trace.time_zone)
    named = [
        f"from {datetime.fromtimestamp(start, zone):%Y-%m-%d %H:%M %Z} for "
        f"{format_duration(end - start)}"
        for start, end in spans[:GAPS_NAMED]
    ]
    more = f" and {len(spans) - GAPS_NAMED} more" if len(spans) > GAPS_NAMED else ""
    limit = (
        "the rule allows none; fill them with the rule hold, interpolate or zero"
        if gaps.rule == "error"
        else f"gaps up to {format_duration(gaps.longest_s)} are allowed; raise longest_s"
    )
    return TraceError(f"{trace.name}: gaps {', '.join(named)}{more}; {limit}, or mend the file")
