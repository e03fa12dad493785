"""A cluster: its machines, its partitions, and the capacity changes that are known ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.units import amount_on_grid, time_on_grid
from simkit.workload import RowReport
from simkit.workload.capacity import CapacityChange, WhenTaken

MAINTENANCE: Final = "maintenance"
"""The cause of changes that belong to a maintenance window, in the records."""


@dataclass(frozen=True)
class Partition:
    """A queue or partition of the site: which machines it may use, and its limits."""

    name: str
    machines: tuple[int, ...] | None = None
    """Rows of machines; None: all."""
    priority: float = 0.0
    """Larger goes first."""
    max_time_s: float = float("inf")
    """Longest requested time."""
    max_demand: float = float("inf")
    """Most of the first resource that a job may ask for."""
    queues: frozenset[int] = frozenset()
    """Trace queue numbers (SWF field 15) that lead here."""
    partitions: frozenset[int] = frozenset()
    """Trace partition numbers (SWF field 16) that lead here."""


class CapacityStep(NamedTuple):
    """A change of capacity that is known ahead, such as the start of a maintenance window."""

    time_s: float
    machine: int
    change: tuple[float, ...]
    """(R,) added to the machine's capacity; negative takes away."""


@dataclass(frozen=True)
class Failures:
    """Machines fail at random and are repaired: both times are exponentially distributed."""

    mtbf_s: float
    """Mean time between the repair of a machine and its next failure."""
    mttr_s: float
    """Mean time to repair."""
    machines: tuple[int, ...] | None = None
    """Rows of the machines that fail; None: all."""
    running: WhenTaken = "requeue"

    def __post_init__(self) -> None:
        """Raise ScenarioError for times that are not positive."""
        for name in ("mtbf_s", "mttr_s"):
            if not 0 < getattr(self, name) < np.inf:
                raise ScenarioError(
                    f"failures: {name} is {getattr(self, name):g}; it must be a positive time"
                )


@dataclass(frozen=True)
class Maintenance:
    """A window in which part of a machine's capacity is away."""

    start_s: float
    end_s: float
    machine: int
    amount: tuple[float, ...]
    """(R,) taken away."""
    running: WhenTaken = "drain"

    def steps(self) -> tuple[CapacityStep, CapacityStep]:
        """Return the step down and the step up."""
        down = tuple([-amount for amount in self.amount])
        start, end = time_on_grid([self.start_s, self.end_s]).tolist()
        return (
            CapacityStep(start, self.machine, down),
            CapacityStep(end, self.machine, self.amount),
        )

    def changes(self) -> tuple[CapacityChange, CapacityChange]:
        """Return what is taken and what is given back."""
        down, up = self.steps()
        facts = (MAINTENANCE, self.amount, self.running)
        return (
            CapacityChange(down.time_s, self.machine, "take", *facts),
            CapacityChange(up.time_s, self.machine, "give", *facts),
        )


