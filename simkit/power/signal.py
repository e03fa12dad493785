"""A signal: a number that changes with time in steps, such as the power of a wind farm.

Think of a chart recorder whose pen only moves sideways or jumps. Between two jumps the value is
constant, so the energy between two instants is a sum of rectangles and no sampling loses any of
it. A signal is a plain function of time and knows no simulator.

Times are seconds on the run's clock, on the grid of `units.time_on_grid`, on which sums are exact.
Values are in the signal's unit: W, gCO2/kWh, price/kWh.

- here: `Constant`, `Sum`, `Scaled`, `Means`, `Checked`, and `Steps`, a recorded or given step
  function; `signal_align.aligned` makes one from a trace
- `signal_patterns`: `Schedule`, a pattern of the day or the week, and `Levels`, random levels
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import TraceError, did_you_mean
from simkit.units import DAY_S, TIME_GRID, format_duration, time_on_grid

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
            if not (after := self.next_change(at)) > at:  # a call less for each piece
                after = checked_change(self, at)
            at = after
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


Amount = float | Signal
"""A number that never changes, or a signal."""


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


def as_signal(amount: Amount, unit: str) -> Signal:
    """Return a signal, or the constant signal of a number in this unit."""
    return amount if isinstance(amount, Signal) else Constant(amount, unit)


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


def parts_of(signal: Signal) -> Iterator[Signal]:
    """Yield a signal and all that it is made of."""
    yield signal
    for held in vars(signal).values():
        for part in held if isinstance(held, (list, tuple)) else (held,):
            if isinstance(part, Signal):
                yield from parts_of(part)


def checked_change(signal: Signal, time_s: float, where: str = "") -> float:
    """Return a signal's next change; raises TraceError unless it is after `time_s`.

    `where` begins the message.
    """
    after = signal.next_change(time_s)
    if not (isinstance(after, Real) and after > time_s):
        raise TraceError(
            f"{where}{type(signal).__name__}.next_change({time_s:.9g}) is {after!r}; it must be a "
            "later time in s, or infinity"
        )
    return after


class Checked(Signal):
    """A signal of another package, whose answers are checked for as long as a run goes.

    Args:
        signal: that is asked.
        least: the smallest value allowed.
        place: dotted place in the scenario; begins messages.

    Every answer raises TraceError, with the signal's class and the time, for a value that is not a
    finite number or is too small, and for a change that is not ahead. Whole arrays are asked for
    where the class that defines `value` and `next_change`, or one below it, has a method of its own
    for them; else values are asked for one by one.
    """

    def __init__(self, signal: Signal, least: float, place: str = "") -> None:
        super().__init__(signal.unit, signal.start_s, signal.end_s)
        self.signal, self._least = signal, least
        self._where = f"{place}: " if place else ""
        self._quick = frozenset(_quick_methods(type(signal)))

    def value(self, time_s: float) -> float:
        value = self.signal.value(time_s)
        if isinstance(value, Real) and math.isfinite(value) and value >= self._least:
            return float(value)
        raise self._wrong("value", (time_s,), value, self.unit, self._least)

    def next_change(self, time_s: float) -> float:
        return checked_change(self.signal, time_s, self._where)

    def changes(self, length_s: float) -> float:
        return self.signal.changes(length_s)

    def values(self, times_s: npt.ArrayLike) -> Floats:
        if "values" not in self._quick:
            return super().values(times_s)
        times = np.asarray(times_s, dtype=np.float64)
        found = self.signal.values(times)
        return self._sound(self._floats("values", (), found), times)

    def pieces(self, start_s: float, end_s: float) -> tuple[Floats, Floats]:
        if "pieces" not in self._quick:
            return super().pieces(start_s, end_s)
        span, found = (start_s, end_s), self.signal.pieces(start_s, end_s)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise self._error("pieces", span, f"is {found!r}; it must be starts and values")
        starts = self._floats("pieces", span, found[0])
        edges = np.append(starts, end_s)
        if edges[0] != start_s or not (np.diff(edges) >= 0).all():
            raise self._error("pieces", span, "has starts that do not ascend from the first time")
        return starts, self._sound(self._floats("pieces", span, found[1]), starts)

    def integral(self, start_s: float, end_s: float) -> float:
        if "integral" not in self._quick:
            return super().integral(start_s, end_s)
        found = self.signal.integral(start_s, end_s)
        least = self._least * (end_s - start_s) if end_s > start_s else 0.0
        if isinstance(found, Real) and math.isfinite(found) and found >= least:
            return float(found)
        raise self._wrong("integral", (start_s, end_s), found, f"{self.unit} s", least)

    def _floats(self, method: str, times: tuple[float, ...], answer: object) -> Floats:
        try:
            return np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._error(method, times, f"is {answer!r}; it must be numbers") from None

    def _sound(self, found: Floats, times: Floats) -> Floats:
        """Return values, one for each time, that are all allowed."""
        if found.shape != times.shape:
            raise TraceError(
                f"{self._where}{type(self.signal).__name__}: {found.size} values for {times.size} "
                "times; values and pieces return one for each"
            )
        sound = np.isfinite(found) & (found >= self._least)
        if not sound.all():
            row = int(np.argmin(sound.ravel()))
            time, value = float(times.ravel()[row]), float(found.ravel()[row])
            raise self._wrong("value", (time,), value, self.unit, self._least)
        return found

    def _wrong(
        self, method: str, times: tuple[float, ...], answer: object, unit: str, least: float
    ) -> TraceError:
        """Return the error for an answer that is not a finite number, or too small."""
        if isinstance(answer, Real) and math.isfinite(answer):
            rule = f"is {answer:g} {unit}; it must be at least {least:g}"
        else:
            rule = f"is {answer!r}; it must be a finite number"
        return self._error(method, times, rule)

    def _error(self, method: str, times: tuple[float, ...], what: str) -> TraceError:
        given = ", ".join(f"{time:.9g}" for time in times)
        return TraceError(f"{self._where}{type(self.signal).__name__}.{method}({given}) {what}")


def _quick_methods(kind: type[Signal]) -> Iterator[str]:
    """Yield the methods for whole spans that know what `value` and `next_change` of a class say."""

    def definer(name: str) -> type:
        return next(base for base in kind.__mro__ if name in vars(base))

    for name in ("values", "pieces", "integral"):
        if all(issubclass(definer(name), definer(basic)) for basic in ("value", "next_change")):
            yield name


def check_span(start_s: float, end_s: float) -> None:
    """Raise ValueError if a span is not finite or ends before it starts."""
    if not -math.inf < start_s <= end_s < math.inf:
        raise ValueError(f"a span from {start_s!r} to {end_s!r} s; it must be finite and ascending")


def _finite(number: float, what: str) -> float:
    if not math.isfinite(number):
        raise TraceError(f"{what}: {number!r}; it must be a finite number")
    return float(number)


PastEnd = Literal["error", "hold", "wrap"]

BLOCK: Final = 512
"""Pieces whose integrals are stored as one number, so a year is a sum of a few hundred."""
_NONE: Final[Floats] = np.empty(0)


class Steps(Signal):
    """A step function over [first start, end).

    The last piece found is remembered, since a simulation asks for later and later times. Others
    cost a binary search.

    Args:
        starts_s: (n,) ascending instants in s at which the pieces start.
        values: (n,) finite values; equal neighbours are joined.
        end_s: where the last piece ends.
        unit: of the values.
        past_end: what holds before the first start and from the end on.
        name: its name in messages, such as the path of its file.

    Raises TraceError for no pieces, times that do not ascend, numbers that are not finite, or an
    unknown rule.
    """

    def __init__(
        self,
        starts_s: npt.ArrayLike,
        values: npt.ArrayLike,
        end_s: float,
        *,
        unit: str = WATT,
        past_end: PastEnd = "error",
        name: str = "signal",
    ) -> None:
        edges, kept = _checked(starts_s, values, end_s, name)
        if past_end not in get_args(PastEnd):
            known = did_you_mean(past_end, get_args(PastEnd))
            raise TraceError(f"{name}: past_end {past_end!r} is unknown{known}")
        self.name = name
        self.past_end = past_end
        self._first, self._last = float(edges[0]), float(edges[-1])
        self._length = self._last - self._first
        if past_end == "hold":
            edges[0], edges[-1] = -math.inf, math.inf
        bounds = (self._first, self._last) if past_end == "error" else (-math.inf, math.inf)
        super().__init__(unit, *bounds)
        # Python's arrays are several times faster than NumPy's to read one number at a time.
        self._edges, self._values = array("d", edges.tobytes()), array("d", kept.tobytes())
        self._edge_array: Floats = np.array(self._edges)
        self._value_array: Floats = np.array(self._values)
        self._blocks = _block_integrals(self._edge_array, self._value_array)
        self._cursor = 0

    def value(self, time_s: float) -> float:
        return self._values[self._index(self._inside(time_s))]

    def next_change(self, time_s: float) -> float:
        """Return the next edge; the end is one if the signal has no value past it."""
        if self.past_end == "error" and time_s < self._first:
            return self._first
        if self.past_end == "error" and time_s >= self._last:
            return math.inf
        inside = self._inside(time_s)
        edge = self._edges[self._index(inside) + 1]
        if self.past_end == "wrap":
            if edge == self._last and self._values[0] == self._values[-1]:
                edge = self._last + self._edges[1] - self._first
                if len(self._values) == 1:
                    return math.inf
            edge += time_s - inside
        return edge if edge > time_s else math.nextafter(time_s, math.inf)

    def changes(self, length_s: float) -> float:
        times = max(length_s / self._length, 1.0) if self.past_end == "wrap" else 1.0
        return times * (len(self._values) - 1)

    def values(self, times_s: npt.ArrayLike) -> Floats:
        times = np.asarray(times_s, dtype=np.float64)
        if self.past_end == "wrap":
            times = self._first + np.mod(times - self._first, self._length)
        elif self.past_end == "error" and times.size:
            self._inside(float(times.min()))
            self._inside(float(times.max()))
        rows = np.searchsorted(self._edge_array, times, side="right") - 1
        # A remainder may round up to the whole length.
        return self._value_array[np.minimum(rows, len(self._values) - 1)]

    def pieces(self, start_s: float, end_s: float) -> tuple[Floats, Floats]:
        check_span(start_s, end_s)
        starts, values, at = [], [], start_s
        while at < end_s:
            inside, until = self._stretch(at, end_s)
            first, last = self._index(inside), self._index_before(inside + (until - at))
            edges = self._edge_array[first : last + 1] + (at - inside)
            edges[0] = at
            starts.append(edges)
            values.append(self._value_array[first : last + 1])
            at = until
        return (np.concatenate(starts), np.concatenate(values)) if starts else (_NONE, _NONE)

    def integral(self, start_s: float, end_s: float) -> float:
        """Return the integral over a span; whole repetitions are multiplied, not walked through."""
        check_span(start_s, end_s)
        if start_s == end_s:
            return 0.0
        inside, until = self._stretch(start_s, end_s)
        head = self._within(inside, inside + (until - start_s))
        if until == end_s:
            return head
        repetitions, rest = divmod(end_s - until, self._length)
        total = repetitions * self._within(self._first, self._last)
        return math.fsum((head, total, self._within(self._first, self._first + rest)))

    def _inside(self, time_s: float) -> float:
        """Return the instant within the known span whose value holds at a time."""
        if self.past_end == "wrap":
            inside = self._first + (time_s - self._first) % self._length
            return inside if inside < self._last else self._first
        if self.past_end == "error" and not self._first <= time_s < self._last:
            near = max(self._first - time_s, time_s - self._last) <= DAY_S
            raise TraceError(
                f"{self.name}: no value at {time_s:.10g} s "
                f"({_beyond(time_s, self._first, self._last)}); it covers "
                f"{self._first:.10g} to {self._last:.10g} s of the run: give a longer trace, or "
                f"past_end {'hold or ' if near else ''}wrap"
            )
        return time_s

    def _stretch(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Return where a span begins in the known one, and when it ends or that repeats."""
        inside = self._inside(start_s)
        until = start_s + (self._last - inside) if self.past_end == "wrap" else end_s
        if self.past_end == "error" and end_s > self._last:
            self._inside(end_s)
        return inside, min(until, end_s)

    def _index(self, time_s: float) -> int:
        """Return the piece that contains an instant of the known span."""
        edges, row = self._edges, self._cursor
        if edges[row] <= time_s < edges[row + 1]:
            return row
        row += 1
        if row >= len(self._values) or not edges[row] <= time_s < edges[row + 1]:
            row = min(bisect_right(edges, time_s) - 1, len(self._values) - 1)
        self._cursor = row
        return row

    def _index_before(self, end_s: float) -> int:
        """Return the piece that contains the time just before an instant of the known span."""
        row = self._index(end_s)
        return row - 1 if self._edges[row] == end_s else row

    def _within(self, start_s: float, end_s: float) -> float:
        """Return the integral over a span within the known one."""
        if start_s == end_s:
            return 0.0
        first, last = self._index(start_s), self._index_before(end_s)
        if first == last:
            return self._values[first] * (end_s - start_s)
        terms = [
            self._values[first] * (self._edges[first + 1] - start_s),
            self._values[last] * (end_s - self._edges[last]),
        ]
        low, high = -(-(first + 1) // BLOCK), last // BLOCK
        if low < high:
            terms += self._blocks[low:high].tolist()
            terms += self._rectangles(first + 1, low * BLOCK)
            terms += self._rectangles(high * BLOCK, last)
        else:
            terms += self._rectangles(first + 1, last)
        return math.fsum(terms)

    def _rectangles(self, first: int, last: int) -> list[float]:
        """Return the integral of each of the pieces first … last - 1."""
        if last - first < 16:  # NumPy costs more than so few products
            edges, values = self._edges, self._values
            return [values[row] * (edges[row + 1] - edges[row]) for row in range(first, last)]
        lengths = np.diff(self._edge_array[first : last + 1])
        areas: list[float] = (self._value_array[first:last] * lengths).tolist()
        return areas


def _checked(
    starts_s: npt.ArrayLike, values: npt.ArrayLike, end_s: float, name: str
) -> tuple[Floats, Floats]:
    """Return (k + 1,) edges on the grid of times and (k,) values, equal neighbours merged."""
    column = np.atleast_1d(np.asarray(values, dtype=np.float64))
    edges = np.append(time_on_grid(np.atleast_1d(starts_s)), time_on_grid(end_s))
    if len(column) == 0 or len(edges) != len(column) + 1:
        raise TraceError(
            f"{name}: {len(edges) - 1} times and {len(column)} values; a signal needs as many "
            "values as times, at least one"
        )
    if not (np.isfinite(edges).all() and np.isfinite(column).all()):
        raise TraceError(f"{name}: a time or value is not finite; drop such rows, as a gap")
    if (wrong := np.flatnonzero(np.diff(edges) <= 0)).size:
        row = int(wrong[0])
        raise TraceError(
            f"{name}: the piece at {edges[row]:.10g} s ends at {edges[row + 1]:.10g} s; times must "
            "ascend by more than a microsecond: sort them and drop repeated ones"
        )
    new = np.append(True, column[1:] != column[:-1])
    return edges[np.append(new, True)], column[new]


def _block_integrals(edges: Floats, values: Floats) -> Floats:
    """Return the integral over each BLOCK of pieces; endless ones count 0, unasked."""
    lengths = np.diff(edges)
    areas = values * np.where(np.isfinite(lengths), lengths, 0.0)
    blocks = range(0, len(areas), BLOCK)
    return np.array([math.fsum(areas[first : first + BLOCK].tolist()) for first in blocks])


def _beyond(time_s: float, first_s: float, last_s: float) -> str:
    if time_s < first_s:
        return f"{format_duration(first_s - time_s)} before its start"
    return f"{format_duration(time_s - last_s)} past its end"
