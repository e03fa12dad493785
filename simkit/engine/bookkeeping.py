"""Bookkeeping: records what happens to every task and job in the system, and tells observers.

An observer learns when jobs come and go and power changes, at the exact time. Decisions see only
the state that is left; a reward that adds up over time needs every instant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from itertools import groupby
from math import nan
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.engine.events import EventLoop
from simkit.engine.recorder import EventRow, Outcome, Recorder, Status
from simkit.policy.estimates import Predictor
from simkit.policy.task import Allocation, Instances, Placement, Reservation, Task
from simkit.workload import Workload

if TYPE_CHECKING:
    from simkit.power.ledger import Flows


class Observer(Protocol):
    """Takes facts in order of time; `time_s` is in seconds on the trace's clock.

    One from outside the engine must change nothing. What a subclass does not override does nothing.
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
    """Several observers as one: each observes everything, in the order given."""

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


BY_LIMIT: Final = "requested time is over"
"""Why a job was killed at its limit."""
_NO_REASON = 0
# Plain numbers: looking a member of an enum up costs more than the comparison.
_FINISHED, _KILLED = int(Outcome.FINISHED), int(Outcome.KILLED)
_SUSPENDED, _LOST = int(Outcome.SUSPENDED), int(Outcome.LOST)


class OpenJob:
    """A job of several tasks that has not ended."""

    __slots__ = ("ideal_s", "left", "reason", "start_s", "status", "tasks")

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.left = len(tasks)
        self.start_s = nan
        self.ideal_s = 0.0
        self.status: int = Status.FINISHED
        self.reason = _NO_REASON


class TaskRecord:
    """What the books hold of a task with more to tell than one start and one end."""

    job: OpenJob | None = None
    """Its job, if that has several tasks."""
    unplaced: list[Instances] | None = None
    """Instances of a bag that have not been placed; None: all of them."""
    attempts = 0
    ended = 0
    """Instances that have ended."""
    killed = 0
    """Number of the reason; 0: it was not killed."""
    first_start_s = nan
    end_s = nan
    longest_s = 0.0
    """What the longest instance executed that finished or was killed."""
    path_s = 0.0
    """From the job's start to the end of this task if nothing ever waited; known at the end."""
    executed_s = 0.0
    """Executed time of the successful attempts, the mean over instances."""
    lost_s = 0.0
    """Executed time that was lost, the mean over instances."""
    suspended_s = 0.0

    def starts(self, now: float, whole: bool) -> None:
        """Note a start; of the `whole` gang, it is an attempt."""
        if self.first_start_s != self.first_start_s:  # NaN: its first start
            self.first_start_s = now
        if whole:
            self.attempts += 1


class Attempt:
    """What the engine alone knows of an allocation; a suspended one hands it on as it resumes."""

    __slots__ = ("done_s", "instances", "outcome", "saved_s", "suspended_at_s", "work_s")

    def __init__(
        self, work_s: float, instances: tuple[Instances, ...] | None = None, outcome: int = 0
    ) -> None:
        self.work_s = work_s
        """All its work, in seconds of run time."""
        self.instances = instances
        """Which instances of a bag; None: the whole gang."""
        self.outcome = outcome
        """How it ends if it is not interrupted."""
        self.done_s = 0.0
        """Work done by earlier allocations."""
        self.saved_s = 0.0
        """Work in the last checkpoint."""
        self.suspended_at_s = nan

    def of(self, instances: tuple[Instances, ...]) -> Attempt:
        """Return the attempt of some of the instances."""
        part = Attempt(self.work_s, instances, self.outcome)
        part.done_s, part.saved_s = self.done_s, self.saved_s
        return part


_UNTOLD = TaskRecord()  # stands for the record of a task without one; never written to


