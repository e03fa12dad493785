"""Orderings by what jobs are worth and how soon they are due; ties go by submission.

Value and quality of service are those of `simkit.task.Task`; a workload without them has QoS 1
and value 0 throughout, so that the first three orders become that of submission.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simkit.policy import State, SystemInfo
from simkit.task import Task

from .slack import last_start_s

Floats = npt.NDArray[np.float64]


class QoS:
    """Highest quality of service first."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""

    def key(self, task: Task) -> float:
        """See `Order.key`."""
        return -task.qos


class HighestValue(QoS):
    """Highest value first, as far as the estimate tells the value."""

    def key(self, task: Task) -> float:
        """See `Order.key`."""
        return -task.value


class ValueDensity(QoS):
    """Highest value per unit of resources and second first: the greedy rule for knapsacks.

    G. B. Dantzig, "Discrete-variable extremum problems" (1957).
    """

    def key(self, task: Task) -> float:
        """See `Order.key`."""
        return -task.value_density


class LeastSlack:
    """Least slack first: the time until the task must start so as not to be late.

    The slack at an instant is deadline − now − estimate; without a deadline, the time at which
    the quality of service is violated stands for it. Tasks that can no longer make it, whose slack
    is below 0, come after all others, again the least slack first: what is late already is late
    either way, and should not make the next one late. With `hopeless_last` off they come first.

    The slack of all tasks shrinks alike, so that the order changes only as tasks become late; the
    queue is sorted anew at every decision all the same.

    Args:
        hopeless_last: whether tasks that can no longer be in time come last.
    """

    def __init__(self, *, hopeless_last: bool = True) -> None:
        self.hopeless_last = hopeless_last

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._last_start_s: Floats = np.zeros(64)  # by the tasks' index

    def keys(self, state: State) -> Floats:
        """See `ChangingOrder.keys`."""
        for task in state.arrived:
            self._note(task)
        slack: Floats = self._last_start_s[state.queue.columns().index.astype(np.int64)] - state.now
        if not self.hopeless_last:
            return slack
        late = slack < 0
        if late.any():
            slack[late] += slack.max() - slack.min() + 1.0  # behind all others, in their own order
        return slack

    def _note(self, task: Task) -> None:
        if task.index >= len(self._last_start_s):
            self._last_start_s = np.resize(self._last_start_s, 2 * task.index + 1)
        self._last_start_s[task.index] = last_start_s(task)
