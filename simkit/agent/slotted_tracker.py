"""Numbered slots of a simulation: a tracker that shows them in steps and units, and their actions.

    tracker.reset(info)
    for state in simulation.decisions():
        tracker.update(state)
        while (place := tracker.place(slot_of_my_choice)) is not None:
            simulation.apply(place)
            tracker.update(state)

An update costs little while the simulation goes as planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from simkit.agent.actions import Mask, SlotMask, TrackerActions
from simkit.agent.slotted import (
    Slotted,
    SlottedPlan,
    SlottedTask,
    SlottedUnits,
    SlottedView,
    packed_view,
)
from simkit.errors import PolicyError
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.task import Task
from simkit.sections import Count, Facts


class TaskSlots:
    """Numbered slots, each empty or with a waiting task.

    A task keeps its slot for as long as it waits. Newcomers, in order of submission, take the
    lowest free slots; tasks without a slot wait behind them.
    """

    __slots__ = ("_inside", "_known", "tasks")

    def __init__(self, count: int) -> None:
        self.tasks: list[Task | None] = [None] * count
        """The task in each slot; None: it is empty."""
        self._inside: set[Task] = set()
        self._known: Sequence[Task] | None = None  # the first that wait, if they are those inside

    @property
    def taken(self) -> int:
        """How many slots hold a task."""
        return len(self._inside)

    def are_up_to_date(self, waiting: Sequence[Task]) -> bool:
        """Return True only if no task has left and none has come; a quick check."""
        return waiting[: len(self.tasks)] == self._known

    def vacate(self) -> list[int]:
        """Return the slots, ascending, whose task no longer waits; they still hold it."""
        return [
            slot for slot, task in enumerate(self.tasks) if task is not None and not task.waiting
        ]

    def empty(self, slot: int) -> None:
        """Empty a slot that holds a task."""
        task = self.tasks[slot]
        assert task is not None
        self.tasks[slot] = None
        self._inside.remove(task)

    def fill(self, waiting: Sequence[Task]) -> list[int]:
        """Put waiting tasks into the free slots; return the slots filled, ascending.

        `waiting` are all waiting tasks in order of submission, including those in slots.
        """
        inside, tasks = self._inside, self.tasks
        filled: list[int] = []
        # At most `taken` of the first tasks have a slot, so the newcomers are among them.
        first = waiting[: len(tasks)]
        for task in first:
            if len(inside) == len(first):
                break
            if task not in inside:
                slot = tasks.index(None)
                tasks[slot] = task
                inside.add(task)
                filled.append(slot)
        self._known = first if inside.issuperset(first) else None
        return filled

    def clear(self) -> None:
        """Empty all slots."""
        self.tasks[:] = [None] * len(self.tasks)
        self._inside.clear()
        self._known = None


_FOREVER = 2**62
"""A tick that never comes."""


class SlottedTracker:
    """The slots, the plan of the steps ahead, and what waits behind, of one simulation.

    Which tasks are in which slot depends on all updates: call `update` as every decision begins and
    after every placement. The remaining instances of a bag are placed together.
    """

    def __init__(self, model: Slotted) -> None:
        self.model = model
        self._units = SlottedUnits(model)
        self._checked: object = None  # the cluster that was checked last
        view = packed_view(model)
        self._plan = SlottedPlan(self._units, view.occupied)
        self._slots = TaskSlots(model.slots)
        # The tasks in the slots, in steps and units.
        self._pieces: list[SlottedTask | None] = [None] * model.slots
        self._bags: set[int] = set()  # slots whose task may shrink as it waits
        self._latest = [-1] * model.slots  # the last steps ahead at which they may begin
        # Their earliest starts, as ticks of the plan, from 1 on; 0: none. And the last tick up to
        # which that is known: if the start has passed by then, the task may begin at once.
        self._starts = [0] * model.slots
        self._known_until = [_FOREVER] * model.slots
        self._possible = bytearray([*[0] * model.slots, 1])  # 1 where there is a start
        self._mask = np.frombuffer(self._possible, np.int8)  # the same
        self._possible_until = 0  # the last tick up to which that is known
        self._view = view
        self._nothing = (0,) * model.resources
        # The view's arrays, cell by cell: writing one number this way is several times faster.
        assert view.packed is not None
        self._cells: memoryview[int] = view.packed[view.occupied.size :].data
        self._first_submit_s = 0.0
        self._forget()

    def _forget(self) -> None:
        self._now = -inf  # the time of the last update
        self._submitted = 0  # jobs, at the last update
        self._behind = 0  # waiting without a slot, including tasks that admission holds back
        self._since_arrival = self.model.memory
        self._view.length[:] = 0
        self._view.size[:] = 0
        self._view.backlog[()] = 0
        self._view.since_arrival[()] = self.model.memory
        self._possible_until = 0

    def reset(self, info: SystemInfo) -> None:
        """Begin a run.

        Raises ScenarioError, all problems at once, if the cluster is not the model's pool.
        """
        seen = info.resources, info.machine_names, info.capacity.tobytes()
        if seen != self._checked:
            self._units.check(info)
            self._checked = seen
        self._plan.reset()
        self._slots.clear()
        self._pieces[:] = [None] * self.model.slots
        self._starts[:] = [0] * self.model.slots
        self._possible[:-1] = bytes(self.model.slots)
        self._known_until[:] = [_FOREVER] * self.model.slots
        self._bags.clear()
        self._forget()
        self._first_submit_s = info.first_submit_s

    @property
    def tasks(self) -> list[Task | None]:
        """The waiting task in each slot; None: the slot is empty. Read-only."""
        return self._slots.tasks

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after a placement."""
        waiting = state.queue.tasks
        steady = self._slots.are_up_to_date(waiting)
        left: Sequence[int] = ()
        placed: Sequence[SlottedTask] = ()
        if not steady:
            left = self._slots.vacate()
            placed = [piece for slot in left if (piece := self._pieces[slot]) is not None]
        spans = self._plan.follow(state, placed)
        if spans is None:
            self._forget_starts()
        elif spans:
            self._forget_collisions(spans)
        if state.now != self._now:
            self._count_steps(state)
        if not steady:
            self._move(left, waiting)
        if self._bags:
            for slot in tuple(self._bags):
                self._set_slot(slot, self._slots.tasks[slot])
        behind = state.backlog + len(waiting) - self._slots.taken
        if behind != self._behind:
            self._behind = behind
            self._cells[-2] = behind

    def _forget_starts(self) -> None:
        self._known_until = [_FOREVER if piece is None else 0 for piece in self._pieces]
        self._possible_until = 0

    def _forget_collisions(self, spans: Iterable[tuple[int, int]]) -> None:
        """Forget the earliest starts that collide with ticks (begin, end) just taken."""
        starts, until, pieces = self._starts, self._known_until, self._pieces
        for begin, end in spans:
            for slot, start in enumerate(starts):
                if (
                    0 < start < end
                    and (piece := pieces[slot]) is not None
                    and until[slot] + piece.length > begin
                ):
                    until[slot] = 0
        self._possible_until = 0

    def _move(self, left: Sequence[int], waiting: Sequence[Task]) -> None:
        """Empty the slots whose tasks have left, and fill them again."""
        slots = self._slots
        for slot in left:
            slots.empty(slot)
        filled = slots.fill(waiting)
        for slot in {*left, *filled}:
            self._set_slot(slot, slots.tasks[slot])

    def _count_steps(self, state: State) -> None:
        """Count the steps since the last arrival."""
        since = self._since_arrival
        if state.submitted != self._submitted:
            self._submitted, since = state.submitted, 0
        elif since < self.model.memory:
            passed = state.now - self._now
            steps = 1 if passed == self._units.step_s else self._units.steps(passed)
            since = min(since + steps, self.model.memory)
        self._now = state.now
        if since != self._since_arrival:
            self._since_arrival = self._cells[-1] = since

    def _set_slot(self, slot: int, task: Task | None) -> None:
        """Record the task in a slot, and show it in the view."""
        length, size, piece, until = 0, self._nothing, None, _FOREVER
        if self._bags:
            self._bags.discard(slot)
        if task is not None:
            length, size = self._units.length(task), self._units.size(task)
            piece, until = SlottedTask(task, length, size), 0
            self._latest[slot] = self.model.latest_start(length)
            if not task.gang:
                self._bags.add(slot)
        self._pieces[slot] = piece
        self._starts[slot] = self._possible[slot] = 0
        self._known_until[slot] = until
        self._possible_until = 0
        first = slot * (1 + len(size))
        self._cells[first] = length
        for cell, amount in enumerate(size, first + 1):
            self._cells[cell] = amount

    def view(self) -> SlottedView:
        """Return what is seen now: the tracker's own arrays, which a later update changes."""
        self._plan.grid.show()
        return self._view

    def task(self, slot: int) -> Task | None:
        """Return the task in a slot; None if it is empty."""
        return self._slots.tasks[slot]

    def earliest(self, slot: int) -> int:
        """Return the first step ahead at which a slot's task may begin; −1: none, or no task.

        It then fits next to all that runs and is reserved, for its whole length, and begins no
        later than `Slotted.latest_start`.
        """
        tick = self._plan.tick
        if tick > self._known_until[slot]:
            self._find_start(slot)
        start = self._starts[slot]
        return max(start - tick, 0) if start else -1

    def refuse_too_long(self, who: str, remedy: str) -> None:
        """Raise PolicyError for a task as long as the horizon or longer: it could never be placed.

        Args:
            who: plans, as the message has it.
            remedy: besides leaving such jobs out.
        """
        lengths, horizon = self.view().length, self.model.horizon
        if int(lengths.max()) < horizon:
            return
        slot = int(lengths.argmax())
        task = self.task(slot)
        assert task is not None
        endless = task.estimate_s == inf
        takes = "has no time limit" if endless else f"takes {int(lengths[slot])} steps"
        raise PolicyError(
            f"{who}: a task submitted at {task.submit_time_s:g} s {takes} "
            f"and the horizon is {horizon}, so that {horizon - 1} can be placed at most; {remedy}, "
            "or leave longer jobs out"
        )

    def _find_start(self, slot: int) -> None:
        """Find the earliest start of the task in a slot."""
        piece, tick = self._pieces[slot], self._plan.tick
        assert piece is not None  # an empty slot has no start, for ever
        first, known = self._plan.grid.starts(piece.length, piece.size, self._latest[slot])
        there = self._possible[slot] = first >= 0
        self._starts[slot] = first + tick if there else 0
        self._known_until[slot] = tick + known

    def possible(self) -> npt.NDArray[np.int8]:
        """Return (M + 1,), fresh: 1 for slots whose task may be placed, and for the void action."""
        tick = self._plan.tick
        while tick > self._possible_until:
            self._possible_until = until = min(self._known_until)
            if tick > until:
                self._find_start(self._known_until.index(until))
        return self._mask.copy()

    def waited(self, slot: int) -> int:
        """Return the whole steps since a slot's task was submitted; 0 if it is empty."""
        task = self._slots.tasks[slot]
        return 0 if task is None else self._units.steps_passed(self._now - task.submit_time_s)

    @property
    def arrived(self) -> int:
        """How many jobs have been submitted so far, rejected ones too."""
        return self._submitted

    def elapsed(self) -> int:
        """Return the whole steps since the first job was submitted."""
        return self._units.steps_passed(self._now - self._first_submit_s)

    def fits_now(self, slot: int) -> bool:
        """Return whether a slot holds a task that may begin now."""
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


