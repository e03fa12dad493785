"""Sizes of input for wanted run times: a few are measured, those in between interpolated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError

_FIRST = 64  # the smallest size that is measured
_SHORT_S = 0.003  # where starting a program takes as long as its work
_LARGEST = 2**28


@dataclass(frozen=True)
class RunTimes:
    """Run times of a program by the size of its input, both ascending; (K,) each."""

    size: Floats
    time_s: Floats

    @classmethod
    def measured(cls, measure: Callable[[int], float], most_s: float) -> RunTimes:
        """Measure larger and larger sizes until one takes longer than `most_s`.

        Raises TraceError if none is short enough to be measured.

        Args:
            measure: from a size to its run time in seconds; infinity: it takes too long.
            most_s: seconds.
        """
        sizes: list[int] = []
        times: list[float] = []
        size = _FIRST
        while not times or (times[-1] <= most_s and size < _LARGEST):
            time_s = measure(size)
            if time_s == np.inf:  # too large a step
                below = sizes[-1] if sizes else 0
                if size - below < 2:
                    raise TraceError(f"elf-bursts: a program of size {size} takes too long")
                size = (below + size) // 2
                continue
            sizes.append(size)
            times.append(time_s)
            size = round(size * (3.0 if time_s < _SHORT_S else 1.5))
        return cls.of(sizes, times)

    @classmethod
    def of(cls, sizes: Sequence[float], times: Sequence[float]) -> RunTimes:
        """Return measured run times as a curve that does not fall."""
        return cls(np.array(sizes, np.float64), np.maximum.accumulate(np.array(times, np.float64)))

    def size_for(self, time_s: float) -> int:
        """Return the size whose run time is nearest to `time_s`, by a power law in between."""
        log_time, log_size = np.log(self.time_s), np.log(self.size)
        steeper = np.append(True, np.diff(log_time) > 0)  # where it is level, the smallest size
        found = np.interp(np.log(time_s), log_time[steeper], log_size[steeper])
        return max(1, round(float(np.exp(found))))
