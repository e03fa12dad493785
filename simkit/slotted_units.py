"""Steps and units of a slotted model: how times and amounts become whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

from simkit.errors import ScenarioError
from simkit.policy import SystemInfo
from simkit.slotted import Slotted
from simkit.task import Task
from simkit.units import time_on_grid

_NOISE = 1e-6  # of a step or a unit: the last digits of a quotient


class SlottedUnits:
    """Turns what the engine says in seconds and amounts into steps and units.

    What does not come out even is rounded up, so that what fits in units fits in amounts, and what
    is held for its steps is held for as long as it runs.
    """

    def __init__(self, model: Slotted) -> None:
        self.model = model
        self.step_s = float(time_on_grid(model.step_s))
        """Seconds of a step, on the grid of times."""
        self.unit = model.unit or (1.0,) * model.resources
        """(R,) amount of each resource in a unit."""

    def steps(self, seconds: float) -> int:
        """Return the steps that a time takes, rounded up."""
        return ceil(seconds / self.step_s - _NOISE)

    def units(self, amounts: Sequence[float]) -> tuple[int, ...]:
        """Return (R,): the units that hold (R,) amounts, rounded up."""
        return tuple([ceil(a / u - _NOISE) for a, u in zip(amounts, self.unit, strict=True)])

    def length(self, task: Task) -> int:
        """Return the steps of a task's estimated run time, at least 1."""
        return max(self.steps(task.estimate_s), 1)

    def size(self, task: Task) -> tuple[int, ...]:
        """Return (R,): the units that all instances of a task ask for that are not placed yet."""
        if task.remaining == task.instances:
            return self.units(task.demand)
        return self.units([amount * task.remaining for amount in task.request])

    def check(self, info: SystemInfo) -> None:
        """Raise ScenarioError if a cluster is not the pool that the model describes."""
        model, problems = self.model, []
        machines = len(info.machine_names)
        if machines != 1:
            problems.append(
                f"the cluster has {machines} machines; a slotted model needs one, a pool: "
                "cluster: {machines: [{count: 1, …}]}"
            )
        if len(info.resources) != model.resources:
            problems.append(
                f"the cluster has the resources {', '.join(info.resources)}, and the model's "
                f"capacity {model.capacity} has {model.resources}; give one number for each"
            )
        elif machines == 1:
            has = [floor(c / u + _NOISE) for c, u in zip(info.capacity[0], self.unit, strict=True)]
            problems += [
                f"the cluster has {got} units of {name}, and the model's capacity {want}; make "
                "them equal, or set the model's unit"
                for name, got, want in zip(info.resources, has, model.capacity, strict=True)
                if got != want
            ]
        if problems:
            raise ScenarioError([f"slotted model: {text}" for text in problems])
