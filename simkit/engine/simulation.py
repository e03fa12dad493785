"""A simulation: a generator of decision instants, and the actions that a policy may take at them.

    for state in simulation.decisions():
        for action in policy.schedule(state):
            simulation.apply(action)

Everything that changes the system's state by an action is here; what happens by itself, and in
which order, is in `simkit.engine.events`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import inf, nan
from typing import TYPE_CHECKING, Any

from simkit.arrays import stream
from simkit.engine.admission import LATE, check_lateness
from simkit.engine.bookkeeping import Observer
from simkit.engine.events import Event, Rank
from simkit.engine.execution import Execution, Reservations
from simkit.engine.held_back import Parents
from simkit.engine.outages import MachineFailures, Outages, Processes, ProcessLike
from simkit.engine.recorder import FLUSH_EVERY, Outcome, Recorder
from simkit.engine.submission import Submission
from simkit.engine.system import System
from simkit.errors import LimitError, PolicyError
from simkit.policy import (
    Action,
    Cancel,
    Kill,
    Place,
    Policy,
    Reject,
    Resume,
    State,
    Suspend,
    SwitchOff,
    SwitchOn,
    WakeAt,
)
from simkit.policy.declared import declared_signals
from simkit.policy.estimates import Correction, Predictor, Requested
from simkit.policy.task import Task
from simkit.rules import Rules
from simkit.sections import or_infinite
from simkit.units import LATEST_S, time_on_grid
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

if TYPE_CHECKING:
    from simkit.engine.power_supply import PowerSupply
    from simkit.power.site import Site

PATIENCE = 2000
"""Steps without a start after which a run in which nothing runs and no job comes is over."""


class StepClock:
    """Ticks at every multiple of a step, in the background.

    While tasks wait it goes on ticking even if nothing runs, since a policy that withheld them may
    still start them; but for no more than `PATIENCE` steps without a start.
    """

    def __init__(
        self, system: System, step_s: float, begin_s: float, tick: Callable[[], None]
    ) -> None:
        self._system = system
        self._last_starts = self._idle_steps = 0
        system.events.at_every(step_s, -(-begin_s // step_s) * step_s, tick)
        system.events.worth_waiting.append(self._worth_waiting)

    def _worth_waiting(self) -> bool:
        starts = self._system.state.starts
        self._idle_steps = self._idle_steps + 1 if starts == self._last_starts else 0
        self._last_starts = starts
        return self._idle_steps <= PATIENCE and self._system.anyone_waits()


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
        correction: Correction = "none",
        seed: int = 0,
        site: Site | None = None,
        observer: Observer | None = None,
        processes: Sequence[ProcessLike] = (),
    ) -> None:
        """Build the system; nothing runs yet.

        A `correction` says what becomes of the predictor's estimate of a running task that
        outlives it. With a `site`, power decides what may run. An `observer` hears of jobs,
        allocations and power when they come, go and change. `processes` run alongside the
        engine's own and may take machines away.

        Raises ScenarioError if jobs ask for a resource that no machine has, or if the correction is
        unknown.
        """
        self.rules = rules or Rules()
        self.recorder = recorder
        self._predictor = predictor or Requested()
        self._predictor.reset(workload, stream(seed, "predictor"))
        self._system = system = System(
            workload, cluster, recorder, self._predictor, self.rules.admission, observer,
            powered=site is not None,
        )  # fmt: skip
        self._events, self._books = system.events, system.books
        self._admission, self._referee = system.admission, system.referee
        self.info, self.state = system.info, system.state
        self._most_decisions = or_infinite(self.rules.limits.decisions)
        self._execution = Execution(system, self.rules, correction)
        recorder.correction = correction
        self._reservations = Reservations(system, self._execution)
        self._parents = Parents(workload, self._admission.admit, self._execution.kill_unseen)
        if self._parents.any:
            self._books.on_task_end = self._parents.ended
        self._users = self._admission.users
        self._releases = system.releases
        if self._releases is not None:
            self._releases.let_in = self._let_in
        self._holds_back = self._parents.any or self._releases is not None
        submission = Submission(workload, cluster, self._predictor, self._users)
        self._routing = submission.routing if submission.routing.by_waiting else None
        if submission.routing.only is None:
            names = [partition.name for partition in cluster.partitions]
            recorder.routed = names, submission.routing.partition
        self._plain = not (
            system.observer or self._routing or self._predictor.learns or self._holds_back
            or self._users or self._admission.limited
        )  # fmt: skip
        system.events.submit_each(submission.jobs(), self._submit)
        self.power: PowerSupply | None = None
        """The site's power; None without a site."""
        self._let_capacities_change(seed, site, processes)
        self._set_the_clock()
        if (simulated_s := self.rules.limits.simulated_time) is not None:
            last_s = min(self.info.first_submit_s + simulated_s, LATEST_S)
            over_s = float(time_on_grid(last_s))
            system.events.stop_after(over_s, self._out_of_time)
        self._closed = False
        self.out_of_time = False
        """Whether the limit of simulated time has stopped the replay."""
        self.decisions_made = 0
        self._progress = (0, 0)
        system.outlook.rejectable = self._rejectable
        if self.rules.admission.late == "leave":
            check_lateness(workload)
            self._admission.turns_away = self._leaves_if_late
        self._actions: dict[type, Callable[[Any], None]] = {
            Cancel: self._reservations.cancel,
            WakeAt: self._wake_at,
            Suspend: self._execution.suspend,
            Resume: self._execution.resume,
            Kill: self._kill,
            Reject: self._reject,
        }
        if self.power is not None:
            self._actions |= {SwitchOff: self.power.switch_off, SwitchOn: self.power.switch_on}

    def _let_capacities_change(
        self, seed: int, site: Site | None, processes: Sequence[ProcessLike]
    ) -> None:
        """Start what takes capacity away: known changes, random failures, power, processes."""
        system, failures = self._system, self._system.cluster.failures
        outages = Outages(system, self._execution)
        outages.any |= bool(processes)  # they may change capacities at any time
        if failures is not None:
            MachineFailures(system, failures, stream(seed, "failures"), outages)
        if site is not None:
            from simkit.engine.power_supply import PowerSupply

            self.power = PowerSupply(system, site, self._execution, outages)
        if processes:
            Processes(system, outages, processes, seed)

    def _set_the_clock(self) -> None:
        """Decide at every change, or only at multiples of a period."""
        scheduling, workload = self.rules.scheduling, self._system.workload
        self._period = scheduling.period_s
        self._steps = scheduling.step is not None
        self._ticked = self._period is None
        self._tick_due: float | None = None
        if self._period is not None and self._steps and len(workload):
            StepClock(self._system, self._period, self.info.first_submit_s, self._step)

    @property
    def now(self) -> float:
        """Seconds on the trace's clock."""
        return self._events.now

    @property
    def jobs_ended(self) -> int:
        """Jobs that have finished or were killed or rejected."""
        return self._books.jobs_ended

    def held_back(self) -> dict[str, Collection[Task]]:
        """Return what holds tasks back before the queue → these tasks; nothing changes.

        The keys are release (of their job), parents, user_limit and admission.
        """
        users, backlog = self._users, self._admission.backlog
        return {
            "release": () if self._releases is None else self._releases.held,
            "parents": self._parents.held,
            "user_limit": () if users is None else users.held,
            "admission": backlog,
        }

    def ahead_of(self, task: Task) -> tuple[list[Task], list[Task]]:
        """Return who holds back a task of `held_back`: those let in before it, those ahead of it.

        For a user's limit, both are tasks of the user in the partition; for admission, the first
        are what takes the slots. Empty for what waits for its release or its parents.
        """
        if self._users is not None and task in self._users.held:
            return self._users.ahead_of(task)
        backlog = [*self._admission.backlog]
        if task in backlog:
            return self._system.queue.tasks.copy(), backlog[: backlog.index(task)]
        return [], []

    # ---- the run ------------------------------------------------------------------------------

    def run(
        self, policy: Policy, seed: int = 0, watch: Callable[[float], None] | None = None
    ) -> None:
        """Replay everything under a policy; `watch` is called with the time at every decision."""
        self._referee.policy = type(policy).__name__
        policy.reset(self.info, stream(seed, "policy"))
        if self.power is not None:
            from simkit.engine.power_supply import least_valuable_first

            self.power.victims = getattr(policy, "victims", least_valuable_first)
            self.power.heed(declared_signals(policy))
        for time_s in getattr(policy, "switch_times_s", ()):
            if time_s > self.now:
                self._events.in_background(time_s, Rank.WAKE, self._wake)
        apply = self.apply
        with _seldom_collected():
            for state in self.decisions():
                actions = policy.schedule(state)
                if actions.__class__ is not tuple and not hasattr(actions, "__iter__"):
                    raise PolicyError(
                        f"{self._referee.policy}: schedule returned {actions!r}; it must yield "
                        "actions, or return an iterable of them"
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
        system, admission = self._system, self._admission
        state, recorder = self.state, self.recorder
        row, made = recorder.timeline.fromlist, 0
        often = FLUSH_EVERY if self._most_decisions >= FLUSH_EVERY else 1
        arrived, ended = state.arrived, state.ended
        waiting, running, held = system.queue.tasks, system.running, admission.held
        reserved = state.reservations
        free, limited = system.room.total_free(), admission.limited
        periodic, keeps = self._period is not None, recorder.keeps_timeline
        late_leave = admission.turns_away is not None
        plain = not (periodic or limited or late_leave)
        for now in self._instants():
            if not system.changed:
                continue
            if not (plain or self._ticked):
                if keeps:
                    row([now, len(waiting) + len(reserved), len(held), len(running), *free])
                self._await_tick(now)
                continue
            system.changed = False
            state.now = now
            if not plain:
                self._ticked = not periodic
                if limited and held:
                    admission.refill()
                if late_leave:
                    admission.deciding = True
                    self._let_late_jobs_leave()
            self.decisions_made = made = made + 1
            known, over = len(arrived), len(ended)
            yield state
            if late_leave:
                admission.deciding = False
            if known or over:
                del arrived[:known], ended[:over]
            if arrived:  # what came back during the decision, and waits, is news at the next
                arrived[:] = [task for task in arrived if task.waiting]
            if keeps:
                row([now, len(waiting) + len(reserved), len(held), len(running), *free])
            if not made % often:
                if not made % FLUSH_EVERY:
                    recorder.flush()
                self._check_progress(made)
        self.close()

    def _check_progress(self, made: int) -> None:
        """Raise LimitError after too many decisions in which no job arrived or ended."""
        seen, since = self._progress
        progress = self.state.submitted + self._books.jobs_ended
        if progress != seen:
            self._progress = (progress, made)
        elif made - since >= self._most_decisions:
            raise self._referee.no_progress(made - since)

    def _out_of_time(self) -> LimitError:
        self.out_of_time = True
        left = self.state.submitted - self._books.jobs_ended
        return self._referee.out_of_time(or_infinite(self.rules.limits.simulated_time), left)

    def _instants(self) -> Iterator[float]:
        """Return the instants at which something happens, or the backlog can move up."""
        happening = self._events.instants(self._execution.complete)
        every = chain(happening, self._moves_of_the_backlog())
        return every if self.power is None else self.power.around(every)

    def _moves_of_the_backlog(self) -> Iterator[float]:
        """Continue if no event is left but a slot is free for a task held back.

        So, too, if the last decision killed or rejected a job and so let in another.
        """
        arrived = self.state.arrived
        while self._admission.has_room() or arrived:
            self._system.changed = self._ticked = True
            yield self.now
            yield from self._events.instants(self._execution.complete)

    def _await_tick(self, now: float) -> None:
        """Put the decision off to the next multiple of the scheduler's period."""
        assert self._period is not None
        due = -(-now // self._period) * self._period
        if self._steps and due != now:
            return  # the clock ticks by itself; what is due now is a further round of its tick
        if due != self._tick_due:
            self._tick_due = due
            self._events.at(due, Rank.WAKE, self._tick)

    def _tick(self, _event: Event) -> None:
        self._ticked = True
        self._tick_due = None

    def _step(self) -> None:
        self._system.changed = self._ticked = True

    # ---- what happens by itself ---------------------------------------------------------------

    def _submit(self, row: int, tasks: Sequence[Task], refusal: str) -> None:
        system, state = self._system, self.state
        system.changed = True
        state.submitted += 1
        if self._plain and not refusal and len(tasks) == 1 and tasks[0].gang:
            system.queue.add(tasks[0])  # a rigid job that nothing below is about
            state.arrived.append(tasks[0])
            return
        if system.observer is not None:
            system.observer.submitted(self._events.now, tasks)
        if self._routing is not None:
            refusal = self._routing.send(tasks)
        learns = self._predictor.learns
        if learns:
            for task in tasks:
                task.estimate_s = self._predicted(task)
        if len(tasks) > 1 or not tasks[0].gang or learns:
            self._books.open(tasks)
        if refusal:
            self._refuse(row, tasks, refusal)
            return
        ready = tasks
        if self._holds_back:
            shown = self._ready(tasks)
            if shown is None:
                return
            ready = shown
        if self._users is not None and self._users.holds(tasks, ready):
            return
        if not self._admission.limited:
            for task in ready:
                system.queue.add(task)
            state.arrived.extend(ready)
        elif not all(map(self._admission.submit, ready)):
            self._refuse(row, tasks, "the backlog is full")

    def _ready(self, tasks: Sequence[Task]) -> Sequence[Task] | None:
        """Return the tasks of a submitted job that wait for no other; None: the job is held."""
        if self._releases is not None and self._releases.holds(tasks):
            if self._users is not None:
                self._users.counts(tasks)
            return None
        return self._parents.admit(tasks) if self._parents.any else tasks

    def _let_in(self, tasks: Sequence[Task]) -> None:
        """Show a job that was held back, as far as its user's limits and admission allow."""
        self._system.changed = True
        ready = self._parents.admit(tasks) if self._parents.any else tasks
        if self._users is not None and self._users.holds(tasks, ready):
            return
        if not all(map(self._admission.submit, ready)):
            self._refuse(tasks[0].job_index, tasks, "the backlog is full")

    def _predicted(self, task: Task) -> float:
        """Return a learning predictor's estimate; raise PolicyError if it is not a valid time."""
        estimate = self._predictor.on_submission(task)
        endless = estimate == inf == task.requested_time_s
        if not endless and not (isinstance(estimate, (int, float)) and 0 <= estimate < inf):
            who, job = type(self._predictor).__name__, self._system.workload.job_id[task.job_index]
            raise PolicyError(
                f"estimates: {who} returned {estimate!r} for job {job}; on_submission must return "
                "a finite number of seconds, at least 0, or infinity for a job without a limit"
            )
        return float(time_on_grid(estimate))

    def _refuse(self, row: int, tasks: Sequence[Task], reason: str) -> None:
        """Take a job out at its submission, with those of its tasks that already wait."""
        for task in tasks:
            if task.waiting:
                self._system.queue.remove(task)
                self.state.arrived.remove(task)
            else:
                self._admission.withdraw(task)
        self._parents.forget(tasks)
        self._books.reject(row, tasks, self.now, reason)

    def _let_late_jobs_leave(self) -> None:
        """Reject the jobs in the queue that can no longer end in time, and fill their slots."""
        for task in self._system.queue:  # a snapshot, less those that left with their job
            self._leaves_if_late(task)
        if self._admission.has_room():
            self._admission.refill()

    def _leaves_if_late(self, task: Task) -> bool:
        """Reject a task's job if it is late and nothing of it has begun; return whether it was."""
        if self.now <= task.latest_start_s:
            return False
        if self._begun(self._books.job_of(task)) is not None:
            return False
        self._turn_away(task, LATE)
        return True

    def _begun(self, tasks: Sequence[Task]) -> Task | None:
        """Return one of the tasks of a job that is reserved, has started or has ended."""
        reserved, has_begun = self.state.reservations, self._books.has_begun
        return next((task for task in tasks if task in reserved or has_begun(task)), None)

    def _rejectable(self, task: Task) -> bool:
        """Return whether `Reject` is legal: the task waits, and nothing of its job has begun."""
        return task in self._system.queue and self._begun(self._books.job_of(task)) is None

    def _turn_away(self, task: Task, reason: str) -> None:
        """Reject the job of a task, nothing of which has begun, some time after its submission."""
        tasks = self._books.job_of(task)
        for other in tasks:
            other.remaining = 0
            if not other.waiting:
                self._admission.withdraw(other)
        self._parents.forget(tasks)
        self._books.turn_away(tasks, self.now, reason)
        for other in tasks:
            if other.waiting:
                self._admission.leave(other)

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
        if start is not None and not start <= self._events.now:
            self._reservations.make(action)
            return
        count = on[0][1] if len(on) == 1 else 0
        whole = count == task.remaining or (
            not task.gang and count.__class__ is int and 0 < count < task.remaining
        )
        if not whole or (task.machines is not None and on[0][0] not in task.machines):
            count = self._referee.checked_count(task, on)
        system = self._system
        if not system.room.claim(on, task.request):
            raise self._referee.illegal(task, self._referee.why_not(task, on))
        task.remaining -= count
        try:
            if task.remaining:
                system.queue.refresh(task)
            elif self._admission.limited:
                self._admission.leave(task)
            else:
                system.queue.remove(task)
        except KeyError:
            task.remaining += count
            system.room.give(on, task.request)
            raise self._referee.foreign(task) from None
        self._execution.start_task(task, on, count)

    def _apply_other(self, action: Action) -> None:
        try:
            carry_out = self._actions[action.__class__]
        except KeyError:
            if isinstance(action, (SwitchOff, SwitchOn)):
                raise self._referee.broken(
                    f"{action!r} needs to know what machines draw; add a section `power`"
                ) from None
            raise PolicyError(
                f"{self._referee.policy}: {action!r} is not an action of simkit.policy"
            ) from None
        carry_out(action)

    def _wake_at(self, action: WakeAt) -> None:
        time = float(time_on_grid(action.time_s))
        if not self.now < time < inf:
            raise PolicyError(
                f"{self._referee.policy}: WakeAt({action.time_s!r}) at {self.now:g} s; "
                "it must be a finite time after now"
            )
        self._events.at(time, Rank.WAKE, self._wake)

    def _wake(self, _event: Event) -> None:
        self._system.changed = True

    def _kill(self, action: Kill) -> None:
        task = action.task
        if task.waiting and task not in self._system.queue:
            raise self._referee.foreign(task)
        if not self._execution.kill(task, action.reason):
            raise self._referee.illegal(task, "has ended, it cannot be killed")

    def _reject(self, action: Reject) -> None:
        task = action.task
        if task not in self._system.queue:
            raise self._referee.illegal(task, "is not waiting, so its job cannot be rejected")
        if (begun := self._begun(self._books.job_of(task))) is not None:
            what = "it" if begun is task else f"task {self._system.workload.task_id[begun.index]}"
            raise self._referee.illegal(
                task, f"its job cannot be rejected: {what} has started or is reserved; use Kill"
            )
        self._turn_away(task, f"policy: {action.reason}")

    def close(self) -> None:
        """Close the books over everything that has not ended: it runs, or it waits.

        `decisions` calls it after the last one; call it yourself if you stop earlier.
        """
        if self._closed:
            return
        self._closed = True
        system = self._system
        for allocation, attempt in system.running.items():
            self._books.record_of(allocation.task, allocation.start_time_s)
            self._books.record([allocation], [attempt], nan, Outcome.RUNNING)
        in_progress = {allocation.task for allocation in (*system.running, *system.suspended)}
        waiting = (
            *system.queue.tasks,
            *self._admission.held,
            *self.state.reservations,
            *self._parents.held,
            *(() if self._releases is None else self._releases.held),
        )
        self._books.close({*in_progress, *waiting}, in_progress)
        try:
            if self.power is not None:
                self.power.close()
        finally:
            self.recorder.close()


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for cyclic garbage less often: the engine makes many objects, none in a cycle."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 50_000), 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
