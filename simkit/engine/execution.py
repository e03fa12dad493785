"""Execution: tasks start, complete, are suspended, resumed, or start over.

`Reservations` are places kept for a later start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from simkit.engine.bookkeeping import Attempt, InstanceTimes, Part, by_machine
from simkit.engine.events import Event, Occurrence, Rank
from simkit.engine.recorder import Outcome
from simkit.engine.system import System
from simkit.errors import ScenarioError
from simkit.policy import Cancel, Place, Resume, Suspend
from simkit.policy.estimates import CORRECTIONS, Correction, corrected
from simkit.policy.task import Allocation, Instances, Placement, Reservation, Task
from simkit.rules import Rules
from simkit.sections import or_infinite
from simkit.units import instant_on_grid, time_on_grid

if TYPE_CHECKING:
    from simkit.power.facts import Checkpoints

_KILLED = int(Outcome.KILLED)


class Execution:
    """All that holds resources, from its start to its end."""

    def __init__(
        self,
        system: System,
        rules: Rules,
        correction: Correction = "none",
    ) -> None:
        if correction not in CORRECTIONS:
            names = ", ".join(CORRECTIONS)
            raise ScenarioError(f"estimates.correction: must be one of {names}, not {correction!r}")
        self._system = system
        self._state = system.state
        self._outlook = system.outlook
        self._events = system.events
        self._books = system.books
        self._records = system.books.records
        self._observer = system.observer
        self._running, self._room = system.running, system.room
        workload = system.workload
        self._run_time_s = workload.longest_run_time_s().item  # the fastest way to one number
        self._own_times = InstanceTimes(workload) if len(workload.instance_run_time_s) else None
        self._killed_after_s = rules.killed_after_s if rules.kills else None
        self._additions = CORRECTIONS[correction]
        self._watched = bool(self._additions) or self._observer is not None
        self._unusual = self._killed_after_s is not None or self._watched
        self._retries = or_infinite(rules.limits.retries)
        self._own_retries = workload.retries.item if len(workload.retries) else None

    def start_task(self, task: Task, on: Placement, count: int) -> None:
        """Start a gang, or `count` of the remaining instances of a bag; resources are claimed."""
        if not task.gang:
            self._start_bag(task, on, count)
            return
        work = self._run_time_s(task.index)
        if self._unusual or task in self._records:
            self._start(task, (on, count, None), work)
            return
        now, state = self._events.now, self._state  # most starts: what `_start` does, and no more
        rank = state.starts = state.starts + 1
        allocation = Allocation(rank, task, on, count, now, now + task.estimate_s)
        self._running[allocation] = None
        self._events.end_at(now + work, (allocation,))
        if (ends := self._outlook.ends) is not None:
            ends.add(allocation)

    def _start_bag(self, task: Task, on: Placement, count: int) -> None:
        """Start `count` of the remaining instances of a bag.

        Instances of a bag on one machine that end together are an allocation.
        """
        instances = self._books.instances(task, count)
        if self._own_times is not None:
            for work, part in self._own_times.split(task, on, instances):
                self._start(task, part, work)
        elif len(on) == 1:
            self._start(task, (on, count, instances), self._run_time_s(task.index))
        else:
            parts = by_machine(on, instances)
            self._start_parts(task, parts, self._run_time_s(task.index))

    def _start(self, task: Task, part: Part, work: float) -> None:
        """Start a gang, or part of a bag, as one allocation."""
        state, now = self._state, self._events.now
        on, count, instances = part
        work, outcome = self._until_killed(task, work)
        if (record := self._records.get(task)) is not None:
            record.starts(now, instances is None)
        rank = state.starts = state.starts + 1
        allocation = Allocation(rank, task, on, count, now, now + task.estimate_s)
        plain = instances is None and not outcome
        self._running[allocation] = None if plain else Attempt(work, instances, outcome)
        self._run((allocation,), 0.0, now + work)

    def _until_killed(self, task: Task, work: float) -> tuple[float, int]:
        """Return how long a task will run, in s, and its outcome: 0 at its own end, or killed."""
        if self._killed_after_s is None:
            return work, 0
        limit = self._killed_after_s(task.requested_time_s)
        return (limit, _KILLED) if limit < work else (work, 0)

    def _start_parts(self, task: Task, parts: Iterable[Part], work: float) -> None:
        """Start parts of a bag that end together; each becomes an allocation."""
        state, running, now = self._state, self._running, self._events.now
        work, outcome = self._until_killed(task, work)
        self._records[task].starts(now, False)
        rank, expected_end_s, together = state.starts, now + task.estimate_s, []
        for on, count, instances in parts:
            rank += 1
            allocation = Allocation(rank, task, on, count, now, expected_end_s)
            together.append(allocation)
            running[allocation] = Attempt(work, instances, outcome)
        state.starts = rank
        self._run(together, 0.0, now + work)

    def _run(self, together: Sequence[Allocation], done_s: float, ends_s: float) -> None:
        """Let allocations run that end together, and tell who keeps track of what runs."""
        self._events.end_at(ends_s, together)
        ends = self._outlook.ends
        for allocation in together:
            if ends is not None:
                ends.add(allocation)
            if self._watched:
                self._tell(allocation, done_s, ends_s)

    def _tell(self, allocation: Allocation, done_s: float, ends_s: float) -> None:
        """See to the estimate of what has started, and tell the observer."""
        if self._additions:
            self._correct_at_end(allocation, done_s, ends_s)
        if self._observer is not None:
            self._observer.started(self._events.now, allocation)

    def _go_on(self, suspended: Allocation, attempt: Attempt, on: Placement) -> None:
        """Continue instances from where they were suspended."""
        task, done, now = suspended.task, attempt.done_s, self._events.now
        rank = self._state.starts = self._state.starts + 1
        estimate = corrected(task.estimate_s, task.requested_time_s, done, self._additions)
        allocation = Allocation(
            rank, task, on, suspended.count, now, max(now + estimate - done, now)
        )
        self._running[allocation] = attempt
        self._run((allocation,), done, now + (attempt.work_s - done))

    def _left_s(self, task: Task, attempt: Attempt) -> float:
        """Return how long a suspended allocation would still run by its estimate, in s."""
        done = attempt.done_s
        estimate = corrected(task.estimate_s, task.requested_time_s, done, self._additions)
        return max(estimate - done, 0.0)

    def _correct_at_end(self, allocation: Allocation, done_s: float, ends_s: float) -> None:
        """Correct the estimate when its expected end comes, unless it will have ended by then."""
        due = max(allocation.expected_end_s, self._events.now)
        if due < ends_s:
            correct = partial(self._correct, allocation, done_s, ends_s)
            self._events.in_background(due, Rank.WAKE, correct)

    def _correct(self, allocation: Allocation, done_s: float, ends_s: float, _: Event) -> None:
        """Expect a later end of an allocation that has outlived its estimate, if it still runs."""
        if allocation not in self._running:
            return
        task, start, ends = allocation.task, allocation.start_time_s, self._outlook.ends
        executed = done_s + self._events.now - start
        estimate = corrected(task.estimate_s, task.requested_time_s, executed, self._additions)
        if estimate <= executed:
            return
        if ends is not None:
            ends.remove(allocation)
        allocation.expected_end_s = start + estimate - done_s
        if ends is not None:
            ends.add(allocation)
        self._state.releases += 1
        self._system.changed = True
        self._correct_at_end(allocation, done_s, ends_s)

    def complete(self, together: Sequence[Allocation], now: float) -> None:
        """End allocations whose work is done; those that have been stopped ended then."""
        if len(together) > 1:
            self._complete_parts(together, now)
            return
        allocation = together[0]
        try:
            attempt = self._running.pop(allocation)
        except KeyError:
            return
        self._system.changed = True
        self._give_back(allocation)
        plain = attempt is None and len(allocation.on) == 1
        if plain and allocation.task not in self._records:
            self._books.finish(allocation, now)
        else:
            attempt = attempt or self._whole(allocation)
            self._books.end_allocations(together, (attempt,), now, attempt.outcome, attempt.work_s)

    def _complete_parts(self, together: Sequence[Allocation], now: float) -> None:
        """End those parts of a bag that still run; they started together, so they are alike."""
        running = self._running
        ended = [allocation for allocation in together if allocation in running]
        if not ended:
            return
        attempts = [running.pop(allocation) for allocation in ended]
        first = attempts[0]
        assert first is not None  # only a gang that was not interrupted has none
        self._system.changed = True
        on = tuple([pair for allocation in ended for pair in allocation.on])  # no machine twice
        self._room.give(on, ended[0].task.request)
        for allocation in ended:
            self._give_back(allocation, freed=True)
        self._books.end_allocations(ended, attempts, now, first.outcome, first.work_s)

    def release(self, allocation: Allocation) -> Attempt:
        """Free what an allocation holds, before its end; return what has been done of its work."""
        attempt = self._running.pop(allocation) or self._whole(allocation)
        self._give_back(allocation)
        attempt.done_s += self._events.now - allocation.start_time_s
        return attempt

    def _whole(self, allocation: Allocation) -> Attempt:
        """Return the attempt of a gang that has not been interrupted."""
        return Attempt(self._run_time_s(allocation.task.index))

    def _give_back(self, allocation: Allocation, freed: bool = False) -> None:
        """Free what an allocation holds, unless it is `freed` already."""
        state = self._state
        if not freed:
            self._room.give(allocation.on, allocation.task.request)
        if (ends := self._outlook.ends) is not None:
            ends.remove(allocation)
        state.releases += 1
        state.ended.append(allocation)
        if self._observer is not None:
            self._observer.released(self._events.now, allocation)

    def suspend(self, action: Suspend) -> None:
        """Stop an allocation, as the policy asks."""
        if action.allocation not in self._running:
            raise self._system.referee.illegal(action.allocation.task, "is not running")
        self.stop(action.allocation, keep_work=action.keep_work)

    def stop(
        self,
        allocation: Allocation,
        *,
        keep_work: bool,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """Suspend an allocation; or, its work lost, put its instances back in the queue.

        With `checkpoints`, a suspended allocation keeps its work up to the last of them alone, and
        owes the time of a restart. A task that may not start over again is killed.
        """
        if allocation not in self._running:
            return  # its task was killed when another of its allocations was stopped
        task, now = allocation.task, self._events.now
        if not keep_work and (reason := self._why_not_again(allocation)):
            self.kill(task, reason)
            return
        attempt = self.release(allocation)
        outcome = Outcome.SUSPENDED if keep_work else Outcome.LOST
        self._books.end_allocations((allocation,), (attempt,), now, outcome, attempt.done_s)
        if keep_work:
            if checkpoints is None:
                attempt.saved_s = 0.0
            else:
                self._fall_back(allocation, attempt, checkpoints)
            self._system.suspended[allocation] = attempt
            attempt.suspended_at_s = now
            allocation.left_s = self._left_s(task, attempt)
            kept = max(attempt.done_s, 0.0)
            self._books.event("suspended", task, f"{kept:.10g} s of work kept")
            return
        self._books.give_back(task, attempt)
        if self._state.reservations.pop(task, None) is not None:
            # What was reserved for the rest of a bag is no longer all of it.
            self._system.note_constraints()
            self._books.event("cancelled", task, "other instances start over, too")
        self._books.event("lost", task, f"{allocation.count} instances start over")
        if (lost := self._books.attempts(task, attempt)) > self._retries:
            error = self._system.referee.too_many_retries(task, lost)
            self._events.stop_after(now, lambda: error)
        task.remaining += allocation.count
        if task.waiting:
            self._system.queue.refresh(task)
        else:
            self._system.admission.show(task)

    def _why_not_again(self, allocation: Allocation) -> str:
        """Return why a task must not start over if this attempt is lost; empty if it may."""
        if self._own_retries is None or (own := self._own_retries(allocation.task.index)) < 0:
            return ""
        allowed = min(own, self._retries)
        if self._books.attempts(allocation.task, self._running[allocation]) <= allowed:
            return ""
        return f"its work was lost and it may not start over again (retries: {allowed:.0f})"

    def kill(self, task: Task, reason: str) -> bool:
        """End a task for good: running, suspended, reserved or waiting; False if it has ended."""
        system = self._system
        running = [a for a in self._running if a.task is task]
        suspended = [a for a in system.suspended if a.task is task]
        reserved = self._state.reservations.pop(task, None) is not None
        system.note_constraints()
        held = system.admission.withdraw(task)
        if not (running or suspended or reserved or held or task.waiting):
            return False
        if task.waiting:
            system.admission.leave(task)
        task.remaining = 0
        self._books.event("killed", task, reason)
        now, executed = self._events.now, 0.0
        for allocation in running:
            attempt = self.release(allocation)
            executed = max(executed, attempt.done_s)
            self._books.record_of(task, allocation.start_time_s)
            self._books.record((allocation,), (attempt,), now, Outcome.KILLED)
        for allocation in suspended:
            attempt = system.suspended.pop(allocation)
            executed = max(executed, attempt.done_s)
            self._books.records[task].suspended_s += now - attempt.suspended_at_s
        self._books.kill(task, now, reason, executed)
        return True

    def kill_unseen(self, task: Task, reason: str) -> None:
        """Kill a task that never got into the queue."""
        task.remaining = 0
        self._books.event("killed", task, reason)
        self._books.kill(task, self._events.now, reason, 0.0)

    def split(self, allocation: Allocation, count: int) -> Allocation:
        """Split some instances of a bag off the others that started with them; return their part.

        Both parts run on to the end they had.
        """
        state, outlook, now = self._state, self._outlook, self._events.now
        attempt, parts = self._running.pop(allocation), []
        assert attempt is not None  # only a gang that was not interrupted has none
        if outlook.ends is not None:
            outlook.ends.remove(allocation)
        machine = allocation.on[0][0]
        for size, chosen in zip(
            (allocation.count - count, count), _cut(attempt.instances or (), count), strict=True
        ):
            rank = state.starts = state.starts + 1
            part = Allocation(
                rank, allocation.task, ((machine, size),), size, allocation.start_time_s,
                allocation.expected_end_s,
            )  # fmt: skip
            if outlook.ends is not None:
                outlook.ends.add(part)
            self._running[part] = attempt.of(chosen)
            left = attempt.work_s - attempt.done_s - (now - allocation.start_time_s)
            self._events.end_at(now + left, (part,))
            if self._additions:
                self._correct_at_end(part, attempt.done_s, now + left)
            parts.append(part)
        return parts[1]

    def _fall_back(
        self, allocation: Allocation, attempt: Attempt, checkpoints: Checkpoints
    ) -> None:
        """Set an allocation back to what its last checkpoint holds, less the time to restart.

        A restart that is interrupted has lost no checkpoint; without one there is nothing to load,
        and the work starts over.
        """
        done, task = attempt.done_s, allocation.task
        reached = float(time_on_grid(done // checkpoints.every * checkpoints.every))
        attempt.saved_s = saved = max(attempt.saved_s, reached)
        restart = checkpoints.restart if saved else 0.0
        kept = min(float(time_on_grid(saved - restart)), done)
        self._books.records[task].lost_s += (done - kept) * allocation.count / task.instances
        attempt.done_s = kept

    def resume(self, action: Resume) -> None:
        """Continue a suspended allocation."""
        allocation, on = action.allocation, action.on or action.allocation.on
        task, referee = allocation.task, self._system.referee
        if allocation not in self._system.suspended:
            raise referee.illegal(task, "is not suspended, it cannot be resumed")
        count = sum(pair[1] for pair in on)
        if count != allocation.count:
            raise referee.illegal(task, f"resumes {count} of {allocation.count} instances")
        referee.check_partition(task, on)
        if not self._system.room.claim(on, task.request):
            raise referee.illegal(task, referee.why_not(task, on))
        attempt, now = self._system.suspended.pop(allocation), self._events.now
        self._books.records[task].suspended_s += now - attempt.suspended_at_s
        self._books.event("resumed", task, "")
        self._go_on(allocation, attempt, on)


def _cut(
    instances: tuple[Instances, ...], count: int
) -> tuple[tuple[Instances, ...], tuple[Instances, ...]]:
    """Return runs of instances in two parts: all but the last `count`, and these."""
    stay, go, left = [], [], sum([size for _, size, _ in instances]) - count
    for first, size, attempt in instances:
        staying = min(size, left)
        left -= staying
        if staying:
            stay.append((first, staying, attempt))
        if staying < size:
            go.append((first + staying, size - staying, attempt))
    return tuple(stay), tuple(go)


class Reservations:
    """Tasks that have left the queue for a place in the future."""

    def __init__(self, system: System, execution: Execution) -> None:
        self._system = system
        self._execution = execution

    def make(self, action: Place) -> None:
        """Keep a place for all that remains of a task; it leaves the queue until then."""
        system, referee = self._system, self._system.referee
        task, on, start = action
        count = on[0][1] if len(on) == 1 else 0
        if count != task.remaining or task.machines is not None:
            count = referee.checked_count(task, on)
        if count != task.remaining:
            raise referee.illegal(task, f"reserves {count} of {task.remaining} remaining instances")
        if wrong := referee.malformed(on):
            raise referee.illegal(task, wrong)
        if start is None or not isfinite(start):
            raise referee.illegal(task, f"is reserved for {start} s, which is not a valid time")
        due = instant_on_grid(start)
        place = Reservation(task, on, due)
        try:
            system.admission.leave(task)
        except KeyError:
            raise referee.foreign(task) from None
        system.state.reservations[task] = place
        system.note_constraints()
        system.books.event("reserved", task, f"starts at {due:g} s")
        if system.observer is not None:
            system.observer.reserved(system.events.now, place)
        system.events.at(due, Rank.RESERVATION, self._fall_due, place)

    def _fall_due(self, event: Occurrence) -> None:
        """Start a reserved task; or, if it does not fit, put it back in its place."""
        system = self._system
        place: Reservation = event.subject
        task = place.task
        if system.state.reservations.get(task) is not place:
            return  # cancelled in the meantime
        system.changed = True
        self.drop(task)
        if system.room.claim(place.on, task.request):
            count, task.remaining = task.remaining, 0
            self._execution.start_task(task, place.on, count)
            return
        reason = system.referee.why_not(task, place.on)
        system.books.event("reservation_failed", task, reason)
        system.admission.show(task)

    def cancel(self, action: Cancel) -> None:
        """Take a reservation back."""
        system, task = self._system, action.task
        if not self.drop(task):
            raise system.referee.illegal(task, "has no reservation to cancel")
        system.books.event("cancelled", task, "reservation taken back")
        system.state.releases += 1
        system.admission.show(task)

    def drop(self, task: Task) -> bool:
        """Forget a task's reservation; return whether it had one."""
        had = self._system.state.reservations.pop(task, None) is not None
        self._system.note_constraints()
        return had
