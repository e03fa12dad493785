"""Levels: a signal that is high or low in each step of time, at random.

Models the power_avail_rate of V. Venkataswamy, "Scheduling to Ensure Performance and Cost
Effectiveness in Power-Modulated Datacenters" (dissertation, University of Virginia, 2023): power is
at its high level in, say, nine of ten steps. The steps are independent of one another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.power.signal import WATT, Signal
from simkit.units import TIME_GRID, time_on_grid

_BLOCK: Final = 1024
"""Steps that are drawn at once."""


class Levels(Signal):
    """High with a probability, else low, in each step before and after the run's zero.

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
