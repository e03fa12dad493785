"""Rewards: what a learner is paid for what happens, at the exact time when it happens.

    reward = make_reward("slowdown")
    reward.begin(workload, info)
    simulation = Simulation(workload, cluster, recorder, observer=reward)
    for state in simulation.decisions():
        earned = reward.collect(state.now)     # since the last decision

A reward observes the simulation, so that its sum over a run does not depend on when decisions are
made. The sums are those of the run's tables, and each class says which. A job that has not ended
counts until the last time that is asked for. Jobs that are rejected at their submission count in
none of them, and those that are rejected later count until then.

Most rewards are costs of the jobs in the system. A job is in the system, including the backlog,
from its submission until the last of its tasks has ended, finished or killed. With a reward of
-1/length of every job in the system a step, the sum over a run is minus the sum of all slowdowns
(H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource Management with Deep Reinforcement
Learning", HotNets 2016, section 3). Killing a job stops its cost. If a policy may kill, add a
reward that pays for jobs that finish.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from simkit.errors import PluginError, ScenarioError
from simkit.learning.rewards.base import Reward, WeightedRewards
from simkit.learning.rewards.in_system import (
    BoundedSlowdownReward,
    CompletionTimeReward,
    MakespanReward,
    SlowdownReward,
    WaitReward,
)
from simkit.learning.rewards.usage import CarbonReward, EnergyCostReward, UtilisationReward
from simkit.learning.rewards.value import (
    QosViolationsReward,
    ValueAtDecisionReward,
    ValueOnCompletionReward,
    ValueReward,
)
from simkit.plugins import find_in_table, instantiate

__all__ = ["REWARDS", "Reward", "WeightedRewards", "make_reward"]

REWARDS: Mapping[str, type[Reward]] = {
    "slowdown": SlowdownReward,
    "bounded-slowdown": BoundedSlowdownReward,
    "wait": WaitReward,
    "completion-time": CompletionTimeReward,
    "makespan": MakespanReward,
    "utilisation": UtilisationReward,
    "value-at-decision": ValueAtDecisionReward,
    "value-on-completion": ValueOnCompletionReward,
    "value": ValueReward,
    "qos-violations": QosViolationsReward,
    "energy-cost": EnergyCostReward,
    "carbon": CarbonReward,
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
    methods = [method for method in vars(Reward) if not method.startswith("_")]
    if missing := [method for method in methods if not callable(getattr(reward, method, None))]:
        raise PluginError(
            f"reward {name!r}: {type(reward).__name__} has no method {missing[0]}; derive it from "
            "simkit.learning.reward.Reward"
        )
    return reward
