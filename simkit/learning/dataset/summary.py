"""What is in a dataset, in numbers: of each policy, and of each kind of action."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.arrays import Bools
from simkit.learning.dataset.format import Dataset

__all__ = ["Behaviour", "Summary", "kinds_of_actions", "summary"]


@dataclass(frozen=True)
class Behaviour:
    """The decisions of one policy."""

    name: str
    decisions: int
    share: float
    """Of all decisions."""
    reward: float
    """Mean over its decisions, as in the next two."""
    cost: float
    probability: float


@dataclass(frozen=True)
class Summary:
    """The numbers of a dataset; means are over decisions unless they say otherwise."""

    rows: int
    """With the last row of each episode."""
    decisions: int
    episodes: int
    terminated: int
    """Episodes that came to their end."""
    truncated: int
    """Episodes that were cut off."""
    reward: float
    reward_of_episode: float
    """Mean over episodes, as for the cost."""
    cost: float
    cost_of_episode: float
    hours: float
    """Simulated, from the first decisions on."""
    actions: dict[str, float]
    """Kind of action → its share of the decisions."""
    behaviours: tuple[Behaviour, ...]


def summary(data: Dataset) -> Summary:
    """Return the numbers of a dataset."""
    acts = data.action >= 0
    decisions, episodes = int(acts.sum()), len(data.starts) - 1
    kinds = kinds_of_actions(data)
    chosen = data.action[acts]
    reward, cost = data.reward[acts], data.cost[acts]
    return Summary(
        rows=len(data),
        decisions=decisions,
        episodes=episodes,
        terminated=int(data.terminated.sum()),
        truncated=int(data.truncated.sum()),
        reward=float(reward.mean()),
        reward_of_episode=float(reward.sum() / episodes),
        cost=float(cost.mean()),
        cost_of_episode=float(cost.sum() / episodes),
        hours=float(data.passed_s[acts].sum() / 3600.0),
        actions={
            name: float(np.isin(chosen, list(numbers)).mean()) for name, numbers in kinds.items()
        },
        behaviours=tuple(
            _behaviour(data, name, acts & (data.behaviour == number), decisions)
            for number, name in enumerate(data.names)
        ),
    )


def _behaviour(data: Dataset, name: str, mine: Bools, decisions: int) -> Behaviour:
    count = int(mine.sum())
    means = (float(column[mine].sum()) / max(count, 1) for column in
             (data.reward, data.cost, data.probability))  # fmt: skip
    return Behaviour(name, count, count / decisions, *means)


def kinds_of_actions(data: Dataset) -> dict[str, range]:
    """Return the kinds of actions and the numbers that each has."""
    count = data.mask.shape[1]
    void = count - 1
    told = data.facts.get("actions", {}).get("arguments", {})
    if told.get("actions") != "ready-pool":
        return {"place": range(void), "void": range(void, count)}
    given = told.get("action_arguments") or {}
    suspend = int(given.get("suspend", 0))
    ready = (void - suspend) // (2 if given.get("reject") else 1)
    kinds = {
        "place": range(ready),
        "reject": range(ready, void - suspend),
        "suspend": range(void - suspend, void),
        "do nothing": range(void, count),
    }
    return {name: numbers for name, numbers in kinds.items() if len(numbers)}
