"""A schedule: a signal that repeats every day or every week, on the clock of a place.

It follows the local clock: a tariff that begins at 7:00 begins at 7:00 in summer and in winter.
When the clock is put forward, the skipped hour does not occur; when it is put back, the repeated
hour occurs twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from simkit.errors import TraceError
from simkit.power.signal import WATT, Signal
from simkit.power.signal_zone import parse_zone, utc_offset_s
from simkit.units import DAY_S, time_on_grid

WEEK_S: Final = 7 * DAY_S
_THURSDAY_S: Final = 3 * DAY_S
"""Unix time 0 was a Thursday; weeks begin on Monday."""
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Schedule(Signal):
    """A daily or weekly pattern.

    Args:
        pattern: second of the day, or of the week from Monday 0:00, on the local clock -> the value
            from then on. Before its first entry the last one holds.
        period_s: `DAY_S` or `WEEK_S`.
        unit: of the values.
        epoch_s: the Unix time of the run's zero.
        time_zone: of the clock, see `signal_zone.parse_zone`.

    Raises TraceError if the pattern is empty, a time lies outside the period, or a value is not
    finite.
    """

    def __init__(
        self,
        pattern: Mapping[float, float],
        *,
        period_s: float = DAY_S,
        unit: str = WATT,
        epoch_s: float = 0.0,
        time_zone: str = "UTC",
    ) -> None:
        super().__init__(unit)
        _check(pattern, period_s)
        entries = sorted(pattern.items())
        self._at = [float(time_on_grid(at)) for at, _ in entries]
        self._value = [float(value) for _, value in entries]
        self._period = period_s
        self._epoch = float(time_on_grid(epoch_s))
        self._zone = parse_zone(time_zone)

    def value(self, time_s: float) -> float:
        row = bisect_right(self._at, self._local(time_s)[0]) - 1
        return self._value[row]  # row -1, before the first entry, is the last

    def changes(self, length_s: float) -> float:
        return len(self._at) * length_s / self._period

    def next_change(self, time_s: float) -> float:
        """Return the time of the next entry, or of the next change of the clock."""
        if len(set(self._value)) == 1:
            return math.inf
        local, offset = self._local(time_s)
        row = bisect_right(self._at, local)
        entry = self._at[row] if row < len(self._at) else self._at[0] + self._period
        change = time_s + (entry - local)
        if utc_offset_s(self._zone, self._epoch + change) != offset:
            change = self._clock_change(time_s, change, offset)
        return change if change > time_s else math.nextafter(time_s, math.inf)

    def _local(self, time_s: float) -> tuple[float, float]:
        """Return the second of the period on the local clock, and its offset from UTC in s."""
        instant = self._epoch + time_s
        offset = utc_offset_s(self._zone, instant)
        days = _THURSDAY_S if self._period == WEEK_S else 0.0
        return (instant + offset + days) % self._period, offset

    def _clock_change(self, before_s: float, after_s: float, offset: float) -> float:
        """Return the first whole second at which the offset from UTC differs."""
        low, high = math.floor(self._epoch + before_s), math.ceil(self._epoch + after_s)
        while high - low > 1:
            middle = (low + high) // 2
            same = utc_offset_s(self._zone, middle) == offset
            low, high = (middle, high) if same else (low, middle)
        return high - self._epoch


def weekly(pattern: Mapping[str, Mapping[float, float]]) -> dict[float, float]:
    """Return a pattern of the week from patterns of its days.

    `pattern` maps ``mon`` … ``sun``, ``weekdays`` or ``weekend`` to second of the day -> value.
    Raises TraceError for another name.
    """
    groups = {name: [day] for day, name in enumerate(_DAYS)}
    groups |= {"weekdays": list(range(5)), "weekend": [5, 6]}
    if unknown := [name for name in pattern if name not in groups]:
        raise TraceError(
            f"{', '.join(map(repr, unknown))}: no such days; write {', '.join(groups)}"
        )
    return {
        day * DAY_S + at: value
        for name, entries in pattern.items()
        for day in groups[name]
        for at, value in entries.items()
    }


def _check(pattern: Mapping[float, float], period_s: float) -> None:
    if period_s not in (DAY_S, WEEK_S):
        raise TraceError(
            f"a schedule repeats every {period_s!r} s; it must be {DAY_S:g} (a day) or {WEEK_S:g} "
            "(a week)"
        )
    if not pattern:
        raise TraceError("a schedule has no entries; give at least one time and value")
    problems = [
        f"a schedule's entry at {at!r} s with value {value!r}; times must be 0 or more and below "
        f"{period_s:g} s, values finite numbers"
        for at, value in pattern.items()
        if not (0 <= at < period_s and math.isfinite(value))
    ]
    if problems:
        raise TraceError("\n".join(problems))
