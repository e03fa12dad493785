"""Changes of pools' capacity that are known ahead, and the rows that they leave in the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from simkit.compiled.pools import CHANGE
from simkit.engine.bookkeeping import capacity_event
from simkit.engine.recorder import EventRow
from simkit.machine_code import records
from simkit.workload.capacity import MachineCapacity
from simkit.workload.cluster import Cluster

__all__ = ["Resized", "changes_of", "resized"]


class Resized(NamedTuple):
    """A pool that has become larger or smaller."""

    time: float
    more: float
    """How much larger, below 0 if it has become smaller."""
    event: EventRow


def changes_of(cluster: Cluster, machines: Sequence[int]) -> Any:
    """Return (C,) the steps of all windows, as `pools.CHANGE`, soonest first.

    Args:
        cluster: whose windows do not recur.
        machines: (P,) the machine of each pool.
    """
    pool = {machine: row for row, machine in enumerate(machines)}
    steps = [(step.time_s, pool[step.machine], *step.change) for step in cluster.known_steps()]
    return records(np.array(steps, CHANGE))


def resized(cluster: Cluster) -> Iterator[Resized]:
    """Yield the same changes as they are recorded, without those that change nothing."""
    machines, had = MachineCapacity(cluster.capacity), cluster.capacity[:, 0].copy()
    for change in cluster.known_changes():
        machines.change(change)
        (has,) = machines.of(change.machine)
        more = has - float(had[change.machine])
        if more:
            had[change.machine] = has
            facts = {"running": change.running, "cause": change.cause}
            capacity = dict(zip(cluster.resources, (has,), strict=True))
            event = capacity_event(change.time_s, change.machine, capacity, facts)
            yield Resized(change.time_s, more, event)
