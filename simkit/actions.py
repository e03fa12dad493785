"""Actions of an agent as whole numbers: a slot each, and the void action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from simkit.errors import PolicyError
from simkit.policy import Place
from simkit.slotted import Slotted

Bools = npt.NDArray[np.bool_]


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
