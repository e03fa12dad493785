"""The plan of a slotted model: a time grid with all that runs or is reserved in a simulation.

It is kept from decision to decision. As long as the simulation goes as planned, rows move up and
placed tasks are added. If anything differs (a task ended early or overran, was killed or suspended,
a reservation failed, capacity changed, someone else placed a task), the plan is rebuilt from what
runs and is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

from simkit.arrays import Ints
from simkit.learning.slotted import SlottedUnits
from simkit.learning.time_grid import TimeGrid
from simkit.policy import State
from simkit.policy.task import Task


class SlottedTask(NamedTuple):
    """A task in steps and units, as it is in a slot or is placed."""

    task: Task
    length: int
    """Steps."""
    size: tuple[int, ...]
    """(R,) units."""


class SlottedPlan:
    """What is held in the steps ahead.

    A task that runs past its estimate is expected to end a step later, at every decision. A task
    that begins or ends within a step holds the whole step. Missing capacity counts as held: what is
    missing now for all steps, and known changes from their step on.
    """

    def __init__(self, units: SlottedUnits, occupied: Ints | None = None) -> None:
        """Make an empty plan; `occupied` is an (H, R) array to show it in."""
        self.units = units
        self.grid = TimeGrid(units.model.capacity, units.model.horizon, occupied)
        """What is held; right after `follow`."""
        self.reset()

    def reset(self) -> None:
        """Begin a run; the first `follow` makes the plan."""
        self.grid.clear()
        self.tick = 1
        """The plan's clock, which counts its steps."""
        self._now = -inf
        self._starts = self._releases = 0  # the state's counters, as far as they are in the plan
        self._ends: dict[Task, int] = {}  # the tick by which what runs or is reserved ends
        self._ending: dict[int, int] = {}  # how many do so at a tick
        self._reserved: dict[Task, int] = {}  # the tick at which reservations begin
        self._soonest: float = inf  # the first of these
        self._moves = False  # whether rows may be pulled up; else each step has a separate plan

    def follow(self, state: State, placed: Sequence[SlottedTask] = ()) -> bool:
        """Follow what has happened since the last call; `placed` are tasks that just left slots.

        Returns whether the plan was kept: its rows were moved up to the present `tick`, and the
        placed tasks were added; nothing else has changed.
        """
        now, tick = state.now, self.tick
        passed = now != self._now
        if not (passed or placed) and self._is_up_to_date(state):
            return True
        if (  # an idle step, the usual case: nothing was due, and nothing has happened
            now == self._now + self.units.step_s
            and not placed
            and self._moves
            and tick + 1 not in self._ending
            and tick + 1 < self._soonest
            and self._is_up_to_date(state)
        ):
            self.grid.advance(1)
            self.tick, self._now = tick + 1, now
            return True
        if self._catch_up(state, placed, passed) and self._is_up_to_date(state):
            return True
        self._make(state)
        return False

    def end_of(self, task: Task) -> int:
        """Return the tick by which a running or reserved task ends."""
        return self._ends[task]

    def _is_up_to_date(self, state: State) -> bool:
        if state.releases != self._releases or state.starts != self._starts:
            return False
        mine, theirs = self._reserved, state.reservations
        return not (mine or theirs) or mine.keys() == theirs.keys()

    def _catch_up(self, state: State, placed: Sequence[SlottedTask], passed: bool) -> bool:
        """Update the plan if all went as planned; else return False."""
        ending = 0
        began: Sequence[Task] = ()
        if passed:
            steps = (state.now - self._now) / self.units.step_s
            if placed or not self._moves or steps != int(steps):
                return False  # tasks placed at an earlier instant began at an unknown time
            ending = self._advance(int(steps))
            if self._soonest <= self.tick:
                began = self._fall_due()
            self._now = state.now
        if (ending or state.releases != self._releases) and not self._end(state, ending):
            return False
        for piece in placed:
            start = self._start_of(piece, state)
            if start is None:
                return False
            if not start:
                began = [*began, piece.task]
            self._add(piece, start)
        return (not began and state.starts == self._starts) or self._begin(state, began)

    def _advance(self, steps: int) -> int:
        """Move the rows up; return how many tasks should have ended by then."""
        self.grid.advance(steps)
        first, self.tick = self.tick + 1, self.tick + steps
        if steps == 1:
            return self._ending.pop(first, 0)
        last = min(self.tick, first + self.units.model.horizon)
        return sum([self._ending.pop(tick, 0) for tick in range(first, last + 1)])

    def _fall_due(self) -> list[Task]:
        """Remove the reservations that begin by now, and return their tasks."""
        due = [task for task, tick in self._reserved.items() if tick <= self.tick]
        for task in due:
            del self._reserved[task]
        self._soonest = min(self._reserved.values(), default=inf)
        return due

    def _reserve(self, task: Task, tick: int) -> None:
        self._reserved[task] = tick
        self._soonest = min(self._soonest, tick)

    def _end(self, state: State, ending: int) -> bool:
        """Remove the tasks that have ended; return whether exactly the expected ones have."""
        released, self._releases = state.releases - self._releases, state.releases
        if released != ending or released > len(state.ended):
            return False
        ends, tick = self._ends, self.tick
        for allocation in state.ended[-released:]:
            if ends.pop(allocation.task, None) != tick:
                return False
        return True

    def _begin(self, state: State, began: Sequence[Task]) -> bool:
        """Return whether exactly the expected tasks have begun."""
        started, self._starts = state.starts - self._starts, state.starts
        if started != len(began):
            return False
        newest = state.running.newest()
        return {allocation.task for allocation in islice(newest, started)} == set(began)

    def _start_of(self, piece: SlottedTask, state: State) -> int | None:
        """Return how many steps ahead a task begins; None if the plan cannot hold it."""
        place, start = state.reservations.get(piece.task), 0
        if place is not None:
            ahead = (place.start_s - state.now) / self.units.step_s
            start = int(ahead)
            if start != ahead:
                return None
            self._reserve(piece.task, self.tick + start)
        return start if start + piece.length <= self.units.model.horizon else None

    def _add(self, piece: SlottedTask, start: int) -> None:
        self.grid.take(start, piece.length, piece.size)
        end = self.tick + start + piece.length
        self._ends[piece.task] = end
        self._ending[end] = self._ending.get(end, 0) + 1

    def _make(self, state: State) -> None:
        """Rebuild the plan from what runs and is reserved."""
        units, horizon = self.units, self.units.model.horizon
        self.grid.clear()
        self._ends.clear()
        self._ending.clear()
        self._now, self._starts, self._releases = state.now, state.starts, state.releases
        self._moves = not self._take_lost_capacity(state)
        for allocation in state.running:
            length = max(units.steps(allocation.expected_end_s - state.now), 1)
            self._moves &= length <= horizon
            self._add(SlottedTask(allocation.task, length, units.units(allocation.held)), 0)
        self._reserved, self._soonest = {}, inf
        for task, place in state.reservations.items():
            ahead = max(place.start_s - state.now, 0.0)
            start = int(ahead // units.step_s)
            length = max(units.steps(ahead + task.estimate_s), start + 1) - start
            self._moves &= start + length <= horizon
            self._add(SlottedTask(task, length, units.size(task)), start)
            self._reserve(task, self.tick + units.steps(ahead))

    def _take_lost_capacity(self, state: State) -> bool:
        """Hold the capacity that is or will be missing; return whether the plan depends on it."""
        units, model = self.units, self.units.model
        nominal = [c * u for c, u in zip(model.capacity, units.unit, strict=True)]
        has = state.room.capacity[0].tolist()
        known = state.steps_through(state.now + model.horizon * units.step_s)
        foreseen = [step for step in known if step.time_s > state.now]
        if not foreseen and all(h >= n for h, n in zip(has, nominal, strict=True)):
            return state.power is not None  # its forecast may change until the next decision
        starts = [0, *(int((step.time_s - state.now) // units.step_s) for step in foreseen)]
        changes = [[0.0] * model.resources, *(step.change for step in foreseen)]
        ends = [*starts[1:], model.horizon]
        for start, end, change in zip(starts, ends, changes, strict=True):
            has = [h + c for h, c in zip(has, change, strict=True)]
            lost = [max(n - h, 0.0) for n, h in zip(nominal, has, strict=True)]
            if start < min(end, model.horizon):
                self.grid.take(start, min(end, model.horizon) - start, units.units(lost))
        return True
