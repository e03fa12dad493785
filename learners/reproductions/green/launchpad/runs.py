"""What `simkit reproduce launchpad` trains, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.judge import Gap, column, paired, threshold_of
from simkit.learners.reproductions.green.launchpad.data import Data
from simkit.learners.reproductions.green.studies import (
    LATE_LEAVE,
    MIXES,
    Size,
    data_tasks,
    online,
)
from simkit.learners.reproductions.green.trainings import Task
from simkit.training import Workplace

__all__ = ["ACTIONS", "KINDS", "POOL_5", "RULES", "Plan", "Results", "named"]

POOL_5: Final = Circumstances(load=1.0, ready=5)
"""Where all mixes are compared."""
RULES: Final[Mapping[str, str]] = {"qos": "QoS", "sjf": "SJF", "fcfs": "FCFS", "value": "HVF"}
"""Order → its name in the dissertation."""
KINDS: Final[Mapping[str, str]] = {
    "clone": "clone", "offline": "offline", "launch": "offline + online",
}  # fmt: skip
"""Trainings on data, in the order of `data_tasks`."""
ACTIONS: Final = ("drawn", "likeliest")


def named(task: Task, actions: str) -> str:
    """Return the name of a training's agent that takes its actions in one of two ways."""
    return f"{task.name}, drawn" if actions == "drawn" else task.name


@dataclass(frozen=True)
class Plan:
    """What is recorded and trained."""

    data: tuple[Data, ...]
    """The mix of four rules at the pool of 15, and at the pool of 5 each of `MIXES`."""
    combo: Mapping[str, Sequence[Task]]
    """Kind, and ``online`` → its trainings at the pool of 15, a seed each."""
    mixes: Mapping[str, Mapping[str, Task]]
    """Kind → data → its training at the pool of 5."""

    @classmethod
    def of(cls, place: Workplace, size: Size) -> Self:
        """Return the plan of a size."""
        large = Data("combo", size.at(LATE_LEAVE))
        small = {name: Data(name, size.at(POOL_5)) for name in MIXES}
        seeds = range(size.seeds)
        file = str(large.path(place))
        by_seed = [data_tasks(size, "combo", file, LATE_LEAVE, seed) for seed in seeds]
        by_data = {
            name: data_tasks(size, name, str(data.path(place)), POOL_5, 0)
            for name, data in small.items()
        }
        combo = {kind: [tasks[at] for tasks in by_seed] for at, kind in enumerate(KINDS)}
        return cls(
            (large, *small.values()),
            {**combo, "online": [online(size, seed) for seed in seeds]},
            {kind: {name: tasks[at] for name, tasks in by_data.items()}
             for at, kind in enumerate(KINDS)},
        )  # fmt: skip

    @property
    def at_15(self) -> list[Task]:
        """The trainings at the pool of 15."""
        return [task for tasks in self.combo.values() for task in tasks]

    @property
    def at_5(self) -> list[Task]:
        """The trainings at the pool of 5."""
        return [task for tasks in self.mixes.values() for task in tasks.values()]

    @property
    def tasks(self) -> list[Task]:
        """All trainings."""
        return [*self.at_15, *self.at_5]


@dataclass(frozen=True)
class Results:
    """What the page is made of."""

    size: Size
    plan: Plan
    judged: Mapping[int, pl.DataFrame]
    """Places of the ready pool → rules and agents; see `judged`."""
    theta: Mapping[int, float]
    """Places of the ready pool → θ of the best threshold rule."""
    agreed: Mapping[int, pl.DataFrame]
    """Places of the ready pool → see `agreement`."""
    decisions: Mapping[Data, int]
    minutes: float
    commit: str

    def threshold(self, pool: int) -> str:
        """Return the name of the best threshold rule."""
        return threshold_of(self.theta[pool])

    def values(self, pool: int, names: Sequence[str], column_name: str = "value") -> Floats:
        """Return (S,) a column, stream by stream, the mean of some candidates."""
        found: Floats = np.mean([column(self.judged[pool], one, column_name) for one in names], 0)
        return found

    def over(self, pool: int, names: Sequence[str], beside: Sequence[str]) -> Gap:
        """Return how many points of value some are above others in the mean."""
        return paired(self.values(pool, names), self.values(pool, beside))

    def agreement(self, pool: int, data: str, names: Sequence[str], share: str = "all") -> float:
        """Return the mean agreement of some candidates with a rule, or with all rules of a mix."""
        rules = MIXES.get(data, (data,))
        rows = self.agreed[pool].filter(
            pl.col("candidate").is_in(names) & pl.col("rule").is_in(rules)
        )
        return float(rows[share].to_numpy().mean())
