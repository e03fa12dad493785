"""The trainings of `simkit reproduce cocorl`, and the content of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import polars as pl

from simkit.learners.reproductions.green.studies import Size, free, limited
from simkit.learners.reproductions.green.trainings import Task
from simkit.training import Workplace

__all__ = ["HALF", "LOADS", "RULES", "SHARES", "SLOW", "Constraint", "Plan", "Results"]

HALF: Final = 0.5
"""The limit of most trainings, as a share of the unlimited agent's cost."""
SHARES: Final = (0.35, 0.65, 0.8)
"""Other limits."""
SLOW: Final = 0.01
"""The integral gain that figure 6.12 compares with 1."""
LOADS: Final = (20, 40, 60, 80, 100, 120)
"""Loads of figures 6.4 to 6.8, in percent; agents are trained at the last one."""
RULES: Final[Mapping[str, str]] = {"fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "value": "HVF"}
"""The dissertation's rules: name → its label there."""


@dataclass(frozen=True)
class Plan:
    """The trainings."""

    free: Sequence[Task]
    """Trainings without a limit, seed by seed."""
    half: Sequence[Task]
    """Trainings limited to half of the cost, seed by seed."""
    slow: Sequence[Task]
    """The same with the smaller integral gain."""
    others: Sequence[Task]
    """Trainings with other limits, of seed 0."""
    reject: Sequence[Task]
    """Trainings with the reject action, of seed 0: unlimited, and limited to half of the cost."""

    @classmethod
    def of(cls, place: Workplace, size: Size) -> Plan:
        """Return the plan of a size; limited trainings read the others' costs from `place`."""
        seeds = range(size.seeds)
        return cls(
            [free(size, seed) for seed in seeds],
            [limited(place, size, HALF, seed) for seed in seeds],
            [limited(place, size, HALF, seed, integral=SLOW) for seed in seeds],
            [limited(place, size, share, 0) for share in SHARES],
            [free(size, 0, reject=True), limited(place, size, HALF, 0, reject=True)],
        )

    @property
    def rounds(self) -> tuple[Sequence[Task], Sequence[Task]]:
        """The unlimited trainings, and the limited ones, which read the costs of the former."""
        unlimited, limit = self.reject
        return [*self.free, unlimited], [*self.half, *self.slow, *self.others, limit]

    @property
    def tasks(self) -> Sequence[Task]:
        """All trainings."""
        return list(chain(*self.rounds))

    def unlimited(self, task: Task) -> Task:
        """Return the training of the same seed without a limit and without rejecting."""
        return self.free[task.seed]


@dataclass(frozen=True)
class Constraint:
    """How well a training kept to its limit."""

    limit: float
    """Limit of the mean number of waiting jobs."""
    above: float
    """Share of iterations above the limit, with drawn or with the likeliest actions."""
    late: float
    """The same in the second half of the iterations."""


@dataclass(frozen=True)
class Results:
    """The content of the page."""

    size: Size
    plan: Plan
    judged: pl.DataFrame
    """Everyone at the load of the trainings, as `judge.judged` returns it."""
    loads: pl.DataFrame
    """The same for a few candidates at all `LOADS`, with a column ``load`` in percent."""
    constraints: Mapping[str, Constraint]
    """Name of a limited training → how well it kept to its limit."""
    minutes: float
    """Wall time of all trainings, one after another."""
    commit: str

    def at(self, load: int) -> pl.DataFrame:
        """Return the results at one of `LOADS`."""
        return self.loads.filter(load=load)

    @property
    def compared(self) -> Mapping[str, str]:
        """Candidate → label, for those compared at all loads with the likeliest actions."""
        return {
            **RULES, self.plan.free[0].name: "without a limit",
            self.plan.half[0].name: "half of its cost",
        }  # fmt: skip
