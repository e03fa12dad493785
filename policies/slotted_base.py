"""The base of slotted policies: acts on numbered slots until nothing is left to do in the step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import floor, isfinite

import numpy as np

from simkit.errors import ScenarioError
from simkit.policy import Action, State, SystemInfo
from simkit.slotted import Slotted
from simkit.slotted_tracker import SlottedTracker
from simkit.units import parse_duration

SLOTS, HORIZON, STEP = 10, 20, "1s"
"""DeepRM's dimensions."""


class SlottedPolicy(ABC):
    """Follows the slotted model; what it does in it, `choose` says.

    Args:
        slots: waiting tasks that are seen; those of the scenario's `admission`.
        horizon: steps ahead that are planned.
        step: length of a step, a duration or seconds; that of the scenario's `scheduling`.
        unit: amount of each resource in a unit; None: 1.

    Raises ScenarioError, all problems at once, for numbers that are not positive; in `reset`, for a
    cluster that is not one pool.
    """

    def __init__(
        self,
        *,
        slots: int = SLOTS,
        horizon: int = HORIZON,
        step: str | float = STEP,
        unit: Sequence[float] | None = None,
    ) -> None:
        self.slots, self.horizon, self.step, self.unit = slots, horizon, step, unit
        # Whose capacity is the cluster's, and known in `reset`.
        self._model = _model(slots, horizon, step, unit)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """See `Policy.reset`."""
        unit = tuple(self.unit) if self.unit else (1.0,) * len(info.resources)
        if len(unit) != len(info.resources):
            raise ScenarioError(
                f"slotted policy: unit is {self.unit}; give an amount for each of "
                f"{', '.join(info.resources)}"
            )
        has = info.capacity[0].tolist()
        capacity = tuple([floor(c / u + 1e-6) for c, u in zip(has, unit, strict=True)])
        self.tracker = SlottedTracker(replace(self._model, capacity=capacity, unit=unit))
        self.tracker.reset(info)
        self._rng = rng

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`."""
        tracker = self.tracker
        tracker.update(state)
        while (slot := self.choose()) is not None:
            place = tracker.place(slot)
            if place is None:
                return
            yield place
            tracker.update(state)

    @abstractmethod
    def choose(self) -> int | None:
        """Return the slot to place next.

        Time goes on for None, and for a slot that is empty or whose task does not fit.
        """


def _model(slots: int, horizon: int, step: str | float, unit: Sequence[float] | None) -> Slotted:
    """Return the dimensions; raise ScenarioError, all problems at once, if they are none."""
    problems: list[str] = []
    try:
        step_s = parse_duration(step)
    except ValueError as error:
        problems.append(f"slotted policy: step: {error}")
        step_s = 1.0
    if unit is not None and not all(isfinite(amount) and amount > 0 for amount in unit):
        problems.append(f"slotted policy: unit is {list(unit)}; its amounts must be positive")
    try:
        model = Slotted(slots=slots, horizon=horizon, max_length=horizon, step_s=step_s)
    except ScenarioError as error:
        problems += error.problems
    if problems:
        raise ScenarioError(problems)
    return model
