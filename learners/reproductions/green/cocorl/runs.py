"""The trainings of `simkit reproduce cocorl`, and all that its page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import polars as pl

from simkit.learners.reproductions.green.studies import Size, free, limited
from simkit.learners.reproductions.green.trainings import Task
from simkit.training import Workplace

__all__ = ["HALF", "LOADS", "RULES", "SHARES", "SLOW", "Constraint", "Plan", "Results", "drawn"]

HALF: Final = 0.5
"""The limit of most trainings, as a share of what the agent without a limit costs."""
SHARES: Final = (0.35, 0.65, 0.8)
"""Other limits."""
SLOW: Final = 0.01
"""The integral gain that figure 6.12 has beside 1."""
LOADS: Final = (20, 40, 60, 80, 100, 120)
"""Of figures 6.4 to 6.8, in percent; agents are trained at the last one."""
RULES: Final[Mapping[str, str]] = {"fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "value": "HVF"}
"""The dissertation's rules: name → as it writes them."""


def drawn(name: str) -> str:
    """Return the name of an agent whose actions are drawn."""
    return f"{name}, drawn"


@dataclass(frozen=True)
class Plan:
    """The trainings."""

    free: Sequence[Task]
    """Without a limit, seed by seed."""
    half: Sequence[Task]
    """With half of the cost, likewise."""
    slow: Sequence[Task]
    """The same with the smaller integral gain."""
    others: Sequence[Task]
    """With other limits, of seed 0."""
    reject: Sequence[Task]
    """With the reject action, of seed 0: without a limit, and with half of the cost."""

    @classmethod
    def of(cls, place: Workplace, size: Size) -> Plan:
        """Return that of a size; limited trainings read the costs of the others in the place."""
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
        """The trainings without a limit, and those which read what the former cost."""
        unlimited, limit = self.reject
        return [*self.free, unlimited], [*self.half, *self.slow, *self.others, limit]

    @property
    def tasks(self) -> Sequence[Task]:
        """All of them."""
        return list(chain(*self.rounds))

    def beside(self, task: Task) -> Task:
        """Return the training without a limit and without rejecting, of the same seed."""
        return self.free[task.seed]


@dataclass(frozen=True)
class Constraint:
    """What a limit did in a training."""

    limit: float
    """Waiting jobs in the mean."""
    above: float
    """Share of the iterations whose cost was above it, drawn or with the likeliest actions."""
    late: float
    """The same of the second half of the iterations."""


@dataclass(frozen=True)
class Results:
    """What the page is made of."""

    size: Size
    plan: Plan
    judged: pl.DataFrame
    """As `judge.judged` returns it: everyone at the load of the trainings."""
    loads: pl.DataFrame
    """The same for a few at all `LOADS`, with a column ``load`` in percent."""
    constraints: Mapping[str, Constraint]
    """Name of a limited training → what its limit did."""
    minutes: float
    """Of all trainings, one after another."""
    commit: str

    def at(self, load: int) -> pl.DataFrame:
        """Return what was judged at a load of `LOADS`."""
        return self.loads.filter(load=load)

    @property
    def compared(self) -> Mapping[str, str]:
        """Candidate → label of those that are judged at all loads with the likeliest actions."""
        return {
            **RULES, self.plan.free[0].name: "without a limit",
            self.plan.half[0].name: "half of its cost",
        }  # fmt: skip
