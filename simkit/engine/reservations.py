"""Reservations: places kept for a later start."""

from __future__ import annotations

from math import isfinite

from simkit.engine.admission import Admission
from simkit.engine.bookkeeping import Bookkeeping
from simkit.engine.events import Environment, Occurrence, Rank
from simkit.engine.execution import Execution
from simkit.engine.referee import Referee
from simkit.policy import Cancel, Place, State
from simkit.policy.task import Reservation, Task
from simkit.units import instant_on_grid


class Reservations:
    """Tasks that have left the queue for a place in the future."""

    def __init__(
        self,
        env: Environment,
        state: State,
        admission: Admission,
        books: Bookkeeping,
        referee: Referee,
        execution: Execution,
    ) -> None:
        self._env = env
        self._state = state
        self._admission = admission
        self._books = books
        self._referee = referee
        self._execution = execution

    def make(self, action: Place) -> None:
        """Keep a place for all that remains of a task; it leaves the queue until then."""
        task, on, start = action
        count = on[0][1] if len(on) == 1 else 0
        if count != task.remaining or task.machines is not None:
            count = self._referee.checked_count(task, on)
        if count != task.remaining:
            raise self._referee.illegal(
                task, f"reserves {count} of {task.remaining} remaining instances"
            )
        if wrong := self._referee.malformed(on):
            raise self._referee.illegal(task, wrong)
        if start is None or not isfinite(start):
            raise self._referee.illegal(task, f"is reserved for {start} s, which is no time")
        due = instant_on_grid(start)
        place = Reservation(task, on, due)
        try:
            self._admission.leave(task)
        except KeyError:
            raise self._referee.foreign(task) from None
        self._state.reservations[task] = place
        self._state.note_constraints()
        self._books.event(self._env.now, "reserved", task, f"starts at {due:g} s")
        Occurrence(self._env, due, Rank.RESERVATION, self._fall_due, place)

    def _fall_due(self, event: Occurrence) -> None:
        """Start a reserved task; or, if it does not fit, put it back in its place."""
        place: Reservation = event.subject
        task = place.task
        if self._state.reservations.get(task) is not place:
            return  # cancelled in the meantime
        self._state.changed = True
        self.drop(task)
        if self._state.room.claim(place.on, task.request):
            count, task.remaining = task.remaining, 0
            if task.gang:
                self._execution.start(task, place.on, count)
            else:
                self._execution.start_bag(task, place.on, self._books.instances(task, count))
            return
        reason = self._referee.why_not(task, place.on)
        self._books.event(self._env.now, "reservation_failed", task, reason)
        self._admission.show(task)

    def cancel(self, action: Cancel) -> None:
        """Take a reservation back."""
        if not self.drop(action.task):
            raise self._referee.illegal(action.task, "has no reservation to cancel")
        self._books.event(self._env.now, "cancelled", action.task, "reservation taken back")
        self._state.releases += 1
        self._admission.show(action.task)

    def drop(self, task: Task) -> bool:
        """Forget a task's reservation; return whether it had one."""
        had = self._state.reservations.pop(task, None) is not None
        self._state.note_constraints()
        return had
