"""Run times by a power law of one feature, fitted anew to the nearest examples of each question.

W. S. Cleveland, "Robust locally weighted regression and smoothing scatterplots" (1979), with
a distance that keeps neighbours within one program: all other features count much more than the one
by which run times grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from simkit.arrays import Floats
from simkit.learners.run_times.examples import Examples

__all__ = ["LocalPowerLaw"]

_OTHERS = 32.0  # weight of the other features in a distance
_RIDGE = 1e-3  # in place of a spread where all neighbours are of one size
_SLOPE = log(2.0)  # twice as long for twice the size, where neighbours say nothing


@dataclass(frozen=True)
class LocalPowerLaw:
    """The examples, and how many of them answer a question."""

    by: int
    """The feature by which run times grow, such as the size of a program's arrays."""
    logs: Floats
    """(n, F) logarithms of the features, to the base 2."""
    log_time: Floats
    """(n,) of the run times in seconds, natural."""
    neighbours: int

    @classmethod
    def fitted(cls, examples: Examples, by: str = "bss", neighbours: int = 4) -> LocalPowerLaw:
        """Remember examples; there must be as many as neighbours at least."""
        return cls(
            examples.names.index(by), np.log2(1.0 + examples.features),
            np.log(examples.run_time_s), neighbours,
        )  # fmt: skip

    def run_time_s(self, features: Floats) -> Floats:
        """Return (m,) run times in seconds of (m, F) features."""
        from sklearn.neighbors import NearestNeighbors

        logs = np.log2(1.0 + features)
        nearest = NearestNeighbors(n_neighbors=self.neighbours, metric="manhattan")
        distance, near = nearest.fit(self._weighted(self.logs)).kneighbors(self._weighted(logs))
        reach = np.maximum(distance[:, -1:], 1e-9)
        weight = (1.0 - np.minimum(distance / reach, 1.0) ** 3) ** 3 + 1e-3
        weight /= weight.sum(axis=1, keepdims=True)
        away = self.logs[:, self.by][near] - logs[:, [self.by]]
        log_time = self.log_time[near]
        mean, mean_time = (weight * away).sum(axis=1), (weight * log_time).sum(axis=1)
        away, log_time = away - mean[:, None], log_time - mean_time[:, None]
        both = (weight * away * log_time).sum(axis=1) + _RIDGE * _SLOPE
        slope = both / ((weight * away**2).sum(axis=1) + _RIDGE)
        found: Floats = np.exp(mean_time - slope * mean)
        return found

    def _weighted(self, logs: Floats) -> Floats:
        weighted = logs * _OTHERS
        weighted[:, self.by] = logs[:, self.by]
        return weighted
