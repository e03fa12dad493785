"""What is held back until it may run: tasks by their parents, jobs by release or by user.

Limits per user say how many jobs of one user may run, and how many may wait, in a partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf, nan

import numpy as np

from simkit.arrays import Floats
from simkit.engine.bookkeeping import Observer
from simkit.engine.events import EventLoop, Occurrence, Rank
from simkit.policy.task import Allocation, Task
from simkit.text import counted
from simkit.workload import Workload
from simkit.workload.cluster import Partition


class Parents:
    """Holds tasks back until all their parents have ended well.

    The children of a task that was killed are killed with it: what they need will never be there.
    """

    def __init__(
        self, workload: Workload, show: Callable[[Task], None], kill: Callable[[Task, str], None]
    ) -> None:
        """`show` puts a task into the queue; `kill` ends one for a reason."""
        self._first, self._parent = workload.first_parent, workload.parent
        self._show = show
        self._kill = kill
        self.any = bool(len(workload.parent))
        """Whether any task of the workload has a parent."""
        self.held: dict[Task, int] = {}
        """Tasks held back, and how many parents each still waits for."""
        self._children: dict[Task, list[Task]] = {}

    def admit(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Take in the tasks of a job, in order of their rows; return those that need not wait."""
        begin, ready = tasks[0].index, []
        for task in tasks:
            rows = self._parent[self._first[task.index] : self._first[task.index + 1]].tolist()
            parents = dict.fromkeys(tasks[row - begin] for row in rows)
            for parent in parents:
                self._children.setdefault(parent, []).append(task)
            if parents:
                self.held[task] = len(parents)
            else:
                ready.append(task)
        return ready

    def forget(self, tasks: Sequence[Task]) -> None:
        """Forget the tasks of a job that is not run after all."""
        for task in tasks:
            self.held.pop(task, None)
            self._children.pop(task, None)

    def ended(self, task: Task, *, killed: bool) -> None:
        """Release the children whose last parent this was, or kill them with it."""
        for child in self._children.pop(task, ()):
            if child not in self.held:
                continue  # another parent was killed before
            if killed:
                del self.held[child]
                self._kill(child, "a task that it depends on was killed")
                continue
            self.held[child] -= 1
            if not self.held[child]:
                del self.held[child]
                self._show(child)


def _followers(workload: Workload) -> dict[int, list[tuple[int, float]]]:
    """Return row of a job → the rows of those that it precedes, each with its think time."""
    found: dict[int, list[tuple[int, float]]] = {}
    if not len(workload.predecessor):
        return found
    job = np.repeat(np.arange(len(workload)), np.diff(workload.first_predecessor))
    links = (workload.predecessor.tolist(), job.tolist(), workload.think_time_s.tolist())
    for row, follower, think_s in zip(*links, strict=True):
        found.setdefault(row, []).append((follower, think_s))
    return found


class _HeldJob:
    """A job that is not released yet."""

    __slots__ = ("due_s", "tasks", "to_end")

    def __init__(self, tasks: Sequence[Task], due_s: float, to_end: int) -> None:
        self.tasks = tasks
        self.due_s = due_s
        """Not before this, by all that is known."""
        self.to_end = to_end
        """Preceding jobs that have not ended."""


class Releases(Observer):
    """Holds a submitted job back until its release: when it could run for the first time.

    That is the latest of its submission, its release time, and the end of each preceding job plus
    the think time. Any end counts, as with `afterany` of Slurm: a preceding job that is killed,
    rejected or turned away has ended then. It is an observer of the run: that is how it knows of
    ends. Releases happen with the arrivals of their instant.
    """

    def __init__(self, workload: Workload, events: EventLoop) -> None:
        self._workload = workload
        self._events = events
        self.let_in: Callable[[Sequence[Task]], None] = lambda _tasks: None
        """Called with the tasks of a job that was held, at its release."""
        self.released_s: Floats = np.full(len(workload), nan)
        """(J,) when each job was released; NaN before."""
        self.held: dict[Task, None] = {}
        """The tasks of jobs that are held back, in order of submission."""
        self._held: dict[int, _HeldJob] = {}
        self._ends: dict[int, float] = {}  # of jobs that precede others
        self._tasks_left: dict[int, int] = {}  # of these, until they have ended
        self._followers = _followers(workload)

    @classmethod
    def of(cls, workload: Workload, events: EventLoop) -> Releases | None:
        """Return None for a workload in which every job may run from its submission on."""
        return cls(workload, events) if workload.has_releases else None

    def holds(self, tasks: Sequence[Task]) -> bool:
        """Take in a job at its submission; return whether it is held back."""
        load, row, now = self._workload, tasks[0].job_index, self._events.now
        due = float(load.release_time_s[row]) if len(load.release_time_s) else now
        to_end = 0
        if len(load.predecessor):
            links = slice(*load.first_predecessor[row : row + 2].tolist())
            thinks = load.think_time_s[links].tolist()
            for before, think_s in zip(load.predecessor[links].tolist(), thinks, strict=True):
                end = self._ends.get(before)
                if end is None:
                    to_end += 1
                else:
                    due = max(due, end + think_s)
        if not to_end and due <= now:
            self.released_s[row] = now
            return False
        self.held.update(dict.fromkeys(tasks))
        self._held[row] = job = _HeldJob(tasks, due, to_end)
        self._wait_if_due_is_known(row, job)
        return True

    def _wait_if_due_is_known(self, row: int, job: _HeldJob) -> None:
        if not job.to_end:
            due = max(job.due_s, self._events.now)
            self._events.at(due, Rank.ARRIVAL, self._release, row)

    def _release(self, event: Occurrence) -> None:
        row: int = event.subject
        job = self._held.pop(row)
        for task in job.tasks:
            del self.held[task]
        self.released_s[row] = self._events.now
        self.let_in(job.tasks)

    def _job_ends(self, row: int, time_s: float) -> None:
        """Tell the followers of a job of its end."""
        self._ends[row] = time_s
        for follower, think_s in self._followers.pop(row, ()):
            job = self._held.get(follower)
            if job is not None:  # else it has not been submitted, and will find the end noted
                job.to_end -= 1
                job.due_s = max(job.due_s, time_s + think_s)
                self._wait_if_due_is_known(follower, job)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        """A job that is not run has ended."""
        row = tasks[0].job_index
        if row in self._followers:
            self._job_ends(row, time_s)

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        """A job has ended with the last of its tasks."""
        row = task.job_index
        if row not in self._followers:
            return
        first = self._workload.first_task
        left = self._tasks_left.pop(row, int(first[row + 1] - first[row])) - 1
        if left:
            self._tasks_left[row] = left
        else:
            self._job_ends(row, time_s)


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


def too_many_wait(partition: Partition, waiting: int, name: int | str) -> str:
    """Return why a partition takes no more jobs of a user, called `name`, of whom so many wait."""
    return (
        f"user {name} has {counted(waiting, 'waiting job')} in partition {partition.name}, which "
        f"allows {partition.max_waiting_per_user:g} a user"
    )


class UserLimits(Observer):
    """Holds a job back while its user has as many jobs in the partition as may run there.

    A job is let in when policies may see it, and counts until it ends, so that no decision can
    start too many. Jobs of one user are admitted in order of submission. Jobs without a user are
    not limited. It is an observer of the run: that is how it knows of starts and ends.
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
        account, partition = self._accounts.get((position, user)), self._partitions[position]
        waiting = 0 if account is None else account.waiting
        if user < 0 or waiting < partition.max_waiting_per_user:
            return ""
        return too_many_wait(partition, waiting, name)

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
