"""Admission: which submitted tasks a policy sees, and the backlog of those that it does not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf
from typing import Final, Literal, Protocol, get_args

from simkit.errors import ScenarioError
from simkit.policy.queue import TaskQueue
from simkit.policy.task import Allocation, Task
from simkit.text import counted
from simkit.workload.cluster import Partition

AdmissionOrder = Literal["fifo", "qos", "value"]
"""Who goes first: the oldest, the highest quality of service, or the highest value."""


class Backlog(Protocol):
    """Tasks held back: the methods of `deque` that admission needs."""

    def append(self, task: Task, /) -> None:
        """Hold a task back."""

    def popleft(self) -> Task:
        """Take out the task that goes first."""

    def remove(self, task: Task, /) -> None:
        """Take out any task; ValueError if it is not there."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Task]: ...


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
        return (-self._rank(task), task.index, task)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks in the order in which they came."""
        return iter(self._held)


_RANKS: Final[dict[str, Callable[[Task], float]]] = {
    "qos": lambda task: task.qos,
    "value": lambda task: task.value,
}


def make_backlog(order: AdmissionOrder) -> Backlog:
    """Return an empty backlog of that order."""
    return deque() if order == "fifo" else RankedBacklog(_RANKS[order])


@dataclass(frozen=True)
class AdmissionRule:
    """Limits of the queue; None means none.

    DeepRM's ten slots and backlog of sixty are ``AdmissionRule(slots=10, backlog=60)``; RARE's
    ready pool of five and wait pool of 144 by QoS ``AdmissionRule(5, 144, order="qos")``.
    """

    slots: int | None = None
    """Tasks that the policy sees at a time."""
    backlog: int | None = None
    """Tasks that may wait for a slot; a task beyond them is rejected."""
    refill: Literal["at_once", "next_decision"] = "at_once"
    """When a freed slot takes the next of the backlog: at once, so that the policy sees it in
    the same decision, or only at the next decision."""
    order: AdmissionOrder = "fifo"
    """Who is next: the oldest, the highest quality of service, or the highest value; of equals
    the oldest. In the latter two everyone who has come by a decision is compared."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for a limit that admits nothing."""
        if self.slots is not None and self.slots < 1:
            raise ScenarioError(f"admission: slots is {self.slots}; it must be at least 1")
        if self.backlog is not None and self.backlog < 0:
            raise ScenarioError(f"admission: backlog is {self.backlog}; it must be at least 0")
        if self.order not in get_args(AdmissionOrder):
            raise ScenarioError(f"admission: order is {self.order!r}; it is fifo, qos or value")
        if self.order != "fifo" and self.slots is None:
            raise ScenarioError(f"admission: order {self.order} needs slots; give a number of them")


class _Account:
    """The jobs of one user in one partition."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.let_in = 0
        """Jobs that policies may start, or have started, and that have not ended."""
        self.waiting = 0
        """Jobs that have not started, let in or not."""
        self.held: deque[_UsersJob] = deque()
        """Jobs that are not let in yet."""


class _UsersJob:
    """A job that counts towards its user's limits."""

    def __init__(self, account: _Account, tasks: int, ready: Sequence[Task]) -> None:
        self.account = account
        self.left = tasks
        """Tasks that have not ended."""
        self.ready = list(ready)
        """Tasks to show when the job is let in."""
        self.let_in = self.started = False


