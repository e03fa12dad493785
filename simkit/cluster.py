"""A cluster: its machines, its partitions, and the capacity changes that are known ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from simkit.errors import ScenarioError
from simkit.policy import CapacityStep, Partition
from simkit.units import amount_on_grid, time_on_grid

WhenTaken = Literal["drain", "requeue", "suspend"]
"""What becomes of tasks on capacity that is taken away: they run on to their end; they start over
from the queue; they are suspended with their work kept."""


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


@dataclass(frozen=True)
class Cluster:
    """The machines of a site."""

    resources: tuple[str, ...]
    machine_names: tuple[str, ...]
    capacity: npt.NDArray[np.float64]
    """(M, R)"""
    partitions: tuple[Partition, ...] = (Partition("all"),)
    maintenance: tuple[Maintenance, ...] = ()
    _fit_counts: dict[tuple[object, ...], int] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Put capacities on their grid and check them.

        Raises ScenarioError for machines without capacity and for maintenance that takes more
        than a machine has.
        """
        object.__setattr__(self, "capacity", amount_on_grid(self.capacity))
        problems = []
        if self.capacity.shape != (len(self.machine_names), len(self.resources)):
            problems.append(f"cluster: capacities have shape {self.capacity.shape}")
        elif not len(self.capacity) or not (self.capacity >= 0).all():
            problems.append("cluster: needs at least one machine, and capacities of at least 0")
        else:
            problems += [
                f"maintenance: takes {window.amount} from machine "
                f"{self.machine_names[window.machine]!r}, which has "
                f"{tuple(self.capacity[window.machine].tolist())}"
                for window in self.maintenance
                if (np.array(window.amount) > self.capacity[window.machine]).any()
            ]
        if problems:
            raise ScenarioError(problems)

    @classmethod
    def pool(cls, amounts: Mapping[str, float], **facts: object) -> Cluster:
        """Return a cluster of one machine with these amounts: a pool without boundaries."""
        capacity = np.array([list(amounts.values())], dtype=np.float64)
        return cls(tuple(amounts), ("pool",), capacity, **facts)  # type: ignore[arg-type]

    def most_instances(self, request: tuple[float, ...], machines: tuple[int, ...] | None) -> float:
        """Return how many instances of a request the empty machines have room for at once."""
        key = (request, machines)
        if key not in self._fit_counts:
            rows = self.capacity if machines is None else self.capacity[list(machines)]
            counts = np.full(len(rows), np.inf)
            for r, amount in enumerate(request):
                if amount > 0:
                    counts = np.minimum(counts, rows[:, r] // amount)
            total = counts.sum()
            self._fit_counts[key] = int(total) if np.isfinite(total) else 2**62
        return self._fit_counts[key]
