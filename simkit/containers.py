"""Containers: long-running services, each of which holds part of a machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.errors import TraceError
from simkit.units import request_on_grid, time_on_grid
from simkit.workload import Floats, RowReport


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
    """What became of the rows that were read; a container may come of two, creation and end."""
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
        problems = [
            f"{name} has shape {getattr(self, name).shape}, expected {shape}"
            for name, shape in shapes.items()
            if getattr(self, name).shape != shape
        ]
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
        """Return the number of containers."""
        return len(self.container_id)
