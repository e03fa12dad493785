"""A simulation: a generator of decision instants, and the actions that a policy may take at them.

    for state in simulation.decisions():
        for action in policy.schedule(state):
            simulation.apply(action)

Everything that changes the system's state by an action is here; what happens by itself, and in
which order, is in `simkit.processes`.
"""

from __future__ import annotations

import gc
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any, Literal

import simpy

from simkit.admission import Admission, AdmissionRule
from simkit.bookkeeping import Bookkeeping
from simkit.cluster import Cluster
from simkit.errors import PolicyError, ScenarioError
from simkit.estimates import Predictor, Requested
from simkit.policy import (
    Action,
    Cancel,
    CapacityStep,
    Kill,
    Place,
    Policy,
    Resume,
    State,
    Suspend,
    SystemInfo,
    WakeAt,
)
from simkit.processes import Completion, Occurrence, Rank, arrivals, capacity_changes, run_instant
from simkit.recorder import CHUNK, Outcome, Recorder
from simkit.room import make_room
from simkit.seeds import stream
from simkit.submission import Submission, Submitted
from simkit.task import Allocation, Instances, Placement, Task
from simkit.task_queue import TaskQueue
from simkit.units import time_on_grid
from simkit.workload import Workload


@dataclass(frozen=True)
class Rules:
    """How the system behaves, whatever the policy."""

    walltime: Literal["ignore", "kill"] = "ignore"
    """Whether a task is killed when its requested time is over."""
    every_s: float | None = None
    """Decisions only at multiples of this time at which something has changed; None: always."""
    admission: AdmissionRule = field(default_factory=AdmissionRule)


