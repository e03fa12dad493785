"""The capacity of machines over time: what is installed, whether it is up, what others take.

A machine's capacity is what it brings while it is there and up, less what is taken of it by
maintenance and by containers, and never less than nothing. Several things may go on at once: a
window may begin on a machine that is down, a container may end on one that has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

WhenTaken = Literal["drain", "requeue", "suspend"]
"""What becomes of tasks on capacity that is taken away: they run on to their end; they start over
from the queue; they are suspended with their work kept."""

ChangeKind = Literal["join", "leave", "down", "up", "take", "give", "limit"]
"""A machine joins, leaves, fails, is repaired; part of it is taken, given back; so much of it, at
most, is carried by the power."""

SWITCHED_OFF = -2
"""The fault of a machine that is off: no repair of anything else, and no new start, ends it."""


@dataclass(frozen=True)
class CapacityChange:
    """Something that happens to a machine's capacity."""

    time_s: float
    machine: int
    kind: ChangeKind
    cause: str
    """For the records: maintenance, container, softerror, failure, ….."""
    amount: tuple[float, ...] = ()
    """(R,) at least 0: what a machine that joins brings; what is taken or given back."""
    running: WhenTaken = "drain"
    fault: int = 0
    """Number of the fault that brings the machine down, or that is repaired."""

    @property
    def takes_away(self) -> bool:
        """Whether it makes the machine smaller."""
        return self.kind in ("leave", "down", "take")


class MachineCapacity:
    """Works out the machines' capacities as changes come."""

    def __init__(self, installed: Floats) -> None:
        """Begin with machines that are all up: (M, R) what each brings."""
        self.installed = installed.copy()
        """(M, R) what each machine brings."""
        self._there = np.ones(len(installed), dtype=bool)
        self._faults: list[set[int]] = [set() for _ in installed]  # that have not been repaired
        self._taken = np.zeros_like(installed)
        self._limit = np.full_like(installed, np.inf)

    def leave_out(self, machines: Sequence[int]) -> None:
        """Begin without some machines: they join later."""
        self._there[list(machines)] = False

    def change(self, change: CapacityChange) -> None:
        """Take in a change.

        A machine that joins is up and brings what it brings now. One that has two faults is up
        when both are repaired; the repair of a fault that a new start ended does nothing.
        """
        machine = change.machine
        match change.kind:
            case "join":
                self._there[machine] = True
                self._faults[machine] &= {SWITCHED_OFF}
                if change.amount:
                    self.installed[machine] = change.amount
            case "leave":
                self._there[machine] = False
            case "down":
                self._faults[machine].add(change.fault)
            case "up":
                self._faults[machine].discard(change.fault)
            case "take":
                self._taken[machine] += change.amount
            case "give":
                self._taken[machine] -= change.amount
            case "limit":
                self._limit[machine] = change.amount

    def is_up(self, machine: int) -> bool:
        """Tell whether a machine is there and has no fault."""
        return bool(self._there[machine] and not self._faults[machine])

    def of(self, machine: int) -> list[float]:
        """Return (R,): what the machine offers now."""
        if not self.is_up(machine):
            return [0.0] * self.installed.shape[1]
        left = np.maximum(self.installed[machine] - self._taken[machine], 0)
        offered: list[float] = np.minimum(left, self._limit[machine]).tolist()
        return offered

    def untouched(self, machine: int) -> list[float]:
        """Return (R,): what it brings less what is taken, whatever the power; may be below 0."""
        left: list[float] = (self.installed[machine] - self._taken[machine]).tolist()
        return left

    def is_there(self, machine: int) -> bool:
        """Tell whether a machine has joined and not left."""
        return bool(self._there[machine])

    def is_sound(self, machine: int) -> bool:
        """Tell whether a machine would offer anything if it were on."""
        sound = self._there[machine] and not self._faults[machine] - {SWITCHED_OFF}
        return bool(sound and (self.installed[machine] > self._taken[machine]).any())
