"""The slotted model, as DeepRM's: time in steps, amounts in units, and what an agent sees of them.

An agent sees one pool of machines: some waiting tasks in numbered slots, and the pool's occupancy
over the steps ahead. The same arrays describe one simulation (`SlottedTracker`) or many replicas
that advance together, with a leading axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from simkit.arrays import Ints
from simkit.errors import ScenarioError
from simkit.policy import SystemInfo
from simkit.policy.task import Task
from simkit.units import ENDLESS_S, time_on_grid


@dataclass(frozen=True)
class Slotted:
    """The dimensions of a slotted model; DeepRM's by default."""

    capacity: tuple[int, ...] = (10, 10)
    """(R,) units of each resource."""
    slots: int = 10
    """M: waiting tasks that are visible."""
    horizon: int = 20
    """H: steps ahead that are planned."""
    max_length: int = 15
    """Steps of the longest task: the scale of lengths."""
    backlog: int | None = 60
    """Tasks that may wait for a slot; further tasks are rejected; None: no limit."""
    backlog_shown: int = 60
    """Tasks behind the slots that an observation can count."""
    memory: int = 10
    """The steps since the last arrival are counted up to this number."""
    step_s: float = 1.0
    """Seconds of a step."""
    unit: tuple[float, ...] = ()
    """(R,) amount of each resource in a unit; empty: 1 of each."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for dimensions that are not positive."""
        wrong = [
            f"{name} is {getattr(self, name)}; it must be at least 1"
            for name in ("slots", "horizon", "max_length", "backlog_shown", "memory")
            if getattr(self, name) < 1
        ]
        if not self.capacity or min(self.capacity) < 1:
            wrong.append(
                f"capacity is {self.capacity}; it must be at least 1 unit of each resource"
            )
        if self.backlog is not None and self.backlog < 0:
            wrong.append(f"backlog is {self.backlog}; it must be at least 0")
        if not self.step_s > 0:
            wrong.append(f"step_s is {self.step_s:g}; it must be positive")
        if wrong:
            raise ScenarioError([f"slotted model: {text}" for text in wrong])

    @property
    def resources(self) -> int:
        """R: the number of resources."""
        return len(self.capacity)

    @property
    def actions(self) -> int:
        """M + 1: one for each slot, and the void action, which lets time go on."""
        return self.slots + 1

    @property
    def backlog_columns(self) -> int:
        """Columns of H cells that show the backlog."""
        return -(-self.backlog_shown // self.horizon)

    def latest_start(self, length: int) -> int:
        """Return the last step ahead at which a task of this length may begin.

        One step less than would fit in the horizon, as in the original code of DeepRM.
        """
        return self.horizon - length - 1


@dataclass(frozen=True)
class SlottedView:
    """What an agent sees at a decision; every array may have leading axes, e.g. replicas."""

    occupied: Ints
    """(…, H, R) units held in each of the steps ahead; the first is the one that begins now."""
    length: Ints
    """(…, M) steps that the task in each slot takes; 0: the slot is empty."""
    size: Ints
    """(…, M, R) units that it requests."""
    backlog: Ints
    """(…) tasks behind the slots."""
    since_arrival: Ints
    """(…) steps since a job last arrived, at most `Slotted.memory`, which it is at the start."""
    packed: Ints | None = None
    """(…, K) all of these in one array, if they are parts of one: the steps ahead, then the length
    and size of each slot, the backlog, and the steps since an arrival."""


def packed_view(model: Slotted) -> SlottedView:
    """Return a view of zeros without leading axes, its arrays parts of `SlottedView.packed`."""
    steps, slots, count = model.horizon, model.slots, model.resources
    cells = steps * count
    packed = np.zeros(cells + slots * (1 + count) + 2, np.int64)
    shapes = packed[cells:-2].reshape(slots, 1 + count)
    return SlottedView(
        occupied=packed[:cells].reshape(steps, count),
        length=shapes[:, 0],
        size=shapes[:, 1:],
        backlog=packed[-2:-1].reshape(()),
        since_arrival=packed[-1:].reshape(()),
        packed=packed,
    )


_NOISE = 1e-6  # of a step or a unit: rounding errors of a quotient


def whole_units(amounts: Sequence[float], unit: Sequence[float]) -> tuple[int, ...]:
    """Return (R,) the whole units that (R,) amounts hold, rounded down."""
    return tuple([floor(a / u + _NOISE) for a, u in zip(amounts, unit, strict=True)])


class SlottedUnits:
    """Turns the engine's seconds and amounts into steps and units.

    Both are rounded up, so that a task that fits in steps and units fits in seconds and amounts.
    """

    def __init__(self, model: Slotted) -> None:
        self.model = model
        self.step_s = float(time_on_grid(model.step_s))
        """Seconds of a step, on the grid of times."""
        self.unit = model.unit or (1.0,) * model.resources
        """(R,) amount of each resource in a unit."""

    def steps(self, seconds: float) -> int:
        """Return the steps that a time takes, rounded up; very many if it is endless."""
        return ceil(min(seconds, ENDLESS_S) / self.step_s - _NOISE)

    def steps_passed(self, seconds: float) -> int:
        """Return the whole steps that have passed in a time."""
        return floor(seconds / self.step_s + _NOISE)

    def units(self, amounts: Sequence[float]) -> tuple[int, ...]:
        """Return (R,): the units that hold (R,) amounts, rounded up."""
        return tuple([ceil(a / u - _NOISE) for a, u in zip(amounts, self.unit, strict=True)])

    def length(self, task: Task) -> int:
        """Return the steps of a task's estimated run time, at least 1."""
        return max(self.steps(task.estimate_s), 1)

    def size(self, task: Task) -> tuple[int, ...]:
        """Return (R,): the units of all instances of a task that are not placed yet."""
        if task.remaining == task.instances:
            return self.units(task.demand)
        return self.units([amount * task.remaining for amount in task.request])

    def check(self, info: SystemInfo) -> None:
        """Raise ScenarioError if a cluster is not the model's pool."""
        model, problems = self.model, []
        machines = len(info.machine_names)
        if machines != 1:
            problems.append(
                f"the cluster has {machines} machines; a slotted model needs one, a pool: "
                "cluster: {machines: [{count: 1, …}]}"
            )
        if len(info.resources) != model.resources:
            problems.append(
                f"the cluster has the resources {', '.join(info.resources)}, but the model's "
                f"capacity {model.capacity} has {model.resources}; give one number for each"
            )
        elif machines == 1:
            has = whole_units(info.capacity[0].tolist(), self.unit)
            problems += [
                f"the cluster has {got} units of {name}, but the model's capacity is {want}; make "
                "them equal, or set the model's unit"
                for name, got, want in zip(info.resources, has, model.capacity, strict=True)
                if got != want
            ]
        if problems:
            raise ScenarioError([f"slotted model: {text}" for text in problems])
