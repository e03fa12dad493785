"""A trace of power, carbon intensity or price as a reader returns it: numbers with instants.

It states what the numbers mean: their unit, whether they are means over an interval or readings at
an instant, whether a time is the start or the end of its interval, and the time zone of the place.
`step_function` fills gaps between its rows; `signal_align.aligned` lays it on a run's clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, get_args

import numpy as np
from pydantic import model_validator

from simkit import shown
from simkit.arrays import Floats
from simkit.dates import FIRST_YEAR, LAST_YEAR, date_text, is_dated, parse_zone
from simkit.errors import TraceError, did_you_mean
from simkit.sections import Facts, InfiniteIsNone, TimeSpent
from simkit.text import counted, printable
from simkit.units import format_duration
from simkit.workload import RowReport

Label = Literal["start", "end"]
Sampling = Literal["mean", "instant"]

LONGEST_REGULAR_STEP: Final = 1.5
"""Rows more than this many steps apart have a gap between them: a row is missing."""
LONGEST_ADVISED_S: Final = 86_400.0
"""A value does not stand in for what is missing for longer: sun, wind and prices change by then."""
_GAPS_NAMED: Final = 5
"""How many gaps a message names."""


@dataclass(frozen=True)
class PowerTrace:
    """A recorded series.

    Raises TraceError if there are no rows or not as many times as values, if a number is not finite
    or times do not ascend, or if a declaration is unknown.
    """

    time_s: Floats
    """(n,) ascending Unix times in s."""
    value: Floats
    """(n,) values in `unit`."""
    unit: str
    """``W``, ``gCO2/kWh``, ``price/kWh``, ``m/s``, …"""
    time_zone: str
    """Zone of the place. Calendar alignment compares hours of its standard time."""
    place_known: bool = True
    """Whether `time_zone` is that of the place; False: a file in UTC that does not say where."""
    sampling: Sampling = "mean"
    """``mean``: over an interval; ``instant``: read at the time given."""
    label: Label = "start"
    """Which end of its interval a mean's time is; ignored for instants."""
    step_s: float = 0.0
    """Regular step of the times in s; 0: the most frequent one."""
    step_declared: bool | None = None
    """Whether the step was declared, not found; None: if `step_s` is given. See `intervals`."""
    name: str = "trace"
    """Its name in messages: file and column."""
    report: RowReport | None = None
    """Which rows of the file were read, repaired and dropped."""
    inputs: tuple[Path, ...] = field(default=())
    """The files read."""
    typical: bool = False
    """Whether it is a typical year: months and days mean something, the year does not."""
    notes: tuple[str, ...] = ()
    """What the reader took for granted, such as a unit from a column's name."""
    warnings: tuple[str, ...] = ()
    """What the file contradicts, each beginning with ``warning:``."""

    def __post_init__(self) -> None:
        """Check everything, and find the step if it is not given."""
        for what, value, known in (
            ("label", self.label, get_args(Label)),
            ("sampling", self.sampling, get_args(Sampling)),
        ):
            if value not in known:
                hint = did_you_mean(str(value), known)
                raise TraceError(f"{self.name}: {what} {value!r} is unknown{hint}")
        if not 0 <= self.step_s < np.inf:
            raise TraceError(f"{self.name}: step_s {self.step_s!r}; it must be positive, in s")
        self._check_columns()
        parse_zone(self.time_zone)
        if self.step_declared is None:
            object.__setattr__(self, "step_declared", self.step_s > 0)
        if self.step_s == 0:
            object.__setattr__(self, "step_s", _usual_step(self))

    def _check_columns(self) -> None:
        times, values = self.time_s, self.value
        if len(times) == 0 or times.shape != values.shape or times.ndim != 1:
            raise TraceError(
                f"{self.name}: {times.shape} times and {values.shape} values; a trace needs as "
                "many values as times, at least one"
            )
        if not (np.isfinite(times).all() and np.isfinite(values).all()):
            raise TraceError(
                f"{self.name}: a time or value is not finite; drop such rows, as a gap"
            )
        if far := next((at for at in times[[0, -1]].tolist() if not is_dated(at)), None):
            raise TraceError(
                f"{self.name}: Unix time {far:.15g} is beyond the years {FIRST_YEAR} to "
                f"{LAST_YEAR}; times are in s since 1970"
            )
        if (wrong := np.flatnonzero(np.diff(times) <= 0)).size:
            row = int(wrong[0]) + 1
            raise TraceError(
                f"{self.name}: row {row + 1} has Unix time {times[row]:.10g}, not after "
                f"{times[row - 1]:.10g}; times must ascend: sort them, drop repeated ones"
            )

    def __repr__(self) -> str:
        return printable(f"<{self.name}: {', '.join(self._facts())}>")

    def _repr_html_(self) -> str:
        rows = {} if self.report is None else dict(self.report.counts())
        read = {} if self.report is None else {"rows": self.report.sentence(), **rows}
        notes = [*self.notes, *(text.removeprefix("warning: ") for text in self.warnings)]
        head = shown.heading(self.name, *self._facts())
        return head + shown.facts(read) + shown.notes(notes)

    def _facts(self) -> list[str]:
        """Return size, unit, step, period, zone and range as short texts."""
        first, last = (date_text(float(at), "%Y-%m-%d") for at in self.time_s[[0, -1]])
        low, high = float(self.value.min()), float(self.value.max())
        return [
            f"{counted(len(self), 'value')} in {self.unit}",
            f"every {format_duration(self.step_s)}",
            f"{first} to {last}",
            self.time_zone,
            f"{low:,.6g} to {high:,.6g}",
        ]

    def __len__(self) -> int:
        return len(self.time_s)

    def require(self, unit: str, purpose: str) -> None:
        """Raise TraceError if the values are not in `unit`, which `purpose` needs."""
        if self.unit != unit:
            raise TraceError(
                f"{self.name}: values in {self.unit}, but {purpose} is in {unit}; give another "
                "file or column, or declare its true unit"
            )

    def scaled(self, factor: float) -> PowerTrace:
        """Return the trace with all values multiplied by a factor."""
        return replace(self, value=self.value * factor)


