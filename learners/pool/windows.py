"""Windows of logs to train on: drawn where jobs wait, and others held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simkit.errors import ScenarioError
from simkit.learners.pool.jobs import PoolJobs

__all__ = ["WindowSource"]

_TRIES = 20  # to find a window in which jobs wait


@dataclass(frozen=True)
class WindowSource:
    """Draws windows from several logs in turn.

    Attributes:
        logs: the jobs of each log that may be trained on, or held out: of the workload, then of
            `learn.arguments.logs`.
        jobs: fewest and most jobs of a window that is drawn; held-out ones have the most.
        held_out_share: the last jobs of every log, in (0, 1), or 0, are not trained on.
        slowdown: the mean bounded slowdown of a window under a base rule.
        least_slowdown: windows with less are passed over: rules differ where jobs wait.

    Raises ScenarioError if a log has no window of this length.
    """

    logs: Sequence[PoolJobs]
    jobs: tuple[int, int]
    held_out_share: float
    slowdown: Callable[[PoolJobs], float]
    least_slowdown: float

    def __post_init__(self) -> None:
        most, problems = self.jobs[1], []
        for place, (log, cut) in enumerate(zip(self.logs, self._cuts(), strict=True)):
            if cut < most or (self.held_out_share and len(log) - cut < most):
                key, whose = f"logs.{place - 1}", "log"
                if place == 0:
                    key, whose = "most_jobs", "workload"
                problems.append(
                    f"learn.arguments.{key}: a window has up to {most} jobs, and of the "
                    f"{len(log):,} of the {whose} {cut:,} are trained on and {len(log) - cut:,} "
                    "held out; give smaller windows or a longer log"
                )
        if problems:
            raise ScenarioError(problems)

    def _cuts(self) -> list[int]:
        """Return the first row of each log that is held out."""
        return [len(log) - int(len(log) * self.held_out_share) for log in self.logs]

    def draw(self, rng: np.random.Generator, windows: int) -> list[PoolJobs]:
        """Return fresh windows of the logs in turn, of even lengths between fewest and most jobs.

        If several draws fail, the last is taken.
        """
        chosen, cuts = [], self._cuts()
        for number in range(windows):
            place = number % len(self.logs)
            for _ in range(_TRIES):
                jobs = int(rng.integers(self.jobs[0], self.jobs[1] + 1))
                first = int(rng.integers(0, cuts[place] - jobs + 1))
                window = self.logs[place].window(first, jobs)
                if self.slowdown(window) >= self.least_slowdown:
                    break
            chosen.append(window)
        return chosen

    def held_out(self, windows: int) -> list[PoolJobs]:
        """Return at most `windows` windows of each log in turn, evenly over what is not trained on.

        None if nothing is held out; those in which few jobs wait are passed over. Raises
        ScenarioError if they all are.
        """
        if not self.held_out_share:
            return []
        jobs, found = self.jobs[1], []
        each = -(-windows // len(self.logs))
        for log, cut in zip(self.logs, self._cuts(), strict=True):
            for first in np.linspace(cut, len(log) - jobs, each).astype(int):
                window = log.window(int(first), jobs)
                if self.slowdown(window) >= self.least_slowdown:
                    found.append(window)
        if not found:
            raise ScenarioError(
                f"learn.arguments.least_slowdown: is {self.least_slowdown:g}, and in every "
                "held-out window SAF-p has less; lower it, or hold more jobs out"
            )
        return found
