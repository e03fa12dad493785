"""An observer of a simulation: told when jobs and allocations come and go, at the exact time.

Decisions come later than what happens between them, and see less of it; whoever adds up over time
what happens, as a reward does, needs every instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simkit.policy.task import Allocation, Task


class Observer(Protocol):
    """Takes facts in order of time; `time_s` is in seconds on the trace's clock.

    It looks and changes nothing; a simulation without an observer spends nothing on it.
    """

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Take note of a job, all its tasks, that comes now; `rejected` may follow at once."""

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Take note of a job that was submitted at this very time, and will not be run."""

    def started(self, time_s: float, allocation: Allocation) -> None:
        """Take note of an allocation that begins to hold resources, also after a suspension."""

    def released(self, time_s: float, allocation: Allocation) -> None:
        """Take note of an allocation that holds them no longer, whatever becomes of its task.

        Of one that was split in between, all parts are released and none of them was started; the
        amounts that all allocations hold agree at any time.
        """

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        """Take note of a task that has ended for good: finished or killed, waiting or not."""
