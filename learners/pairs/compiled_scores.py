"""The scores of a decision's pairs by compiled code, where numba is there."""

from __future__ import annotations

from collections.abc import Callable

from simkit.arrays import Floats
from simkit.errors import PluginError
from simkit.learners.pairs.model import require_numba, weights_of
from simkit.learners.pairs.scorer import PairScorer
from simkit.policy.pairs.machine_task_pairs import MachineTaskPairs

__all__ = ["CompiledScores", "compiled_scores"]

CompiledScores = Callable[[MachineTaskPairs, Floats, float, Floats], Floats]
"""(P pairs, (R,) remaining work, longest time of a waiting task, (R,) the cluster's capacity) →
(P,) scores."""


def compiled_scores(scorer: PairScorer) -> CompiledScores | None:
    """Return what computes `PairScorer.scores` of terms in one pass; None without numba.

    NumPy goes over the pairs some two hundred times for that.
    """
    try:
        kernel = require_numba()
    except PluginError:
        return None
    weights = weights_of(kernel, scorer)

    def scores(pairs: MachineTaskPairs, work_s: Floats, longest_s: float, total: Floats) -> Floats:
        found: Floats = kernel.score_pairs(
            pairs.hold_s, pairs.remaining, pairs.request, pairs.free, pairs.capacity, total, work_s,
            longest_s, weights,
        )  # fmt: skip
        return found

    return scores
