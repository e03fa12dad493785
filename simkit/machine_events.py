"""Machine events: which machines join a cluster, leave it and fail, when, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simkit.errors import TraceError
from simkit.units import amount_on_grid, time_on_grid
from simkit.workload import Floats, RowReport

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
    """What became of the rows that were read."""
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
        lengths = {"machine_id": len(self.machine_id), "kind": len(self.kind)}
        problems = [
            f"{name} has {length} rows, time_s has {events}"
            for name, length in lengths.items()
            if length != events
        ]
        if self.capacity.shape != (events, len(self.resources)):
            expected = (events, len(self.resources))
            problems.append(f"capacity has shape {self.capacity.shape}, expected {expected}")
        if unknown := sorted({str(kind) for kind in set(self.kind.tolist()) - set(KINDS)}):
            problems.append(f"kinds {', '.join(unknown)}: a kind is one of {', '.join(KINDS)}")
        if not (np.isfinite(self.time_s).all() and (np.diff(self.time_s) >= 0).all()):
            problems.append("times must be finite and ascending")
        if not (np.isfinite(self.capacity) & (self.capacity >= 0)).all():
            problems.append("capacities must be finite and at least 0")
        if problems:
            raise TraceError("\n".join(f"machine events: {problem}" for problem in problems))

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.time_s)

    def machines(self) -> npt.NDArray[Any]:
        """Return the ids of the machines that are ever added, (M,), in the order of joining."""
        added = self.machine_id[self.kind == "add"]
        ids, first = np.unique(added, return_index=True)
        joined: npt.NDArray[Any] = ids[np.argsort(first)]
        return joined
