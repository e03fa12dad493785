"""The tasks of a run's input: what each requests, how long it runs, its parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from simkit.verify.numbers import Floats

OF_TASKS: Final = (
    "job_id", "task_id", "submit", "instances", "gang", "run", "requested", "retries", "order",
)  # fmt: skip
"""Columns of tasks that are no resources."""


@dataclass(frozen=True)
class InputTasks:
    """The tasks of the input, or the reason why they are not known."""

    tasks: pl.DataFrame
    """Columns job_id, task_id, submit, instances, gang, run (of every instance, null: unknown),
    requested (null: unknown), retries (null: none of its own), order (of the job among all, from 0)
    and the resources; sorted by order."""
    jobs: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Columns order, job_id and submit, and those of user, group, executable, queue, partition,
    qos, value and deadline_s (infinite: none) that a job may have by the input; sorted by order.
    Users, … are whole numbers, -1 where unknown, or names, empty where unknown."""
    parents: pl.DataFrame | None = None
    """Columns job_id, task_id, parent: one row per dependency; None if there are none."""
    instance_times: tuple[Floats, Floats] | None = None
    """Run times of single instances in s, and their tolerances (for means of the others), each
    (sum of instances,) in the order of `tasks`; None: each instance has the time of its task."""
    epoch_s: float | None = None
    """Unix time of second 0 if the submit times of a table are dates."""
    reason: str = ""
    """Why the input was not read again."""
    problem: str = ""
    """Why the input could not be read."""

    @property
    def known(self) -> bool:
        """Whether the input was read."""
        return not self.reason and not self.problem
