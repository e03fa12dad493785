"""A reward for capacity in use: every second pays the mean share of the resources that is held."""

from __future__ import annotations

from math import inf

import numpy as np

from simkit.exact_sum import ExactSum
from simkit.policy import SystemInfo
from simkit.reward import Reward, positive
from simkit.task import Allocation
from simkit.workload import Workload


class UtilisationReward(Reward):
    """The integral of the mean share of capacity in use, over the resources that there are.

    The sum over a run is that of (end - start) * mean over resources of (held / capacity) over its
    allocations, whatever became of them. Capacity is that of all machines at the start, so that a
    failure does not make the rest worth more.

    Args:
        time_unit_s: what time is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        """See `Reward.begin`."""
        capacity = info.capacity.sum(axis=0)
        there = capacity > 0
        shares = np.zeros(len(capacity))
        shares[there] = 1.0 / (capacity[there] * max(there.sum(), 1) * self.time_unit_s)
        self._shares: list[float] = shares.tolist()  # (R,) what a held unit pays a second
        self._rate = ExactSum()
        self._since, self._accrued = -inf, 0.0

    def collect(self, time_s: float) -> float:
        """See `Reward.collect`."""
        self._advance(time_s)
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def started(self, time_s: float, allocation: Allocation) -> None:
        """See `Observer.started`."""
        self._advance(time_s)
        self._rate.add(self._share(allocation))

    def released(self, time_s: float, allocation: Allocation) -> None:
        """See `Observer.released`."""
        self._advance(time_s)
        self._rate.add(-self._share(allocation))

    def _share(self, allocation: Allocation) -> float:
        return sum([a * s for a, s in zip(allocation.held, self._shares, strict=True)])

    def _advance(self, time_s: float) -> None:
        if time_s > self._since:
            if rate := self._rate.value:
                self._accrued += rate * (time_s - self._since)
            self._since = time_s
