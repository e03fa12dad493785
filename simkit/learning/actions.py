"""Actions of an agent as whole numbers: a slot each, and the void action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools
from simkit.errors import PolicyError, ScenarioError
from simkit.learning.slotted import Slotted
from simkit.learning.slotted_tracker import SlottedTracker
from simkit.policy import Place, State, SystemInfo


class SlotsToPlace(Protocol):
    """Numbered slots whose tasks can be placed; `SlottedTracker` is one."""

    def earliest(self, slot: int) -> int:
        """Return the first step ahead at which a slot's task may begin; -1: none, or no task."""

    def possible(self) -> bytearray:
        """Return (M + 1,), fresh: 1 for slots whose task may be placed, and for the void action."""

    def place(self, slot: int) -> Place | None:
        """Return the placement of a slot's task at its earliest start; None: there is none."""


class SlotActions:
    """Actions 0 … M - 1 place the task of that slot as early as it fits; M lets time go on."""

    def __init__(self, model: Slotted) -> None:
        self.model = model
        self.void = model.slots
        """The action that places nothing."""

    @property
    def count(self) -> int:
        """M + 1."""
        return self.model.actions

    def place(self, tracker: SlotsToPlace, action: int) -> Place | None:
        """Return what an action does; None: nothing, so time goes on.

        Nothing is done by the void action, for an empty slot, and where the task does not fit
        within the horizon.

        Raises PolicyError for a number that is no action.
        """
        if not 0 <= action <= self.void:
            raise PolicyError(
                f"action {action} is none of 0 … {self.void}: a slot each, and {self.void} for "
                "letting time go on"
            )
        return None if action == self.void else tracker.place(int(action))

    def mask(self, tracker: SlotsToPlace) -> Bools:
        """Return (M + 1,): which actions place something, and the void action, always."""
        return np.frombuffer(tracker.possible(), np.bool_)

    def as_json(self) -> dict[str, Any]:
        """Return the kind and number of actions as plain values."""
        return {"type": "slots", "slots": self.model.slots, "void": self.void, "count": self.count}

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """Return how an `as_json` of other actions differs from these, a line each."""
        mine = self.as_json()
        names = [*mine, *(name for name in other if name not in mine)]
        return [
            f"actions {name}: {mine.get(name, 'absent')} here, {other.get(name, 'absent')} there"
            for name in names
            if mine.get(name, "absent") != other.get(name, "absent")
        ]


# MERGED Choices: what the numbered actions of an environment do to a simulation.
# MERGED
# MERGED Either an action is a slot of the slotted model, whose task may be placed into the future; or it is
# MERGED a place in the queue, whose task may start now. The last one lets time go on.


Mask = npt.NDArray[np.int8]


class Choices(Protocol):
    """Numbered actions; the last is the void one."""

    count: int
    """How many actions there are, with the void one."""

    def reset(self, info: SystemInfo) -> None:
        """Begin a run."""

    def update(self, state: State) -> None:
        """Take in what has happened; as a decision begins, and after a placement."""

    def place(self, state: State, action: int) -> Place | None:
        """Return what an action does; None: nothing, so time goes on.

        Raises PolicyError for a number that is no action.
        """

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for what places something, and for the void action."""


class SlotChoices:
    """Action m places the task in slot m at its earliest start within the horizon."""

    def __init__(self, tracker: SlottedTracker) -> None:
        self._tracker = tracker
        self._actions = SlotActions(tracker.model)
        self.count = self._actions.count

    def reset(self, info: SystemInfo) -> None:
        self._tracker.reset(info)

    def update(self, state: State) -> None:
        self._tracker.update(state)

    def place(self, state: State, action: int) -> Place | None:
        return self._actions.place(self._tracker, action)

    def mask(self, state: State) -> Mask:
        return np.frombuffer(self._tracker.possible(), np.int8)


class QueueChoices:
    """Action m starts the waiting task m of the queue now, in order of submission from 0.

    Of a bag, as many instances start as there is room for.
    """

    def __init__(self, slots: int) -> None:
        """Look at the first `slots` waiting tasks; raises ScenarioError unless there is one."""
        if slots < 1:
            raise ScenarioError(f"actions: slots is {slots}; it must be at least 1")
        self._slots = slots
        self.count = slots + 1

    def reset(self, info: SystemInfo) -> None:
        pass

    def update(self, state: State) -> None:
        pass

    def place(self, state: State, action: int) -> Place | None:
        if not 0 <= action < self.count:
            raise PolicyError(
                f"action {action} is none of 0 … {self._slots}: a waiting task each, and "
                f"{self._slots} for letting time go on"
            )
        waiting = state.queue.tasks
        if action >= min(self._slots, len(waiting)):
            return None
        task = waiting[action]
        on = state.fit(task)
        return None if on is None else Place(task, on)

    def mask(self, state: State) -> Mask:
        fits = [state.fit(task) is not None for task in state.queue.tasks[: self._slots]]
        return np.array([*fits, *[False] * (self._slots - len(fits)), True], np.int8)
