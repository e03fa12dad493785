"""Estimates: what a policy is told of a task's run time when it is submitted."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.units import time_on_grid
from simkit.workload import Workload


class Predictor(Protocol):
    """Estimates run times; sees what has finished so far, and nothing that has not."""

    learns: bool
    """Whether `on_submission` and `on_end` have anything to do."""

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        """Begin a run."""

    def estimates(self, first: int, last: int) -> Floats:
        """Return estimates in seconds for the tasks in rows ``first:last``, at least 0.

        Asked for in order, shortly before the tasks are submitted.
        """

    def on_submission(self, user: int, estimate_s: float) -> float:
        """Return the estimate to use, given the one above and all that has finished by now."""

    def on_end(self, user: int, run_time_s: float) -> None:
        """Note a task that has finished."""


class Requested:
    """The user's own request; the true run time where there is none."""

    learns = False
    """Whether `on_submission` and `on_end` have anything to do."""

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        self._workload = workload

    def estimates(self, first: int, last: int) -> Floats:
        requested = self._workload.requested_time_s[first:last]
        return np.where(np.isnan(requested), self._workload.run_time_s[first:last], requested)

    def on_submission(self, user: int, estimate_s: float) -> float:
        return estimate_s

    def on_end(self, user: int, run_time_s: float) -> None:
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

    def __init__(self, last: int = 2) -> None:
        if last < 1:
            raise ScenarioError(f"estimates: last is {last}; it must be at least 1")
        self.last = last

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        super().reset(workload, rng)
        self._finished: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=self.last))

    def on_submission(self, user: int, estimate_s: float) -> float:
        seen = self._finished.get(user)
        if user < 0 or seen is None or len(seen) < self.last:
            return estimate_s
        return min(float(time_on_grid(sum(seen) / self.last)), estimate_s)

    def on_end(self, user: int, run_time_s: float) -> None:
        if user >= 0:
            self._finished[user].append(run_time_s)
