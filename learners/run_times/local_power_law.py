"""Run times by a power law of one feature, fitted anew to the nearest examples of each question.

W. S. Cleveland, "Robust locally weighted regression and smoothing scatterplots" (1979). How many
neighbours answer is chosen from place to place, by how well they would have answered there:
J. Fan and I. Gijbels, "Data-driven bandwidth selection in local polynomial fitting" (1995). Where
run times are smooth but noisy, many average the noise out; where they jump, a few are better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.learners.run_times.examples import Examples
from simkit.learners.run_times.nearest import Nearest

__all__ = ["LocalPowerLaw"]

_NEIGHBOURS: Final = (4, 6, 8, 12, 16, 24, 32, 48)
_AROUND = 16  # examples whose errors choose the number of neighbours, and say how sure a time is
_CAP = 0.3  # an error as large as this counts no more than it: one outlier must not decide
_RIDGE = 1e-3  # in place of a spread where all neighbours are of one size
_SLOPE = log(2.0)  # twice as long for twice the size, where neighbours say nothing
_UNSEEN = 0.02  # probability that all classes share, for what no example has shown


@dataclass(frozen=True)
class LocalPowerLaw:
    """The examples, and what each of them would have been thought to be by the others."""

    nearest: Nearest
    """The n examples."""
    log_time: Floats
    """(n,) of the run times in seconds, natural."""
    neighbours: tuple[int, ...]
    """The K numbers of neighbours that are tried, ascending."""
    left_out: Floats
    """(n, K) log time of each example less what so many of the others say."""

    @classmethod
    def fitted(
        cls, examples: Examples, by: str = "bss", neighbours: Sequence[int] = _NEIGHBOURS
    ) -> LocalPowerLaw:
        """Remember examples.

        Numbers of neighbours that are as large as that of the examples are not tried; raises
        ValueError if none is left.
        """
        nearest, log_time = Nearest.of(examples, by), np.log(examples.run_time_s)
        tried = tuple(k for k in sorted(neighbours) if k < len(examples))
        if not tried:
            raise ValueError(
                f"there are {len(examples)} examples; there must be more than the neighbours, "
                f"{min(neighbours)}"
            )
        distance, near = nearest.others(tried[-1])
        away = nearest.logs[:, nearest.by][near] - nearest.logs[:, [nearest.by]]
        found = _answers(distance, away, log_time[near], tried)
        return cls(nearest, log_time, tried, log_time[:, None] - found)

    def run_time_s(self, features: Floats) -> Floats:
        """Return (m,) run times in seconds of (m, F) features."""
        found: Floats = np.exp(self._asked(features)[0])
        return found

    def probabilities(self, features: Floats, edges_s: Floats) -> Floats:
        """Return (m, C) probabilities of the classes between (C - 1,) run times.

        A run time is off as far as those of the examples around were, to either side.
        """
        log_time, errors = self._asked(features)
        reached = log_time[:, None] + np.concatenate((errors, -errors), axis=1)  # (m, 2 × around)
        label = np.searchsorted(np.log(edges_s), reached, side="right")
        classes = len(edges_s) + 1
        counts = (label[:, :, None] == np.arange(classes)).mean(axis=1)
        found: Floats = (1.0 - _UNSEEN) * counts + _UNSEEN / classes
        return found

    def _asked(self, features: Floats) -> tuple[Floats, Floats]:
        """Return (m,) log times and (m, around) errors of the examples around."""
        logs, by = np.log2(1.0 + features), self.nearest.by
        around = min(_AROUND, len(self.nearest))
        distance, near = self.nearest.find(logs, max(self.neighbours[-1], around))
        away = self.nearest.logs[:, by][near] - logs[:, [by]]
        found = _answers(distance, away, self.log_time[near], self.neighbours)
        errors = self.left_out[near[:, :around]]  # (m, around, K)
        best = np.minimum(np.abs(errors), _CAP).mean(axis=1).argmin(axis=1)[:, None]
        chosen = np.take_along_axis(errors, best[:, :, None], axis=2)[:, :, 0]
        return np.take_along_axis(found, best, axis=1)[:, 0], chosen


def _answers(distance: Floats, away: Floats, log_time: Floats, numbers: Sequence[int]) -> Floats:
    """Return (m, K) log times by K numbers of neighbours.

    Args:
        distance: (m, neighbours) from what is asked about, ascending.
        away: (m, neighbours) how much larger the neighbours are, as a logarithm.
        log_time: (m, neighbours)
        numbers: (K,)
    """
    return np.column_stack(
        [_answer(distance[:, :k], away[:, :k], log_time[:, :k]) for k in numbers]
    )


def _answer(distance: Floats, away: Floats, log_time: Floats) -> Floats:
    """Return (m,) log times at ``away`` 0 by weighted lines through the neighbours."""
    reach = np.maximum(distance[:, -1:], 1e-9)
    weight = (1.0 - np.minimum(distance / reach, 1.0) ** 3) ** 3 + 1e-3
    weight /= weight.sum(axis=1, keepdims=True)
    mean, mean_time = (weight * away).sum(axis=1), (weight * log_time).sum(axis=1)
    away, log_time = away - mean[:, None], log_time - mean_time[:, None]
    both = (weight * away * log_time).sum(axis=1) + _RIDGE * _SLOPE
    slope = both / ((weight * away**2).sum(axis=1) + _RIDGE)
    found: Floats = mean_time - slope * mean
    return found
