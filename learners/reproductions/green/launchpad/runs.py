"""The trainings of `simkit reproduce launchpad`, and the content of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.learners.reproductions.green.judge import Gap, column, paired, threshold_of
from simkit.learners.reproductions.green.launchpad.data import Data
from simkit.learners.reproductions.green.studies import (
    LATE_LEAVE,
    MIXES,
    SMALL_POOL,
    Size,
    data_tasks,
    online,
)
from simkit.learners.reproductions.green.trainings import Task
from simkit.training import Workplace

__all__ = ["ACTIONS", "KINDS", "RULES", "Plan", "Results"]

RULES: Final[Mapping[str, str]] = {"qos": "QoS", "sjf": "SJF", "fcfs": "FCFS", "value": "HVF"}
"""Order → its label in the dissertation."""
KINDS: Final[Mapping[str, str]] = {
    "clone": "clone", "offline": "offline", "launch": "offline + online",
}  # fmt: skip
"""Trainings on data, in the order of `data_tasks`."""
ACTIONS: Final = ("drawn", "likeliest")


@dataclass(frozen=True)
class Plan:
    """The recordings and trainings."""

    data: tuple[Data, ...]
    """The mix of four rules at the pool of 15, and each of `MIXES` at the pool of 5."""
    combo: Mapping[str, Sequence[Task]]
    """Kind or ``online`` → its trainings at the pool of 15, seed by seed."""
    mixes: Mapping[str, Mapping[str, Task]]
    """Kind → data → its training at the pool of 5."""

    @classmethod
    def of(cls, place: Workplace, size: Size) -> Self:
        """Return the plan of a size."""
        large = Data("combo", size.at(LATE_LEAVE))
        small = {name: Data(name, size.at(SMALL_POOL)) for name in MIXES}
        seeds = range(size.seeds)
        file = str(large.path(place))
        by_seed = [data_tasks(size, "combo", file, LATE_LEAVE, seed) for seed in seeds]
        by_data = {
            name: data_tasks(size, name, str(data.path(place)), SMALL_POOL, 0)
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
    """The content of the page."""

    size: Size
    plan: Plan
    judged: Mapping[int, pl.DataFrame]
    """Places in the ready pool → results of rules and agents; see `judge.judged`."""
    theta: Mapping[int, float]
    """Places in the ready pool → θ of the best threshold rule."""
    agreed: Mapping[int, pl.DataFrame]
    """Places in the ready pool → agreements; see `agreement`."""
    decisions: Mapping[Data, int]
    minutes: float
    commit: str

    def threshold(self, pool: int) -> str:
        """Return the name of the best threshold rule."""
        return threshold_of(self.theta[pool])

    def values(self, pool: int, names: Sequence[str], column_name: str = "value") -> Floats:
        """Return (S,) a column, stream by stream, averaged over some candidates."""
        found: Floats = np.mean([column(self.judged[pool], one, column_name) for one in names], 0)
        return found

    def over(self, pool: int, names: Sequence[str], baselines: Sequence[str]) -> Gap:
        """Return the mean points of value by which some candidates exceed others."""
        return paired(self.values(pool, names), self.values(pool, baselines))

    def agreement(self, pool: int, data: str, names: Sequence[str], share: str = "all") -> float:
        """Return the mean agreement of some candidates with a rule, or with all rules of a mix."""
        rules = MIXES.get(data, (data,))
        rows = self.agreed[pool].filter(
            pl.col("candidate").is_in(names) & pl.col("rule").is_in(rules)
        )
        return float(rows[share].to_numpy().mean())
