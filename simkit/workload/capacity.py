"""The capacity of machines over time, and the tables of a trace that say how it changes.

A machine's capacity is what it brings while it is there and up, less what is taken of it by
maintenance and by containers, and never less than nothing. Several things may go on at once: a
window may begin on a machine that is down, a container may end on one that has left.
`MachineEvents` and `Containers` hold such changes as a trace records them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, wrong_shapes
from simkit.errors import TraceError
from simkit.units import amount_on_grid, request_on_grid, time_on_grid
from simkit.workload.trace import RowReport

WhenTaken = Literal["drain", "requeue", "suspend"]
"""What happens to tasks on capacity that is taken away: they run to their end; they start over
from the queue; they are suspended with their work kept."""

ChangeKind = Literal["join", "leave", "down", "up", "take", "give", "limit"]
"""A machine joins, leaves, fails, is repaired; part of it is taken, given back; so much of it, at
most, is carried by the power."""

SWITCHED_OFF = -2
"""The fault of a machine that is off. Only the same fault's repair ends this one and lower ones,
which are those of the user's processes; rejoining the cluster ends the others."""


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
    process: str = ""
    """Name of the user's process that asks for it; empty: none does."""

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
                faults = self._faults[machine]
                self._faults[machine] = {fault for fault in faults if fault <= SWITCHED_OFF}
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
        """Return whether a machine is there and has no fault."""
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
        """Return whether a machine has joined and not left."""
        return bool(self._there[machine])

    def is_sound(self, machine: int) -> bool:
        """Return whether a machine would offer anything if it were on."""
        sound = self._there[machine] and not self._faults[machine] - {SWITCHED_OFF}
        return bool(sound and (self.installed[machine] > self._taken[machine]).any())


KINDS: Final = ("add", "remove", "softerror", "harderror")
"""A machine joins the cluster (or comes back), leaves it, fails for a while by its software, fails
by its hardware."""


@dataclass(frozen=True)
class MachineEvents:
    """Events of machines in the order of time, as columns: E events, R resources."""

    resources: tuple[str, ...]
    """Names of the resources, e.g. ``("cpu", "mem")``."""
    time_s: Floats
    """(E,) seconds since the trace's zero, ascending; events of one instant keep their order."""
    machine_id: npt.NDArray[Any]
    """(E,) the trace's own ids: int64, or str objects."""
    kind: npt.NDArray[Any]
    """(E,) str objects out of `KINDS`."""
    capacity: Floats
    """(E, R) at least 0: of an add what the machine brings, of any other event what it had."""
    report: RowReport = field(default_factory=RowReport)
    """How the rows were read."""
    inputs: tuple[Path, ...] = ()
    """The files read."""

    def __post_init__(self) -> None:
        """Put times and amounts on their grids and check the columns.

        Raises TraceError for columns of unequal length, times that do not rise, kinds that do not
        exist and capacities that are negative or no numbers.
        """
        object.__setattr__(self, "time_s", time_on_grid(self.time_s))
        object.__setattr__(self, "capacity", amount_on_grid(self.capacity))
        events = len(self.time_s)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("machine_id", "kind"), (events,))
        problems = wrong_shapes(self, shapes | {"capacity": (events, len(self.resources))})
        if unknown := sorted({str(kind) for kind in set(self.kind.tolist()) - set(KINDS)}):
            problems.append(f"kinds {', '.join(unknown)}: a kind is one of {', '.join(KINDS)}")
        if not (np.isfinite(self.time_s).all() and (np.diff(self.time_s) >= 0).all()):
            problems.append("times must be finite and ascending")
        if not (np.isfinite(self.capacity) & (self.capacity >= 0)).all():
            problems.append("capacities must be finite and at least 0")
        if problems:
            raise TraceError("\n".join(f"machine events: {problem}" for problem in problems))

    def __len__(self) -> int:
        return len(self.time_s)

    def rows(self, columns: Sequence[int]) -> Iterator[tuple[float, Any, str, list[float]]]:
        """Yield (time, machine, kind, capacity of some resources) of each event."""
        parts = (self.time_s, self.machine_id, self.kind, self.capacity[:, columns])
        yield from zip(*(part.tolist() for part in parts), strict=True)

    def machines(self) -> npt.NDArray[Any]:
        """Return the ids of the machines that are ever added, (M,), in the order of joining."""
        added = self.machine_id[self.kind == "add"]
        ids, first = np.unique(added, return_index=True)
        joined: npt.NDArray[Any] = ids[np.argsort(first)]
        return joined


@dataclass(frozen=True)
class Containers:
    """Services on machines in the order of creation, as columns: C containers, R resources."""

    resources: tuple[str, ...]
    """Names of the resources, e.g. ``("cpu", "mem")``."""
    container_id: npt.NDArray[Any]
    """(C,) the trace's own ids: int64, or str objects."""
    machine_id: npt.NDArray[Any]
    """(C,) the machine that each is on, by the trace's own ids."""
    start_time_s: Floats
    """(C,) seconds since the trace's zero, ascending; 0 may mean: before the trace."""
    end_time_s: Floats
    """(C,) seconds, at least the start; infinite for containers that outlast the trace."""
    request: Floats
    """(C, R) what a container holds of each resource, at least 0."""
    report: RowReport = field(default_factory=RowReport)
    """How the rows were read; a container may come of two, creation and end."""
    inputs: tuple[Path, ...] = ()
    """The files read."""

    def __post_init__(self) -> None:
        """Put times and amounts on their grids and check the columns.

        Raises TraceError for columns of unequal length, unsorted starts, ends before the start and
        requests that are negative or no numbers.
        """
        for name in ("start_time_s", "end_time_s"):
            object.__setattr__(self, name, time_on_grid(getattr(self, name)))
        object.__setattr__(self, "request", request_on_grid(self.request))
        size = len(self.container_id)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("machine_id", "start_time_s", "end_time_s"), (size,)
        )
        shapes["request"] = (size, len(self.resources))
        problems = wrong_shapes(self, shapes)
        rules = {} if problems else self._rules()
        problems += [rule for rule, kept in rules.items() if not kept]
        if problems:
            raise TraceError("\n".join(f"containers: {problem}" for problem in problems))

    def _rules(self) -> dict[str, bool]:
        start, end = self.start_time_s, self.end_time_s
        finite = bool(np.isfinite(start).all())
        amounts = np.isfinite(self.request) & (self.request >= 0)
        return {
            "starts must be finite and ascending": finite and bool((np.diff(start) >= 0).all()),
            "ends must not be before starts": bool((end >= start).all()),
            "requests must be finite and at least 0": bool(amounts.all()),
        }

    def __len__(self) -> int:
        return len(self.container_id)