def _usual_step(trace: PowerTrace) -> float:
    """Return the most frequent step between neighbours, the smallest of equally frequent ones."""
    if len(trace) < 2:
        raise TraceError(
            f"{trace.name}: the step cannot be found from a single row{_dropped(trace.report)}; "
            "give step, the length of an interval"
        )
    steps, counts = np.unique(np.diff(trace.time_s), return_counts=True)
    return float(steps[np.argmax(counts)])


def _dropped(report: RowReport | None) -> str:
    """Return how many rows of a file were dropped, and by which rules; empty if none."""
    if report is None or not report.dropped:
        return ""
    rules = []
    for rule, count in report.dropped.items():
        first = report.lines.get(rule, [])
        more = ", …" if len(first) < count else ""
        rules.append(f"{rule} {count} (line {', '.join(map(str, first))}{more})")
    return (
        f"; {sum(report.dropped.values())} of {report.read} rows were dropped: {', '.join(rules)}"
    )


class Gaps(Facts):
    """How missing rows of a file are filled."""

    noun = "gaps"

    rule: Literal["error", "hold", "interpolate", "zero"] = "error"
    """error: none may be missing; hold: the last value; interpolate: a straight line; zero."""
    longest: Annotated[TimeSpent | None, InfiniteIsNone] = 10_800.0
    """Longer gaps are an error under every rule; null: no limit."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"rule": value} if isinstance(value, str) else value

    def refuses(self, length_s: float) -> bool:
        """Return whether a gap of this length is not allowed."""
        return self.rule == "error" or length_s > self.longest_s

    @property
    def longest_s(self) -> float:
        """`longest`; infinite without a limit."""
        return math.inf if self.longest is None else self.longest

    def pieces(self, trace: PowerTrace) -> float:
        """Return about how many pieces fill the gaps of a trace, without making them."""
        if self.rule != "interpolate":
            return 0.0
        starts, ends, _ = intervals(trace)
        lengths = np.maximum(starts[1:] - ends[:-1], 0.0)
        return float(lengths[lengths <= self.longest_s].sum() / trace.step_s)

    def fill(
        self, start_s: float, end_s: float, before: float, after: float, step_s: float
    ) -> tuple[Floats, Floats]:
        """Return the pieces that fill [start_s, end_s): (k,) starts in s and (k,) values.

        `before` is the last value before the gap, `after` the first one after it; `step_s` is the
        length of the pieces of a straight line.
        """
        if self.rule != "interpolate":
            return np.array([start_s]), np.array([0.0 if self.rule == "zero" else before])
        pieces = max(1, round((end_s - start_s) / step_s))
        share = np.arange(pieces) / pieces
        line = before + (after - before) * np.arange(1, pieces + 1) / (pieces + 1)
        return start_s + share * (end_s - start_s), line


class StepFunction(NamedTuple):
    """A step function of Unix time without gaps."""

    starts_s: Floats
    """(n,) ascending starts in s."""
    values: Floats
    """(n,) values."""
    end_s: float
    """Where the last piece ends."""


def step_function(trace: PowerTrace, gaps: Gaps) -> StepFunction:
    """Make a step function from a trace.

    A mean holds over its interval. A reading at an instant says nothing about the time between
    readings: there the mean of the two neighbours holds, whose integral is that of the straight
    line between them; the last reading holds for one more interval. If the next row is more than
    1.5 steps away, a value holds for one interval and a gap follows. See `intervals`.

    Raises TraceError, naming the gaps, if some are not allowed.
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
    return StepFunction(starts, values, float(ends[-1]))


