"""The scores of all pairs that fit, kept up to date while instances are placed one by one."""

from __future__ import annotations

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.policy.pairs.machine_task_pairs import (
    MachineTaskPairs,
    Score,
    TaskColumns,
    checked_scores,
)

__all__ = ["PairTable"]


class PairTable:
    """M machines × T tasks of a decision.

    After a placement only the pairs of that machine and of that task are scored again; so a score
    may depend on the machine, on the task, and on the instances left of it.
    """

    def __init__(self, score: Score, facts: TaskColumns, free: Floats, capacity: Floats) -> None:
        """Score all pairs; raises PolicyError, as `place` does, for a score that is not finite.

        Args:
            score: from pairs to scores.
            facts: the tasks, oldest first; `place` counts down their instances that remain.
            free: (M, R) free amounts; `place` takes from them.
            capacity: (M, R) machine totals.
        """
        self._score, self.facts, self.free, self._capacity = score, facts, free, capacity
        machines, tasks = len(free), len(facts.tasks)
        self._scores: Floats = np.full((machines, tasks), -np.inf)
        self._machines, self._tasks = np.arange(machines), np.arange(tasks)
        self._update(np.repeat(self._machines, tasks), np.tile(self._tasks, machines))

    def best(self) -> tuple[int, int] | None:
        """Return machine and task of the highest score; None if nothing fits.

        Ties go to the first machine, then to the oldest task.
        """
        place = int(self._scores.argmax())
        return None if self._scores.flat[place] == -np.inf else divmod(place, len(self._tasks))

    def draw(self, rng: np.random.Generator) -> tuple[int, int] | None:
        """Return a pair, drawn with probabilities in proportion to exp(score); None: nothing fits.

        It takes one random number, and goes through the pairs machine by machine.
        """
        most = self._scores.max()
        if most == -np.inf:
            return None
        below = np.exp(self._scores - most).ravel().cumsum()
        place = int(np.searchsorted(below, rng.random() * below[-1], side="right"))
        return divmod(min(place, int(np.flatnonzero(np.diff(below, prepend=0.0))[-1])),
                      len(self._tasks))  # fmt: skip

    def place(self, machine: int, task: int) -> None:
        """Place an instance of a task on a machine."""
        self.free[machine] -= self.facts.request[task]
        self.facts.remaining[task] -= 1
        column = self._machines[self._machines != machine]
        self._update(
            np.concatenate((np.full(len(self._tasks), machine), column)),
            np.concatenate((self._tasks, np.full(len(column), task))),
        )

    def _update(self, machine: Ints, task: Ints) -> None:
        """Score (P,) pairs again."""
        facts = self.facts
        fits: Bools = np.all(facts.request[task] <= self.free[machine], axis=1)
        fits &= facts.remaining[task] > 0
        self._scores[machine[~fits], task[~fits]] = -np.inf
        machine, task = machine[fits], task[fits]
        if len(task):
            pairs = MachineTaskPairs(
                facts, task, machine, self.free[machine], self._capacity[machine]
            )
            self._scores[machine, task] = checked_scores(self._score, pairs)
