"""A reward for worth: a job that finishes in time pays what it is worth, at its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.errors import ScenarioError
from simkit.policy import SystemInfo
from simkit.reward import Reward
from simkit.reward_in_system import job_run_time_s
from simkit.task import Task
from simkit.workload import Workload


class ValueReward(Reward):
    """The sum of the values of jobs that finish in time; late, killed and rejected jobs pay none.

    In time: by its deadline, and by submit + run time / quality of service, where the workload has
    them; see `simkit.value`. A job of several tasks finishes if all of them do.
    """

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        """See `Reward.begin`."""
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
        """See `Reward.collect`."""
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        """See `Observer.submitted`."""
        if len(tasks) > 1:
            self._left[tasks[0].job_index] = len(tasks)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        """See `Observer.rejected`."""
        self._left.pop(tasks[0].job_index, None)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        """See `Observer.ended`."""
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
