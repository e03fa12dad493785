"""A trace of power (or carbon intensity, or price) as a reader returns it: numbers with instants.

It says what the numbers mean: their unit, whether they are means over an interval or readings at
an instant, whether the time given is the start or the end of the interval, and where on Earth the
clock of the place stands. `signal_align.aligned` makes a signal on a run's clock of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from simkit.errors import TraceError, did_you_mean
from simkit.signal import Floats
from simkit.signal_zone import parse_zone

if TYPE_CHECKING:
    from simkit.workload import RowReport

Label = Literal["start", "end"]
Sampling = Literal["mean", "instant"]

LONGEST_REGULAR_STEP = 1.5
"""A distance above so many steps is a gap: at least one row is missing."""


@dataclass(frozen=True)
class PowerTrace:
    """A recorded series.

    Raises TraceError if times and values are none, not equally many, not finite or not ascending,
    or if a declaration is none of the known ones.
    """

    time_s: Floats
    """(n,) ascending Unix times in s."""
    value: Floats
    """(n,) values in `unit`."""
    unit: str
    """``W``, ``gCO2/kWh``, ``price/kWh``, ``m/s``, …"""
    time_zone: str
    """Zone of the place; calendar alignment compares hours of its standard time."""
    sampling: Sampling = "mean"
    """``mean``: of an interval; ``instant``: read at the time given."""
    label: Label = "start"
    """Which end of its interval a mean's time is; without meaning for instants."""
    step_s: float = 0.0
    """Regular distance of the times in s; 0: the most frequent one."""
    name: str = "trace"
    """How messages call it: file and column."""
    report: RowReport | None = None
    """What became of the rows of the file."""
    inputs: tuple[Path, ...] = field(default=())
    """The files read."""

    def __post_init__(self) -> None:
        """Check the columns, and find the step if it is not given."""
        self._check_choices()
        self._check_columns()
        parse_zone(self.time_zone)
        if self.step_s == 0:
            object.__setattr__(self, "step_s", _usual_step(self))

    def _check_choices(self) -> None:
        for what, value, choices in (
            ("label", self.label, get_args(Label)),
            ("sampling", self.sampling, get_args(Sampling)),
        ):
            if value not in choices:
                known = did_you_mean(str(value), choices)
                raise TraceError(f"{self.name}: {what} {value!r} is none{known}")
        if not 0 <= self.step_s < np.inf:
            raise TraceError(f"{self.name}: step_s {self.step_s!r}; it must be positive, in s")

    def _check_columns(self) -> None:
        times, values = self.time_s, self.value
        if len(times) == 0 or times.shape != values.shape or times.ndim != 1:
            raise TraceError(
                f"{self.name}: {times.shape} times and {values.shape} values; a trace needs as "
                "many values as times, at least one"
            )
        if not (np.isfinite(times).all() and np.isfinite(values).all()):
            raise TraceError(
                f"{self.name}: a time or value is not finite; leave such rows out, as a gap"
            )
        if (wrong := np.flatnonzero(np.diff(times) <= 0)).size:
            row = int(wrong[0]) + 1
            raise TraceError(
                f"{self.name}: row {row + 1} has Unix time {times[row]:.10g}, not after "
                f"{times[row - 1]:.10g}; times must ascend: sort them, leave out repeated ones"
            )

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.time_s)

    def require(self, unit: str, purpose: str) -> None:
        """Raise TraceError unless the values are in `unit`, which `purpose` needs."""
        if self.unit != unit:
            raise TraceError(
                f"{self.name}: values in {self.unit}, but {purpose} is in {unit}; give another "
                "file or column, or declare the unit that it has"
            )

    def scaled(self, factor: float) -> PowerTrace:
        """Return the trace with all values times a factor."""
        return replace(self, value=self.value * factor)


def _usual_step(trace: PowerTrace) -> float:
    """Return the most frequent distance of neighbours, the smallest of equally frequent ones."""
    if len(trace) < 2:
        raise TraceError(
            f"{trace.name}: a single row does not tell its step{_left_out(trace.report)}; "
            "give step_s, the length of an interval"
        )
    steps, counts = np.unique(np.diff(trace.time_s), return_counts=True)
    return float(steps[np.argmax(counts)])


def _left_out(report: RowReport | None) -> str:
    """Return which rows of a file are left out, and by which rule; empty if none."""
    if report is None or not report.dropped:
        return ""
    rules = []
    for rule, count in report.dropped.items():
        first = report.lines.get(rule, [])
        more = ", …" if len(first) < count else ""
        rules.append(f"{rule} {count} (line {', '.join(map(str, first))}{more})")
    return (
        f"; {sum(report.dropped.values())} of {report.read} rows are left out: {', '.join(rules)}"
    )
