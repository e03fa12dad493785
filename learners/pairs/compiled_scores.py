"""A scorer of terms as compiled code, for long runs; importing this needs numba."""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.pairs import pair_kernel
from simkit.learners.pairs.model import weights_of
from simkit.learners.pairs.placing_kernel import (
    Waiting,
    empty_cache,
    has_space,
    place_best,
    rebuild,
    update,
)
from simkit.learners.pairs.scorer import PairScorer
from simkit.policy.pairs import MachineTaskPairs
from simkit.policy.queue import QueueColumns
from simkit.units import ENDLESS_S

__all__ = ["CompiledScores"]


class CompiledScores:
    """Scores pairs as `PairScorer` does, and plans whole decisions, for one run.

    It goes over the pairs once; NumPy does some two hundred times.
    """

    def __init__(self, scorer: PairScorer) -> None:
        self._weights = weights_of(pair_kernel, scorer)
        self._slope: Floats = scorer.linear / scorer.scale
        self._cache = self._spare = empty_cache(0, 0)
        self._columns: QueueColumns | None = None  # those that the cache holds

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
        return pair_kernel.score_pairs(
            pairs.hold_s, pairs.remaining, pairs.request, pairs.free, pairs.capacity, total, work_s,
            longest_s, self._weights,
        )  # fmt: skip

    def place(
        self, columns: QueueColumns, free: Floats, capacity: Floats, work_s: Floats,
        longest_s: float, total: Floats,
    ) -> Ints:  # fmt: skip
        """Return (n, 2) rows of task and machine, one per instance, of a scorer without layers.

        Scores are summed in another order than in `scores`, without what all pairs share: where
        rounding alone tells two pairs apart, the other one may go first.

        Args:
            columns: the tasks.
            free: (M, R) free amounts of machines; changed.
            capacity: (M, R) their totals.
            work_s: this and what follows as in `scores`.
            longest_s: in seconds.
            total: (R,)
        """
        estimate_s = np.minimum(columns.estimate_s, ENDLESS_S)
        waiting = Waiting(columns.index, estimate_s, columns.remaining, columns.request)
        if columns is self._columns:  # the queue returns the same until tasks come or go
            update(waiting, self._cache)
        else:
            if not has_space(self._cache, len(columns)):
                self._cache, self._spare = (
                    empty_cache(2 * len(columns), len(total)) for _ in range(2)
                )
            rebuild(waiting, self._cache, self._spare)
            self._cache, self._spare = self._spare, self._cache
            self._columns = columns
        return place_best(self._cache, free, capacity, total, work_s, longest_s, self._slope)
