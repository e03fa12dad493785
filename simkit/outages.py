"""Outages: capacity that goes and comes back, and what becomes of the tasks that hold it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from simkit.bookkeeping import Bookkeeping
from simkit.cluster import Maintenance, WhenTaken
from simkit.execution import Execution
from simkit.policy import CapacityStep, State
from simkit.processes import Environment
from simkit.recorder import Recorder


class Change(NamedTuple):
    """A step of capacity, and what it does to running tasks if it takes some away."""

    step: CapacityStep
    running: WhenTaken


def changes(windows: Iterable[Maintenance]) -> list[Change]:
    """Return all changes in order of time; at one instant, what comes back before what goes."""
    both = [Change(step, window.running) for window in windows for step in window.steps()]
    return sorted(both, key=lambda change: (change.step.time_s, min(change.step.change) < 0))


def by_instant(all_changes: Sequence[Change]) -> Iterator[tuple[float, list[Change]]]:
    """Yield each instant with the changes that take place at it."""
    for time_s, group in groupby(all_changes, key=lambda change: change.step.time_s):
        yield time_s, list(group)


class Outages:
    """Carries out changes of capacity."""

    def __init__(
        self,
        env: Environment,
        state: State,
        recorder: Recorder,
        books: Bookkeeping,
        execution: Execution,
    ) -> None:
        self._env = env
        self._state = state
        self._recorder = recorder
        self._books = books
        self._execution = execution

    def take_place(self, group: list[Change]) -> None:
        """Let all changes of an instant happen; only then is anything taken off."""
        state = self._state
        state._changed = True
        state.releases += 1
        for change in group:
            self._apply(change)
        state._note_constraints()
        for step, running in group:
            if running != "drain" and min(step.change) < 0:
                self._evict(step.machine, keep_work=running == "suspend")

    def _apply(self, change: Change) -> None:
        step, room = change.step, self._state.room
        self._state._steps.remove(step)
        room.change_capacity(step.machine, _sum(room.capacity[step.machine].tolist(), step.change))
        self._recorder.change_capacity(_sum(self._recorder.capacity, step.change))
        self._books.capacity(
            self._env.now,
            step.machine,
            room.capacity[step.machine],
            self._state.info.resources,
            change.running,
        )

    def _evict(self, machine: int, *, keep_work: bool) -> None:
        """Take tasks off a machine until it has what the others hold, youngest first.

        A task that holds nothing of what is short stays.
        """
        for allocation in reversed(list(self._state.running)):
            free = self._state.room.free()[machine]
            if (free >= 0).all():
                return
            needs_short = any(
                amount > 0 > left
                for amount, left in zip(allocation.task.request, free, strict=True)
            )
            if needs_short and any(row == machine for row, _ in allocation.on):
                self._execution.stop(allocation, keep_work=keep_work)


def _sum(amounts: Sequence[float], changes: Sequence[float]) -> list[float]:
    return [amount + change for amount, change in zip(amounts, changes, strict=True)]
