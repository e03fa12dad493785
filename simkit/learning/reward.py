"""Rewards: what a learner is paid for what happens, exactly for the time that passes.

    reward = make_reward("slowdown")
    reward.begin(workload, info)
    simulation = Simulation(workload, cluster, recorder, observer=reward)
    for state in simulation.decisions():
        earned = reward.collect(state.now)     # since the last decision

A reward is an observer of the simulation: it is told at the exact time when a job comes and goes,
so that its sum over a run does not depend on when decisions are made. The sums are those of the
run's tables, and each class says which. Jobs that are rejected count in none of them, and a job
that has not ended counts until the last time that is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

from simkit.errors import ScenarioError
from simkit.plugins import find_in_table, instantiate
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation, Task
from simkit.workload import Workload

REWARDS: Mapping[str, str] = {
    "slowdown": "simkit.learning.reward_jobs:SlowdownReward",
    "completion-time": "simkit.learning.reward_jobs:CompletionTimeReward",
    "makespan": "simkit.learning.reward_jobs:MakespanReward",
    "utilisation": "simkit.learning.reward_jobs:UtilisationReward",
    "value": "simkit.learning.reward_jobs:ValueReward",
}
"""Where each reward is; its module is loaded when it is asked for."""


class Reward(ABC):
    """Adds up what happens; larger is better. An `Observer` that need not look at everything."""

    @abstractmethod
    def begin(self, workload: Workload, info: SystemInfo) -> None:
        """Forget everything; a run begins.

        Raises ScenarioError if the workload lacks what is paid for.
        """

    @abstractmethod
    def collect(self, time_s: float) -> float:
        """Return what has accrued since the last call (or the beginning) until a time.

        The time is that of the decision, or of the end: nothing later may have been observed.
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

        Raises ScenarioError for no reward, or a weight that is not a finite number.
        """
        if not parts:
            raise ScenarioError("reward: there is none; name one at least")
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


def make_reward(
    what: str | Mapping[str, float], arguments: Mapping[str, Any] | None = None
) -> Reward:
    """Return the reward that a name stands for, or the weighted sum of several.

    Args:
        what: one of `REWARDS` or ``module:attribute``; or name → weight.
        arguments: what the reward takes; of several, a mapping for each name.

    Raises ScenarioError or PluginError for an unknown name, arguments that it does not take, and
    weights that are no finite numbers; all weights at once.
    """
    given = dict(arguments or {})
    if isinstance(what, str):
        return _make_one(what, given)
    _check_weights(what)
    for name, own in given.items():
        if name not in what or not isinstance(own, Mapping):
            raise ScenarioError(
                f"reward: arguments of {name!r} belong to none of {', '.join(what)}; "
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


def positive(name: str, number: float) -> float:
    """Return a number of seconds that a reward was given.

    Raises ScenarioError unless it is finite and above 0.
    """
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < inf:
        raise ScenarioError(f"reward: {name} is {number!r}; it must be a finite number above 0")
    return float(number)
