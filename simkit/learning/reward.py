"""Rewards: what a learner is paid for what happens, at the exact time when it happens.

    reward = make_reward("slowdown")
    reward.begin(workload, info)
    simulation = Simulation(workload, cluster, recorder, observer=reward)
    for state in simulation.decisions():
        earned = reward.collect(state.now)     # since the last decision

A reward observes the simulation, so that its sum over a run does not depend on when decisions are
made. The sums are those of the run's tables, and each class says which. Rejected jobs count in none
of them, and a job that has not ended counts until the last time that is asked for.

Most rewards are costs of the jobs in the system. A job is in the system, including the backlog,
from its submission until the last of its tasks has ended, finished or killed. With a reward of
-1/length of every job in the system a step, the sum over a run is minus the sum of all slowdowns
(H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource Management with Deep Reinforcement
Learning", HotNets 2016, section 3). Killing a job stops its cost. If a policy may kill, add a
reward that pays for jobs that finish.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.exact_sum import ExactSum
from simkit.plugins import find_in_table, instantiate
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation, Task
from simkit.workload import Workload


class Reward(ABC):
    """Adds up what happens; larger is better.

    An `Observer` of the simulation, whose methods do nothing unless they are overridden.
    """

    @abstractmethod
    def begin(self, workload: Workload, info: SystemInfo) -> None:
        """Begin a run.

        Raises ScenarioError if the workload lacks what is rewarded.
        """

    @abstractmethod
    def collect(self, time_s: float) -> float:
        """Return what has accrued since the last call (or the beginning) until `time_s`.

        `time_s` is the time of the decision, or of the end: nothing later may have been observed.
        """

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:  # noqa: B027 - see class
        pass

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:  # noqa: B027
        pass

    def started(self, time_s: float, allocation: Allocation) -> None:  # noqa: B027
        pass

    def released(self, time_s: float, allocation: Allocation) -> None:  # noqa: B027
        pass

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:  # noqa: B027
        pass


class WeightedRewards(Reward):
    """The weighted sum of several rewards."""

    def __init__(self, parts: Sequence[tuple[float, Reward]]) -> None:
        """Add up (weight, reward) pairs.

        Raises ScenarioError if there is none, or if a weight is not a finite number.
        """
        if not parts:
            raise ScenarioError("reward: there is none; name at least one")
        wrong = [weight for weight, _ in parts if not isfinite(weight)]
        if wrong:
            raise ScenarioError([f"reward: weight {w} must be a finite number" for w in wrong])
        self._parts = tuple(parts)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        for _, part in self._parts:
            part.begin(workload, info)

    def collect(self, time_s: float) -> float:
        return sum([weight * part.collect(time_s) for weight, part in self._parts])

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        for _, part in self._parts:
            part.submitted(time_s, tasks)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        for _, part in self._parts:
            part.rejected(time_s, tasks)

    def started(self, time_s: float, allocation: Allocation) -> None:
        for _, part in self._parts:
            part.started(time_s, allocation)

    def released(self, time_s: float, allocation: Allocation) -> None:
        for _, part in self._parts:
            part.released(time_s, allocation)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        for _, part in self._parts:
            part.ended(time_s, task, killed=killed)


class AccruingReward(Reward):
    """A reward that grows at a rate which changes only when something is observed."""

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        self._rate = ExactSum()  # per second
        self._since, self._accrued = -inf, 0.0

    def collect(self, time_s: float) -> float:
        self._advance(time_s)
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def _reward_per_s(self) -> float:
        return self._rate.value

    def _advance(self, time_s: float) -> None:
        if time_s > self._since:
            if rate := self._reward_per_s():
                self._accrued += rate * (time_s - self._since)
            self._since = time_s


class JobReward(AccruingReward):
    """A reward that depends on when jobs end: with the last of their tasks."""

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._left: dict[int, int] = {}  # tasks that have not ended, of jobs of several

    @abstractmethod
    def job_ended(self, time_s: float, job: int) -> None:
        """Observe that the last task of a job has ended, finished or killed."""

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        if len(tasks) > 1:
            self._left[tasks[0].job_index] = len(tasks)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._left.pop(tasks[0].job_index, None)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        job = task.job_index
        if job in self._left:
            self._left[job] -= 1
            if self._left[job]:
                return
            del self._left[job]
        self.job_ended(time_s, job)


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
        self.least_run_s = _positive("least_run_s", least_run_s)

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
        super().__init__(_positive("tau_s", tau_s))

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
        self.time_unit_s = _positive("time_unit_s", time_unit_s)

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
        self.time_unit_s = _positive("time_unit_s", time_unit_s)

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
        self.time_unit_s = _positive("time_unit_s", time_unit_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) zeros: the cost does not depend on which jobs are there."""
        return np.zeros(len(workload))

    def _reward_per_s(self) -> float:
        return -1.0 / self.time_unit_s if self._jobs else 0.0


