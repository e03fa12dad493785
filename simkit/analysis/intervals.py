"""Confidence intervals: by resampling weeks or job sets, over seeds, or over both.

Jobs that wait together wait alike: they are not an independent sample, and an interval from
resampling single jobs is far too narrow. Whole weeks of submission are nearly independent and hold
the weekly rhythm of a log, so weeks are resampled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import Final, Literal

import numpy as np

from simkit.arrays import Floats, Ints, stream
from simkit.text import counted

WEEK_S: Final = 7 * 86400.0
_FEW_BLOCKS: Final = 10
"""With fewer weeks, an interval is rough and says so."""
_FEWEST_BLOCKS: Final = 5
"""With fewer weeks there is no interval: resamples of so few weeks are mostly one week repeated,
whose standard error is 0, and the interval would be a point or infinite."""
_LEAST_POSITIVE: Final = 0.75
"""Least share of blocks with a denominator above 0."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval for a mean; the bounds are None if there is none."""

    low: float | None
    high: float | None
    level: float
    method: str
    """How it was made, for people."""
    blocks: int
    """Weeks or seeds that it rests on."""


def weeks_of(submit_time_s: Floats) -> Ints:
    """Return the week of each submit time (s), counted from the first one."""
    if not len(submit_time_s):
        return np.empty(0, np.int64)
    week: Ints = ((submit_time_s - submit_time_s.min()) // WEEK_S).astype(np.int64)
    return week


def weekly_interval(
    values: Floats,
    submit_time_s: Floats,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return a studentised block-bootstrap interval for the mean of autocorrelated values.

    Weeks are drawn with replacement. A resample's mean is the ratio of its sum and its count, as
    weeks differ in jobs; its distance from the mean is measured in its own standard error. If
    neighbouring weeks are alike, blocks of 2, 4, … weeks are drawn instead, while enough blocks
    remain. Weeks without a job are left out. Sources: Künsch, "The
    jackknife and the bootstrap for general stationary observations", 1989; Hall, "Theoretical
    comparison of bootstrap confidence intervals", 1988.

    Args:
        values: (n,) one value a job.
        submit_time_s: (n,) when each was submitted, in s.
        level: of confidence, between 0 and 1.
        resamples: number of resamples.
        seed: the same seed gives the same interval.
    """
    sums, counts, width = _blocks(values, weeks_of(submit_time_s))
    blocks = len(counts)
    if blocks < _FEWEST_BLOCKS:
        method = (
            f"none: {counted(blocks, 'week')} of submission, at least {_FEWEST_BLOCKS} are needed"
        )
        return Interval(None, None, level, method, blocks)
    mean = float(sums.sum() / counts.sum())
    method = _method(sums - mean * counts, width, resamples)
    return _studentised(sums, counts, level, resamples, seed, method)


def set_interval(
    sums: Floats,
    counts: Floats,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return a studentised bootstrap interval for a mean over independent job sets.

    Sets are drawn with replacement; a resample's mean is the ratio of its sum and its count: the
    mean over sets if each count is 1, the mean over all jobs if it is the number of jobs. Sources:
    as for `weekly_interval`.

    Args:
        sums: (S,) sum of the values of each set.
        counts: (S,) number of values of each set, above 0.
        level: of confidence, between 0 and 1.
        resamples: number of resamples.
        seed: the same seed gives the same interval.
    """
    sets = len(counts)
    if sets < _FEWEST_BLOCKS:
        method = f"none: {counted(sets, 'job set')}, at least {_FEWEST_BLOCKS} are needed"
        return Interval(None, None, level, method, sets)
    method = f"bootstrap over {sets} job sets, {resamples} resamples, studentised"
    if sets < _FEW_BLOCKS:
        method += "; rough, as there are few"
    return _studentised(sums, counts, level, resamples, seed, method)


def _studentised(
    sums: Floats, counts: Floats, level: float, resamples: int, seed: int, method: str
) -> Interval:
    """Return the interval for the ratio of the sums of blocks, drawn with replacement."""
    blocks = len(counts)
    mean, error = _mean_and_error(sums, counts, np.ones((1, blocks)))
    means, errors = _mean_and_error(sums, counts, _draws(blocks, resamples, seed))
    usable = errors > 1e-12 * max(abs(float(mean[0])), float(error[0]))
    if not usable.any():  # all blocks alike: nothing varies
        return Interval(float(mean[0]), float(mean[0]), level, method, blocks)
    scaled = (means[usable] - mean) / errors[usable]
    tail = (1 - level) / 2
    below, above = np.quantile(scaled, (tail, 1 - tail))
    low, high = mean[0] - above * error[0], mean[0] - below * error[0]
    return Interval(float(low), float(high), level, method, blocks)


@lru_cache(maxsize=4)
def _draws(blocks: int, resamples: int, seed: int) -> Floats:
    """Return (resamples, blocks) how often each resample holds each block; a page asks often."""
    draws = stream(seed, "bootstrap").multinomial(blocks, np.full(blocks, 1 / blocks), resamples)
    return draws.astype(np.float64)


def seed_interval(differences: Floats, *, level: float = 0.95) -> Interval:
    """Return Student's t-interval for the mean over seeds, one independent value a seed."""
    from scipy.stats import t

    seeds = len(differences)
    if seeds < 2:
        return Interval(None, None, level, f"none: there is {seeds} seed", seeds)
    mean = float(differences.mean())
    half = float(t.ppf((1 + level) / 2, seeds - 1) * differences.std(ddof=1) / np.sqrt(seeds))
    method = f"t-interval over {seeds} seeds, runs paired by seed"
    return Interval(mean - half, mean + half, level, method, seeds)


Relation = Literal["mean", "difference", "ratio", "geometric ratio"]


@dataclass(frozen=True)
class Estimate:
    """A mean, difference or ratio with its 95 % interval; the bounds are None if it has none."""

    value: float
    low: float | None = None
    high: float | None = None
    by_seed: tuple[float, ...] = ()
    """The same for each training seed alone; empty if there is one at most."""

    def __format__(self, spec: str) -> str:
        """Return ``1.20 (1.10 to 1.30)``, each number by the spec, or the value alone.

        A ratio to nothing is ``–``.
        """
        if isnan(self.value):
            return "–"
        value = format(self.value, spec)
        if self.low is None or self.high is None:
            return value
        return f"{value} ({self.low:{spec}} to {self.high:{spec}})"

    def scaled(self, factor: float, offset: float = 0.0) -> Estimate:
        """Return factor × the estimate + offset, for points and percentages; factor > 0."""
        low, high = (
            None if bound is None else factor * bound + offset for bound in (self.low, self.high)
        )
        seeds = tuple(factor * each + offset for each in self.by_seed)
        return Estimate(factor * self.value + offset, low, high, seeds)

    def exp(self) -> Estimate:
        """Return e to the power of the estimate: what a mean of logarithms stands for."""
        low, high = (
            None if bound is None else float(np.exp(bound)) for bound in (self.low, self.high)
        )
        seeds = tuple(float(np.exp(each)) for each in self.by_seed)
        return Estimate(float(np.exp(self.value)), low, high, seeds)

    def surely(self, above: float) -> bool:
        """Return whether the whole interval is above a number."""
        return self.low is not None and self.low > above

    def surely_below(self, bound: float) -> bool:
        """Return whether the whole interval is below a number."""
        return self.high is not None and self.high < bound


def estimate(
    mine: Floats,
    counts: Floats,
    other: Floats | None = None,
    *,
    relation: Relation = "mean",
    blocks: Ints | None = None,
    over_items: Sequence[float] | None = None,
) -> Estimate:
    """Return a statistic of one candidate, or of two on the same items, with its interval.

    The interval covers both the choice of the items and that of the training seeds. Over items it
    is `set_interval`'s, or over blocks of them if items overlap. Several seeds widen it by
    Student's interval of their mean, as independent errors add up: the squares of the distances to
    the bounds. Ratios are treated as logarithms. Source: Zou and Donner, "Construction of
    confidence limits about effect measures: a general approach", 2008 (MOVER).

    With fewer than five blocks the interval is that over seeds alone, if there are several. A ratio
    to 0 is not a number; one to a number that is above 0 in fewer than 75 % of the blocks has no
    interval, as a resample may lack them all. Neither has an infinite value, of what never ended.

    Args:
        mine: (S, I) sum of the values of each training seed (1 for a rule) and item.
        counts: (I,) or (S, I) number of values, above 0.
        other: (R, I) sums of the candidate to compare with; R is 1 or S, then paired by seed.
        relation: of the means over all values: ``mean`` of the first alone, ``difference``,
            ``ratio``; ``geometric ratio`` of the items' means.
        blocks: (I,) block of each item; by default each is its own.
        over_items: the bounds over items, if they are known and the items are not.
    """
    counts = np.broadcast_to(counts, mine.shape)
    parts = _parts(mine.mean(axis=0), counts.mean(axis=0), _mean_seed(other), relation)
    if blocks is not None:
        _, place = np.unique(blocks, return_inverse=True)
        above, below = (np.bincount(place, part).astype(np.float64) for part in parts)
        parts = above, below
    value = _statistic(parts, relation)
    if (parts[1] > 0).mean() < _LEAST_POSITIVE:
        return Estimate(value)
    alone = [
        _statistic(_parts(mine[seed], counts[seed], _of_seed(other, seed), relation), relation)
        for seed in range(len(mine) if len(mine) > 1 else 0)
    ]
    if np.isinf(value):
        return Estimate(value, by_seed=tuple(alone))
    found = set_interval(*parts)
    low, high = found.low, found.high
    if relation == "geometric ratio" and low is not None and high is not None:
        low, high = float(np.exp(low)), float(np.exp(high))
    if over_items is not None:
        low, high = over_items
    if alone and not np.isnan(alone).any():
        in_logs = relation in ("ratio", "geometric ratio")
        low, high = _widened(value, low, high, np.array(alone), in_logs=in_logs)
    return Estimate(value, low, high, tuple(alone))


def _mean_seed(other: Floats | None) -> Floats | None:
    return None if other is None else np.asarray(other.mean(axis=0), np.float64)


def _of_seed(other: Floats | None, seed: int) -> Floats | None:
    return None if other is None else np.asarray(other[min(seed, len(other) - 1)], np.float64)


def _parts(
    mine: Floats, counts: Floats, other: Floats | None, relation: Relation
) -> tuple[Floats, Floats]:
    """Return (I,) numerators and denominators: the ratio of their sums is the statistic.

    Of a geometric ratio it is the logarithm.
    """
    if other is None:
        return mine, counts
    if relation == "difference":
        return mine - other, counts
    if relation == "ratio":
        return mine, other
    return np.log(mine / other), np.ones(len(mine))


def _statistic(parts: tuple[Floats, Floats], relation: Relation) -> float:
    total = float(parts[1].sum())
    value = float(parts[0].sum()) / total if total > 0 else float("nan")
    return float(np.exp(value)) if relation == "geometric ratio" else value


def _widened(
    value: float, low: float | None, high: float | None, seeds: Floats, *, in_logs: bool
) -> tuple[float | None, float | None]:
    """Return the bounds over items, widened by the interval of the mean over seeds."""
    if in_logs and min(value, *seeds, *(b for b in (low, high) if b is not None)) <= 0:
        return low, high  # a ratio of 0 has no logarithm
    numbers = np.log(seeds) if in_logs else seeds
    found, centre = seed_interval(numbers), float(np.log(value) if in_logs else value)
    assert found.low is not None and found.high is not None  # noqa: PT018 - two seeds at least
    half, bounds = (found.high - found.low) / 2, []
    for bound, sign in ((low, -1.0), (high, 1.0)):
        apart = 0.0 if bound is None else abs(float(np.log(bound) if in_logs else bound) - centre)
        moved = centre + sign * float(np.hypot(apart, half))
        bounds.append(float(np.exp(moved)) if in_logs else moved)
    return bounds[0], bounds[1]


def _blocks(values: Floats, week: Ints) -> tuple[Floats, Floats, int]:
    """Return sum and count of each block that has a value, and a block's length in weeks."""
    width = 1
    while True:
        block = week // width
        counts = np.bincount(block).astype(np.float64)
        sums = np.bincount(block, weights=values).astype(np.float64)
        sums, counts = sums[counts > 0], counts[counts > 0]
        mean = sums.sum() / max(counts.sum(), 1.0)
        if len(counts) < 4 * _FEW_BLOCKS or not _alike(sums - mean * counts):
            return sums, counts, width
        width *= 2


def _method(residuals: Floats, width: int, resamples: int) -> str:
    blocks = len(residuals)
    what = f"{blocks} weeks" if width == 1 else f"{blocks} blocks of {width} weeks"
    method = f"bootstrap over {what} of submission, {resamples} resamples, studentised"
    if blocks < _FEW_BLOCKS:
        method += "; rough, as there are few weeks"
    if _alike(residuals):
        method += "; rather too narrow, as neighbouring weeks are alike"
    return method


def _alike(residuals: Floats) -> bool:
    """Return whether neighbouring blocks correlate by more than twice the standard error."""
    squares = float((residuals**2).sum())
    products = float((residuals[1:] * residuals[:-1]).sum())
    return squares > 0 and products / squares > 2 / np.sqrt(len(residuals))


def _mean_and_error(sums: Floats, counts: Floats, draws: Floats) -> tuple[Floats, Floats]:
    """Return each resample's ratio of sums and its standard error.

    Args:
        sums: (weeks,) sum of the values of each week.
        counts: (weeks,) number of values of each week.
        draws: (resamples, weeks) how often each resample holds each week.

    The error is that of a ratio estimator (Cochran, "Sampling Techniques", 1977, section 6.4).
    """
    weeks, total = len(counts), draws @ counts
    mean = (draws @ sums) / total
    # sum of draws * (sums - mean * counts)^2, without a (resamples, weeks) table of residuals
    squares = draws @ sums**2 - 2 * mean * (draws @ (sums * counts)) + mean**2 * (draws @ counts**2)
    return mean, np.sqrt(np.maximum(squares, 0.0) * weeks / (weeks - 1)) / total