class SlotArguments(Facts):
    """Arguments of `SlotActions`."""

    noun: ClassVar = "action_arguments"
    mask: SlotMask = "possible"
    """Which slots may be chosen."""
    patience: Count | None = None
    """After so many steps in which a task fits but none is placed, the one that can begin soonest
    is placed anyway, and a task that never fits is refused, so that a run ends; null: neither."""


class SlotActions(TrackerActions):
    """Action m places the task in slot m at its earliest start within the horizon.

    Nothing is placed if the slot is empty or if its task does not fit within the horizon.
    """

    def __init__(self, tracker: SlottedTracker, chosen: SlotArguments | None = None) -> None:
        void = tracker.model.slots
        means = f"one for each slot, and {void} to let time go on"
        super().__init__(tracker, void + 1, means)
        chosen = chosen or SlotArguments()
        self._tracker, self._masked, self._patience = tracker, chosen.mask, chosen.patience
        self._placed, self._idle_since = False, inf

    def reset(self, info: SystemInfo) -> None:
        super().reset(info)
        self._placed, self._idle_since = False, inf

    def begin(self, state: State) -> Iterable[Action]:
        self._placed = False
        if self._patience is not None:
            self._tracker.refuse_too_long("an agent of slots", "train one with a longer horizon")
        return ()

    def action_of(self, state: State, number: int) -> Place | None:
        self.check(number)
        place = None if number == self.count - 1 else self._tracker.place(number)
        if place is not None:
            self._placed = True
        return place

    def end(self, state: State) -> Iterable[Action]:
        return () if self._patience is None else self._forced(state, self._patience)

    def _forced(self, state: State, patience: int) -> Iterator[Place]:
        """Yield a placement if none has been made for too long."""
        starts = [(self._tracker.earliest(slot), slot) for slot in range(self.count - 1)]
        fitting = [(start, slot) for start, slot in starts if start >= 0]
        if self._placed or not fitting:
            self._idle_since = inf
            return
        self._idle_since = min(self._idle_since, state.now)
        if state.now - self._idle_since >= patience * self._tracker.model.step_s:
            self._idle_since = inf
            if (place := self._tracker.place(min(fitting)[1])) is not None:
                yield place

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for slots that may be chosen, and for the void action."""
        masked = self._masked
        if masked == "none":
            return np.ones(self.count, np.int8)
        if masked == "now":
            slots = range(self.count - 1)
            return np.array([*(self._tracker.fits_now(slot) for slot in slots), True], np.int8)
        mask = self._tracker.possible()
        if masked == "ahead":
            mask[-1] = not mask[:-1].any()
        return mask