@dataclass(frozen=True)
class Cluster:
    """The machines of a site."""

    resources: tuple[str, ...]
    machine_names: tuple[str, ...]
    capacity: Floats
    """(M, R)"""
    partitions: tuple[Partition, ...] = (Partition("all"),)
    maintenance: tuple[Maintenance, ...] = ()
    changes: tuple[CapacityChange, ...] = ()
    """Changes that policies do not know ahead: machines that join, leave and fail, containers."""
    absent: tuple[int, ...] = ()
    """Rows of the machines that are not there at the start: they join later."""
    failures: Failures | None = None
    inputs: tuple[Path, ...] = ()
    """Files that the cluster was read from."""
    reports: Mapping[str, RowReport] = field(default_factory=dict)
    """How the rows of its tables were read."""
    _fit_counts: dict[tuple[object, ...], int] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Put capacities on their grid and check them.

        Raises ScenarioError for machines without capacity and for maintenance that ends before it
        starts or takes more than a machine has, be it in several windows at once.
        """
        object.__setattr__(self, "capacity", amount_on_grid(self.capacity))
        problems: list[str] = []
        if self.capacity.shape != (len(self.machine_names), len(self.resources)):
            problems.append(f"cluster: capacities have shape {self.capacity.shape}")
        elif not len(self.capacity) or not (self.capacity >= 0).all():
            problems.append("cluster: needs at least one machine, and capacities of at least 0")
        else:
            for window in self.maintenance:
                problems += self._window_problems(window)
            if any(not 0 <= c.machine < len(self.machine_names) for c in self.changes):
                problems.append("cluster: a capacity change is of a machine that does not exist")
        if problems or (problems := self._overlap_problems()):
            raise ScenarioError(problems)

    def _window_problems(self, window: Maintenance) -> list[str]:
        """Return what is wrong with a single window."""
        machines, amount = len(self.machine_names), np.array(window.amount)
        if not 0 <= window.machine < machines:
            return [
                f"maintenance: there is no machine {window.machine}, they are 0..{machines - 1}"
            ]
        name, capacity = self.machine_names[window.machine], self.capacity[window.machine]
        has = tuple(capacity.tolist())
        span = f"maintenance: from {window.start_s:g} s to {window.end_s:g} s"
        if amount.shape != capacity.shape:
            return [f"{span}: takes {window.amount}; give an amount for all resources"]
        problems = []
        if not -np.inf < window.start_s < window.end_s < np.inf:
            problems.append(f"{span}: must end after it starts, both at finite times")
        if not (amount >= 0).all():
            problems.append(f"{span}: takes {window.amount}; amounts must be at least 0")
        if (amount > capacity).any():
            problems.append(f"{span}: takes {window.amount} from machine {name!r}, which has {has}")
        return problems

    def _overlap_problems(self) -> list[str]:
        """Return where windows take more of a machine together than it has; the first of each."""
        problems: dict[int, str] = {}
        left = self.capacity.copy()
        for time, machine, change in self.known_steps():
            left[machine] += change
            if (left[machine] < 0).any():
                problems.setdefault(
                    machine,
                    f"maintenance: windows that overlap at {time:g} s together take more from "
                    f"machine {self.machine_names[machine]!r} than it has, "
                    f"{tuple(self.capacity[machine].tolist())}; shorten one or join them",
                )
        return list(problems.values())

    @classmethod
    def pool(cls, amounts: Mapping[str, float], **facts: object) -> Cluster:
        """Return a cluster of one machine with these amounts: a pool without boundaries."""
        capacity = np.array([list(amounts.values())], dtype=np.float64)
        return cls(tuple(amounts), ("pool",), capacity, **facts)  # type: ignore[arg-type]

    def known_changes(self) -> list[CapacityChange]:
        """Return maintenance and `changes` in order of time; at one instant, additions first."""
        both = [change for window in self.maintenance for change in window.changes()]
        both += self.changes
        return sorted(both, key=lambda change: (change.time_s, change.takes_away))

    def known_steps(self) -> list[CapacityStep]:
        """Return the steps that policies may plan with: those of maintenance, in order of time."""
        steps = [step for window in self.maintenance for step in window.steps()]
        return sorted(steps, key=lambda step: (step.time_s, min(step.change) < 0))

    def most_instances(self, request: tuple[float, ...], machines: tuple[int, ...] | None) -> float:
        """Return how many instances of a request the empty machines ever have room for at once."""
        key = (request, machines)
        if key not in self._fit_counts:
            largest = self._largest()
            rows = largest if machines is None else largest[list(machines)]
            counts = np.full(len(rows), np.inf)
            for r, amount in enumerate(request):
                if amount > 0:
                    counts = np.minimum(counts, rows[:, r] // amount)
            total = counts.sum()
            self._fit_counts[key] = int(total) if np.isfinite(total) else 2**62
        return self._fit_counts[key]

    def _largest(self) -> Floats:
        """Return (M, R): the most that each machine ever brings."""
        largest = self.capacity.copy()
        for change in self.changes:
            if change.kind == "join" and change.amount:
                largest[change.machine] = np.maximum(largest[change.machine], change.amount)
        return largest
