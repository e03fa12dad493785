"""A fast model of a chunk under CloudSimPy's rules: the same placements as the engine's, compiled.

found = play(chunk, RULES["balance"])
found = look_ahead(chunk, list(RULES.values()))
trajectory = roll_out(chunk, scorer, rng)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.errors import PluginError
from simkit.learners.pairs.chunk import Chunk
from simkit.learners.pairs.objectives import Objective, cost, cost_to_go, job_ends
from simkit.learners.pairs.scorer import PairScorer

__all__ = ["Outcome", "Trajectory", "look_ahead", "play", "require_numba", "roll_out"]

Placed = list[tuple[float, int, int, int]]
"""(tick, row of the task, machine, instances)."""


@dataclass(frozen=True)
class Outcome:
    """How a chunk was scheduled."""

    makespan: float
    """The tick at which the last instance's resources come free; infinity if rounding of free
    amounts keeps an instance from ever fitting."""
    placed: Placed
    chosen: Ints | None = None
    """(rules,) how often the lookahead chose each; None: there was none."""

    def cost(self, chunk: Chunk, objective: Objective) -> float:
        """Return what the schedule costs; infinity if it has no end."""
        if objective == "makespan" or np.isinf(self.makespan):
            return self.makespan
        tick, task, _, _ = np.array(self.placed).T
        ends = job_ends(chunk, tick, task.astype(np.int64))
        return cost(chunk, objective, self.makespan, ends)


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

    def cost_to_go(self, chunk: Chunk, objective: Objective) -> Floats:
        """Return (makespan,) what builds up from each tick on; the first is the whole cost."""
        ends = job_ends(chunk, self.tick, self.task)
        return cost_to_go(chunk, objective, self.makespan, ends)


def play(chunk: Chunk, scorer: PairScorer, most: int = 1) -> Outcome:
    """Place the pair with the highest score until none fits, at every tick.

    Ties go to the first machine, then to the oldest task.

    Args:
        chunk: the tasks and machines.
        scorer: of pairs.
        most: instances that a pair gets at a time; more are quicker, and a little worse.
    """
    kernel = require_numba()
    span, placed = kernel.play(_tasks(kernel, chunk), weights_of(kernel, scorer), most)
    return Outcome(span, placed)


def look_ahead(chunk: Chunk, rules: Sequence[PairScorer], most: int = 4) -> Outcome:
    """Place by the rule that, whenever jobs are first seen, ends what is known soonest.

    Args:
        chunk: the tasks and machines.
        rules: at least one; ties keep the present one, at first the first.
        most: as for `play`.
    """
    kernel = require_numba()
    weights = tuple(weights_of(kernel, rule) for rule in rules)
    span, placed, chosen = kernel.look_ahead(_tasks(kernel, chunk), weights, most)
    return Outcome(span, placed, chosen)


def roll_out(chunk: Chunk, scorer: PairScorer, rng: np.random.Generator) -> Trajectory:
    """Draw pairs, one instance at a time, with probabilities in proportion to exp(score)."""
    kernel = require_numba()
    return Trajectory(*kernel.roll_out(_tasks(kernel, chunk), weights_of(kernel, scorer), rng))


def require_numba() -> Any:
    """Return the compiled event loops; raises PluginError, which says what to install."""
    try:
        return import_module("simkit.learners.pairs.kernel")
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise PluginError(
            "the fast model of a chunk needs numba, which is not installed; "
            "pip install 'simkit-cluster[learn]'"
        ) from error


def _tasks(kernel: Any, chunk: Chunk) -> Any:
    total = chunk.capacity.sum(axis=0)
    total = np.where(total > 0, total, 1.0)
    share = (chunk.request / total).max(axis=1, initial=0.0)
    return kernel.Tasks(
        chunk.seen, chunk.hold, chunk.run_s, chunk.request, chunk.instances, chunk.capacity,
        share, total,
    )  # fmt: skip


def weights_of(kernel: Any, scorer: PairScorer) -> Any:
    """Return a scorer as the compiled functions take it."""
    kind = {"paper": kernel.PAPER, "terms": kernel.TERMS}[scorer.features]
    widths = np.array(scorer.widths)
    plain = not scorer.shift.any() and bool((scorer.scale == 1.0).all())
    return kernel.Weights(kind, plain, scorer.shift, scorer.scale, widths, scorer.flat)
