"""Bookkeeping: what has become of every task and job in the system, written down as records."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Sequence
from math import nan

from simkit.engine.instances import spread
from simkit.engine.observer import Observer
from simkit.engine.recorder import Outcome, Recorder, Status
from simkit.policy.estimates import Predictor
from simkit.policy.task import Allocation, Instances, Task
from simkit.workload import Workload

_NO_REASON = 0
# Plain numbers: looking a member of an enum up costs more than the comparison.
_FINISHED, _KILLED = int(Outcome.FINISHED), int(Outcome.KILLED)
_SUSPENDED, _LOST = int(Outcome.SUSPENDED), int(Outcome.LOST)


class _OpenJob:
    """A job of several tasks that has not ended."""

    __slots__ = ("left", "reason", "start_s", "status", "tasks")

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.left = len(tasks)
        self.start_s = nan
        self.status: int = Status.FINISHED
        self.reason = _NO_REASON


class Bookkeeping:
    """Accounts for every instance: exactly one attempt of it ends well, or its job does not."""

    def __init__(
        self,
        workload: Workload,
        recorder: Recorder,
        predictor: Predictor,
        observer: Observer | None = None,
    ) -> None:
        self._workload = workload
        self._observer = observer
        self._recorder = recorder
        self._learn = predictor.on_end if predictor.learns else None
        self._write_quiet_end = recorder.simple.fromlist
        self.jobs_ended = 0
        self.on_task_end: Callable[..., None] | None = None
        """Called with a task that has ended, and whether it was ``killed``."""

    def open(self, tasks: Sequence[Task]) -> None:
        """Take in a job of several tasks, or of a bag; others need no books until they end."""
        for task in tasks:
            task._eventful = True
        if len(tasks) > 1:
            entry = _OpenJob(tasks)
            for task in tasks:
                task._job = entry

    def instances(self, task: Task, count: int) -> tuple[Instances, ...]:
        """Return which instances of a bag start when `count` of them do: the lowest left."""
        if task._unplaced is None:
            task._unplaced = [(0, task.instances, 0)]
        chosen: list[Instances] = []
        while count:
            first, size, attempts = task._unplaced.pop(0)
            taken = min(size, count)
            chosen.append((first, taken, attempts + 1))
            task._attempt = max(task._attempt, attempts + 1)
            if taken < size:
                task._unplaced.insert(0, (first + taken, size - taken, attempts))
            count -= taken
        return tuple(chosen)

    def give_back(self, task: Task, allocation: Allocation) -> None:
        """Note that the work of these instances is lost; they will start again."""
        if task._unplaced is not None:
            task._unplaced = sorted([*(allocation._instances or ()), *task._unplaced])

    def end_allocation(
        self, allocation: Allocation, now: float, outcome: int, executed_s: float
    ) -> None:
        """Write down an allocation that ends now, and its task and job if that was all of them.

        `executed_s` counts all segments of the attempt.
        """
        task = allocation.task
        self.record(allocation, now, outcome)
        share = allocation.count / task.instances
        if outcome == _LOST:
            task._lost_s += executed_s * share
        elif outcome != _SUSPENDED:
            task._executed_s += executed_s * share
            task._ended += allocation.count
            if outcome == _KILLED:
                task._killed = self._recorder.reason("requested time is over")
            if task._ended == task.instances:
                if self._learn is not None:
                    self._learn(task.user, task._executed_s)
                self._end_task(task, now)

    def finish(self, allocation: Allocation, now: float) -> None:
        """Write the end of a task that led a quiet life: one row says it all."""
        task = allocation.task
        self.jobs_ended += 1
        self._write_quiet_end([
            task.index, allocation.on[0][0], allocation.start_time_s, now, task.estimate_s,
        ])  # fmt: skip
        if self._observer is not None:
            self._observer.ended(now, task, killed=False)

    def record(self, allocation: Allocation, now: float, outcome: int) -> None:
        """Write the rows of an allocation: one for each machine and run of instances."""
        task, on = allocation.task, allocation.on
        write, start = self._recorder.spilled().allocations.fromlist, allocation.start_time_s
        whole = allocation._instances or ((0, task.instances, task._attempt),)
        if len(whole) == 1 and len(on) == 1:
            first, count, attempt = whole[0]
            write(
                [task.job_index, task.index, on[0][0], first, count, attempt, start, now, outcome]
            )
            return
        for machine, first, count, attempt in spread(on, whole):
            write([task.job_index, task.index, machine, first, count, attempt, start, now, outcome])

    def kill(self, task: Task, now: float, reason: str, executed_s: float) -> None:
        """Write down that a task was ended for good; its allocations have been recorded."""
        task._killed = self._recorder.reason(reason)
        task._executed_s = executed_s
        task._ended = task.instances
        self._end_task(task, now)

    def reject(self, row: int, tasks: Sequence[Task], now: float, reason: str) -> None:
        """Write down that a job will not be run."""
        number = self._recorder.reason(reason)
        self._recorder.events.append((now, "rejected", row, -1, -1, reason))
        for task in tasks:
            self._recorder.spilled().tasks.fromlist([task.index, nan, nan, Status.REJECTED])
        self._record_job(row, tasks, nan, nan, Status.REJECTED, number)
        if self._observer is not None:
            self._observer.rejected(now, tasks)

    def _end_task(self, task: Task, now: float) -> None:
        status = _KILLED if task._killed else _FINISHED  # the same numbers in `Status`
        self._recorder.spilled().tasks.fromlist([task.index, task._first_start_s, now, status])
        self._end_job_of(task, now, status)
        if self._observer is not None:
            self._observer.ended(now, task, killed=bool(task._killed))
        if self.on_task_end is not None:
            self.on_task_end(task, killed=bool(task._killed))

    def _end_job_of(self, task: Task, now: float, status: int) -> None:
        """Write down a task's job if this was the last of its tasks."""
        job = task._job
        if not isinstance(job, _OpenJob):
            self.jobs_ended += 1
            start = task._first_start_s
            executed = task._executed_s if task.gang and start == start else now - start
            self._recorder.spilled().jobs.fromlist([
                task.job_index, start, now, executed, task.estimate_s, task._suspended_s,
                task._lost_s, task._attempt, status, task._killed,
            ])  # fmt: skip
            return
        job.left -= 1
        job.start_s = _earlier(job.start_s, task._first_start_s)
        if task._killed:
            job.status, job.reason = _KILLED, task._killed
        if not job.left:
            self._record_job(task.job_index, job.tasks, job.start_s, now, job.status, job.reason)

    def _record_job(
        self, row: int, tasks: Sequence[Task], start: float, end: float, status: int, reason: int
    ) -> None:
        if status in (Status.FINISHED, Status.KILLED, Status.REJECTED):
            self.jobs_ended += 1
        self._recorder.spilled().jobs.fromlist([
            row, start, end, end - start,
            max(task.estimate_s for task in tasks),
            max(task._suspended_s for task in tasks),
            sum(task._lost_s for task in tasks),
            max(task._attempt for task in tasks),
            status, reason,
        ])  # fmt: skip

    def event(self, now: float, kind: str, task: Task, detail: str) -> None:
        """Write down something that happened to a task."""
        self._recorder.events.append((now, kind, task.job_index, task.index, -1, detail))

    def capacity(
        self,
        now: float,
        machine: int,
        amounts: Sequence[float],
        names: Sequence[str],
        running: str,
        cause: str,
    ) -> None:
        """Write down a machine's new capacity."""
        capacity = {name: float(amount) for name, amount in zip(names, amounts, strict=True)}
        detail = json.dumps({"capacity": capacity, "running": running, "cause": cause})
        self._recorder.events.append((now, "capacity", -1, -1, machine, detail))

    def close(self, unfinished: Collection[Task], in_progress: Container[Task]) -> None:
        """Write down all that has not ended; those of `in_progress` run or are suspended."""
        jobs: dict[int, list[Task]] = {}
        for task in sorted(unfinished, key=lambda task: task.index):
            status = Status.RUNNING if task in in_progress else Status.WAITING
            self._recorder.spilled().tasks.fromlist([task.index, task._first_start_s, nan, status])
            jobs.setdefault(task.job_index, []).append(task)
        for row, tasks in jobs.items():
            whole = tasks[0]._job
            everyone, reason = (
                (whole.tasks, whole.reason) if isinstance(whole, _OpenJob) else (tasks, _NO_REASON)
            )
            start = nan
            for task in everyone:
                start = _earlier(start, task._first_start_s)
            status = Status.WAITING if start != start else Status.RUNNING
            if all(task not in in_progress for task in tasks) and len(everyone) == 1:
                status = Status.WAITING
            self._record_job(row, everyone, start, nan, status, reason)


def _earlier(a: float, b: float) -> float:
    """Return the smaller of two times, either of which may be NaN for "not yet"."""
    if a != a:
        return b
    return a if b != b else min(a, b)
