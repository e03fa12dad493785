"""Ratios of two candidates, and the value of an agent relative to a rule of equal cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from simkit.analysis.intervals import set_interval
from simkit.arrays import Floats
from simkit.learners.reproductions.green.judge import (
    THRESHOLDS,
    Gap,
    column,
    mean,
    paired,
    threshold_of,
)

__all__ = ["EqualCost", "Ratio", "at_equal_cost", "gap_at_equal_cost", "ratio"]

_LEAST_POSITIVE = 0.75
"""Least share of streams with a denominator above 0 for an interval; with fewer, a resample may
have none."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of two means over streams, with a 95 % interval; infinite bounds if it has none."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "–"
        if not np.isfinite(self.low):
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"

    @property
    def gain(self) -> Gap:
        """Percent by which the first mean is above the second."""
        return Gap(*(100.0 * (each - 1.0) for each in (self.value, self.low, self.high)))


def ratio(table: pl.DataFrame, candidate: str, baseline: str, name: str = "value") -> Ratio:
    """Return the ratio of a candidate's mean to a baseline's on the same streams.

    It is not a number if the baseline's mean is 0.
    """
    mine, other = column(table, candidate, name), column(table, baseline, name)
    if not other.sum() > 0:
        return Ratio(np.nan, -np.inf, np.inf)
    value = float(mine.sum() / other.sum())
    if (other > 0).mean() < _LEAST_POSITIVE:
        return Ratio(value, -np.inf, np.inf)
    interval = set_interval(mine, other)
    if interval.low is None or interval.high is None:
        return Ratio(value, -np.inf, np.inf)
    return Ratio(value, interval.low, interval.high)


@dataclass(frozen=True)
class EqualCost:
    """The threshold rule of a given cost."""

    values: Floats
    """(S,) its value ratios, stream by stream."""
    words: str
    """The two θ between which it is."""
    exists: bool
    """Whether it is between two rules; otherwise it is the cheapest or the dearest one."""


def at_equal_cost(table: pl.DataFrame, cost: float) -> EqualCost:
    """Return the threshold rule of a cost: between the two whose mean costs enclose it.

    Its value ratios are interpolated stream by stream, linearly in the mean cost. Beyond the
    cheapest or the dearest rule it is that rule itself.

    Args:
        table: as `judge.judged` returns it, with all threshold rules.
        cost: waiting jobs, mean over the hours.
    """
    costs = {theta: mean(table, threshold_of(theta), "cost") for theta in THRESHOLDS}
    order = sorted(costs, key=costs.__getitem__)
    for end, is_beyond, word in (
        (order[0], cost < costs[order[0]], "cheapest"),
        (order[-1], cost > costs[order[-1]], "dearest"),
    ):
        if is_beyond:
            values = column(table, threshold_of(end))
            return EqualCost(values, f"{end:.2f}, the {word}", exists=False)
    after = max(int(np.searchsorted([costs[theta] for theta in order], cost)), 1)
    below, above = order[after - 1], order[after]
    width = costs[above] - costs[below]
    share = (cost - costs[below]) / width if width > 0 else 0.0
    values = (1.0 - share) * column(table, threshold_of(below))
    values += share * column(table, threshold_of(above))
    return EqualCost(values, f"{below:.2f} to {above:.2f}", exists=True)


def gap_at_equal_cost(table: pl.DataFrame, candidate: str) -> Gap:
    """Return by how much a candidate's value exceeds that of the threshold rule of equal cost."""
    rule = at_equal_cost(table, mean(table, candidate, "cost"))
    return paired(column(table, candidate), rule.values)
