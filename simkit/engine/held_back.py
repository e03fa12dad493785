"""What is held back until it may run: tasks by the tasks of their job, jobs by their release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan

import numpy as np

from simkit.arrays import Floats
from simkit.engine.events import EventLoop, Occurrence, Rank
from simkit.policy.task import Allocation, Reservation, Task
from simkit.power.ledger import Flows
from simkit.workload import Workload


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


class Releases:
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

    # ---- as an observer -----------------------------------------------------------------------

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        """Nothing has ended."""

    def reserved(self, time_s: float, place: Reservation) -> None:
        """Nothing has ended."""

    def started(self, time_s: float, allocation: Allocation) -> None:
        """Nothing has ended."""

    def released(self, time_s: float, allocation: Allocation) -> None:
        """A job ends with its last task, not with an allocation."""

    def flowing(self, time_s: float, flows: Flows) -> None:
        """Releases do not depend on power."""

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
