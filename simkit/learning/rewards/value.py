"""Rewards for the value of jobs, and for their quality of service.

A job is worth what `simkit.workload.value` says: it may be paid as the job is placed, as it
finishes, or only if it finishes in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.learning.rewards.base import JobReward, Reward, positive
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation, Reservation, Task
from simkit.workload import Workload

__all__ = [
    "QosViolationsReward",
    "ValueAtDecisionReward",
    "ValueOnCompletionReward",
    "ValueReward",
    "discounted_share",
    "sum_of_powers",
]

_NOISE = 1e-6  # of a step: rounding errors of a quotient


def job_run_time_s(workload: Workload) -> Floats:
    """Return (J,): the true run time of each job, that of its longest task."""
    longest = workload.longest_run_time_s()
    if workload.tasks == len(workload):
        return longest
    run: Floats = np.maximum.reduceat(longest, workload.first_task[:-1])
    return run


def sum_of_powers(base: float, count: Floats | Ints) -> Floats:
    """Return 1 + base + … + base^(count - 1), elementwise; 0 for none."""
    number = np.asarray(count, np.float64)
    if base == 1.0:
        return number
    powers: Floats = (1.0 - base**number) / (1.0 - base)
    return powers


def discounted_share(discount: float, ahead: Floats | Ints, steps: Floats | Ints) -> Floats:
    """Return, elementwise, what of a job's value is paid at the decision that places it.

    The same part for each of the steps n that it will run, the first of which begins in `ahead`
    steps, discounted until now: γ^ahead · (1 + γ + … + γ^(n - 1)) / n, at most 1.
    """
    share: Floats = discount**ahead * sum_of_powers(discount, steps) / steps
    return share


def _values(workload: Workload, reward: str) -> Floats:
    """Return (J,) the values of jobs; raises ScenarioError if they have none."""
    if len(workload) and not len(workload.value):
        raise ScenarioError(
            f"reward {reward!r}: the jobs have no value; add a section `value` with prices, "
            "or reward something else"
        )
    return workload.value


def _qos_due_s(workload: Workload) -> Floats:
    """Return (J,) submit + run time / quality of service, by which a job must end to keep it."""
    due: Floats = workload.submit_time_s + job_run_time_s(workload) / workload.qos
    return due


class ValueAtDecisionReward(Reward):
    """The sum of the values of jobs, each paid when it is placed, now or reserved for later.

    Of a job of value V that will run for n steps, the first of which begins in h steps, V / n for
    each of them, discounted to the decision: V · γ^h · (1 + γ + … + γ^(n - 1)) / n; V itself if γ
    is 1. A job is paid once, by its run time, and whatever becomes of it: if it is suspended, or
    its reservation fails, nothing changes. A job of several tasks is paid with the first of them.

    Args:
        discount: γ of a step, at most 1.
        time_unit_s: length of a step, in s; a step that has begun counts whole.
    """

    def __init__(self, discount: float = 1.0, time_unit_s: float = 1.0) -> None:
        self.discount = positive("discount", discount)
        if self.discount > 1:
            raise ScenarioError(f"reward: discount is {discount!r}; it must be at most 1")
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        value = _values(workload, "value-at-decision")
        steps = np.ceil(job_run_time_s(workload) / self.time_unit_s - _NOISE)
        share = discounted_share(self.discount, np.zeros(len(steps)), np.maximum(steps, 1.0))
        self._worth: list[float] = (value * share).tolist()  # of jobs that start now
        self._paid, self._accrued = set[int](), 0.0

    def collect(self, time_s: float) -> float:
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def reserved(self, time_s: float, place: Reservation) -> None:
        self._pay(place.task.job_index, (place.start_s - time_s) / self.time_unit_s)

    def started(self, time_s: float, allocation: Allocation) -> None:
        self._pay(allocation.task.job_index, 0.0)

    def _pay(self, job: int, ahead: float) -> None:
        if job not in self._paid:
            self._paid.add(job)
            self._accrued += self._worth[job] * self.discount**ahead


class ValueOnCompletionReward(JobReward):
    """The sum of the values of jobs that finish, late or not; killed and rejected jobs pay none.

    A job of several tasks finishes if all of them do, and is paid with the last.
    """

    name = "value-on-completion"

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._value: list[float] = _values(workload, self.name).tolist()
        self._spoilt: set[int] = set()  # jobs of which a task was killed

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        if killed:
            self._spoilt.add(task.job_index)
        super().ended(time_s, task, killed=killed)

    def job_ended(self, time_s: float, job: int) -> None:
        if job in self._spoilt:
            self._spoilt.discard(job)
        elif self.counts(time_s, job):
            self._accrued += self._value[job]

    def counts(self, time_s: float, job: int) -> bool:
        """Return whether a job that finishes now is paid."""
        return True


class ValueReward(ValueOnCompletionReward):
    """The sum of the values of jobs that finish in time; late, killed and rejected jobs pay none.

    In time: by its deadline, and by submit + run time / quality of service, where the workload has
    them; see `simkit.workload.value`. A job of several tasks finishes if all of them do.
    """

    name = "value"

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        due = np.full(len(workload), inf)
        if len(workload.deadline_s):
            due = np.minimum(due, workload.deadline_s)
        if len(workload.qos):
            due = np.minimum(due, _qos_due_s(workload))
        self._due_s: list[float] = due.tolist()

    def counts(self, time_s: float, job: int) -> bool:
        return time_s <= self._due_s[job]


class QosViolationsReward(JobReward):
    """Minus the time that jobs are in the system, waiting or running, after they should have ended.

    The sum over jobs of max(0, end - (submit + run time / quality of service)): -1 in each unit of
    time for each job whose quality of service is violated, as in the dissertation on
    power-modulated datacenters ("RARE", University of Virginia, 2023, table B.1). Rejected and
    killed jobs count until then.

    Args:
        time_unit_s: what time is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        if len(workload) and not len(workload.qos):
            raise ScenarioError(
                "reward 'qos-violations': the jobs have no quality of service; add a section "
                "`value`, or reward something else"
            )
        self._due_s: list[float] = _qos_due_s(workload).tolist() if len(workload) else []
        self._coming: list[tuple[float, int]] = []  # a heap of (due, job), also of jobs that left
        self._in_time: set[int] = set()  # jobs in the system that are not violated
        self._violated = 0

    def _reward_per_s(self) -> float:
        return -self._violated / self.time_unit_s

    def _advance(self, time_s: float) -> None:
        while self._coming and self._coming[0][0] <= time_s:
            due, job = heappop(self._coming)
            if job in self._in_time:
                super()._advance(due)
                self._in_time.discard(job)
                self._violated += 1
        super()._advance(time_s)

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().submitted(time_s, tasks)
        job = tasks[0].job_index
        self._in_time.add(job)
        heappush(self._coming, (self._due_s[job], job))

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().rejected(time_s, tasks)
        self.job_ended(time_s, tasks[0].job_index)

    def job_ended(self, time_s: float, job: int) -> None:
        self._advance(time_s)
        if job in self._in_time:
            self._in_time.discard(job)
        else:
            self._violated -= 1
