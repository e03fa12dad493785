"""Scaling: amounts, times and counts as numbers between 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
import numpy.typing as npt

from simkit.errors import ScenarioError
from simkit.policy import SystemInfo

Floats = npt.NDArray[np.float64]


def squashed(number: float, scale: float) -> float:
    """Return number / (number + scale): 0 for 0 and less, 1/2 for the scale, below 1 for all."""
    return number / (number + scale) if number > 0 else 0.0


def squashed_column(numbers: Floats, scale: float) -> Floats:
    """Return the same for an array."""
    above = np.maximum(numbers, 0.0)
    column: Floats = above / (above + scale)
    return column


def reciprocal(capacity: Floats) -> Floats:
    """Return 1 / capacity, which turns amounts into shares; 0 where there is no capacity."""
    parts: Floats = np.divide(1.0, capacity, out=np.zeros(capacity.shape), where=capacity > 0)
    return parts


def check_numbers(name: str, whole: Mapping[str, int], scales: Mapping[str, float]) -> None:
    """Raise ScenarioError, all problems at once, for arguments of an encoder that make no sense.

    Args:
        name: of the encoder.
        whole: argument → a count that must be a whole number from 1 on.
        scales: argument → a time or scale that must be finite and above 0.
    """
    problems = [
        f"observation {name!r}: {argument} is {value!r}; it must be a whole number from 1 on"
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
