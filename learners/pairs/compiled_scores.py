"""The scores of a decision's pairs by compiled code, where numba is there."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from simkit.arrays import Floats, Ints
from simkit.errors import PluginError
from simkit.learners.pairs.model import require_numba, weights_of
from simkit.learners.pairs.scorer import PairScorer
from simkit.policy.pairs.machine_task_pairs import MachineTaskPairs
from simkit.policy.queue import QueueColumns

__all__ = ["CompiledScores", "compiled_scores"]


def compiled_scores(scorer: PairScorer) -> CompiledScores | None:
    """Return a scorer of terms as compiled code; None without numba."""
    try:
        return CompiledScores(scorer, require_numba())
    except PluginError:
        return None


class CompiledScores:
    """Calculates what `PairScorer.scores` does of terms, and what a whole decision places by it.

    All goes in one pass; NumPy goes over the pairs some two hundred times.
    """

    def __init__(self, scorer: PairScorer, kernel: Any) -> None:
        self._kernel, self._weights = kernel, weights_of(kernel, scorer)
        self._placing: Any = import_module("simkit.learners.pairs.placing_kernel")
        self._slope: Floats = scorer.linear / scorer.scale
        self._known = self._placing.nothing_known(0, 0)
        self._next = self._known  # space for what the next decision knows

    def scores(
        self, pairs: MachineTaskPairs, work_s: Floats, longest_s: float, total: Floats
    ) -> Floats:
        """Return (P,) scores.

        Args:
            pairs: P of them.
            work_s: (R,) remaining work.
            longest_s: the longest time for which a waiting task holds a machine.
            total: (R,) the cluster's capacity.
        """
        found: Floats = self._kernel.score_pairs(
            pairs.hold_s, pairs.remaining, pairs.request, pairs.free, pairs.capacity, total, work_s,
            longest_s, self._weights,
        )  # fmt: skip
        return found

    def place(
        self, columns: QueueColumns, free: Floats, capacity: Floats, work_s: Floats,
        longest_s: float, total: Floats,
    ) -> Ints:  # fmt: skip
        """Return (n, 2) rows of task and machine, an instance each, of a scorer without layers.

        Args:
            columns: the tasks.
            free: (M, R) free amounts of machines; changed.
            capacity: (M, R) their totals.
            work_s: as in `scores`, and so what follows.
            longest_s: seconds.
            total: (R,)
        """
        waiting = self._placing.Waiting(
            columns.index, columns.estimate_s, columns.remaining, columns.request
        )
        if not self._placing.recall(waiting, self._known):
            self._recall_others(waiting, len(total))
        found: Ints = self._placing.place_best(
            self._known, free, capacity, total, work_s, longest_s, self._slope
        )
        return found

    def _recall_others(self, waiting: Any, resources: int) -> None:
        tasks = len(waiting.rank)
        if not self._placing.has_space(self._known, tasks):
            self._known, self._next = (
                self._placing.nothing_known(2 * tasks, resources) for _ in range(2)
            )
        self._placing.recall_others(waiting, self._known, self._next)
        self._known, self._next = self._next, self._known
