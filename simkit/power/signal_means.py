"""The means of a signal: what it is in the mean of each step of time, such as of an hour."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.power.signal import Signal
from simkit.units import TIME_GRID, time_on_grid

__all__ = ["Means"]


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
        self._mean = lru_cache(maxsize=256)(self._mean_of)

    def value(self, time_s: float) -> float:
        return self._mean(math.floor(time_s / self._step))

    def next_change(self, time_s: float) -> float:
        after = (math.floor(time_s / self._step) + 1) * self._step
        return math.inf if after > self.end_s else max(after, self.start_s)

    def values(self, times_s: npt.ArrayLike) -> Floats:
        times = np.asarray(times_s, dtype=np.float64)
        steps, where = np.unique(np.floor(times / self._step), return_inverse=True)
        means = np.array([self._mean(int(step)) for step in steps.tolist()], dtype=np.float64)
        return means[where].reshape(times.shape)

    def _mean_of(self, step: int) -> float:
        begin = step * self._step
        return self.signal.mean(begin, begin + self._step)
