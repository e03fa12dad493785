"""Limits per user: how many jobs of one user may run, and how many may wait, in a partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from simkit.policy.task import Allocation, Reservation, Task
from simkit.power.ledger import Flows
from simkit.text import counted
from simkit.workload.cluster import Partition


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

    def __init__(self, account: _Account, tasks: int) -> None:
        self.account = account
        self.left = tasks
        """Tasks that have not ended."""
        self.ready: list[Task] = []
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

    def counts(self, tasks: Sequence[Task]) -> None:
        """Count a job as waiting that may not run yet: it is let in later, by `holds`."""
        first = tasks[0]
        if first.user < 0:
            return
        key = first.partition, first.user
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(self._partitions[first.partition])
        self._jobs[first.job_index] = _UsersJob(account, len(tasks))
        account.waiting += 1

    def holds(self, tasks: Sequence[Task], ready: Sequence[Task]) -> bool:
        """Take in a job's tasks, some of them ready; return whether they are held back."""
        first = tasks[0]
        if first.user < 0:
            return False
        if first.job_index not in self._jobs:
            self.counts(tasks)
        job = self._jobs[first.job_index]
        job.ready, account = list(ready), job.account
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

    def ahead_of(self, task: Task) -> tuple[list[Task], list[Task]]:
        """Return the tasks of a held task's user: of jobs let in, and of held jobs ahead of it."""
        account = self._jobs[task.job_index].account
        let_in = [
            other
            for job in self._jobs.values()
            if job.account is account and job.let_in
            for other in job.ready
        ]
        ahead: list[Task] = []
        for job in account.held:
            if task in job.ready:
                break
            ahead += job.ready
        return let_in, ahead

    # ---- as an observer -----------------------------------------------------------------------

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Nothing is known yet of the job's partition."""

    def reserved(self, time_s: float, place: Reservation) -> None:
        """A job waits until it starts."""

    def released(self, time_s: float, allocation: Allocation) -> None:
        """A job counts until it ends."""

    def flowing(self, time_s: float, flows: Flows) -> None:
        """Limits do not depend on power."""

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
        for task in tuple(following.ready):
            if task in self.held:  # else its job has left with another of its tasks
                del self.held[task]
                self._admit(task)
