"""The prediction p of a waiting task's run time, from what its user's last tasks took in this run.

After D. Tsafrir, Y. Etsion and D. G. Feitelson, "Backfilling using system-generated predictions
rather than user runtime estimates" (2007). It follows what ends while tasks wait.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from simkit.arrays import Floats
from simkit.policy.state import State
from simkit.policy.task import Allocation
from simkit.units import ENDLESS_S

_LAST = 2  # tasks of a user that count
_LEAST_S = 10.0  # shorter ones are not told apart, as in the bounded slowdown


class RecentRunTimes:
    """The mean run time of each user's last tasks to end; of a bag, instance by instance."""

    def __init__(self) -> None:
        self._ended: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_LAST))
        self._now = -np.inf
        self._noted: set[Allocation] = set()  # of what ended at this instant
        self._users: Floats = np.empty(0)  # ascending
        self._means: Floats = np.empty(0)

    def update(self, state: State) -> None:
        """Note what has ended since the last call; a repeat changes nothing.

        Work that was stopped and goes on, or starts over, has not ended. With periodic scheduling
        a run time reaches to the decision that follows the end.
        """
        if state.now != self._now:
            self._now = state.now
            self._noted.clear()
        came_back = set(state.arrived) if state.ended else set()
        for allocation in state.ended:
            task = allocation.task
            stopped = allocation in state.suspended or task in came_back
            if allocation in self._noted or stopped or task.user < 0:
                continue
            self._noted.add(allocation)
            self._ended[task.user].append(state.now - allocation.start_time_s)
        if state.ended:
            self._users = np.array(sorted(self._ended), np.float64)
            recent = [self._ended[user] for user in sorted(self._ended)]
            self._means = np.array([sum(times) / len(times) for times in recent])

    def predict(self, users: Floats, estimate_s: Floats) -> Floats:
        """Return (n,) p of tasks with these users (n,) and estimates (n,); finite."""
        means = np.full(len(users), ENDLESS_S)
        if len(self._users):
            row = np.searchsorted(self._users, users).clip(max=len(self._users) - 1)
            means = np.where(self._users[row] == users, self._means[row], ENDLESS_S)
        predicted: Floats = np.maximum(np.minimum(means, estimate_s), _LEAST_S)
        return predicted
