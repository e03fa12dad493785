"""Numbered actions of an agent: one for each slot or waiting task, and the void action.

An action is a slot of the slotted model, whose task may be placed into the future, or a position in
the queue, whose task may start now. The last action, the void one, lets time go on.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from simkit.errors import PolicyError, ScenarioError
from simkit.learning.slotted_tracker import SlottedTracker
from simkit.policy import Place, State, SystemInfo

Mask = npt.NDArray[np.int8]


class Actions(Protocol):
    """Numbered actions; the last is the void one."""

    count: int
    """How many actions there are, including the void one."""

    def reset(self, info: SystemInfo) -> None:
        """Begin a run."""

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after a placement."""

    def place(self, state: State, action: int) -> Place | None:
        """Return the placement that an action means; None: nothing, so time goes on.

        Raises PolicyError for a number that is not an action.
        """

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for actions that place something, and for the void action."""


class SlotActions:
    """Action m places the task in slot m at its earliest start within the horizon.

    Nothing is placed if the slot is empty or if its task does not fit within the horizon.
    """

    def __init__(self, tracker: SlottedTracker) -> None:
        self._tracker = tracker
        self.count = tracker.model.slots + 1

    def reset(self, info: SystemInfo) -> None:
        self._tracker.reset(info)

    def update(self, state: State) -> None:
        self._tracker.update(state)

    def place(self, state: State, action: int) -> Place | None:
        void = self.count - 1
        if not 0 <= action <= void:
            raise PolicyError(
                f"action {action} is not one of 0 … {void}: one for each slot, and {void} to let "
                "time go on"
            )
        return None if action == void else self._tracker.place(int(action))

    def mask(self, state: State) -> Mask:
        return np.frombuffer(self._tracker.possible(), np.int8)

    def mask_now(self, state: State) -> Mask:
        """Return (M + 1,): 1 for slots whose task may start now, and for the void action."""
        slots = range(self.count - 1)
        return np.array([*(self._tracker.fits_now(slot) for slot in slots), True], np.int8)


class QueueActions:
    """Action m starts waiting task m of the queue now, in order of submission from 0.

    Of a bag, as many instances start as there is room for.
    """

    def __init__(self, slots: int) -> None:
        """Choose from the first `slots` waiting tasks; raises ScenarioError for less than 1."""
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
                f"action {action} is not one of 0 … {self._slots}: one for each waiting task, and "
                f"{self._slots} to let time go on"
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


def slot_actions_as_json(slots: int) -> dict[str, Any]:
    """Return the kind and number of `SlotActions` as plain values."""
    return {"type": "slots", "slots": slots, "void": slots, "count": slots + 1}
