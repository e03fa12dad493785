"""Placement: which of the machines that have room are filled first.

A rule puts machines in order; the engine fills each with as many instances as fit before it goes
on to the next. With one machine, a pool, there is nothing to choose.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.policy import SystemInfo
from simkit.policy.task import Task

Rows = Ints


class FirstFit:
    """In order of the machines' rows."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Rows) -> Rows:
        return fitting


class BestFit(FirstFit):
    """The machine with the least left over first: keeps large gaps for large tasks.

    What is free of each resource that the task asks for counts as a share of the largest machine's
    capacity, and the shares are added up. Ties go by row.
    """

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Rows) -> Rows:
        return fitting[np.argsort(_left_over(task, free, capacity, fitting), kind="stable")]


class WorstFit(FirstFit):
    """The machine with the most left over first: spreads tasks. Measured as for `BestFit`."""

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Rows) -> Rows:
        return fitting[np.argsort(-_left_over(task, free, capacity, fitting), kind="stable")]


class Random(FirstFit):
    """Machines in random order, drawn anew each time; the seed settles it."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run with a stream that nothing else of the policy draws from."""
        self._rng = rng.spawn(1)[0]

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Rows) -> Rows:
        return self._rng.permutation(fitting)


def _left_over(task: Task, free: Floats, capacity: Floats, fitting: Rows) -> Floats:
    """Return (F,): free shares, added up; what an instance takes is the same everywhere."""
    asked = np.flatnonzero(task.request)
    largest = capacity[:, asked].max(axis=0)
    left: Floats = (free[np.ix_(fitting, asked)] / largest).sum(axis=1)
    return left
