"""The states of machines, by number: equal numbers mean equal free amounts and capacity."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

import numpy as np

from simkit.arrays import Floats, Ints

_MOST = 4  # states remembered for each machine, before those that are gone are forgotten


class MachineStates:
    """Numbers the states of M machines; only machines that have changed are looked up again."""

    def __init__(self) -> None:
        self._free: Floats = np.empty((0, 0))
        self._capacity: Floats = np.empty((0, 0))
        self._number: Ints = np.empty(0, np.int64)
        self._known: defaultdict[bytes, int] = defaultdict(count().__next__)

    def numbers(self, free: Floats, capacity: Floats) -> Ints:
        """Return (M,): the number of each machine's state; the array is read-only.

        Args:
            free: (M, R) free amounts.
            capacity: (M, R) machine totals; when they change, this is another array.
        """
        machines = len(free)
        if self._free.shape != free.shape or len(self._known) > _MOST * machines + 1024:
            self._known = defaultdict(count().__next__)
            self._number = np.empty(machines, np.int64)
            changed = np.arange(machines)
        else:
            changed = _rows_that_differ(free, self._free)
            if capacity is not self._capacity:
                changed = np.union1d(changed, _rows_that_differ(capacity, self._capacity))
        if len(changed) == machines:
            self._free = free.copy()
        else:
            self._free[changed] = free[changed]
        self._capacity = capacity
        rows = np.hstack((free[changed], capacity[changed]))
        keys = rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()
        self._number[changed] = [self._known[key] for key in keys]
        return self._number


def _rows_that_differ(now: Floats, before: Floats) -> Ints:
    places = np.flatnonzero(now.ravel() != before.ravel())
    return np.unique(places // now.shape[1])
