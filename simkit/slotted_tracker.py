"""A slotted tracker: follows a simulation and shows it as the slotted model does.

    tracker.reset(info)
    for state in simulation.decisions():
        tracker.update(state)
        while (place := tracker.place(slot_of_my_choice)) is not None:
            simulation.apply(place)
            tracker.update(state)

An update costs little while the simulation does what was planned, so one a step is no burden.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from simkit.policy import Place, State, SystemInfo
from simkit.slots import Slots
from simkit.slotted import Slotted, SlottedView
from simkit.slotted_plan import Piece, SlottedPlan
from simkit.slotted_units import SlottedUnits
from simkit.task import Task

_UNKNOWN = -2  # not looked for yet; −1 says that there is no start


class SlottedTracker:
    """The slots, the plan of the steps ahead, and what waits behind, of one simulation.

    Which tasks are in which slot depends on all updates: call `update` as every decision begins and
    after every placement. A bag's instances are placed together, those that are left of it.
    """

    def __init__(self, model: Slotted) -> None:
        self.model = model
        self._units = SlottedUnits(model)
        self._plan = SlottedPlan(self._units)
        self._slots = Slots(model.slots)
        # The shapes of what is in the slots; plain numbers, and the view's arrays.
        self._pieces: list[Piece | None] = [None] * model.slots
        self._bags: set[int] = set()  # slots whose task may become smaller as it waits
        self._unknown = (_UNKNOWN,) * model.slots
        self._starts = list(self._unknown)  # the earliest, in steps ahead, as looked for
        self._view = SlottedView(
            occupied=self._plan.grid.occupied,  # filled in by `view`
            length=np.zeros(model.slots, np.int64),
            size=np.zeros((model.slots, model.resources), np.int64),
            backlog=np.zeros((), np.int64),
            since_arrival=np.zeros((), np.int64),
        )
        self._nothing = (0,) * model.resources
        self._void_alone = bytes([*[0] * model.slots, 1])
        # The view's arrays, cell by cell: one number is written several times as fast so.
        self._lengths: memoryview[int] = self._view.length.data
        self._sizes: memoryview[int] = self._view.size.reshape(-1).data
        self._forget()

    def _forget(self) -> None:
        self._now = -inf  # the time of the last update
        self._submitted = 0  # jobs, at the last update
        self._behind = 0  # waiting without a slot, those held back among them
        self._since_arrival = self.model.memory
        self._view.length[:] = 0
        self._view.size[:] = 0
        self._view.backlog[()] = 0
        self._view.since_arrival[()] = self.model.memory

    def reset(self, info: SystemInfo) -> None:
        """Begin a run.

        Raises ScenarioError, all problems at once, if the cluster is not the model's pool.
        """
        self._units.check(info)
        self._plan.reset()
        self._slots.clear()
        self._pieces[:] = [None] * self.model.slots
        self._bags.clear()
        self._forget()

    def update(self, state: State) -> None:
        """Take in what has happened; as a decision begins, and after a placement."""
        waiting = state.queue.tasks
        steady = self._slots.are_up_to_date(waiting)
        left = () if steady else self._slots.vacate()
        placed = [piece for slot in left if (piece := self._pieces[slot]) is not None]
        if self._plan.follow(state, placed):
            self._starts[:] = self._unknown
        if state.now != self._now:
            self._count_steps(state)
        if not steady:
            self._move(left, waiting)
        if self._bags:
            for slot in tuple(self._bags):
                self._show(slot, self._slots.tasks[slot])
        behind = state.backlog + len(waiting) - self._slots.taken
        if behind != self._behind:
            self._behind = behind
            self._view.backlog[()] = behind

    def _move(self, left: Sequence[int], waiting: Sequence[Task]) -> None:
        """Empty the slots whose tasks have left, and let others in."""
        slots = self._slots
        for slot in left:
            slots.empty(slot)
        filled = slots.fill(waiting)
        for slot in {*left, *filled}:
            self._show(slot, slots.tasks[slot])

    def _count_steps(self, state: State) -> None:
        """Count the steps since the last arrival."""
        if state.submitted != self._submitted:
            self._submitted, since = state.submitted, 0
        elif self._now > -inf:
            since = self._since_arrival + self._units.steps(state.now - self._now)
        else:
            since = self.model.memory
        self._now = state.now
        if (since := min(since, self.model.memory)) != self._since_arrival:
            self._since_arrival = since
            self._view.since_arrival[()] = since

    def _show(self, slot: int, task: Task | None) -> None:
        """Note what is in a slot: its piece, and the view's numbers."""
        self._starts[slot] = _UNKNOWN
        self._bags.discard(slot)
        length, size = 0, self._nothing
        self._pieces[slot] = None
        if task is not None:
            length, size = self._units.length(task), self._units.size(task)
            self._pieces[slot] = Piece(task, length, size)
            if not task.gang:
                self._bags.add(slot)
        self._lengths[slot] = length
        for cell, amount in enumerate(size, slot * len(size)):
            self._sizes[cell] = amount

    def view(self) -> SlottedView:
        """Return what is seen now: the tracker's own arrays, which a later update changes."""
        self._plan.grid.show()
        return self._view

    def task(self, slot: int) -> Task | None:
        """Return the task in a slot; None if it is empty."""
        return self._slots.tasks[slot]

    def earliest(self, slot: int) -> int:
        """Return the first step ahead at which a slot's task may begin; −1: none, or no task.

        It fits beside all that runs and is reserved, for all of its length, and begins no later
        than `Slotted.latest_start`.
        """
        start = self._starts[slot]
        if start == _UNKNOWN:
            piece = self._pieces[slot]
            start = -1
            if piece is not None:
                _, length, size = piece
                start = self._plan.grid.earliest(length, size, self.model.latest_start(length))
            self._starts[slot] = start
        return start

    def possible(self) -> bytearray:
        """Return (M + 1,), fresh: 1 for slots whose task may be placed, and for the void action."""
        found = bytearray(self._void_alone)
        for slot, piece in enumerate(self._pieces):
            if piece is not None and self.earliest(slot) >= 0:
                found[slot] = 1
        return found

    def fits_now(self, slot: int) -> bool:
        """Tell whether a slot holds a task that may begin now."""
        return self.earliest(slot) == 0

    def free_now(self) -> tuple[int, ...]:
        """Return (R,): the units that are free in the step that begins now."""
        return self._plan.grid.free_now()

    def place(self, slot: int) -> Place | None:
        """Return the placement of a slot's task at its earliest start; None: there is none."""
        start = self.earliest(slot)
        piece = self._pieces[slot]
        if start < 0 or piece is None:
            return None
        when = None if start == 0 else self._now + start * self._units.step_s
        return Place(piece.task, ((0, piece.task.remaining),), when)
