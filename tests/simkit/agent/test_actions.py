"""An action is a slot to place, or the void action."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simkit.agent.slotted import Slotted
from simkit.agent.slotted_tracker import SlotActions
from simkit.errors import PolicyError
from simkit.policy import Place
from simkit.policy.task import Task

TASK = Task(0, 0, 0.0, (1.0, 1.0))


class Tracker:
    """Slot 0 is empty, slot 1 fits now, slot 2 in two steps."""

    model = Slotted(slots=3)
    tasks = (None, TASK, TASK)

    def possible(self) -> npt.NDArray[np.int8]:
        return np.array([0, 1, 1, 1], np.int8)

    def place(self, slot: int) -> Place | None:
        return (None, Place(TASK, ((0, 1),)), Place(TASK, ((0, 1),), 2.0))[slot]


NO_STATE: Any = None
TRACKER: Any = Tracker()
ACTIONS = SlotActions(TRACKER)


@pytest.mark.parametrize(
    ("action", "place"),
    [
        (0, None),  # an empty slot: time goes on
        (1, Place(TASK, ((0, 1),))),  # now
        (2, Place(TASK, ((0, 1),), 2.0)),  # a reservation
        (3, None),  # void
    ],
)
def test_what_an_action_does(action, place):
    assert ACTIONS.action_of(NO_STATE, action) == place


def test_the_mask_shows_what_places_something_and_the_void_action():
    assert ACTIONS.mask(NO_STATE).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("action", [-1, 4])
def test_a_number_that_is_no_action(action):
    with pytest.raises(PolicyError, match=f"action {action} is not one of 0 … 3"):
        ACTIONS.action_of(NO_STATE, action)
