"""How long instances run of which the trace shows only the task: stated models of durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simkit.errors import TraceError, did_you_mean
from simkit.workload import Floats, Ints

TYPES: Final = ("task", "share")

SHARES: Final = (
    (1, 0.93), (4, 0.86), (16, 0.79), (64, 0.73), (128, 0.65), (256, 0.47), (512, 0.22),
    (1024, 0.13),
)  # fmt: skip
"""From so many instances on → mean run time of an instance as a share of its task's wall time.

Measured: the durations that the job table of CloudSimPy has for 31,735 tasks of the trace (they
look like means over batch_instance: 37 % are not whole), summed over instances, divided by the same
sum of end − creation in batch_task. A task with many instances does not run all of them at once.
With these shares the sum of all run times comes out within 1 %; with ``task`` it is 4.4 times as
much.
"""


@dataclass(frozen=True)
class Durations:
    """A model of the run time of instances, from the task's wall time (end − creation).

    ``task``: every instance runs as long as its task took; an upper bound, by which all instances
    of a task end together if they start together. ``share``: every instance runs for a share of
    it, the one given, or by the number of instances as `SHARES` has it.
    """

    type: str = "task"
    share: float | None = None

    def __post_init__(self) -> None:
        """Check the model; raises TraceError."""
        if self.type not in TYPES:
            hint = did_you_mean(str(self.type), TYPES)
            raise TraceError(f"durations: {self.type!r} is no model{hint}")
        if self.share is not None and (self.type != "share" or not 0 < self.share <= 1):
            raise TraceError(
                f"durations: share {self.share!r} with type {self.type!r}; a share is above 0 and "
                "at most 1, and belongs to the type 'share'"
            )

    @classmethod
    def of(cls, model: str | Mapping[str, Any]) -> Durations:
        """Return the model for ``"task"``, ``"share"`` or ``{"type": "share", "share": 0.8}``."""
        if isinstance(model, str):
            return cls(model)
        if unknown := sorted(set(model) - {"type", "share"}):
            raise TraceError(f"durations: no key {', '.join(unknown)}; there are type and share")
        return cls(**model)

    def run_time_s(self, wall_s: Floats, instances: Ints) -> Floats:
        """Return (T,) run times of an instance of each task, in s.

        Args:
            wall_s: (T,) end − creation of the tasks.
            instances: (T,) their numbers of instances.
        """
        if self.type == "task":
            return wall_s
        if self.share is not None:
            return wall_s * self.share
        sizes, shares = np.array(SHARES).T
        row = np.searchsorted(sizes, instances, side="right") - 1
        return np.asarray(wall_s * shares[row])
