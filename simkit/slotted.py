"""The slotted model: time in steps, amounts in units, and what an agent sees of both.

DeepRM's grid and its like: one pool of machines, some waiting tasks in numbered slots, and the
pool's occupancy over the steps ahead. The same arrays describe one simulation (`SlottedTracker`)
or many replicas that advance together; a leading axis is all that differs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simkit.errors import ScenarioError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Slotted:
    """The dimensions of a slotted model; DeepRM's by default."""

    capacity: tuple[int, ...] = (10, 10)
    """(R,) units of each resource."""
    slots: int = 10
    """M: waiting tasks that are seen one by one."""
    horizon: int = 20
    """H: steps ahead that are planned."""
    max_length: int = 15
    """Steps of the longest task: the scale of lengths."""
    backlog: int | None = 60
    """Tasks that may wait for a slot; one beyond them is rejected; None: no limit."""
    backlog_shown: int = 60
    """Tasks behind the slots that an observation can count."""
    memory: int = 10
    """Steps since the last arrival are counted up to here."""
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
        """R: how many resources there are."""
        return len(self.capacity)

    @property
    def actions(self) -> int:
        """M + 1: a slot each, and the void action, which lets time go on."""
        return self.slots + 1

    def latest_start(self, length: int) -> int:
        """Return the last step ahead at which a task of this length may begin.

        One step less than would fit in the horizon, as in the original code of DeepRM.
        """
        return self.horizon - length - 1


@dataclass(frozen=True)
class SlottedView:
    """What is seen at a decision; every array may have leading axes, one row a replica."""

    occupied: Ints
    """(…, H, R) units held in each of the steps ahead; the first is the one that begins now."""
    length: Ints
    """(…, M) steps that the task in each slot takes; 0: the slot is empty."""
    size: Ints
    """(…, M, R) units that it asks for."""
    backlog: Ints
    """(…) tasks behind the slots."""
    since_arrival: Ints
    """(…) steps since a job last arrived, at most `Slotted.memory`; that many at the start, too."""
    packed: Ints | None = None
    """(…, K) all of these, where they lie side by side in one array: the steps ahead, then the
    length and size of each slot, the backlog, and the steps since an arrival."""


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
