"""Orderings by what jobs are worth and how soon they are due; ties go by submission.

Value and quality of service are those of `simkit.policy.Task`. A workload without them has QoS 1
and value 0 throughout, so the first three orders are then by submission.
"""

from __future__ import annotations

from math import floor, inf, isfinite

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.policy import State, SystemInfo
from simkit.policy.task import Task
from simkit.units import ENDLESS_S, TIME_GRID, parse_duration


def last_start_s(task: Task, patience_s: float | None = None) -> float:
    """Return when a task must start, in s on the trace's clock, to end in time by its estimate.

    It should end by its deadline; without one, before its quality of service is violated
    (`Task.due_s`). Rounded down to the grid of time, so that it is an instant of the simulation. An
    estimate without an end counts as 2⁴⁰ s.

    Args:
        task: a waiting task.
        patience_s: how long a task may wait that has neither a deadline nor a quality of service
            below 1, or whose estimate has no end, so that a quality of service says nothing; None:
            not at all.
    """
    estimate_s = min(task.estimate_s, ENDLESS_S)
    if task.deadline_s < inf:
        last = task.deadline_s - estimate_s
    elif patience_s is not None and (task.qos >= 1.0 or task.estimate_s == inf):
        last = task.submit_time_s + patience_s
    else:
        last = task.submit_time_s + estimate_s / task.qos - estimate_s
    return floor(last / TIME_GRID) * TIME_GRID


def duration_s(what: str, value: str | float) -> float:
    """Return an argument's seconds; it must be above 0.

    Args:
        what: rule and argument, for the error: ``backfill ready-pool: horizon``.
        value: a duration such as ``"48h"``, or seconds.

    Raises ScenarioError if it is not a duration above 0.
    """
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise ScenarioError(f"{what}: {error}") from None
    if not (isfinite(seconds) and seconds > 0):
        raise ScenarioError(f"{what} is {value!r}; it must be above 0")
    return seconds


class QoS:
    """Highest quality of service first."""

    reads_estimates = False

    def key(self, task: Task) -> float:
        return -task.qos


class HighestValue:
    """Highest value first, with the value that follows from the estimate."""

    def key(self, task: Task) -> float:
        return -task.value


class ValueDensity:
    """Highest value per unit of resources and second first: the greedy rule for knapsacks.

    G. B. Dantzig, "Discrete-variable extremum problems" (1957).
    """

    def key(self, task: Task) -> float:
        return -task.value_density


class LeastSlack:
    """Least slack first: the time until the task must start so as not to be late.

    The slack at an instant is deadline − now − estimate; without a deadline, the time at which
    the quality of service is violated stands for it. Tasks that can no longer make it, whose slack
    is below 0, come after all others, again the least slack first: what is late already is late
    either way, and should not make the next one late. With `hopeless_last` off they come first.

    The slack of all tasks shrinks alike, so that the order changes only as tasks become late; the
    queue is still sorted again at every decision.

    Args:
        hopeless_last: whether tasks that can no longer be in time come last.
    """

    def __init__(self, *, hopeless_last: bool = True) -> None:
        self.hopeless_last = hopeless_last

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._last_start_s: Floats = np.zeros(64)  # by the tasks' index

    def keys(self, state: State) -> Floats:
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
