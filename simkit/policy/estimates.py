"""Estimates: what a policy is told of run times, and what becomes of those that are too short.

A predictor gives the estimate at submission. A correction replaces it each time that a running task
outlives it; it changes when the task is expected to end, not the task's `estimate_s`.
`RecentRunTimes` predicts anew at every decision, from what has ended while tasks wait.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from math import inf, isnan
from typing import Final, Literal, Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.policy.state import State
from simkit.policy.task import Allocation, Task
from simkit.units import ENDLESS_S, time_on_grid
from simkit.workload import Workload

__all__ = ["Actual", "Perturbed", "Predictor", "Requested", "UserMean", "corrected"]


class Predictor(Protocol):
    """Estimates run times; sees what has finished so far, and nothing that has not."""

    learns: bool
    """Whether `on_submission` and `on_end` have anything to do."""
    # A class may also declare `requests`, for itself alone; see `requests_of`.

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        """Begin a run."""

    def estimates(self, first: int, last: int) -> Floats:
        """Return estimates in seconds for the tasks in rows ``first:last``, at least 0.

        Asked for in order, shortly before the tasks are submitted.
        """

    def on_submission(self, task: Task) -> float:
        """Return the estimate to use, in seconds, given all that has finished by now.

        The task shows what is known at its submission: user, group, queue, request, instances,
        requested time, …; its `estimate_s` is the estimate above. What it does not show
        (executable, the trace's partition) is in the workload's row ``task.job_index``.
        """

    def on_end(self, task: Task, run_time_s: float) -> None:
        """Note a task that has finished, or was killed when its requested time was over."""


Requests = Literal["used", "bound", "unknown"]
"""What requested times are to an estimator: the estimates themselves, their upper bound, or
unknown. Where they are missing, the true run time stands in."""


def requests_of(estimator: object) -> Requests:
    """Return what an estimator's class declares of requested times; base classes do not count."""
    declared: Requests = getattr(estimator, "__dict__", {}).get("requests", "unknown")
    return declared


class Requested:
    """The user's own request, endless without a limit; the true run time where it is unknown."""

    requests: Requests = "used"
    learns = False
    """Whether `on_submission` and `on_end` have anything to do."""

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        self._workload = workload

    def estimates(self, first: int, last: int) -> Floats:
        requested = self._workload.requested_time_s[first:last]
        return np.where(np.isnan(requested), self._workload.run_time_s[first:last], requested)

    def on_submission(self, task: Task) -> float:
        return task.estimate_s

    def on_end(self, task: Task, run_time_s: float) -> None:
        pass


class Actual(Requested):
    """The true run time: an oracle."""

    def estimates(self, first: int, last: int) -> Floats:
        return self._workload.run_time_s[first:last]


class Perturbed(Requested):
    """The true run time stretched by a random factor, never below it.

    The f-model of Mu'alem and Feitelson, "Utilization, predictability, workloads, and user
    runtime estimates in scheduling the IBM SP2 with backfilling" (2001): uniform between the run
    time and (1 + f) times it.
    """

    def __init__(self, factor: float = 5.0) -> None:
        if not factor >= 0:
            raise ScenarioError(f"estimates: factor is {factor}; it must be at least 0")
        self.factor = factor

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        super().reset(workload, rng)
        self._rng = rng

    def estimates(self, first: int, last: int) -> Floats:
        run = self._workload.run_time_s[first:last]
        stretch = 1.0 + self.factor * self._rng.random(last - first)
        return np.maximum(time_on_grid(run * stretch), run)


class UserMean(Requested):
    """The mean run time of the user's last two finished tasks, at most the request.

    Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than
    user runtime estimates" (2007). The request itself until two tasks of the user have finished,
    and for unknown users.
    """

    learns = True
    requests = "bound"

    def __init__(self, last: int = 2) -> None:
        if last < 1:
            raise ScenarioError(f"estimates: last is {last}; it must be at least 1")
        self.last = last

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        super().reset(workload, rng)
        self._finished: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=self.last))

    def on_submission(self, task: Task) -> float:
        seen = self._finished.get(task.user)
        if seen is None or len(seen) < self.last:
            return task.estimate_s
        mean = float(time_on_grid(sum(seen) / self.last))
        # Without a request, the estimate so far is the run time, which must not show through.
        return mean if isnan(task.requested_time_s) else min(mean, task.estimate_s)

    def on_end(self, task: Task, run_time_s: float) -> None:
        if task.user >= 0:
            self._finished[task.user].append(run_time_s)


Correction = Literal["none", "tsafrir", "request"]
"""How an estimate is corrected that a running task outlives."""

_MINUTE_S, _HOUR_S = 60.0, 3600.0

CORRECTIONS: Final[dict[Correction, tuple[float, ...]]] = {
    "none": (),
    "tsafrir": (
        *(minutes * _MINUTE_S for minutes in (1, 5, 15, 30)),
        *(hours * _HOUR_S for hours in (1, 2, 5, 10, 20, 50, 100)),
    ),
    "request": (inf,),
}
"""What each correction adds to the first estimate, in s, one after the other; never more than the
request. ``tsafrir``: Tsafrir, Etsion and Feitelson (2007), as above. ``request``: straight to the
request, one of the corrections in Gaussier, Glesser, Reis and Trystram, "Improving backfilling by
using machine learning to predict running times" (2015)."""


def corrected(
    first_s: float, requested_s: float, executed_s: float, additions: Sequence[float]
) -> float:
    """Return the first estimate that a task has not outlived, or the last if it outlived all, in s.

    Args:
        first_s: the estimate at submission.
        requested_s: no correction exceeds it; NaN: there is no request; infinite: there is no
            limit, so that an endless addition makes the estimate endless, too.
        executed_s: how long the task has run.
        additions: what is added to the first estimate, ascending; infinity: up to the request.
    """
    estimate = first_s
    for addition in additions:
        if estimate > executed_s:
            break
        longer = first_s + addition
        if longer > requested_s:
            longer = requested_s
        if estimate < longer and (longer < inf or requested_s == inf):
            estimate = longer
    return estimate


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
