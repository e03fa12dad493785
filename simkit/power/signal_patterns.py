"""Signals made by a rule: a schedule of the day, the week or another period, and random levels.

A schedule follows the clock of a place: a tariff that begins at 7:00 begins at 7:00 in summer and
in winter. When the clock is put forward, the skipped hour does not occur; when it is put back, the
repeated hour occurs twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.dates import parse_zone, utc_offset_s
from simkit.errors import TraceError
from simkit.power.signal import WATT, Signal
from simkit.units import DAY_S, TIME_GRID, WEEK_S, time_on_grid

_THURSDAY_S: Final = 3 * DAY_S
"""Unix time 0 was a Thursday; weeks begin on Monday."""


class Schedule(Signal):
    """A pattern that recurs, such as that of a day or a week.

    Args:
        pattern: second of the period, on the local clock -> the value from then on, at least one.
            Before its first entry the last one holds.
        period_s: its length, `DAY_S` or any other. Weeks begin on Monday 0:00.
        unit: of the values.
        epoch_s: the Unix time of the run's zero; None: there is no clock, and periods, weeks too,
            begin at the run's zero.
        time_zone: of the clock, see `dates.parse_zone`; goes with `epoch_s`.

    Raises TraceError if the zone is unknown, or given without `epoch_s`.
    """

    def __init__(
        self,
        pattern: Mapping[float, float],
        *,
        period_s: float = DAY_S,
        unit: str = WATT,
        epoch_s: float | None = None,
        time_zone: str = "UTC",
    ) -> None:
        super().__init__(unit)
        if epoch_s is None and time_zone != "UTC":
            raise TraceError(f"schedule: time_zone {time_zone!r} goes with epoch_s; give both")
        entries = sorted(pattern.items())
        self._at = [float(time_on_grid(at)) for at, _ in entries]
        self._value = [float(value) for _, value in entries]
        self._period = float(time_on_grid(period_s))
        self._epoch = float(time_on_grid(epoch_s or 0.0))
        follows_weeks = epoch_s is not None and self._period == WEEK_S
        self._monday = _THURSDAY_S if follows_weeks else 0.0
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
        return (instant + offset + self._monday) % self._period, offset

    def _clock_change(self, before_s: float, after_s: float, offset: float) -> float:
        """Return the first whole second at which the offset from UTC differs."""
        low, high = math.floor(self._epoch + before_s), math.ceil(self._epoch + after_s)
        while high - low > 1:
            middle = (low + high) // 2
            same = utc_offset_s(self._zone, middle) == offset
            low, high = (middle, high) if same else (low, middle)
        return high - self._epoch


_BLOCK: Final = 1024
"""Steps that are drawn at once."""


class Levels(Signal):
    """High with a probability, else low, in each step before and after the run's zero.

    Models the power_avail_rate of V. Venkataswamy, "Scheduling to Ensure Performance and Cost
    Effectiveness in Power-Modulated Datacenters" (dissertation, University of Virginia, 2023).
    A step's level depends on the seed and the step's number alone, not on earlier calls.

    Args:
        high: level, at least `low`.
        low: level.
        high_share: probability of the high level, 0 to 1.
        step_s: length of a step in s, above 0.
        seed: one number or several.
        unit: of the levels.

    Raises TraceError if one of these is out of its range.
    """

    def __init__(
        self,
        high: float,
        low: float,
        *,
        high_share: float,
        step_s: float,
        seed: int | Sequence[int],
        unit: str = WATT,
    ) -> None:
        super().__init__(unit)
        if not -math.inf < low <= high < math.inf:
            raise TraceError(
                f"levels: high is {high:g} and low {low:g}; low must not be above high"
            )
        if not 0 <= high_share <= 1:
            raise TraceError(f"levels: high_share is {high_share:g}; it must be in 0..1")
        if not TIME_GRID <= step_s < math.inf:
            raise TraceError(f"levels: step_s is {step_s:g}; it must be above 0 and finite")
        self._levels = np.array([low, high], dtype=np.float64)
        self._share = high_share
        self._step = float(time_on_grid(step_s))
        self._seed = seed
        self._block = lru_cache(maxsize=64)(self._draw)

    def value(self, time_s: float) -> float:
        block, row = divmod(math.floor(time_s / self._step), _BLOCK)
        return float(self._block(block)[row])

    def next_change(self, time_s: float) -> float:
        return (math.floor(time_s / self._step) + 1) * self._step

    def changes(self, length_s: float) -> float:
        return length_s / self._step

    def values(self, times_s: npt.ArrayLike) -> Floats:
        times = np.asarray(times_s, dtype=np.float64)
        blocks, rows = np.divmod(np.floor(times / self._step).astype(np.int64), _BLOCK)
        found = np.empty(times.shape)
        for block in np.unique(blocks).tolist():
            of_block = blocks == block
            found[of_block] = self._block(block)[rows[of_block]]
        return found

    def _draw(self, block: int) -> Floats:
        """Return (_BLOCK,) levels of neighbouring steps."""
        seeds = np.random.SeedSequence(self._seed, spawn_key=(block % 2**64,))
        high = np.random.default_rng(seeds).random(_BLOCK) < self._share
        return self._levels[high.astype(np.int64)]
