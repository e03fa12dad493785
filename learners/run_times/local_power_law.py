"""Run times by a power law in one feature, fitted to the nearest examples of each query.

Nearest are those of the same program, and among them those of its size.

W. S. Cleveland, "Robust locally weighted regression and smoothing scatterplots" (1979). The number
of neighbours is chosen locally, by their leave-one-out errors: J. Fan and I. Gijbels, "Data-driven
bandwidth selection in local polynomial fitting" (1995). Where run times are smooth but noisy, many
neighbours average the noise out; where they jump, a few are better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Final, Self

import numpy as np

from simkit.arrays import Floats
from simkit.learners.run_times.burst_models import Arrays, Nearest, check_shapes, rounded
from simkit.learners.run_times.examples import Examples

__all__ = ["LocalPowerLaw"]

_NEIGHBOURS: Final = (4, 6, 8, 12, 16, 24, 32, 48)
_AROUND = 16  # examples whose errors decide the number of neighbours and the uncertainty
_CAP = 0.3  # larger errors count as this: one outlier must not decide
_RIDGE = 1e-3  # stands in for the variance where all neighbours are of one size
_SLOPE = log(2.0)  # twice as long for twice the size, where the neighbours do not tell
_UNSEEN = 0.02  # probability that all classes share, for what no example shows


@dataclass(frozen=True)
class LocalPowerLaw:
    """The examples and their leave-one-out errors; a `Model` of run times."""

    nearest: Nearest
    """The n examples."""
    log_time: Floats
    """(n,) natural logarithm of the run time in seconds."""
    neighbours: tuple[int, ...]
    """The K numbers of neighbours to choose from, ascending."""
    left_out: Floats
    """(n, K) log time of each example, minus its prediction from k of the others."""
    edges_s: Floats
    """(C - 1,) run times at which a class ends and the next begins."""

    @classmethod
    def fitted(
        cls, examples: Examples, _rng: np.random.Generator | None = None, *, by: str = "bss",
        neighbours: Sequence[int] = _NEIGHBOURS,
    ) -> Self:  # fmt: skip
        """Store the examples and their leave-one-out errors.

        Args:
            examples: training data.
            by: the feature by which run times grow.
            neighbours: numbers of neighbours to choose from. They must be smaller than the number
                of examples; larger ones are left out.

        Raises ValueError if no number of neighbours remains.
        """
        nearest, log_time = Nearest.of(examples, by), np.log(examples.run_time_s)
        tried = tuple(k for k in sorted(neighbours) if k < len(examples))
        if not tried:
            raise ValueError(
                f"there are {len(examples)} examples; there must be more than {min(neighbours)}, "
                "the smallest number of neighbours"
            )
        distance, near = nearest.others(tried[-1])
        offset = nearest.logs[:, nearest.by][near] - nearest.logs[:, [nearest.by]]
        predicted = _predictions(distance, offset, log_time[near], tried)
        return cls(nearest, log_time, tried, log_time[:, None] - predicted, examples.edges_s)

    @classmethod
    def read(
        cls, arrays: Arrays, plain: Mapping[str, Any], nearest: Nearest, edges_s: Floats
    ) -> Self:
        """Return the model in a bundle; raises ValueError or LookupError if parts do not fit."""
        numbers = tuple(plain["neighbours"])
        sizes = {"n": len(nearest), "K": len(numbers)}
        check_shapes(arrays, {"log_time": ("n",), "left_out": ("n", "K")}, sizes)
        if not numbers or not all(type(k) is int and 0 < k < sizes["n"] for k in numbers):
            raise ValueError(f"neighbours are {list(numbers)} of {sizes['n']} examples")
        log_time, left_out = rounded(arrays["log_time"]), rounded(arrays["left_out"])
        return cls(nearest, log_time, numbers, left_out, edges_s)

    def arrays(self) -> Arrays:
        return {"log_time": self.log_time, "left_out": self.left_out}

    def plain(self) -> dict[str, Any]:
        return {"neighbours": list(self.neighbours)}

    def run_time_s(self, features: Floats) -> Floats:
        """Return (m,) run times in seconds for (m, F) features."""
        times: Floats = np.exp(self._predict(features)[0])
        return times

    def probabilities(self, features: Floats) -> Floats:
        """Return (m, C) class probabilities for (m, F) features.

        Errors are assumed to be as large as those of the examples nearby, to either side.
        """
        log_time, errors = self._predict(features)
        reached = log_time[:, None] + np.concatenate((errors, -errors), axis=1)  # (m, 2 × around)
        label = np.searchsorted(np.log(self.edges_s), reached, side="right")
        classes = len(self.edges_s) + 1
        counts = (label[:, :, None] == np.arange(classes)).mean(axis=1)
        shares: Floats = (1.0 - _UNSEEN) * counts + _UNSEEN / classes
        return shares

    def _predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return (m,) log times, and (m, around) leave-one-out errors of the examples nearby."""
        logs, by = np.log2(1.0 + features), self.nearest.by
        around = min(_AROUND, len(self.nearest))
        distance, near = self.nearest.find(logs, max(self.neighbours[-1], around))
        offset = self.nearest.logs[:, by][near] - logs[:, [by]]
        predicted = _predictions(distance, offset, self.log_time[near], self.neighbours)
        errors = self.left_out[near[:, :around]]  # (m, around, K)
        best = np.minimum(np.abs(errors), _CAP).mean(axis=1).argmin(axis=1)[:, None]
        chosen = np.take_along_axis(errors, best[:, :, None], axis=2)[:, :, 0]
        return np.take_along_axis(predicted, best, axis=1)[:, 0], chosen


def _predictions(
    distance: Floats, offset: Floats, log_time: Floats, numbers: Sequence[int]
) -> Floats:
    """Return (m, K) log times predicted from K numbers of neighbours.

    Args:
        distance: (m, neighbours) distance from the query, ascending.
        offset: (m, neighbours) log2 of the neighbour's size minus log2 of the query's.
        log_time: (m, neighbours) log time of each neighbour.
        numbers: (K,) how many neighbours to use.
    """
    return np.column_stack(
        [_prediction(distance[:, :k], offset[:, :k], log_time[:, :k]) for k in numbers]
    )


def _prediction(distance: Floats, offset: Floats, log_time: Floats) -> Floats:
    """Return (m,) log times at `offset` 0, on weighted lines through the neighbours."""
    reach = np.maximum(distance[:, -1:], 1e-9)
    weight = (1.0 - np.minimum(distance / reach, 1.0) ** 3) ** 3 + 1e-3
    weight /= weight.sum(axis=1, keepdims=True)
    mean, mean_time = (weight * offset).sum(axis=1), (weight * log_time).sum(axis=1)
    offset, log_time = offset - mean[:, None], log_time - mean_time[:, None]
    covariance = (weight * offset * log_time).sum(axis=1) + _RIDGE * _SLOPE
    slope = covariance / ((weight * offset**2).sum(axis=1) + _RIDGE)
    predicted: Floats = mean_time - slope * mean
    return predicted
