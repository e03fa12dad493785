"""A simulation: a generator of decision instants, and the actions that a policy may take at them.

    for state in simulation.decisions():
        for action in policy.schedule(state):
            simulation.apply(action)

Everything that changes the system's state by an action is here; what happens by itself, and in
which order, is in `simkit.engine.events`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from math import inf, nan
from typing import Any, Literal

import simpy

from simkit.engine.admission import Admission, AdmissionRule, make_backlog
from simkit.engine.bookkeeping import Attempt, Bookkeeping
from simkit.engine.events import (
    Background,
    Backgrounds,
    NoBackground,
    Occurrence,
    Rank,
    StepClock,
    capacity_changes,
    instants,
    submit_at_their_times,
)
from simkit.engine.execution import Execution
from simkit.engine.observer import Observer
from simkit.engine.outages import Outages, RandomFailures, by_instant, changes, known_ahead
from simkit.engine.parents import Parents
from simkit.engine.power_supply import PowerSupply, least_valuable_first
from simkit.engine.recorder import FLUSH_EVERY, Outcome, Recorder
from simkit.engine.referee import Referee
from simkit.engine.reservations import Reservations
from simkit.engine.submission import Submission
from simkit.errors import PolicyError, ScenarioError
from simkit.policy import (
    Action,
    Cancel,
    Kill,
    Place,
    Policy,
    Resume,
    State,
    Suspend,
    SwitchOff,
    SwitchOn,
    SystemInfo,
    WakeAt,
)
from simkit.policy.estimates import Predictor, Requested, begin
from simkit.policy.queue import TaskQueue
from simkit.policy.room import make_room
from simkit.policy.task import Allocation, Task
from simkit.power.site import Site
from simkit.seeds import stream
from simkit.units import TIME_GRID, time_on_grid
from simkit.workload import Workload
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import Cluster


@dataclass(frozen=True)
class Rules:
    """How the system behaves, whatever the policy."""

    walltime: Literal["ignore", "kill"] = "ignore"
    """Whether a task is killed when its requested time is over."""
    every_s: float | None = None
    """Decisions only at multiples of this time at which something has changed; None: always."""
    step_s: float | None = None
    """Decisions at all multiples of this time, whether or not something has changed, from the first
    submission on for as long as jobs are to come, run or wait."""
    admission: AdmissionRule = field(default_factory=AdmissionRule)

    def __post_init__(self) -> None:
        """Raise ScenarioError for a walltime rule that does not exist, or a period that is none."""
        for name in ("every", "step"):
            period = getattr(self, f"{name}_s")
            if period is not None and not 0 < float(time_on_grid(period)) < inf:
                raise ScenarioError(
                    f"scheduling: {name} is {period}; it must be at least {TIME_GRID} s"
                )
        if self.every_s is not None and self.step_s is not None:
            raise ScenarioError("scheduling: every and step are both given; leave one of them out")
        if self.walltime not in ("ignore", "kill"):
            raise ScenarioError(f"walltime: {self.walltime!r} is neither 'ignore' nor 'kill'")


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
        site: Site | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Build the system; nothing runs yet.

        With a `site`, power decides what may run. An `observer` is told of jobs and allocations at
        the times at which they come and go.

        Raises ScenarioError if jobs ask for a resource that no machine has, or if a rule is wrong.
        """
        self.rules = rules or Rules()
        every = self.rules.every_s if self.rules.step_s is None else self.rules.step_s
        self._every = None if every is None else float(time_on_grid(every))
        """Decisions are made at multiples of it alone."""
        self._workload = workload
        self._cluster = cluster
        self.recorder = recorder
        self._observer = observer
        self._predictor = predictor or Requested()
        begin(self._predictor, workload, seed)
        self._learns = self._predictor.learns
        first = float(workload.submit_time_s[0]) if len(workload) else 0.0
        self.info = SystemInfo(
            cluster.resources,
            cluster.machine_names,
            cluster.capacity.copy(),
            cluster.partitions,
            workload.epoch_s,
            first,
        )
        outages, steps = changes(cluster), known_ahead(cluster)
        self._env = simpy.Environment(min([0.0, first, *(change.time_s for change in outages)]))
        self._queue = TaskQueue(len(cluster.resources))
        self._room = make_room(cluster.capacity.copy())
        self._running: dict[Allocation, Attempt | None] = {}
        self._suspended: dict[Allocation, Attempt] = {}
        held = make_backlog(self.rules.admission.order)
        self.state = state = State(
            self.info, self._room, self._queue, self._running, self._suspended, held
        )
        state.known_steps = steps
        state.constrained = bool(steps)
        state.refills = (
            self.rules.admission.slots is not None and self.rules.admission.refill == "at_once"
        )
        self._admission = Admission(self.rules.admission, self._queue, state.arrived, held)
        self._parents = Parents(workload, self._admission.admit, self._kill_child)
        self._leave = self._admission.leave if self._admission.limited else self._queue.remove
        self._books = Bookkeeping(workload, recorder, self._predictor, observer)
        if self._parents.any:
            self._books.on_task_end = self._parents.ended
        recorder.capacity = [float(x) for x in cluster.capacity.sum(axis=0)]
        self._referee = Referee(workload, cluster, self._env, self._room)
        self._execution = Execution(
            self._env, state, self._admission, self._books, self._referee, workload,
            running=self._running, suspended=self._suspended,
            kill_at_limit=self.rules.walltime == "kill", observer=observer,
        )  # fmt: skip
        self._reservations = Reservations(
            self._env, state, self._admission, self._books, self._referee, self._execution
        )
        self._tick_due: float | None = None
        self._ticked = self._every is None
        self._closed = False
        self.decisions_made = 0
        submission = Submission(workload, cluster, self._predictor)
        submit_at_their_times(self._env, submission.jobs(), self._submit)
        self._background: Background = NoBackground()
        self.power: PowerSupply | None = None
        """The site's power; None without a site."""
        backgrounds: list[Background] = []
        if outages or cluster.failures is not None or site is not None:
            backgrounds += self._let_capacities_change(outages, seed, site)
        if self.rules.step_s is not None and len(workload):
            backgrounds.append(self._step_clock(first))
        if backgrounds:
            self._background = backgrounds[0] if len(backgrounds) == 1 else Backgrounds(backgrounds)
        self._actions: dict[type, Callable[[Any], None]] = {
            Cancel: self._reservations.cancel,
            WakeAt: self._wake_at,
            Suspend: self._execution.suspend,
            Resume: self._execution.resume,
            Kill: self._kill,
        }
        if self.power is not None:
            self._actions |= {SwitchOff: self.power.switch_off, SwitchOn: self.power.switch_on}

    def _let_capacities_change(
        self, outages: Sequence[CapacityChange], seed: int, site: Site | None
    ) -> list[Background]:
        env, cluster, state = self._env, self._cluster, self.state
        taking_place = Outages(env, cluster, state, self.recorder, self._books, self._execution)
        env.process(capacity_changes(env, by_instant(outages), taking_place.take_place))
        backgrounds: list[Background] = []
        if cluster.failures is not None:
            backgrounds.append(
                RandomFailures(
                    env, cluster.failures, len(cluster.capacity), stream(seed, "failures"),
                    taking_place.take_place, lambda: state.starts, self._anyone_waits,
                )
            )  # fmt: skip
        if site is not None:
            self.power = PowerSupply(
                env, site, cluster, state, self.recorder, taking_place, self._execution,
                self._referee, self._anyone_waits, lambda: self._books.jobs_ended,
            )  # fmt: skip
            backgrounds.append(self.power)
        return backgrounds

    def _step_clock(self, first_submit_s: float) -> Background:
        assert self._every is not None
        state = self.state
        return StepClock(
            self._env, self._every, first_submit_s, self._step,
            lambda: state.starts, self._anyone_waits,
        )  # fmt: skip

    def _anyone_waits(self) -> bool:
        return bool(self._queue.tasks or self._suspended or self._admission.held)

    @property
    def now(self) -> float:
        """Seconds on the trace's clock."""
        return float(self._env._now)

    @property
    def jobs_ended(self) -> int:
        """Jobs that have finished or were killed or rejected."""
        return self._books.jobs_ended

    # ---- the run ------------------------------------------------------------------------------

    def run(
        self, policy: Policy, seed: int = 0, watch: Callable[[float], None] | None = None
    ) -> None:
        """Replay everything under a policy; `watch` is called with the time at every decision."""
        self._referee.policy = type(policy).__name__
        policy.reset(self.info, stream(seed, "policy"))
        if self.power is not None:
            self.power.victims = getattr(policy, "victims", least_valuable_first)
        apply = self.apply
        with _seldom_collected():
            for state in self.decisions():
                actions = policy.schedule(state)
                if actions is None:
                    raise PolicyError(
                        f"{self._referee.policy}: schedule returned None; it must yield actions, "
                        "or return an iterable of them"
                    )
                for action in actions:
                    try:
                        apply(action)
                    except (AttributeError, TypeError, ValueError, IndexError) as error:
                        self._referee.check_form(action, error)
                        raise
                if watch is not None:
                    watch(state.now)

    def decisions(self) -> Iterator[State]:
        """Yield the state at every instant at which something has changed, until nothing will.

        What a policy's actions cause at the same instant (a run time of 0) makes a further round.
        After the last decision, tasks that still wait or run are recorded as such (`close`).
        """
        state, admission, recorder = self.state, self._admission, self.recorder
        row, made = recorder.timeline.fromlist, 0
        arrived, ended = state.arrived, state.ended
        waiting, running, held = self._queue.tasks, self._running, admission.held
        reserved = state.reservations
        free, limited = self._room.total_free(), admission.limited
        periodic, keeps = self._every is not None, recorder.keeps_timeline
        for now in self._instants():
            if not state.changed:
                continue
            if not self._ticked:
                if keeps:
                    row([now, len(waiting) + len(reserved), len(held), len(running), *free])
                self._await_tick(now)
                continue
            state.changed = False
            state.now = now
            if periodic:
                self._ticked = False
            if limited:
                admission.refill()
            self.decisions_made = made = made + 1
            known, over = len(arrived), len(ended)
            yield state
            del arrived[:known], ended[:over]
            if arrived:  # what came back during the decision, and waits, is news at the next
                arrived[:] = [task for task in arrived if task.waiting]
            if keeps:
                row([now, len(waiting) + len(reserved), len(held), len(running), *free])
            if not made % FLUSH_EVERY:
                recorder.flush()
        self.close()

    def _instants(self) -> Iterator[float]:
        """Return the instants at which something happens, or the backlog can move up."""
        happening = instants(self._env, self._execution.complete, self._background)
        every = chain(happening, self._moves_of_the_backlog())
        return every if self.power is None else self.power.around(every)

    def _moves_of_the_backlog(self) -> Iterator[float]:
        """Go on when nothing more happens by itself but a slot is free for a task held back."""
        while self._admission.has_room():
            self.state.changed = self._ticked = True
            yield self.now
            yield from instants(self._env, self._execution.complete, self._background)

    def _await_tick(self, now: float) -> None:
        """Put the decision off to the next multiple of the scheduler's period."""
        assert self._every is not None
        due = -(-now // self._every) * self._every
        if self.rules.step_s is not None and due != now:
            return  # the clock ticks by itself; what is due now is a further round of its tick
        if due != self._tick_due:
            self._tick_due = due
            Occurrence(self._env, due, Rank.WAKE, self._tick)

    def _tick(self, _event: simpy.Event) -> None:
        self._ticked = True
        self._tick_due = None

    def _step(self) -> None:
        self.state.changed = self._ticked = True

    # ---- what happens by itself ---------------------------------------------------------------

    def _submit(self, row: int, tasks: Sequence[Task], refusal: str) -> None:
        state = self.state
        state.changed = True
        state.submitted += 1
        if self._observer is not None:
            self._observer.submitted(self._env._now, tasks)
        if self._learns:
            for task in tasks:
                task.estimate_s = self._predictor.on_submission(task.user, task.estimate_s)
        if len(tasks) > 1 or not tasks[0].gang or self._learns:
            self._books.open(tasks)
        if refusal:
            self._reject(row, tasks, refusal)
            return
        ready = self._parents.admit(tasks) if self._parents.any else tasks
        if not self._admission.limited:
            for task in ready:
                self._queue.add(task)
            state.arrived.extend(ready)
        elif not all(map(self._admission.submit, ready)):
            self._reject(row, tasks, "the backlog is full")

    def _reject(self, row: int, tasks: Sequence[Task], reason: str) -> None:
        """Take the whole job out; a task of it that is already waiting goes, too."""
        for task in tasks:
            if task.waiting:
                self._queue.remove(task)
                self.state.arrived.remove(task)
            else:
                self._admission.withdraw(task)
        self._parents.forget(tasks)
        self._books.reject(row, tasks, self.now, reason)

    # ---- actions ------------------------------------------------------------------------------

    def apply(self, action: Action) -> None:
        """Carry out an action at once.

        Raises PolicyError if it is illegal; nothing has changed then.
        """
        if action.__class__ is not Place:
            self._apply_other(action)
            return
        task, on, start = action
        if not task.waiting:
            raise self._referee.illegal(task, "is not waiting")
        if on is None:
            raise self._referee.illegal(task, "is placed on no machine; fit() said it fits nowhere")
        if start is not None and not start <= self._env._now:
            self._reservations.make(action)
            return
        count = on[0][1] if len(on) == 1 else 0
        whole = count == task.remaining or (
            not task.gang and count.__class__ is int and 0 < count < task.remaining
        )
        if not whole or task.machines is not None:
            count = self._referee.checked_count(task, on)
        if not self._room.claim(on, task.request):
            raise self._referee.illegal(task, self._referee.why_not(task, on))
        task.remaining -= count
        try:
            if task.remaining:
                self._queue.refresh(task)
            else:
                self._leave(task)
        except KeyError:
            task.remaining += count
            self._room.give(on, task.request)
            raise self._referee.foreign(task) from None
        if task.gang:
            self._execution.start(task, on, count)
        else:
            self._execution.start_bag(task, on, self._books.instances(task, count))

    def _apply_other(self, action: Action) -> None:
        try:
            carry_out = self._actions[action.__class__]
        except KeyError:
            if isinstance(action, (SwitchOff, SwitchOn)):
                raise self._referee.broken(
                    f"{action!r} needs to know what machines draw; add a section `power`"
                ) from None
            raise PolicyError(
                f"{self._referee.policy}: {action!r} is no action of simkit.policy"
            ) from None
        carry_out(action)

    def _wake_at(self, action: WakeAt) -> None:
        time = float(time_on_grid(action.time_s))
        if not self.now < time < inf:
            raise PolicyError(
                f"{self._referee.policy}: WakeAt({action.time_s!r}) at {self.now:g} s; "
                "it must be a finite time after now"
            )
        Occurrence(self._env, time, Rank.WAKE, self._wake)

    def _wake(self, _event: simpy.Event) -> None:
        self.state.changed = True

    def _kill(self, action: Kill) -> None:
        task = action.task
        if task.waiting and task not in self._queue:
            raise self._referee.foreign(task)
        running = [a for a in self._running if a.task is task]
        suspended = [a for a in self._suspended if a.task is task]
        reserved = self._reservations.drop(task)
        held = self._admission.withdraw(task)
        if not (running or suspended or reserved or held or task.waiting):
            raise self._referee.illegal(task, "has ended, it cannot be killed")
        if task.waiting:
            self._admission.leave(task)
        self._end_by_force(task, action.reason, running, suspended)

    def _kill_child(self, task: Task, reason: str) -> None:
        """Kill a task that never got into the queue."""
        self._end_by_force(task, reason, (), ())

    def _end_by_force(
        self,
        task: Task,
        reason: str,
        running: Iterable[Allocation],
        suspended: Iterable[Allocation],
    ) -> None:
        task.remaining = 0
        self._books.event(self.now, "killed", task, reason)
        executed = 0.0
        for allocation in running:
            attempt = self._execution.release(allocation)
            executed = max(executed, attempt.done_s)
            self._books.record_of(task, allocation.start_time_s)
            self._books.record(allocation, attempt, self.now, Outcome.KILLED)
        for allocation in suspended:
            attempt = self._suspended.pop(allocation)
            executed = max(executed, attempt.done_s)
            self._books.records[task].suspended_s += self.now - attempt.suspended_at_s
        self._books.kill(task, self.now, reason, executed)

    def close(self) -> None:
        """Close the books over everything that has not ended: it runs, or it waits.

        Happens by itself after the last decision; whoever stops earlier calls it.
        """
        if self._closed:
            return
        self._closed = True
        for allocation, attempt in self._running.items():
            self._books.record_of(allocation.task, allocation.start_time_s)
            self._books.record(allocation, attempt, nan, Outcome.RUNNING)
        in_progress = {allocation.task for allocation in (*self._running, *self._suspended)}
        waiting = (
            *self._queue.tasks,
            *self._admission.held,
            *self.state.reservations,
            *self._parents.held,
        )
        self._books.close({*in_progress, *waiting}, in_progress)
        if self.power is not None:
            self.power.close()
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