def job_run_time_s(workload: Workload) -> Floats:
    """Return (J,): the true run time of each job, that of its longest task."""
    longest = workload.longest_run_time_s()
    if workload.tasks == len(workload):
        return longest
    run: Floats = np.maximum.reduceat(longest, workload.first_task[:-1])
    return run


class ValueReward(JobReward):
    """The sum of the values of jobs that finish in time; late, killed and rejected jobs pay none.

    In time: by its deadline, and by submit + run time / quality of service, where the workload has
    them; see `simkit.workload.value`. A job of several tasks finishes if all of them do.
    """

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
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
        self._spoilt: set[int] = set()  # jobs of which a task was killed

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        if killed:
            self._spoilt.add(task.job_index)
        super().ended(time_s, task, killed=killed)

    def job_ended(self, time_s: float, job: int) -> None:
        if job in self._spoilt:
            self._spoilt.discard(job)
        elif time_s <= self._due_s[job]:
            self._accrued += self._value[job]


class UtilisationReward(AccruingReward):
    """The integral of the share of capacity in use, a mean over the resources.

    The sum over a run is that of (end - start) * mean over resources of (held / capacity) over all
    allocations, finished or not. Capacity is that of all machines at the start, so that a failure
    does not make the remaining machines worth more.

    Args:
        time_unit_s: what time is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = _positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        capacity = info.capacity.sum(axis=0)
        there = capacity > 0
        shares = np.zeros(len(capacity))
        shares[there] = 1.0 / (capacity[there] * max(there.sum(), 1) * self.time_unit_s)
        self._shares: list[float] = shares.tolist()  # (R,) reward per unit held and second

    def started(self, time_s: float, allocation: Allocation) -> None:
        self._advance(time_s)
        self._rate.add(self._share(allocation))

    def released(self, time_s: float, allocation: Allocation) -> None:
        self._advance(time_s)
        self._rate.add(-self._share(allocation))

    def _share(self, allocation: Allocation) -> float:
        return sum([a * s for a, s in zip(allocation.held, self._shares, strict=True)])


REWARDS: Mapping[str, type[Reward]] = {
    "slowdown": SlowdownReward,
    "bounded-slowdown": BoundedSlowdownReward,
    "wait": WaitReward,
    "completion-time": CompletionTimeReward,
    "makespan": MakespanReward,
    "utilisation": UtilisationReward,
    "value": ValueReward,
}
"""Rewards by name."""


def make_reward(
    what: str | Mapping[str, float], arguments: Mapping[str, Any] | None = None
) -> Reward:
    """Return the reward that a name stands for, or the weighted sum of several.

    Args:
        what: one of `REWARDS` or ``module:attribute``; or name → weight.
        arguments: the reward's arguments; for several rewards, a mapping for each name.

    Raises ScenarioError or PluginError for an unknown name, for arguments that the reward does not
    take, and for weights that are not finite numbers; all weights at once.
    """
    given = dict(arguments or {})
    if isinstance(what, str):
        return _make_one(what, given)
    _check_weights(what)
    for name, own in given.items():
        if name not in what or not isinstance(own, Mapping):
            raise ScenarioError(
                f"reward: arguments are given for {name!r}, which is none of {', '.join(what)}; "
                f"write {{{next(iter(what), 'slowdown')}: {{…}}}}"
            )
    return WeightedRewards(
        [(float(weight), _make_one(name, given.get(name, {}))) for name, weight in what.items()]
    )


def _check_weights(weights: Mapping[str, Any]) -> None:
    wrong = [
        f"reward {name!r}: weight {weight!r} must be a finite number"
        for name, weight in weights.items()
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not isfinite(weight)
    ]
    if wrong:
        raise ScenarioError(wrong)


def _make_one(name: str, arguments: Mapping[str, Any]) -> Reward:
    reward: Reward = instantiate(
        f"reward {name!r}", find_in_table("a reward", REWARDS, name), arguments
    )
    return reward


def _positive(name: str, number: float) -> float:
    """Return a number of seconds; raises ScenarioError unless it is finite and above 0."""
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < inf:
        raise ScenarioError(f"reward: {name} is {number!r}; it must be a finite number above 0")
    return float(number)
