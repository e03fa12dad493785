"""A clock that runs with the rhythm of the day: fast when many jobs arrive, slowly at night."""

from __future__ import annotations

import numpy as np

from simkit.workload import Floats

SLOTS = 48
SLOT_S = 1800.0
DAY_S = SLOTS * SLOT_S
_FIRST_SLOT = 11
"""The fitted day begins in its 11th half hour, at 5:00, when fewest jobs arrive."""


class DailyClock:
    """Maps points to seconds: a day has 48 points, spread over its half hours by their weight.

    The weight of a half hour is the probability that a gamma distribution gives to it, over a day
    that begins at 5:00, divided by the mean of all 48 (Lublin & Feitelson 2003). A job costs as
    many points as its gap would have half hours in a day without rhythm.
    """

    def __init__(self, shape: float, scale: float) -> None:
        """Fit the clock to a gamma distribution with `shape` and `scale` in half hours."""
        from scipy.special import gammainc

        slot = np.arange(_FIRST_SLOT, _FIRST_SLOT + SLOTS)
        weight = gammainc(shape, (slot + 0.5) / scale) - gammainc(shape, (slot - 0.5) / scale)
        of_day = np.empty(SLOTS)
        of_day[(slot - 1) % SLOTS] = weight / weight.mean()
        self.points_before: Floats = np.concatenate(([0.0], np.cumsum(of_day)))
        """(49,) points from midnight to the start of each half hour; the last is the day's sum."""

    def times(self, points: Floats) -> Floats:
        """Return when each of the points, counted from a midnight at 0 s, is reached."""
        seconds = np.empty_like(points)
        starts = np.arange(SLOTS + 1) * SLOT_S
        for first in range(0, len(points), 65_536):  # bounds the memory of the steps between
            rows = slice(first, first + 65_536)
            days, rest = np.divmod(points[rows], self.points_before[-1])
            seconds[rows] = days * DAY_S + np.interp(rest, self.points_before, starts)
        return seconds

    def points(self, time_s: float) -> float:
        """Return how many points pass until `time_s`; the inverse of `times`."""
        days, rest = divmod(time_s, DAY_S)
        starts = np.arange(SLOTS + 1) * SLOT_S
        return float(days * self.points_before[-1] + np.interp(rest, starts, self.points_before))
