"""A fast model of a chunk under CloudSimPy's rules: the same placements as the engine's, compiled.

found = play(chunk, RULES["balance"])
trajectory = roll_out(chunk, scorer, rng)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.learners.common.compiled import kernel
from simkit.learners.pairs.chunk import Chunk
from simkit.learners.pairs.scorer import PairScorer

__all__ = ["Objective", "Outcome", "Trajectory", "play", "roll_out", "tasks_of"]

Placed = list[tuple[float, int, int, int]]
"""(tick, row of the task, machine, instances)."""
Objective = Literal["makespan", "turnaround", "weighted-turnaround", "slowdown"]
CLOCK: Final = "pairs.cloudsimpy_kernel"
"""The compiled event loops."""
TERMS: Final = "pairs.pair_kernel"
BOUND: Final = 10.0
"""Ticks; the bounded slowdown counts shorter jobs as this long."""


@dataclass(frozen=True)
class Outcome:
    """How a chunk was scheduled."""

    makespan: float
    """The tick at which the last instance's resources come free; infinity if rounding of free
    amounts keeps an instance from ever fitting."""
    placed: Placed

    def cost(self, chunk: Chunk, objective: Objective) -> float:
        """Return what the schedule costs; infinity if it has no end.

        Args:
            chunk: what was scheduled.
            objective: ``makespan``, in ticks; ``turnaround``, the mean over jobs of the ticks from
                being seen to the end; ``weighted-turnaround``, the same with jobs weighted by their
                instances; ``slowdown``, the mean of the turnaround over the ticks of the job's
                longest instance, but no fewer than `BOUND`. Unlike a bounded slowdown it may be
                below 1.
        """
        if objective == "makespan" or np.isinf(self.makespan):
            return self.makespan
        tick, task, _, _ = np.array(self.placed).T
        rows, first = task.astype(np.int64), np.flatnonzero(np.diff(chunk.job, prepend=-1))
        end = np.full(len(first), -np.inf)  # (J,)
        np.maximum.at(end, chunk.job[rows], tick + chunk.hold[rows])
        return float(_weights(chunk, objective, first) @ (end - chunk.seen[first]))


def _weights(chunk: Chunk, objective: Objective, first: Ints) -> Floats:
    """Return (J,) what a tick of each job costs; `first` are the rows of their first tasks."""
    if objective == "weighted-turnaround":
        return np.add.reduceat(chunk.instances, first) / max(chunk.total_instances, 1)
    if objective == "slowdown":
        longest = np.maximum.reduceat(chunk.hold, first)
        return 1.0 / np.maximum(longest, BOUND) / len(first)
    return np.full(len(first), 1.0 / len(first))


@dataclass(frozen=True)
class Trajectory:
    """What a scorer saw and drew in a chunk: D decisions, each among the pairs that fit."""

    seen: npt.NDArray[np.float32]
    """(U, F) features of pairs, shifted and scaled; decisions share those that do not change."""
    pairs: npt.NDArray[np.int32]
    """(P,) rows of `seen`: the pairs that fit, decision by decision."""
    first: Ints
    """(D + 1,) where each decision's pairs begin in `pairs`."""
    chosen: Ints
    """(D,) which of its pairs was drawn, from 0."""
    tick: Floats
    """(D,) tick of each decision."""
    task: Ints
    """(D,) the row of the task whose instance was placed."""
    makespan: float


def play(chunk: Chunk, scorer: PairScorer, most: int = 1) -> Outcome:
    """Place the pair with the highest score until none fits, at every tick.

    Ties go to the first machine, then to the oldest task.

    Args:
        chunk: the tasks and machines.
        scorer: of pairs.
        most: instances that a pair gets at a time; more are quicker, and a little worse.
    """
    span, placed = kernel(CLOCK).play(tasks_of(chunk), kernel(TERMS).weights_of(scorer), most)
    return Outcome(span, placed)


def roll_out(chunk: Chunk, scorer: PairScorer, rng: np.random.Generator) -> Trajectory:
    """Draw pairs, one instance at a time, with probabilities in proportion to exp(score)."""
    return Trajectory(
        *kernel(CLOCK).roll_out(tasks_of(chunk), kernel(TERMS).weights_of(scorer), rng)
    )


def tasks_of(chunk: Chunk) -> Any:
    """Return a chunk as the compiled functions take it."""
    total = chunk.capacity.sum(axis=0)
    total = np.where(total > 0, total, 1.0)
    share = (chunk.request / total).max(axis=1, initial=0.0)
    return kernel(CLOCK).Tasks(
        chunk.seen, chunk.hold, chunk.run_s, chunk.request, chunk.instances, chunk.capacity,
        share, total,
    )  # fmt: skip
