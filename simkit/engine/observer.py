"""An observer of a simulation: told when jobs come and go and power changes, at the exact time.

Decisions see only the state that is left; a reward that adds up over time needs every instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simkit.policy.task import Allocation, Reservation, Task
from simkit.power.ledger import Flows


class Observer(Protocol):
    """Takes facts in order of time; `time_s` is in seconds on the trace's clock.

    One from outside the engine must change nothing.
    """

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Note a job's tasks, submitted now; `rejected` may follow at once."""

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Note a job that was submitted at this time and will not be run."""

    def reserved(self, time_s: float, place: Reservation) -> None:
        """Note a task that is to start later; if it cannot then, it waits again."""

    def started(self, time_s: float, allocation: Allocation) -> None:
        """Note an allocation that begins to hold resources, also after a suspension."""

    def released(self, time_s: float, allocation: Allocation) -> None:
        """Note an allocation that no longer holds resources, whatever happens to its task.

        Of one that was split in between, all parts are released and none of them was started; the
        amounts that all allocations hold agree at any time.
        """

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        """Note a task that has ended for good: finished or killed, waiting or not."""

    def flowing(self, time_s: float, flows: Flows) -> None:
        """Note what flows through the site from now on, until this is called again."""


class Observers:
    """Several observers as one: each is told of everything, in the order given."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        for observer in self._observers:
            observer.submitted(time_s, tasks)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        for observer in self._observers:
            observer.rejected(time_s, tasks)

    def reserved(self, time_s: float, place: Reservation) -> None:
        for observer in self._observers:
            observer.reserved(time_s, place)

    def started(self, time_s: float, allocation: Allocation) -> None:
        for observer in self._observers:
            observer.started(time_s, allocation)

    def released(self, time_s: float, allocation: Allocation) -> None:
        for observer in self._observers:
            observer.released(time_s, allocation)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        for observer in self._observers:
            observer.ended(time_s, task, killed=killed)

    def flowing(self, time_s: float, flows: Flows) -> None:
        for observer in self._observers:
            observer.flowing(time_s, flows)
