"""An encoder turns states into arrays of numbers; with what encoders share: scaling and checks."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Protocol

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.learning.schema import ObservationSchema
from simkit.learning.slotted_tracker import SlottedTracker
from simkit.policy import State, SystemInfo

Numbers = npt.NDArray[np.float32]


class Encoder(Protocol):
    """Turns states into arrays of one shape."""

    schema: ObservationSchema
    """What the numbers mean; known before a run begins, and the same in every run."""

    def reset(self, info: SystemInfo) -> None:
        """Begin a run on a system with the same resources.

        Raises ScenarioError if the observations would not be those of the schema.
        """

    def encode(self, state: State) -> Numbers:
        """Return a fresh array of `schema.shape`, every number in its field's range."""


class SlotEncoder:
    """An encoder of numbered slots, which their owner updates before each call of `encode`."""

    of_slots = True

    def __init__(self, tracker: SlottedTracker) -> None:
        self.tracker = tracker

    def reset(self, info: SystemInfo) -> None:
        """Do nothing: the tracker's owner resets it."""


def squashed(number: float, scale: float) -> float:
    """Return number / (number + scale): 0 up to 0, 1/2 at the scale, 1 if it is infinite."""
    if number == inf:
        return 1.0
    return number / (number + scale) if number > 0 else 0.0


def squashed_column(numbers: Floats, scale: float) -> Floats:
    """Return `squashed` of an array."""
    above = np.maximum(numbers, 0.0)
    with np.errstate(invalid="ignore"):
        column: Floats = above / (above + scale)
    column[above == inf] = 1.0
    return column


def reciprocal(capacity: Floats) -> Floats:
    """Return 1 / capacity, which turns amounts into shares; 0 where there is no capacity."""
    parts: Floats = np.divide(1.0, capacity, out=np.zeros(capacity.shape), where=capacity > 0)
    return parts


def check_numbers(name: str, whole: Mapping[str, int], scales: Mapping[str, float]) -> None:
    """Raise ScenarioError, all problems at once, for wrong arguments of an encoder.

    Args:
        name: of the encoder.
        whole: argument → a count, at least 1.
        scales: argument → a time or scale, finite and above 0.
    """
    problems = [
        f"observation {name!r}: {argument} is {value!r}; it must be a whole number, at least 1"
        for argument, value in whole.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < 1
    ]
    problems += [
        f"observation {name!r}: {argument} is {value!r}; it must be a finite number above 0"
        for argument, value in scales.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf
    ]
    if problems:
        raise ScenarioError(problems)


def check_resources(name: str, trained: tuple[str, ...], info: SystemInfo) -> None:
    """Raise ScenarioError if a system's resources are not those of an encoder."""
    if info.resources != trained:
        raise ScenarioError(
            f"observation {name!r} shows the resources {', '.join(trained)}, the cluster has "
            f"{', '.join(info.resources)}; make the encoder for this cluster"
        )
