"""Rewards over the jobs in the system: each costs something for as long as it is not done.

A job is in the system from its submission, in the backlog too, until the last of its tasks has
ended, finished or killed. H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource Management
with Deep Reinforcement Learning" (HotNets 2016), section 3: with a reward of -1/length of every job
in the system a step, the sum over a run is minus the sum of all slowdowns.

Killing a job stops its cost. Where a policy may kill, add a reward that pays for jobs that finish.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import inf

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.exact_sum import ExactSum
from simkit.learning.reward import Reward, positive
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation, Task
from simkit.workload import Workload


class InSystemReward(Reward):
    """Minus the time that jobs spend in the system, each second weighted.

    Costs per second are added up as jobs come and go, so that a decision takes no longer with many
    jobs than with one.
    """

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        self._cost_per_s: list[float] = self.costs_per_s(workload).tolist()
        self._left: dict[int, int] = {}  # tasks that have not ended, of jobs of several
        self._jobs = 0  # in the system
        self._rate = ExactSum()  # of their costs, per second
        self._since, self._accrued = -inf, 0.0

    @abstractmethod
    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,): what a second of each job in the system costs; at least 0."""

    def rate(self) -> float:
        """Return what a second costs now."""
        return self._rate.value

    def collect(self, time_s: float) -> float:
        self._advance(time_s)
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._advance(time_s)
        job = tasks[0].job_index
        if len(tasks) > 1:
            self._left[job] = len(tasks)
        self._jobs += 1
        self._rate.add(self._cost_per_s[job])

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._left.pop(tasks[0].job_index, None)
        self._leave(time_s, tasks[0].job_index)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        job = task.job_index
        if job in self._left:
            self._left[job] -= 1
            if self._left[job]:
                return
            del self._left[job]
        self._leave(time_s, job)

    def _leave(self, time_s: float, job: int) -> None:
        self._advance(time_s)
        self._jobs -= 1
        if self._jobs:
            self._rate.add(-self._cost_per_s[job])
        else:
            self._rate = ExactSum()  # nobody is there: no rounding either

    def _advance(self, time_s: float) -> None:
        if time_s > self._since:
            if self._jobs:
                self._accrued -= self.rate() * (time_s - self._since)
            self._since = time_s


class SlowdownReward(InSystemReward):
    """Minus the sum of slowdowns: of (end - submit) / max(run time, `least_run_s`) over jobs.

    The run time is the trace's, of a job's longest task.

    Args:
        least_run_s: shorter run times count as this one, in s, so that no job weighs infinitely.
    """

    def __init__(self, least_run_s: float = 1.0) -> None:
        self.least_run_s = positive("least_run_s", least_run_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) 1 / run time."""
        costs: Floats = 1.0 / np.maximum(job_run_time_s(workload), self.least_run_s)
        return costs


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

    That is the makespan, less the gaps in which there is no work at all: these nobody can shorten.

    Args:
        time_unit_s: what it is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) zeros: what costs is that somebody is there."""
        return np.zeros(len(workload))

    def rate(self) -> float:
        return 1.0 / self.time_unit_s


def job_run_time_s(workload: Workload) -> Floats:
    """Return (J,): the true run time of each job, that of its longest task."""
    longest = workload.longest_run_time_s()
    if workload.tasks == len(workload):
        return longest
    run: Floats = np.maximum.reduceat(longest, workload.first_task[:-1])
    return run


# MERGED A reward for worth: a job that finishes in time pays what it is worth, at its end.


class ValueReward(Reward):
    """The sum of the values of jobs that finish in time; late, killed and rejected jobs pay none.

    In time: by its deadline, and by submit + run time / quality of service, where the workload has
    them; see `simkit.workload.value`. A job of several tasks finishes if all of them do.
    """

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        if len(workload) and not len(workload.value):
            raise ScenarioError(
                "reward 'value': the jobs have no value; add a section `value` with prices, "
                "or reward something else"
            )
        due = np.full(len(workload), np.inf)
        if len(workload.deadline_s):
            due = np.minimum(due, workload.deadline_s)
        if len(workload.qos):
            due = np.minimum(due, workload.submit_time_s + job_run_time_s(workload) / workload.qos)
        self._due_s: list[float] = due.tolist()
        self._value: list[float] = workload.value.tolist()
        self._left: dict[int, int] = {}  # tasks that have not ended, of jobs of several
        self._spoilt: set[int] = set()  # jobs of which a task was killed
        self._accrued = 0.0

    def collect(self, time_s: float) -> float:
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        if len(tasks) > 1:
            self._left[tasks[0].job_index] = len(tasks)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._left.pop(tasks[0].job_index, None)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        job = task.job_index
        if killed:
            self._spoilt.add(job)
        if job in self._left:
            self._left[job] -= 1
            if self._left[job]:
                return
            del self._left[job]
        if job in self._spoilt:
            self._spoilt.discard(job)
        elif time_s <= self._due_s[job]:
            self._accrued += self._value[job]


# MERGED A reward for capacity in use: every second pays the mean share of the resources that is held.


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
        capacity = info.capacity.sum(axis=0)
        there = capacity > 0
        shares = np.zeros(len(capacity))
        shares[there] = 1.0 / (capacity[there] * max(there.sum(), 1) * self.time_unit_s)
        self._shares: list[float] = shares.tolist()  # (R,) what a held unit pays a second
        self._rate = ExactSum()
        self._since, self._accrued = -inf, 0.0

    def collect(self, time_s: float) -> float:
        self._advance(time_s)
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def started(self, time_s: float, allocation: Allocation) -> None:
        self._advance(time_s)
        self._rate.add(self._share(allocation))

    def released(self, time_s: float, allocation: Allocation) -> None:
        self._advance(time_s)
        self._rate.add(-self._share(allocation))

    def _share(self, allocation: Allocation) -> float:
        return sum([a * s for a, s in zip(allocation.held, self._shares, strict=True)])

    def _advance(self, time_s: float) -> None:
        if time_s > self._since:
            if rate := self._rate.value:
                self._accrued += rate * (time_s - self._since)
            self._since = time_s
