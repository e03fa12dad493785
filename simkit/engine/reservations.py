"""Reservations: places kept for a later start."""

from __future__ import annotations

from math import isfinite

from simkit.engine.events import Occurrence, Rank
from simkit.engine.execution import Execution
from simkit.engine.system import System
from simkit.policy import Cancel, Place
from simkit.policy.task import Reservation, Task
from simkit.units import instant_on_grid


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
