"""Admission: which tasks a policy sees, the backlog of those that it does not, and who is late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final

from simkit.engine.held_back import UserLimits
from simkit.errors import ScenarioError
from simkit.policy.queue import TaskQueue
from simkit.policy.task import Task
from simkit.rules import AdmissionRule
from simkit.workload import Workload
from simkit.workload.cluster import Partition


class RankedBacklog:
    """Tasks held back; the one with the highest rank goes first, of equals the first submitted."""

    def __init__(self, rank: Callable[[Task], float]) -> None:
        self._rank = rank
        self._heap: list[tuple[float, int, Task]] = []
        self._held: dict[Task, None] = {}

    def append(self, task: Task, /) -> None:
        """Hold a task back, in O(log n)."""
        self._held[task] = None
        heappush(self._heap, self._entry(task))

    def popleft(self) -> Task:
        """Take out the task of the highest rank, in O(log n)."""
        task = heappop(self._heap)[2]
        del self._held[task]
        return task

    def remove(self, task: Task, /) -> None:
        """Take out any task, in O(n).

        Raises ValueError if it is not there.
        """
        if task not in self._held:
            raise ValueError(f"{task!r} is not held back")
        del self._held[task]
        self._heap = [self._entry(other) for other in self._held]
        heapify(self._heap)

    def _entry(self, task: Task) -> tuple[float, int, Task]:
        return (*self.place(task), task)

    def place(self, task: Task) -> tuple[float, int]:
        """Return by what tasks are compared; the smallest goes first."""
        return -self._rank(task), task.index

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks in the order in which they came."""
        return iter(self._held)


_RANKS: Final[dict[str, Callable[[Task], float]]] = {
    "qos": lambda task: task.qos,
    "value": lambda task: task.value,
}


Backlog = deque[Task] | RankedBacklog
"""Tasks held back, the one that goes first at the left."""


LATE: Final = "late: it can no longer end in time"
"""The reason of the rejection of a job that leaves."""


def check_lateness(workload: Workload) -> None:
    """Raise ScenarioError if jobs cannot be late: no deadline, no quality of service."""
    if len(workload) and not (len(workload.qos) or len(workload.deadline_s)):
        raise ScenarioError(
            "admission: late is leave, but the jobs have neither deadlines nor a quality of "
            "service; add a section `value`, or let them stay"
        )


class _AllHeld:
    """The tasks of several places, together."""

    def __init__(self, *places: Collection[Task] | Backlog) -> None:
        self._places = places

    def __len__(self) -> int:
        return sum(map(len, self._places))

    def __iter__(self) -> Iterator[Task]:
        return chain.from_iterable(self._places)


class Admission:
    """The tasks held back by a rule or by limits of users, and who of them is let in."""

    def __init__(
        self, rule: AdmissionRule, queue: TaskQueue, partitions: Sequence[Partition]
    ) -> None:
        self._slots, self._most_behind = rule.slots, rule.backlog
        self._refills_at_once = rule.slots is not None and rule.refill == "at_once"
        self._queue = queue
        self.arrived: list[Task] = []
        """Tasks that have entered the queue; the list that policies see."""
        self._backlog: Backlog = (
            deque() if rule.order == "fifo" else RankedBacklog(_RANKS[rule.order])
        )
        self.users = UserLimits.of(partitions, self.admit)
        """The limits of users; None without any."""
        self.held: Backlog | _AllHeld = self._backlog
        """All tasks held back; of each reason, in the order in which they came."""
        if self.users is not None:
            self.held = _AllHeld(self.users.held, self._backlog)
        self._compares = rule.order != "fifo"
        self.turns_away: Callable[[Task], bool] | None = None
        """Turns a task's job away instead of showing it, if it is late; None: never."""
        self.deciding = False
        """Whether late jobs have left for the decision that is being made."""
        self._newcomers: deque[Task] = deque()
        self.limited = rule.slots is not None
        """Whether there is anything to do when a task leaves the queue."""

    @property
    def backlog(self) -> list[Task]:
        """The tasks that wait for a slot, in the order in which they will be let in."""
        held = [*self._backlog]
        return (
            sorted(held, key=self._backlog.place)
            if isinstance(self._backlog, RankedBacklog)
            else held
        )

    def submit(self, task: Task) -> bool:
        """Show a task to the policy or hold it back; return False if there is no space for it."""
        backlog = self._most_behind
        if backlog is not None and len(self._backlog) >= backlog and not self._place_left(backlog):
            return False
        self.admit(task)
        return True

    def admit(self, task: Task) -> None:
        """Show a task of a job that has been let in, or hold it back, whatever the backlog.

        Where tasks are compared all are held back, until the decision fills the free slots. What is
        let in during a decision, as the job before it leaves, is not shown if it is late.
        """
        if self._compares or not self._slot_for_newcomers():
            self._backlog.append(task)
        elif self.deciding and self.turns_away is not None:
            self._newcomers.append(task)
            if len(self._newcomers) == 1:
                self._show_newcomers(self.turns_away)
        else:
            self.show(task)

    def _show_newcomers(self, turns_away: Callable[[Task], bool]) -> None:
        """Show tasks, or turn them away, one by one: each that leaves may let in the next."""
        while self._newcomers:
            task = self._newcomers[0]
            if task.remaining and not turns_away(task):  # none remains of a job that has left
                if self._slot_for_newcomers():
                    self.show(task)
                else:
                    self._backlog.append(task)
            self._newcomers.popleft()

    def _slot_for_newcomers(self) -> bool:
        slots = self._slots
        return slots is None or (len(self._queue.tasks) < slots and not self._backlog)

    def _place_left(self, backlog: int) -> bool:
        """Return whether a newcomer finds a slot, or a place that those held back will leave."""
        if not self._compares:
            return self._slot_for_newcomers()
        slots = self._slots or 0  # a rule that compares has slots
        return len(self._queue) + len(self._backlog) < slots + backlog

    def show(self, task: Task) -> None:
        """Put a task in the queue; one that comes back does so even if all slots are taken."""
        self._queue.add(task)
        self.arrived.append(task)

    def withdraw(self, task: Task) -> bool:
        """Take a task out of those held back; return whether it was there."""
        if self.users is not None and self.users.withdraw(task):
            return True
        try:
            self._backlog.remove(task)
        except ValueError:
            return False
        return True

    def leave(self, task: Task) -> None:
        """Take a task out of the queue, and refill its slot if the rule says at once."""
        self._queue.remove(task)
        if self._refills_at_once:
            self.refill()

    def has_room(self) -> bool:
        """Return whether a task is held back although a slot is free."""
        slots = self._slots
        return bool(self._backlog) and slots is not None and len(self._queue) < slots

    def refill(self) -> None:
        """Fill free slots from the backlog."""
        slots = self._slots
        while self._backlog and (slots is None or len(self._queue) < slots):
            task = self._backlog.popleft()
            if self.turns_away is None or not self.turns_away(task):
                self.show(task)
