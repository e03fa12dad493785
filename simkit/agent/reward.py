"""The contract of a reward: it observes the simulation, and adds up what happens at its exact time.

    reward.begin(workload, info)
    simulation = Simulation(workload, cluster, recorder, observer=reward)
    for state in simulation.decisions():
        earned = reward.collect(state.now)     # since the last decision

The sum over a run does not depend on when decisions are made. A job that has not ended counts until
the last time that is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf, isfinite

import numpy as np

from simkit.arrays import ExactSum
from simkit.errors import PluginError, ScenarioError
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation, Reservation, Task
from simkit.power.ledger import Flows
from simkit.workload import Workload


class Reward(ABC):
    """Adds up what happens; larger is better.

    An `Observer` of the simulation, whose methods do nothing unless they are overridden.
    """

    @abstractmethod
    def begin(self, workload: Workload, info: SystemInfo) -> None:
        """Begin a run.

        Raises ScenarioError if the workload, or the system, lacks what is rewarded.
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

    def reserved(self, time_s: float, place: Reservation) -> None:  # noqa: B027
        pass

    def started(self, time_s: float, allocation: Allocation) -> None:  # noqa: B027
        pass

    def released(self, time_s: float, allocation: Allocation) -> None:  # noqa: B027
        pass

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:  # noqa: B027
        pass

    def flowing(self, time_s: float, flows: Flows) -> None:  # noqa: B027
        pass


def earned(reward: Reward, time_s: float) -> float:
    """Return what a reward collects; raises PluginError unless it is a finite number."""
    amount = reward.collect(time_s)
    if amount.__class__ is float and isfinite(amount):
        return amount  # quickly, as it is asked at every decision
    number = isinstance(amount, (int, float, np.number)) and not isinstance(amount, bool)
    if not (number and isfinite(amount)):
        raise PluginError(
            f"reward {type(reward).__name__} at {time_s:g} s: collect returned {amount!r}; it must "
            "return a finite number"
        )
    return float(amount)


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
        return sum([weight * earned(part, time_s) for weight, part in self._parts])

    @property
    def parts(self) -> tuple[Reward, ...]:
        """The rewards that are added up."""
        return tuple(part for _, part in self._parts)

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        for _, part in self._parts:
            part.submitted(time_s, tasks)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        for _, part in self._parts:
            part.rejected(time_s, tasks)

    def reserved(self, time_s: float, place: Reservation) -> None:
        for _, part in self._parts:
            part.reserved(time_s, place)

    def started(self, time_s: float, allocation: Allocation) -> None:
        for _, part in self._parts:
            part.started(time_s, allocation)

    def released(self, time_s: float, allocation: Allocation) -> None:
        for _, part in self._parts:
            part.released(time_s, allocation)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        for _, part in self._parts:
            part.ended(time_s, task, killed=killed)

    def flowing(self, time_s: float, flows: Flows) -> None:
        for _, part in self._parts:
            part.flowing(time_s, flows)


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


def positive(name: str, number: float) -> float:
    """Return a number of seconds; raises ScenarioError unless it is finite and above 0."""
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < inf:
        raise ScenarioError(f"reward: {name} is {number!r}; it must be a finite number above 0")
    return float(number)
