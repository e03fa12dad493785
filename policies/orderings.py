"""Orderings by a number that a task keeps while it waits; ties go by submission."""

from __future__ import annotations

import numpy as np

from simkit.policy import SystemInfo
from simkit.task import Task


class FCFS:
    """First come, first served: by submission."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""

    def key(self, task: Task) -> float:
        """See `Order.key`."""
        return task.submit_time_s


class SJF(FCFS):
    """Shortest job first: by the estimated run time."""

    def key(self, task: Task) -> float:
        """See `Order.key`."""
        return task.estimate_s
