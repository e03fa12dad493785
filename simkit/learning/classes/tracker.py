"""A class tracker: follows a simulation and lays its waiting tasks out by burst class.

    tracker.reset(info)
    for state in simulation.decisions():
        tracker.update(state)
        while (place := tracker.place(class_of_my_choice)) is not None:
            simulation.apply(place)
            tracker.update(state)

A task that is expected to run for up to n steps is of class n, and one that takes longer than the
last class of that. The first of each class, in order of submission, can be placed, on any cluster,
as early as it fits beside all that runs and is reserved or planned; a bag, as much of it as fits
now.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Final

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learning.actions import Starts
from simkit.learning.classes.observation import ClassView
from simkit.learning.slotted import Slotted
from simkit.policy import Place, State, SystemInfo
from simkit.policy.task import Placement, Task
from simkit.units import ENDLESS_S, instant_on_grid

__all__ = ["PATIENCE", "ClassTracker", "class_model"]

PATIENCE: Final = 5
"""Steps in which nothing runs though a task fits, unless an agent says otherwise."""
_NOISE = 1e-6  # of a step: rounding errors of a quotient


def class_model(
    classes: int, horizon: int, backlog_shown: int, step_s: float, resources: int
) -> Slotted:
    """Return the dimensions of burst classes on any cluster, of which shares are shown."""
    return Slotted(
        capacity=(1,) * resources, slots=classes, horizon=horizon, max_length=classes,
        backlog=None, backlog_shown=backlog_shown, step_s=step_s,
    )  # fmt: skip


class ClassTracker:
    """The waiting tasks by class, and the plan of what is free ahead, of one simulation.

    Attributes:
        model: a slot for each class, the horizon, and the length of a step; capacity and units do
            not matter, as shares are shown.
        busy: whether anything runs or is reserved.
        overdue: whether something runs past its expected end, so that what is planned is a guess.
        still_since: since when, in s, nothing runs though a task fits; None: it is not so.
    """

    still_since: float | None

    def __init__(self, model: Slotted, patience: int = 0) -> None:
        """Make a tracker.

        Args:
            model: see above.
            patience: time may go on for so many steps at most while nothing runs and a task fits.
        """
        self.model, self._patience = model, patience
        self._capacity: Floats = np.ones(model.resources)

    def reset(self, info: SystemInfo) -> None:
        """Begin a run; raises ScenarioError for a cluster of more resources than the model has."""
        if len(info.resources) > self.model.resources:
            raise ScenarioError(
                f"burst classes: the cluster has the resources {', '.join(info.resources)}, and "
                f"{self.model.resources} can be shown; leave some out of cluster.machines"
            )
        self._capacity = np.maximum(info.capacity.sum(axis=0), 1e-12)
        self.still_since = None

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after a placement."""
        self._now = state.now
        self._profile = state.profile()
        self.busy = bool(len(state.running) or state.reservations)
        ends = state.expected_ends
        self.overdue = bool(ends) and ends[0][0] <= state.now
        self._waiting: list[deque[Task]] = [deque() for _ in range(self.model.slots)]
        for task in state.queue.tasks:
            steps = ceil(min(task.estimate_s, ENDLESS_S) / self.model.step_s - _NOISE)
            self._waiting[min(max(steps, 1), self.model.slots) - 1].append(task)
        self._find_starts()
        if self.busy or not (self.starts() == 0).any():
            self.still_since = None
        elif self.still_since is None:
            self.still_since = self._now

    @property
    def must_start_at(self) -> float | None:
        """When a task has to be placed, if nothing runs then though one fits; None: it is not so.

        A policy that lets time go on wakes then, as nothing else may happen before.
        """
        if self.still_since is None:
            return None
        return instant_on_grid(self.still_since + self._patience * self.model.step_s)

    @property
    def _may_wait(self) -> bool:
        due = self.must_start_at
        return due is None or self._now < due

    def _find_starts(self) -> None:
        first = [tasks[0] if tasks else None for tasks in self._waiting]
        self._starts = [self._earliest(task) for task in first]

    def _earliest(self, task: Task | None) -> tuple[float, Placement] | None:
        """Return when and where a task can start; a bag as far as it fits, and only now."""
        if task is None:
            return None
        if task.gang:
            return self._profile.earliest(task)
        on = self._profile.fit(task, self._now)  # a place ahead is kept for whole tasks alone
        return None if on is None else (self._now, on)

    def starts(self) -> Ints:
        """Return (M,) the first step ahead at which each class's first task can start.

        0: now; -1: never, or none waits.
        """
        ahead = [-1 if found is None else self._steps_until(found[0]) for found in self._starts]
        return np.array(ahead)

    def _steps_until(self, time: float) -> int:
        """Return in how many steps a time is, rounded up; 0 only for now."""
        steps = ceil((time - self._now) / self.model.step_s - _NOISE)
        return max(steps, int(time > self._now))

    def mask(self, starts: Starts) -> Bools:
        """Return (M + 1,), fresh: which classes may be chosen, and whether time may go on.

        Args:
            starts: ``ahead``: classes of which a task can be placed, and time goes on only if there
                is none; ``now``: those of which one fits now, and time may go on, though not
                longer than the patience while nothing runs and one fits.
        """
        found, mask = self.starts(), np.ones(self.model.actions, np.bool_)
        mask[:-1] = found == 0 if starts == "now" else found >= 0
        mask[-1] = (starts == "now" and self._may_wait) or not mask[:-1].any()
        return mask

    def place(self, number: int) -> Place | None:
        """Return the placement of a class's first task as early as it fits; None: there is none."""
        found = self._starts[number]
        if found is None:
            return None
        start, on = found
        return Place(self._waiting[number][0], on, start if start > self._now else None)

    def view(self) -> ClassView:
        """Return what is seen now."""
        model, own = self.model, len(self._capacity)
        size = np.zeros((model.slots, model.resources))
        for number, tasks in enumerate(self._waiting):
            if tasks:
                left = tasks[0].remaining / tasks[0].instances
                size[number, :own] = np.array(tasks[0].demand) * left / self._capacity
        count = np.array([len(tasks) for tasks in self._waiting])
        held = np.zeros((model.horizon, model.resources))
        begins = self._now + model.step_s * np.arange(model.horizon, dtype=np.float64)
        held[:, :own] = 1.0 - self._profile.total_free_at(begins) / self._capacity
        return ClassView(
            held=np.clip(held, 0.0, 1.0),
            there=(count > 0).astype(np.int64),
            size=size,
            behind=np.maximum(count - 1, 0),
            earliest=self.starts(),
        )

    def plan(self, number: int) -> float:
        """Keep the place of a class's first task, until the next `update`; return its start in s.

        Instances of a bag that have no place wait for the next decision. Raises LookupError if
        nothing can be placed.
        """
        found = self._starts[number]
        if found is None:
            raise LookupError(f"no task of class {number} can be placed")
        self._profile.hold(self._waiting[number].popleft(), found[1], found[0])
        self.still_since = None  # it runs, or will
        self._find_starts()
        return found[0]