class Bookkeeping:
    """Accounts for every instance: exactly one attempt of it ends well, or its job does not."""

    def __init__(
        self,
        workload: Workload,
        recorder: Recorder,
        predictor: Predictor,
        observer: Observer | None,
        events: EventLoop,
    ) -> None:
        self._workload = workload
        self._observer = observer
        self._events = events
        self._recorder = recorder
        self._learn = predictor.on_end if predictor.learns else None
        self._write_quiet_end = recorder.simple.fromlist
        self._dependent = bool(len(workload.parent))
        self.records: dict[Task, TaskRecord] = {}
        """Records of those tasks of open jobs that need one."""
        self.jobs_ended = 0
        self.released_s: Floats | None = None
        """(J,) when each job was released, NaN before; None: at its submission."""
        self.on_task_end: Callable[..., None] | None = None
        """Called with a task that has ended, and whether it was ``killed``."""

    def open(self, tasks: Sequence[Task]) -> None:
        """Take in a job of several tasks, or of a bag; others need no books until they end."""
        job = OpenJob(tasks) if len(tasks) > 1 else None
        for task in tasks:
            record = self.records[task] = TaskRecord()
            if job is not None:
                record.job = job

    def record_of(self, task: Task, first_start_s: float) -> TaskRecord:
        """Return a task's record; a new one for a gang whose first attempt began then."""
        record = self.records.get(task)
        if record is None:
            record = self.records[task] = TaskRecord()
            record.starts(first_start_s, True)
        return record

    def instances(self, task: Task, count: int) -> tuple[Instances, ...]:
        """Return which instances of a bag start when `count` of them do: the lowest left."""
        record = self.records[task]
        if record.unplaced is None:
            record.unplaced = [(0, task.instances, 0)]
        chosen: list[Instances] = []
        while count:
            first, size, attempts = record.unplaced.pop(0)
            taken = min(size, count)
            chosen.append((first, taken, attempts + 1))
            record.attempts = max(record.attempts, attempts + 1)
            if taken < size:
                record.unplaced.insert(0, (first + taken, size - taken, attempts))
            count -= taken
        return tuple(chosen)

    def give_back(self, task: Task, attempt: Attempt) -> None:
        """Note that the work of these instances is lost; they will start again."""
        record = self.records[task]
        if record.unplaced is not None:
            record.unplaced = sorted([*(attempt.instances or ()), *record.unplaced])

    def attempts(self, task: Task, attempt: Attempt | None) -> int:
        """Return which attempt this is: of a gang, or the latest of instances of a bag."""
        if attempt is None or attempt.instances is None:
            record = self.records.get(task)
            return 1 if record is None else record.attempts
        return max(number for _, _, number in attempt.instances)

    def end_allocations(
        self,
        ended: Sequence[Allocation],
        attempts: Sequence[Attempt | None],
        now: float,
        outcome: int,
        executed_s: float,
    ) -> None:
        """Record allocations of a task that end now, and the task and its job if it is over.

        `executed_s` counts all segments of the attempt, which is equally long for all.
        """
        task = ended[0].task
        record = self.record_of(task, ended[0].start_time_s)
        self.record(ended, attempts, now, outcome)
        if outcome == _SUSPENDED:
            return
        sum_s = record.lost_s if outcome == _LOST else record.executed_s
        count, instances = 0, task.instances
        for allocation in ended:
            count += allocation.count
            sum_s += executed_s * (allocation.count / instances)
        if outcome == _LOST:
            record.lost_s = sum_s
            return
        record.executed_s = sum_s
        if executed_s > record.longest_s:
            record.longest_s = executed_s
        record.ended += count
        if outcome == _KILLED:
            record.killed = self._recorder.reason(BY_LIMIT)
        if record.ended == task.instances:
            if self._learn is not None:
                self._learn(task, record.executed_s)
            self._end_task(task, record, now)

    def finish(self, allocation: Allocation, now: float) -> None:
        """Write the end of a task without a record, on one machine: one row says it all."""
        task = allocation.task
        self.jobs_ended += 1
        self._write_quiet_end([
            task.index, allocation.on[0][0], allocation.start_time_s, now, task.estimate_s,
        ])  # fmt: skip
        if self._observer is not None:
            self._observer.ended(now, task, killed=False)

    def record(
        self,
        ended: Sequence[Allocation],
        attempts: Sequence[Attempt | None],
        now: float,
        outcome: int,
    ) -> None:
        """Write the rows of allocations of a task that started together.

        There is a row for each machine and run of instances.
        """
        task, start = ended[0].task, ended[0].start_time_s
        pieces: list[float] = []
        for allocation, attempt in zip(ended, attempts):  # noqa: B905 - of equal length, hot
            on = allocation.on
            runs = attempt.instances if attempt is not None else None
            if runs is None:
                runs = self._whole(task)
            if len(runs) == 1 and len(on) == 1:  # the usual case
                pieces += on[0][0], *runs[0]
                continue
            for piece in spread(on, runs):
                pieces += piece
        recorder, number = self._recorder, len(pieces) // 4
        if recorder.simple:
            recorder.spilled()
        recorder.pieces.fromlist(pieces)
        recorder.allocations.fromlist([task.job_index, task.index, start, now, outcome, number])

    def _whole(self, task: Task) -> tuple[Instances, ...]:
        """Return the instances of a gang, in its present attempt."""
        record = self.records.get(task)
        return ((0, task.instances, record.attempts if record is not None else 1),)

    def kill(self, task: Task, now: float, reason: str, executed_s: float) -> None:
        """Record that a task was ended for good; its allocations have been recorded."""
        record = self.records.setdefault(task, TaskRecord())
        record.killed = self._recorder.reason(reason)
        record.executed_s = executed_s
        record.longest_s = max(record.longest_s, executed_s)
        record.ended = task.instances
        self._end_task(task, record, now)

    def reject(
        self,
        row: int,
        tasks: Sequence[Task],
        now: float,
        reason: str,
        ready_s: Sequence[float] | None = None,
    ) -> None:
        """Record that a job will not be run; `ready_s`: when tasks were ready, None: never."""
        number = self._recorder.reason(reason)
        self._recorder.events.append((now, "rejected", row, -1, -1, reason))
        for task, ready in zip(tasks, ready_s or [nan] * len(tasks), strict=True):
            self._write_task(task, ready, nan, nan, Status.REJECTED)
        self._record_job(row, tasks, nan, nan, Status.REJECTED, number)
        if self._observer is not None:
            self._observer.rejected(now, tasks)

    def job_of(self, task: Task) -> Sequence[Task]:
        """Return all tasks of a task's job."""
        job = self.records.get(task, _UNTOLD).job
        return (task,) if job is None else job.tasks

    def has_begun(self, task: Task) -> bool:
        """Return whether anything of a task has started or ended."""
        record = self.records.get(task, _UNTOLD)
        started, ended = record.first_start_s, record.end_s
        return started == started or ended == ended  # else both are NaN

    def turn_away(self, tasks: Sequence[Task], now: float, reason: str) -> None:
        """Record that a job that waited will not be run."""
        ready = [self._ready_s(task, self.records.get(task, _UNTOLD)) for task in tasks]
        self.reject(tasks[0].job_index, tasks, now, reason, ready)

    def _end_task(self, task: Task, record: TaskRecord, now: float) -> None:
        status = _KILLED if record.killed else _FINISHED  # the same numbers in `Status`
        self._write_task(task, self._ready_s(task, record), record.first_start_s, now, status)
        self._end_job_of(task, record, now, status)
        if self._observer is not None:
            self._observer.ended(now, task, killed=bool(record.killed))
        if self.on_task_end is not None:
            self.on_task_end(task, killed=bool(record.killed))

    def _write_task(self, task: Task, ready: float, start: float, end: float, status: int) -> None:
        self._recorder.spilled().tasks.fromlist([task.index, ready, start, end, status])

    def _parents(self, task: Task, job: OpenJob) -> list[TaskRecord]:
        """Return the records of the tasks that a task of an open job depends on."""
        first, row = self._workload.first_parent, task.index
        rows = self._workload.parent[first[row] : first[row + 1]].tolist()
        return [self.records[job.tasks[row - job.tasks[0].index]] for row in rows]

    def _ready_s(self, task: Task, record: TaskRecord) -> float:
        """Return when a task could first start; NaN if one that it depends on has not finished."""
        ready = task.submit_time_s
        if self.released_s is not None:
            ready = float(self.released_s[task.job_index])
        if not self._dependent or record.job is None:
            return ready
        parents = self._parents(task, record.job)
        if any(parent.killed or parent.end_s != parent.end_s for parent in parents):
            return nan
        return max([parent.end_s for parent in parents], default=ready)

    def _end_job_of(self, task: Task, record: TaskRecord, now: float, status: int) -> None:
        """Record a task's job if this was the last of its tasks."""
        job = record.job
        if job is None:
            self.jobs_ended += 1
            del self.records[task]
            start = record.first_start_s
            executed, ideal = now - start, nan
            if start == start:  # else NaN: it was killed before it started
                if task.gang or task.instances == 1:
                    executed = record.executed_s
                else:
                    ideal = record.longest_s
            self._recorder.spilled().jobs.fromlist([
                task.job_index, start, now, executed, task.estimate_s, record.suspended_s,
                record.lost_s, record.attempts, status, record.killed, ideal,
            ])  # fmt: skip
            return
        record.end_s, record.path_s = now, record.longest_s
        if self._dependent:
            parents = self._parents(task, job)
            record.path_s += max([parent.path_s for parent in parents], default=0.0)
        job.ideal_s = max(job.ideal_s, record.path_s)
        job.left -= 1
        job.start_s = _earlier(job.start_s, record.first_start_s)
        if record.killed:
            job.status, job.reason = _KILLED, record.killed
        if not job.left:
            ideal = job.ideal_s if job.start_s == job.start_s else nan
            self._record_job(
                task.job_index, job.tasks, job.start_s, now, job.status, job.reason, ideal
            )

    def _record_job(
        self,
        row: int,
        tasks: Sequence[Task],
        start: float,
        end: float,
        status: int,
        reason: int,
        ideal: float = nan,
    ) -> None:
        if status in (Status.FINISHED, Status.KILLED, Status.REJECTED):
            self.jobs_ended += 1
        records = [self.records.pop(task, _UNTOLD) for task in tasks]
        self._recorder.spilled().jobs.fromlist([
            row, start, end, end - start,
            max(task.estimate_s for task in tasks),
            max(record.suspended_s for record in records),
            sum(record.lost_s for record in records),
            max(record.attempts for record in records),
            status, reason, ideal,
        ])  # fmt: skip

    def event(self, kind: str, task: Task, detail: str) -> None:
        """Record something that happens to a task now."""
        row = (self._events.now, kind, task.job_index, task.index, -1, detail)
        self._recorder.events.append(row)

    def capacity(
        self, machine: int, capacity: Mapping[str, float], facts: Mapping[str, object]
    ) -> None:
        """Record a machine's new capacity and why it changed."""
        self._recorder.events.append(capacity_event(self._events.now, machine, capacity, facts))

    def switched(self, machine: int, facts: Mapping[str, object]) -> None:
        """Record the state of a machine's switch, or what of a pool is on and boots."""
        detail = json.dumps(dict(facts))
        self._recorder.events.append((self._events.now, "switched", -1, -1, machine, detail))

    def close(self, unfinished: Collection[Task], in_progress: Container[Task]) -> None:
        """Record everything that has not ended; tasks in `in_progress` run or are suspended."""
        jobs: dict[int, list[Task]] = {}
        for task in sorted(unfinished, key=lambda task: task.index):
            status = Status.RUNNING if task in in_progress else Status.WAITING
            record = self.records.get(task, _UNTOLD)
            ready = self._ready_s(task, record)
            self._write_task(task, ready, record.first_start_s, nan, status)
            jobs.setdefault(task.job_index, []).append(task)
        for row, tasks in jobs.items():
            whole = self.records.get(tasks[0], _UNTOLD).job
            everyone, reason = (
                (whole.tasks, whole.reason) if whole is not None else (tasks, _NO_REASON)
            )
            start = nan
            for task in everyone:
                start = _earlier(start, self.records.get(task, _UNTOLD).first_start_s)
            status = Status.WAITING if start != start else Status.RUNNING
            if all(task not in in_progress for task in tasks) and len(everyone) == 1:
                status = Status.WAITING
            self._record_job(row, everyone, start, nan, status, reason)


