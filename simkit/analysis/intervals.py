"""Confidence intervals for a mean over jobs: by resampling weeks, or over seeds.

Jobs that wait together wait alike: they are not an independent sample, and an interval from
resampling single jobs is far too narrow. Whole weeks of submission are nearly independent and hold
the weekly rhythm of a log, so weeks are resampled here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simkit.arrays import Floats, Ints, stream
from simkit.text import counted

WEEK_S: Final = 7 * 86400.0
_FEW_BLOCKS: Final = 10
"""With fewer weeks, an interval is rough and says so."""
_FEWEST_BLOCKS: Final = 5
"""With fewer weeks there is no interval: resamples of so few weeks are mostly one week repeated,
whose standard error is 0, and the interval would be a point or infinite."""


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
    draws = stream(seed, "bootstrap").multinomial(blocks, np.full(blocks, 1 / blocks), resamples)
    means, errors = _mean_and_error(sums, counts, draws.astype(np.float64))
    usable = errors > 1e-12 * max(abs(float(mean[0])), float(error[0]))
    if not usable.any():  # all blocks alike: nothing varies
        return Interval(float(mean[0]), float(mean[0]), level, method, blocks)
    scaled = (means[usable] - mean) / errors[usable]
    tail = (1 - level) / 2
    below, above = np.quantile(scaled, (tail, 1 - tail))
    low, high = mean[0] - above * error[0], mean[0] - below * error[0]
    return Interval(float(low), float(high), level, method, blocks)


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
