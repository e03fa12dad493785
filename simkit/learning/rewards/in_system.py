"""Rewards for the time that jobs spend in the system: slowdowns, waits, turnaround times.

A job is in the system, including the backlog, from its submission until the last of its tasks has
ended, finished or killed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from simkit.arrays import ExactSum, Floats
from simkit.learning.rewards.base import JobReward, positive
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation, Task
from simkit.workload import Workload


class InSystemReward(JobReward):
    """Minus the weighted time that jobs spend in the system.

    Costs per second are added up as jobs come and go, so that a decision takes no longer with many
    jobs than with one.
    """

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._cost_per_s: list[float] = self.costs_per_s(workload).tolist()
        self._jobs = 0  # in the system

    @abstractmethod
    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,): the cost of each job in the system, per second; at least 0."""

    def _reward_per_s(self) -> float:
        return -self._rate.value

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._advance(time_s)
        super().submitted(time_s, tasks)
        self._jobs += 1
        self._rate.add(self._cost_per_s[tasks[0].job_index])

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().rejected(time_s, tasks)
        self._leave(time_s, tasks[0].job_index)

    def job_ended(self, time_s: float, job: int) -> None:
        self._leave(time_s, job)

    def _leave(self, time_s: float, job: int) -> None:
        self._advance(time_s)
        self._jobs -= 1
        if self._jobs:
            self._rate.add(-self._cost_per_s[job])
        else:
            self._rate = ExactSum()  # empty, so exactly 0


class SlowdownReward(InSystemReward):
    """Minus the sum of slowdowns: of (end - submit) / max(run time, `least_run_s`) over jobs.

    The run time is the trace's; of a job of several tasks, it is the critical path of them.

    Args:
        least_run_s: shorter run times count as this one, in s, so that no job weighs infinitely.
    """

    def __init__(self, least_run_s: float = 1.0) -> None:
        self.least_run_s = positive("least_run_s", least_run_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) 1 / run time."""
        costs: Floats = 1.0 / np.maximum(workload.ideal_time_s(), self.least_run_s)
        return costs


class BoundedSlowdownReward(SlowdownReward):
    """Minus the sum of bounded slowdowns: of max(1, (end - submit) / max(run time, `tau_s`)).

    They are those of the metric `bounded_slowdown` where no job is suspended or starts over. What a
    job lacks of 1 is paid when it ends.

    Args:
        tau_s: shorter run times count as this one, in s.
    """

    def __init__(self, tau_s: float = 10.0) -> None:
        super().__init__(positive("tau_s", tau_s))

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._submit_s: list[float] = workload.submit_time_s.tolist()

    def job_ended(self, time_s: float, job: int) -> None:
        super().job_ended(time_s, job)
        slowdown = (time_s - self._submit_s[job]) * self._cost_per_s[job]
        self._accrued -= max(1 - slowdown, 0.0)


class WaitReward(JobReward):
    """Minus the sum of wait times, first start - submit; of jobs that never start, until they end.

    Args:
        time_unit_s: what they are counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._waiting: set[int] = set()  # jobs

    def _reward_per_s(self) -> float:
        return -len(self._waiting) / self.time_unit_s

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._advance(time_s)
        super().submitted(time_s, tasks)
        self._waiting.add(tasks[0].job_index)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().rejected(time_s, tasks)
        self._leave(time_s, tasks[0].job_index)

    def started(self, time_s: float, allocation: Allocation) -> None:
        self._leave(time_s, allocation.task.job_index)

    def job_ended(self, time_s: float, job: int) -> None:
        self._leave(time_s, job)  # some are killed before they start

    def _leave(self, time_s: float, job: int) -> None:
        if job in self._waiting:
            self._advance(time_s)
            self._waiting.discard(job)


class CompletionTimeReward(InSystemReward):
    """Minus the sum of turnaround times, end - submit.

    Args:
        time_unit_s: what they are counted in, in s; a slotted model's step gives DeepRM's reward.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) ones / unit."""
        return np.full(len(workload), 1.0 / self.time_unit_s)


class MakespanReward(InSystemReward):
    """Minus the time in which there is any job in the system.

    That is the makespan without the gaps in which there is no work, which no policy can shorten.

    Args:
        time_unit_s: what it is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) zeros: the cost does not depend on which jobs are there."""
        return np.zeros(len(workload))

    def _reward_per_s(self) -> float:
        return -1.0 / self.time_unit_s if self._jobs else 0.0
