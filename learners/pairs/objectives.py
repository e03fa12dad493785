"""What the schedule of a chunk costs: its makespan, or a sum over jobs, weighted.

A job costs its weight for every tick from the one at which it is first seen to the one at which the
last of its instances has come free. So the costs of a chunk build up tick by tick, and what a
decision still has ahead of it is what builds up afterwards.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.pairs.chunk import Chunk

__all__ = ["Objective", "cost", "cost_to_go", "job_ends"]

Objective = Literal["makespan", "turnaround", "weighted-turnaround", "slowdown"]

BOUND: Final = 10.0
"""Ticks; the bounded slowdown counts shorter jobs as this long."""


def cost(chunk: Chunk, objective: Objective, makespan: float, job_end: Floats) -> float:
    """Return what a schedule costs; infinity if it has no end.

    Args:
        chunk: what was scheduled.
        objective: ``makespan``, in ticks; ``turnaround``, the mean over jobs of the ticks from
            being seen to the end; ``weighted-turnaround``, the same with jobs weighted by their
            instances; ``slowdown``, the mean of the turnaround over the ticks of the job's longest
            instance, but no fewer than `BOUND`. Unlike a bounded slowdown it may be below 1.
        makespan: its last tick.
        job_end: (J,) that of each job; see `job_ends`.
    """
    if np.isinf(makespan):
        return np.inf
    if objective == "makespan":
        return makespan
    return float(_weights(chunk, objective) @ (job_end - _job_seen(chunk)))


def cost_to_go(chunk: Chunk, objective: Objective, makespan: float, job_end: Floats) -> Floats:
    """Return (makespan,) what builds up from each tick on, in the unit of `cost`."""
    ticks = np.arange(int(makespan))
    if objective == "makespan":
        left: Floats = makespan - ticks.astype(np.float64)
        return left
    ahead = job_end[:, None] - np.maximum(ticks, _job_seen(chunk)[:, None])
    total: Floats = _weights(chunk, objective) @ np.maximum(ahead, 0.0)
    return total


def job_ends(chunk: Chunk, tick: Floats, task: Ints) -> Floats:
    """Return (J,) the tick at which the last instance of each job comes free.

    Args:
        chunk: what was scheduled.
        tick: (D,) when instances were placed.
        task: (D,) rows of their tasks.
    """
    ends = np.full(int(chunk.job[-1]) + 1 if len(chunk.job) else 0, -np.inf)
    np.maximum.at(ends, chunk.job[task], tick + chunk.hold[task])
    return ends


def _job_seen(chunk: Chunk) -> Floats:
    """Return (J,) the tick at which each job is first seen."""
    return chunk.seen[_first_task(chunk)]


def _weights(chunk: Chunk, objective: Objective) -> Floats:
    """Return (J,) what a tick of each job costs."""
    first = _first_task(chunk)
    if objective == "weighted-turnaround":
        return np.add.reduceat(chunk.instances, first) / max(chunk.total_instances, 1)
    if objective == "slowdown":
        longest = np.maximum.reduceat(chunk.hold, first)
        return 1.0 / np.maximum(longest, BOUND) / len(first)
    return np.full(len(first), 1.0 / len(first))


def _first_task(chunk: Chunk) -> Ints:
    return np.flatnonzero(np.diff(chunk.job, prepend=-1))