def intervals(trace: PowerTrace) -> tuple[Floats, Floats, Floats]:
    """Return (n,) starts, ends and values of the trace's own pieces; see `step_function`.

    An interval lasts until the next row (from the previous row if times are ends). The last one
    (the first) and those next to a gap have no length: they are as long as the interval on their
    other side, since a file may change its step, or as the step if that is a gap, too, or if the
    step was declared.
    """
    times, values = trace.time_s, trace.value
    distance = np.diff(times)
    near = distance <= LONGEST_REGULAR_STEP * trace.step_s
    known = np.where(near, distance, trace.step_s)
    if trace.step_declared:
        known = np.full(len(known), trace.step_s)
    if trace.sampling == "mean" and trace.label == "end":
        starts = times - np.append(known, trace.step_s)
        starts[1:] = np.where(near, times[:-1], starts[1:])
        return starts, times, values
    ends = times + np.append(trace.step_s, known)
    ends[:-1] = np.where(near, times[1:], ends[:-1])
    if trace.sampling == "instant":
        values = values.copy()
        values[:-1] = np.where(near, (values[:-1] + values[1:]) / 2, values[:-1])
    return times, ends, values


def long_fill_warning(trace: PowerTrace, gaps: Gaps) -> str:
    """Return a warning if a rule fills gaps longer than a day; empty if it does not."""
    starts, ends, _ = intervals(trace)
    open_s = starts[1:] - ends[:-1]
    filled = open_s[(open_s > LONGEST_ADVISED_S) & (open_s <= gaps.longest_s)]
    if gaps.rule == "error" or not len(filled):
        return ""
    return (
        f"warning: {trace.name}: {counted(len(filled), 'gap')} of more than a day, the longest "
        f"{format_duration(float(filled.max()))}, filled by the rule {gaps.rule}: what is there is "
        "made up"
    )


def _too_long(trace: PowerTrace, gaps: Gaps, spans: list[tuple[float, float]]) -> TraceError:
    """Return an error that names the first gaps, in local time."""
    zone = parse_zone(trace.time_zone)
    named = [
        f"from {date_text(start, '%Y-%m-%d %H:%M %Z', zone)} for {format_duration(end - start)}"
        for start, end in spans[:_GAPS_NAMED]
    ]
    more = f" and {len(spans) - _GAPS_NAMED} more" if len(spans) > _GAPS_NAMED else ""
    limit = (
        "the rule allows none"
        if gaps.rule == "error"
        else f"gaps up to {format_duration(gaps.longest_s)} are allowed"
    )
    longest = max(end - start for start, end in spans)
    if longest > LONGEST_ADVISED_S:
        remedy = (
            "no value stands in for more than a day: add the missing rows, or cut the file to a "
            "part without such gaps"
        )
        if not trace.typical:
            remedy += "; if its months are of different years, set typical_year: true"
    elif gaps.rule == "error":
        and_longest = f" and longest: {longest / 3600:g}h" if longest > gaps.longest_s else ""
        remedy = f"fill them with the rule hold, interpolate or zero{and_longest}, or fix the file"
    else:
        remedy = "raise longest, or fix the file"
    return TraceError(f"{trace.name}: gaps {', '.join(named)}{more}; {limit}; {remedy}")
