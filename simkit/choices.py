"""Choices: what the numbered actions of an environment do to a simulation.

Either an action is a slot of the slotted model, whose task may be placed into the future; or it is
a place in the queue, whose task may start now. The last one lets time go on.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from simkit.actions import SlotActions
from simkit.errors import PolicyError, ScenarioError
from simkit.policy import Place, State, SystemInfo
from simkit.slotted_tracker import SlottedTracker

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
        """See `Choices.reset`."""
        self._tracker.reset(info)

    def update(self, state: State) -> None:
        """See `Choices.update`."""
        self._tracker.update(state)

    def place(self, state: State, action: int) -> Place | None:
        """See `Choices.place`."""
        return self._actions.place(self._tracker, action)

    def mask(self, state: State) -> Mask:
        """See `Choices.mask`."""
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
        """See `Choices.reset`."""

    def update(self, state: State) -> None:
        """See `Choices.update`."""

    def place(self, state: State, action: int) -> Place | None:
        """See `Choices.place`."""
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
        """See `Choices.mask`."""
        fits = [state.fit(task) is not None for task in state.queue.tasks[: self._slots]]
        return np.array([*fits, *[False] * (self._slots - len(fits)), True], np.int8)