def capacity_event(
    time_s: float, machine: int, capacity: Mapping[str, float], facts: Mapping[str, object]
) -> EventRow:
    """Return the row of `Recorder.events` of a machine's new capacity and why it changed."""
    detail = json.dumps({"capacity": dict(capacity), **facts})
    return time_s, "capacity", -1, -1, machine, detail


def _earlier(a: float, b: float) -> float:
    """Return the smaller of two times, either of which may be NaN for "not yet"."""
    if a != a:
        return b
    return a if b != b else min(a, b)


def spread(
    on: Sequence[tuple[int, int]], instances: Sequence[Instances]
) -> Iterator[tuple[int, int, int, int]]:
    """Deal runs of instances out to machines: yield (machine, first, count, attempt)."""
    runs = iter(instances)
    first, size, attempt = next(runs)
    for machine, count in on:
        left = count
        while left:
            if not size:
                first, size, attempt = next(runs)
            taken = min(left, size)
            yield machine, first, taken, attempt
            first, size, left = first + taken, size - taken, left - taken


Part = tuple[Placement, int, tuple[Instances, ...] | None]
"""Instances that become an allocation: (machines and how many, how many, which; None: a gang)."""


def by_machine(on: Placement, instances: tuple[Instances, ...]) -> Iterator[Part]:
    """Deal runs of instances of a bag out to machines: yield the part of each machine."""
    if len(instances) == 1:
        first, _, attempt = instances[0]
        for machine, count in on:
            yield ((machine, count),), count, ((first, count, attempt),)
            first += count
    else:
        for machine, pieces in groupby(spread(on, instances), key=itemgetter(0)):
            runs = tuple([piece[1:] for piece in pieces])
            size = sum([run[1] for run in runs])
            yield ((machine, size),), size, runs


