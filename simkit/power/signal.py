"""A signal: a number that changes with time in steps, such as the power of a wind farm.

Think of a chart recorder whose pen only moves sideways or jumps. Between two jumps the value is
constant, so the energy between two instants is a sum of rectangles and no sampling loses any of
it. A signal is a plain function of time and knows no simulator.

Times are seconds on the run's clock, on the grid of `units.time_on_grid`, on which sums are exact.
Values are in the signal's unit: W, gCO2/kWh, price/kWh.

- here: `Constant`, `Sum`, `Scaled`, `Means`
- `signal_steps.Steps`: a recorded or given step function; `signal_align.aligned` makes one from a
  trace
- `signal_schedule.Schedule`: a pattern of the day or the week
- `signal_levels.Levels`: random levels
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.units import TIME_GRID, time_on_grid

WATT = "W"
CARBON = "gCO2/kWh"
PRICE = "price/kWh"


class Signal(ABC):
    """A piecewise constant function of time. Subclasses define `value` and `next_change`.

    Attributes:
        unit: the unit of its values.
        start_s: the first instant at which it has a value; minus infinity if always.
        end_s: the instant from which it has none; infinity if never.
    """

    def __init__(self, unit: str, start_s: float = -math.inf, end_s: float = math.inf) -> None:
        self.unit = unit
        self.start_s = start_s
        self.end_s = end_s

    @abstractmethod
    def value(self, time_s: float) -> float:
        """Return the value at an instant; at a jump, the value from there on.

        Raises TraceError if the signal has none there.
        """

    @abstractmethod
    def next_change(self, time_s: float) -> float:
        """Return the first instant after `time_s` (never `time_s`) at which the value may change.

        Infinity if it never changes again.
        """

    def changes(self, length_s: float) -> float:
        """Return about how often it changes in a span of this length, in s, without a look at it.

        0 where that is not known beforehand.
        """
        return 0.0

    def values(self, times_s: npt.ArrayLike) -> Floats:
        """Return the values at many instants, in the shape of `times_s`."""
        times = np.asarray(times_s, dtype=np.float64)
        flat = [self.value(time) for time in times.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(times.shape)

    def pieces(self, start_s: float, end_s: float) -> tuple[Floats, Floats]:
        """Return the constant pieces of a finite span: (n,) starts in s and (n,) values.

        The first starts at `start_s`, the last ends at `end_s`. Neighbours may be equal. An empty
        span has no pieces.
        """
        check_span(start_s, end_s)
        starts: list[float] = []
        at = start_s
        while at < end_s:
            starts.append(at)
            at = self.next_change(at)
        return np.array(starts, dtype=np.float64), self.values(starts)

    def integral(self, start_s: float, end_s: float) -> float:
        """Return the integral over [start_s, end_s): value times seconds, J for a power in W.

        Exact but for rounding of the products; their sum loses nothing.
        """
        starts, values = self.pieces(start_s, end_s)
        return math.fsum((values * np.diff(starts, append=end_s)).tolist())

    def mean(self, start_s: float, end_s: float) -> float:
        """Return the mean over a span; the value at its start if the span is empty."""
        if end_s == start_s:
            return self.value(start_s)
        return self.integral(start_s, end_s) / (end_s - start_s)


class Constant(Signal):
    """The same value always.

    Raises TraceError if the value is not finite.
    """

    def __init__(self, value: float, unit: str = WATT) -> None:
        super().__init__(unit)
        self.constant = _finite(value, "value of a constant signal")

    def value(self, time_s: float) -> float:
        return self.constant

    def next_change(self, time_s: float) -> float:
        return math.inf

    def values(self, times_s: npt.ArrayLike) -> Floats:
        return np.full(np.shape(times_s), self.constant)


class Sum(Signal):
    """The sum of signals in one unit: solar and wind together.

    Raises TraceError for no signals, or if their units differ.
    """

    def __init__(self, parts: Sequence[Signal]) -> None:
        if not parts:
            raise TraceError("a sum of no signals has no unit; give at least one signal")
        if len(units := {part.unit for part in parts}) > 1:
            raise TraceError(
                f"signals in {', '.join(sorted(units))} cannot be added; a sum needs one unit: "
                "convert them, or remove the odd one"
            )
        start, end = max(part.start_s for part in parts), min(part.end_s for part in parts)
        super().__init__(parts[0].unit, start, end)
        self.parts = tuple(parts)

    def value(self, time_s: float) -> float:
        return math.fsum(part.value(time_s) for part in self.parts)

    def next_change(self, time_s: float) -> float:
        return min(part.next_change(time_s) for part in self.parts)

    def changes(self, length_s: float) -> float:
        return sum(part.changes(length_s) for part in self.parts)

    def values(self, times_s: npt.ArrayLike) -> Floats:
        columns = [part.values(times_s) for part in self.parts]
        total: Floats = np.sum(columns, axis=0)
        return total

    def pieces(self, start_s: float, end_s: float) -> tuple[Floats, Floats]:
        starts = np.unique(np.concatenate([part.pieces(start_s, end_s)[0] for part in self.parts]))
        return starts, self.values(starts)

    def integral(self, start_s: float, end_s: float) -> float:
        return math.fsum(part.integral(start_s, end_s) for part in self.parts)


class Scaled(Signal):
    """A signal times a factor: a wind farm at the size of the site.

    Raises TraceError if the factor is not finite.
    """

    def __init__(self, signal: Signal, factor: float) -> None:
        super().__init__(signal.unit, signal.start_s, signal.end_s)
        self.signal = signal
        self.factor = _finite(factor, "factor of a scaled signal")

    def value(self, time_s: float) -> float:
        return self.factor * self.signal.value(time_s)

    def next_change(self, time_s: float) -> float:
        return self.signal.next_change(time_s) if self.factor else math.inf  # 0 times it is 0

    def changes(self, length_s: float) -> float:
        return self.signal.changes(length_s)

    def values(self, times_s: npt.ArrayLike) -> Floats:
        return self.factor * self.signal.values(times_s)

    def pieces(self, start_s: float, end_s: float) -> tuple[Floats, Floats]:
        starts, values = self.signal.pieces(start_s, end_s)
        return starts, self.factor * values

    def integral(self, start_s: float, end_s: float) -> float:
        return self.factor * self.signal.integral(start_s, end_s)


class Means(Signal):
    """A signal that keeps its mean for the whole of each step; steps begin at the run's zero.

    Energy is that of the signal itself, step by step, and nothing changes within a step: what plans
    hour by hour, and forecasts in steps, count on.

    Args:
        signal: that is averaged; where it has values for a part of a step alone, there is no mean.
        step_s: length of a step in s, above 0.

    Raises TraceError for a step out of its range, or a signal shorter than one.
    """

    def __init__(self, signal: Signal, step_s: float) -> None:
        if not TIME_GRID <= step_s < math.inf:
            raise TraceError(f"means: step is {step_s:g} s; it must be above 0 and finite")
        self.signal, self._step = signal, float(time_on_grid(step_s))
        start, end = signal.start_s, signal.end_s
        if start > -math.inf:
            start = math.ceil(start / self._step) * self._step
        if end < math.inf:
            end = math.floor(end / self._step) * self._step
        if start >= end:
            raise TraceError(f"means: the signal is shorter than a step of {self._step:g} s")
        super().__init__(signal.unit, start, end)
        self._last: tuple[int, float] | None = None  # a run asks for one step again and again

    def value(self, time_s: float) -> float:
        step = math.floor(time_s / self._step)
        if self._last is None or self._last[0] != step:
            self._last = step, self._mean(step)
        return self._last[1]

    def next_change(self, time_s: float) -> float:
        after = (math.floor(time_s / self._step) + 1) * self._step
        return math.inf if after > self.end_s else max(after, self.start_s)

    def changes(self, length_s: float) -> float:
        return max(length_s / self._step, self.signal.changes(length_s))

    def values(self, times_s: npt.ArrayLike) -> Floats:
        times = np.asarray(times_s, dtype=np.float64)
        steps, where = np.unique(np.floor(times / self._step), return_inverse=True)
        means = np.array([self._mean(int(step)) for step in steps.tolist()], dtype=np.float64)
        return means[where].reshape(times.shape)

    def _mean(self, step: int) -> float:
        begin = step * self._step
        return self.signal.mean(begin, begin + self._step)


def check_span(start_s: float, end_s: float) -> None:
    """Raise ValueError if a span is not finite or ends before it starts."""
    if not -math.inf < start_s <= end_s < math.inf:
        raise ValueError(f"a span from {start_s!r} to {end_s!r} s; it must be finite and ascending")


def _finite(number: float, what: str) -> float:
    if not math.isfinite(number):
        raise TraceError(f"{what}: {number!r}; it must be a finite number")
    return float(number)