class Simulation:
    """One replay of a workload on a cluster."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        recorder: Recorder,
        *,
        rules: Rules | None = None,
        predictor: Predictor | None = None,
        seed: int = 0,
    ) -> None:
        """Build the system; nothing runs yet.

        Raises ScenarioError if jobs ask for a resource that no machine has, or if a rule is wrong.
        """
        self.rules = rules or Rules()
        if self.rules.every_s is not None and not self.rules.every_s > 0:
            raise ScenarioError(f"scheduling: every is {self.rules.every_s}; it must be positive")
        self._every = self.rules.every_s and float(time_on_grid(self.rules.every_s))
        self._workload = workload
        self._run_times = workload.run_time_s
        self._cluster = cluster
        self.recorder = recorder
        self._predictor = predictor or Requested()
        self._predictor.reset(workload, stream(seed, "predictor"))
        first = float(workload.submit_time_s[0]) if len(workload) else 0.0
        self.info = SystemInfo(
            cluster.resources,
            cluster.machine_names,
            cluster.capacity.copy(),
            cluster.partitions,
            workload.epoch_s,
            first,
        )
        steps = sorted(step for window in cluster.maintenance for step in window.steps())
        self._env = simpy.Environment(min([0.0, first, *(step.time_s for step in steps)]))
        self._queue = TaskQueue(len(cluster.resources))
        self._room = make_room(cluster.capacity.copy())
        self.state = state = State(self.info, self._room, self._queue)
        state._steps = steps
        state.constrained = bool(steps)
        state.refills = (
            self.rules.admission.slots is not None and self.rules.admission.refill == "at_once"
        )
        self._running: dict[Allocation, Completion] = state._running
        self._suspended: dict[Allocation, float] = state._suspended
        self._releases = state._releases
        self._admission = Admission(self.rules.admission, self._queue, state.arrived)
        self._books = Bookkeeping(workload, recorder, self._predictor)
        recorder.capacity = [float(x) for x in cluster.capacity.sum(axis=0)]
        self._on_completion: list[Callable[[Any], None]] = [self._complete]
        self._changed = False
        self._tick_due: float | None = None
        self._ticked = self._every is None
        self._policy_name = "policy"
        self._kill_at_limit = self.rules.walltime == "kill"
        self.decisions_made = 0
        submission = Submission(workload, cluster, self._predictor)
        if len(workload):
            self._env.process(arrivals(self._env, submission.jobs(), self._submit))
        if steps:
            self._env.process(capacity_changes(self._env, tuple(steps), self._change_capacity))
        self._actions: dict[type, Callable[[Any], None]] = {
            Cancel: self._cancel,
            WakeAt: self._wake_at,
            Suspend: self._suspend,
            Resume: self._resume,
            Kill: self._kill,
        }

    @property
    def now(self) -> float:
        """Seconds on the trace's clock."""
        return float(self._env.now)

    @property
    def jobs_ended(self) -> int:
        """Jobs that have finished or were killed or rejected."""
        return self._books.jobs_ended

    # ---- the run ------------------------------------------------------------------------------

    def run(
        self, policy: Policy, seed: int = 0, watch: Callable[[float], None] | None = None
    ) -> None:
        """Replay everything under a policy; `watch` is called with the time at every decision."""
        self._policy_name = type(policy).__name__
        policy.reset(self.info, stream(seed, "policy"))
        apply = self.apply
        with _seldom_collected():
            for state in self.decisions():
                for action in policy.schedule(state):
                    apply(action)
                if watch is not None:
                    watch(state.now)

    def decisions(self) -> Iterator[State]:
        """Yield the state at every instant at which something has changed, until nothing will.

        What a policy's actions cause at the same instant (a run time of 0) makes a further round.
        After the last decision, tasks that still wait or run are recorded as such.
        """
        state, env, admission, recorder = self.state, self._env, self._admission, self.recorder
        row, full = recorder.timeline.extend, CHUNK * (4 + len(self.info.resources))
        arrived, ended, timeline = state.arrived, state.ended, recorder.timeline
        waiting, running, held = self._queue.tasks, self._running, admission.held
        free = self._room.total_free()
        while (now := run_instant(env)) is not None:
            if not self._changed:
                continue
            if not self._ticked:
                row((now, len(waiting), len(held), len(running), *free))
                self._await_tick(now)
                continue
            self._changed = False
            self._ticked = self._every is None
            state.now = now
            if admission.limited:
                admission.refill()
            self.decisions_made += 1
            yield state
            arrived.clear()
            ended.clear()
            row((now, len(waiting), len(held), len(running), *free))
            if len(timeline) >= full:
                recorder.flush()
        self._record_unfinished()

    def _await_tick(self, now: float) -> None:
        """Put the decision off to the next multiple of the scheduler's period."""
        assert self._every is not None
        due = -(-now // self._every) * self._every
        if due != self._tick_due:
            self._tick_due = due
            Occurrence(self._env, due, Rank.WAKE, self._tick)

    def _tick(self, _event: simpy.Event) -> None:
        self._ticked = True
        self._tick_due = None

    # ---- what happens by itself ---------------------------------------------------------------

    def _submit(self, job: Submitted) -> None:
        self._changed = True
        if self._predictor.learns:
            for task in job.tasks:
                task.estimate_s = self._predictor.on_submission(task.user, task.estimate_s)
        self._books.open(job)
        if job.refusal:
            self._reject(job, job.refusal)
            return
        if not self._admission.limited:
            for task in job.tasks:
                self._queue.add(task)
            self.state.arrived += job.tasks
            return
        for task in job.tasks:
            if not self._admission.submit(task):
                self._reject(job, "the backlog is full")
                return

    def _reject(self, job: Submitted, reason: str) -> None:
        """Take the whole job out; a task of it that is already waiting goes, too."""
        for task in job.tasks:
            if task._waiting:
                self._queue.remove(task)
                self.state.arrived.remove(task)
            else:
                self._admission.withdraw(task)
        self._books.reject(job, self.now, reason)

    def _complete(self, completion: Completion) -> None:
        allocation = completion.allocation
        if self._running.get(allocation) is not completion:
            return  # suspended, killed or lost in the meantime
        self._changed = True
        self._release(allocation)
        now = self._env.now
        if not self._books.finish(allocation, now):
            self._books.end_allocation(allocation, now, allocation._outcome, allocation._work_s)

    def _release(self, allocation: Allocation) -> None:
        """Free what an allocation holds."""
        state, releases = self.state, self._releases
        del releases[bisect_left(releases, (allocation.expected_end_s, allocation.rank))]
        self._room.give(allocation.on, allocation.task.request)
        state.releases += 1
        state.ended.append(allocation)
        del self._running[allocation]

    def _change_capacity(self, step: CapacityStep) -> None:
        """A known step takes place; capacity in use is taken as the window says."""
        self._changed = True
        self.state._steps.remove(step)
        self._note_constraints()
        self.state.releases += 1
        row = self._room.capacity[step.machine].tolist()
        self._room.change_capacity(step.machine, _sum(row, step.change))
        self.recorder.change_capacity(_sum(self.recorder.capacity, step.change))
        window = next(w for w in self._cluster.maintenance if step in w.steps())
        self._books.capacity(self.now, step.machine, self._room.capacity[step.machine],
                             self._cluster.resources, window.running)  # fmt: skip
        if window.running != "drain":
            self._evict(step.machine, keep_work=window.running == "suspend")

    def _evict(self, machine: int, *, keep_work: bool) -> None:
        """Take tasks off a machine that has less than they hold, youngest first."""
        for allocation in reversed(list(self._running)):
            if (self._room.free()[machine] >= 0).all():
                return
            if any(row == machine for row, _ in allocation.on):
                self._stop(allocation, keep_work=keep_work)

    # ---- actions ------------------------------------------------------------------------------

    def apply(self, action: Action) -> None:
        """Carry out an action at once.

        Raises PolicyError if it is illegal; nothing has changed then.
        """
        if action.__class__ is not Place:
            self._apply_other(action)
            return
        task, on, start = action
        if not task._waiting:
            raise self._illegal(task, "is not waiting")
        if start is not None and start > self._env.now:
            self._reserve(action)
            return
        count = on[0][1] if len(on) == 1 else 0
        if count != task.remaining or task.machines is not None:
            count = self._checked_count(task, on)
        if not self._room.claim(on, task.request):
            raise self._illegal(task, self._why_not(task, on))
        task.remaining -= count
        if task.remaining:
            self._queue.refresh(task)
        else:
            self._leave_queue(task)
        instances = None
        if task.gang:
            task._attempt += 1
        else:
            instances = self._books.instances(task, count)
        self._start(task, on, count, instances)

    def _apply_other(self, action: Action) -> None:
        try:
            carry_out = self._actions[action.__class__]
        except KeyError:
            raise PolicyError(
                f"{self._policy_name}: {action!r} is no action of simkit.policy"
            ) from None
        carry_out(action)

    def _checked_count(self, task: Task, on: Placement) -> int:
        count = on[0][1] if len(on) == 1 else sum([pair[1] for pair in on])
        if count != task.remaining and (task.gang or not 0 < count < task.remaining):
            kind = "gang: all start together" if task.gang else "bag"
            raise self._illegal(
                task, f"places {count} of {task.remaining} remaining instances ({kind})"
            )
        if task.machines is not None:
            self._check_partition(task, on)
        return count

    def _check_partition(self, task: Task, on: Placement) -> None:
        for machine, _ in on:
            if machine not in (task.machines or ()):
                partition = self._cluster.partitions[task.partition].name
                raise self._illegal(
                    task, f"is in partition {partition}, which has no machine {machine}"
                )

    def _leave_queue(self, task: Task) -> None:
        self._queue.remove(task)
        if self._admission.limited:
            self._admission.on_departure()

    def _start(
        self,
        task: Task,
        on: Placement,
        count: int,
        instances: tuple[Instances, ...] | None,
        suspended: Allocation | None = None,
    ) -> None:
        """Let instances run, from the beginning or on from where they were suspended."""
        env, state = self._env, self.state
        now = env.now
        if suspended is None:
            done, work, outcome = 0.0, float(self._run_times[task.index]), 0  # Outcome.FINISHED
            if self._kill_at_limit and task.requested_time_s < work:
                work, outcome = task.requested_time_s, int(Outcome.KILLED)
        else:
            done, work, outcome = suspended._done_s, suspended._work_s, suspended._outcome
        if task._first_start_s != task._first_start_s:  # NaN: its first start
            task._first_start_s = now
        rank = state.starts = state.starts + 1
        expected = now + task.estimate_s - done
        if expected < now:
            expected = now
        allocation = Allocation(
            rank, task, on, count, now, expected, instances, work, done, outcome
        )
        insort(self._releases, (expected, rank, allocation))
        self._running[allocation] = Completion(env, work - done, self._on_completion, allocation)

    def _reserve(self, action: Place) -> None:
        """Keep a place for later; the task leaves the queue until then."""
        task, on, start = action
        count = self._checked_count(task, on)
        if count != task.remaining:
            raise self._illegal(task, f"reserves {count} of {task.remaining} remaining instances")
        if any(not 0 <= machine < len(self._cluster.capacity) for machine, _ in on):
            raise self._illegal(task, self._why_not(task, on))
        due = float(time_on_grid(start))  # type: ignore[arg-type]
        place = Place(task, on, due)
        self._leave_queue(task)
        self.state.reservations[task] = place
        self.state.constrained = True
        self._books.event(self.now, "reserved", task, f"starts at {due:g} s")
        Occurrence(self._env, due, Rank.RESERVATION, self._fall_due, place)

    def _note_constraints(self) -> None:
        self.state.constrained = bool(self.state._steps or self.state.reservations)

    def _fall_due(self, event: Occurrence) -> None:
        """Start a reserved task; or, if it does not fit, put it back in its place."""
        place: Place = event.subject
        task = place.task
        if self.state.reservations.get(task) is not place:
            return  # cancelled in the meantime
        self._changed = True
        del self.state.reservations[task]
        self._note_constraints()
        if self._room.claim(place.on, task.request):
            count, task.remaining = task.remaining, 0
            self._start(task, place.on, count, self._books.instances(task, count))
            return
        self._books.event(self.now, "reservation_failed", task, self._why_not(task, place.on))
        self._admission.show(task)

    def _cancel(self, action: Cancel) -> None:
        if self.state.reservations.pop(action.task, None) is None:
            raise self._illegal(action.task, "has no reservation to cancel")
        self._note_constraints()
        self._books.event(self.now, "cancelled", action.task, "reservation taken back")
        self.state.releases += 1
        self._admission.show(action.task)

    def _wake_at(self, action: WakeAt) -> None:
        time = float(time_on_grid(action.time_s))
        if not self.now < time < inf:
            raise PolicyError(
                f"{self._policy_name}: WakeAt({action.time_s!r}) at {self.now:g} s; "
                "it must be a finite time after now"
            )
        Occurrence(self._env, time, Rank.WAKE, self._wake)

    def _wake(self, _event: simpy.Event) -> None:
        self._changed = True

    def _suspend(self, action: Suspend) -> None:
        if action.allocation not in self._running:
            raise self._illegal(action.allocation.task, "is not running, it cannot be suspended")
        self._stop(action.allocation, keep_work=action.keep_work)

    def _stop(self, allocation: Allocation, *, keep_work: bool) -> None:
        self._release(allocation)
        task, now = allocation.task, self.now
        allocation._done_s += now - allocation.start_time_s
        outcome = Outcome.SUSPENDED if keep_work else Outcome.LOST
        self._books.end_allocation(allocation, now, outcome, allocation._done_s)
        if keep_work:
            self._suspended[allocation] = now
            self._books.event(now, "suspended", task, f"{allocation._done_s:g} s of work kept")
        else:
            self._start_over(task, allocation)

    def _start_over(self, task: Task, allocation: Allocation) -> None:
        """Put instances whose work is lost back in the queue."""
        self._books.give_back(task, allocation)
        self._books.event(self.now, "lost", task, f"{allocation.count} instances start over")
        task.remaining += allocation.count
        if task._waiting:
            self._queue.refresh(task)
        else:
            self._admission.show(task)

    def _resume(self, action: Resume) -> None:
        allocation, on = action.allocation, action.on or action.allocation.on
        task = allocation.task
        if allocation not in self._suspended:
            raise self._illegal(task, "is not suspended, it cannot be resumed")
        count = sum(pair[1] for pair in on)
        if count != allocation.count:
            raise self._illegal(task, f"resumes {count} of {allocation.count} instances")
        if task.machines is not None:
            self._check_partition(task, on)
        if not self._room.claim(on, task.request):
            raise self._illegal(task, self._why_not(task, on))
        task._suspended_s += self.now - self._suspended.pop(allocation)
        self._books.event(self.now, "resumed", task, "")
        self._start(task, on, count, allocation._instances, allocation)

    def _kill(self, action: Kill) -> None:
        task = action.task
        running = [a for a in self._running if a.task is task]
        suspended = [a for a in self._suspended if a.task is task]
        reserved = self.state.reservations.pop(task, None) is not None
        self._note_constraints()
        held = self._admission.withdraw(task)
        if not (running or suspended or reserved or held or task._waiting):
            raise self._illegal(task, "has ended, it cannot be killed")
        if task._waiting:
            self._leave_queue(task)
        task.remaining = 0
        self._books.event(self.now, "killed", task, action.reason)
        executed = 0.0
        for allocation in running:
            self._release(allocation)
            done = allocation._done_s + self.now - allocation.start_time_s
            executed = max(executed, done)
            self._books.record(allocation, self.now, Outcome.KILLED)
        for allocation in suspended:
            executed = max(executed, allocation._done_s)
            task._suspended_s += self.now - self._suspended.pop(allocation)
        self._books.kill(task, self.now, action.reason, executed)

    # ---- errors and the end -------------------------------------------------------------------

    def _illegal(self, task: Task, what: str) -> PolicyError:
        return PolicyError(
            f"{self._policy_name} at {self.now:g} s: job {self._workload.job_id[task.job_index]} "
            f"task {self._workload.task_id[task.index]}: {what}"
        )

    def _why_not(self, task: Task, on: Placement) -> str:
        """Say which machine of a placement has too little of what."""
        names, free = self._cluster.machine_names, self._room.free()
        if not on or len({machine for machine, _ in on}) < len(on):
            return f"placement {on!r} names no machine, or one twice"
        for machine, count in on:
            if not 0 <= machine < len(names):
                return f"there is no machine {machine}; they go from 0 to {len(names) - 1}"
            if count < 1:
                return f"places {count} instances on machine {names[machine]!r}"
            for r, resource in enumerate(self._cluster.resources):
                if task.request[r] * count > free[machine, r]:
                    return (
                        f"asks machine {machine} ({names[machine]}) for "
                        f"{task.request[r] * count:g} {resource}, {free[machine, r]:g} are free"
                    )
        return "fits"

    def _record_unfinished(self) -> None:
        """Close the books over everything that has not ended."""
        for allocation in self._running:
            self._books.record(allocation, nan, Outcome.RUNNING)
        self._books.close({allocation.task for allocation in (*self._running, *self._suspended)})
        self.recorder.close()


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for cyclic garbage less often: the engine makes many objects, none in a cycle."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _sum(amounts: Sequence[float], changes: Sequence[float]) -> list[float]:
    return [amount + change for amount, change in zip(amounts, changes, strict=True)]