class InstanceTimes:
    """The run time of every instance of a workload."""

    def __init__(self, workload: Workload) -> None:
        self._times = workload.instance_run_time_s
        self._first = np.concatenate(([0], np.cumsum(workload.instances)))

    def split(
        self, task: Task, on: Placement, instances: Sequence[Instances]
    ) -> Iterator[tuple[float, Part]]:
        """Deal instances out to machines, and tell apart those that end at different times.

        Yields:
            (run time, part) of those that end together on a machine, the shortest first.
        """
        begin = int(self._first[task.index])
        rows: list[tuple[float, int, int, int]] = []  # (run time, instance, machine, attempt)
        for machine, first, count, attempt in spread(on, instances):
            times = self._times[begin + first : begin + first + count].tolist()
            rows += [(t, first + i, machine, attempt) for i, t in enumerate(times)]
        rows.sort()
        for (run_time, machine), group in groupby(rows, key=itemgetter(0, 2)):
            together = list(group)
            size = len(together)
            runs = ((together[0][1], 1, together[0][3]),) if size == 1 else _runs(together)
            yield run_time, (((machine, size),), size, runs)


def _runs(rows: Sequence[tuple[float, int, int, int]]) -> tuple[Instances, ...]:
    """Join instances with consecutive numbers and the same attempt."""
    runs: list[Instances] = []
    for _, instance, _, attempt in rows:
        if runs and instance == runs[-1][0] + runs[-1][1] and attempt == runs[-1][2]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, attempt)
        else:
            runs.append((instance, 1, attempt))
    return tuple(runs)