class UserLimits:
    """Holds a job back while its user has as many jobs in the partition as may run there.

    A job is let in when policies may see it, and counts until it ends, so that no decision can
    start too many. Jobs of one user are let in in order of submission. Jobs without a user are not
    limited. It is an observer of the run: that is how it knows of starts and ends.
    """

    def __init__(self, partitions: Sequence[Partition], admit: Callable[[Task], None]) -> None:
        """`admit` shows a task to policies as far as admission allows."""
        self._partitions = partitions
        self._admit = admit
        self._accounts: dict[tuple[int, int], _Account] = {}
        self._jobs: dict[int, _UsersJob] = {}
        self.held: dict[Task, None] = {}
        """The tasks of jobs that are held back, in the order in which they came."""
        self.of_waiting = any(p.max_waiting_per_user < inf for p in partitions)
        """Whether jobs are refused for the number of those that wait."""

    @classmethod
    def of(
        cls, partitions: Sequence[Partition], admit: Callable[[Task], None]
    ) -> UserLimits | None:
        """Return None if no partition limits its users."""
        limits = [min(p.max_running_per_user, p.max_waiting_per_user) for p in partitions]
        return cls(partitions, admit) if min(limits) < inf else None

    def refusal(self, position: int, user: int, name: int | str) -> str:
        """Return why a partition takes no more jobs of a user, called `name`; empty: it does."""
        account = self._accounts.get((position, user))
        if account is None or account.waiting < account.partition.max_waiting_per_user:
            return ""
        partition = account.partition
        waiting = counted(account.waiting, "waiting job")
        return (
            f"user {name} has {waiting} in partition {partition.name}, which allows "
            f"{partition.max_waiting_per_user:g} a user"
        )

    def holds(self, tasks: Sequence[Task], ready: Sequence[Task]) -> bool:
        """Take in a job's tasks, of which some are ready; return whether they are held back."""
        first = tasks[0]
        if first.user < 0:
            return False
        key = first.partition, first.user
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(self._partitions[first.partition])
        job = self._jobs[first.job_index] = _UsersJob(account, len(tasks), ready)
        account.waiting += 1
        if account.let_in < account.partition.max_running_per_user:
            job.let_in = True
            account.let_in += 1
            return False
        account.held.append(job)
        self.held.update(dict.fromkeys(ready))
        return True

    def withdraw(self, task: Task) -> bool:
        """Take a task out of those held back; return whether it was there."""
        if task not in self.held:
            return False
        del self.held[task]
        self._jobs[task.job_index].ready.remove(task)
        return True

    # ---- as an observer -----------------------------------------------------------------------

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Nothing is known yet of the job's partition."""

    def released(self, time_s: float, allocation: Allocation) -> None:
        """A job counts until it ends."""

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Forget a job that was taken in, but for which admission has no space."""
        for task in tasks:
            self.ended(time_s, task, killed=True)

    def started(self, time_s: float, allocation: Allocation) -> None:
        """Count a job as waiting no longer when its first instance starts."""
        job = self._jobs.get(allocation.task.job_index)
        if job is not None and not job.started:
            job.started = True
            job.account.waiting -= 1

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        """Let in the user's next job if this was the last task of one."""
        job = self._jobs.get(task.job_index)
        if job is None:
            return
        job.left -= 1
        if job.left:
            return
        del self._jobs[task.job_index]
        account = job.account
        account.waiting -= not job.started
        if not job.let_in:
            account.held.remove(job)
            return
        if not account.held:
            account.let_in -= 1
            return
        following = account.held.popleft()
        following.let_in = True
        for task in following.ready:
            del self.held[task]
            self._admit(task)


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
        self.rule = rule
        self._queue = queue
        self.arrived: list[Task] = []
        """Tasks that have entered the queue; the list that policies see."""
        self._backlog = make_backlog(rule.order)
        self.users = UserLimits.of(partitions, self.admit)
        """The limits of users; None without any."""
        self.held: Backlog | _AllHeld = self._backlog
        """All tasks held back; of each reason, in the order in which they came."""
        if self.users is not None:
            self.held = _AllHeld(self.users.held, self._backlog)
        self._compares = rule.order != "fifo"
        self.limited = rule.slots is not None
        """Whether there is anything to do when a task leaves the queue."""

    def submit(self, task: Task) -> bool:
        """Show a task to the policy or hold it back; return False if there is no space for it."""
        backlog = self.rule.backlog
        if backlog is not None and len(self._backlog) >= backlog and not self._place_left(backlog):
            return False
        self.admit(task)
        return True

    def admit(self, task: Task) -> None:
        """Show a task of a job that has been let in, or hold it back, whatever the backlog.

        Where tasks are compared all are held back, until the decision fills the free slots.
        """
        if not self._compares and self._slot_for_newcomers():
            self.show(task)
        else:
            self._backlog.append(task)

    def _slot_for_newcomers(self) -> bool:
        slots = self.rule.slots
        return slots is None or (len(self._queue) < slots and not self._backlog)

    def _place_left(self, backlog: int) -> bool:
        """Return whether a newcomer finds a slot, or a place that those held back will leave."""
        if not self._compares:
            return self._slot_for_newcomers()
        slots = self.rule.slots or 0  # a rule that compares has slots
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
        if self.limited and self.rule.refill == "at_once":
            self.refill()

    def has_room(self) -> bool:
        """Return whether a task is held back although a slot is free."""
        slots = self.rule.slots
        return bool(self._backlog) and slots is not None and len(self._queue) < slots

    def refill(self) -> None:
        """Fill free slots from the backlog."""
        slots = self.rule.slots
        while self._backlog and (slots is None or len(self._queue) < slots):
            self.show(self._backlog.popleft())
