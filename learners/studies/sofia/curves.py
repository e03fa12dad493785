"""Learning curves of the Sofia study: changes, samples to a level, and savings."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Estimate, estimate
from simkit.arrays import Floats
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.trainings import LOOKS

SLOWDOWN: Final = "held_out_slowdown"
RETURN: Final = "held_out_return"


def curve(results: Results, metric: str, arm: str) -> Floats:
    """Return (S, L) values of a metric by seed and evaluation, in the order of the training."""
    cases = pl.col("case").is_in(["untrained", "training", "trained"])
    mine = results.rows.filter(cases, metric=metric, arm=arm).sort("seed", "item")
    return mine["value"].to_numpy().reshape(mine["seed"].n_unique(), -1)


def smooth(values: Floats) -> Floats:
    """Return (S, L) means of each value and the `LOOKS` - 1 before it, fewer at the beginning."""
    sums = np.cumsum(values, axis=1)
    sums[:, LOOKS:] = sums[:, LOOKS:] - sums[:, :-LOOKS]
    result: Floats = sums / np.minimum(np.arange(1, values.shape[1] + 1), LOOKS)
    return result


def samples_to(level: float, values: Floats, decisions: Floats) -> float:
    """Return the decisions until the first evaluation at or below a level; nan: none is.

    Args:
        level: the highest value that counts.
        values: (L,) of the evaluations, smoothed.
        decisions: (L,) taken in training until each of them.
    """
    met = np.flatnonzero(values <= level)
    return float(decisions[met[0]]) if len(met) else np.nan


def change(results: Results, metric: str, arm: str) -> Estimate:
    """Return by how many percent training changes the size of a value, with seeds' interval."""
    ends, begins = (
        np.abs(results.values(metric, arm, case)[0].mean(axis=1, keepdims=True))
        for case in ("trained", "untrained")
    )
    return estimate(ends, np.ones(1), begins, relation="ratio").scaled(100, -100)


def saving(results: Results, arm: str, other: str, factor: float = 1.0) -> Estimate:
    """Return factor × the samples that one arm needs for the same return / those of another.

    Seed by seed, that return is the worse of the two final ones, and each training's samples count
    until it first reaches it. The mean over seeds is geometric, the interval Student's.
    """
    losses = [-smooth(curve(results, RETURN, one)) for one in (arm, other)]
    levels = np.maximum(losses[0][:, -1], losses[1][:, -1])
    mine, theirs = (
        [max(samples_to(*seed), 1.0) for seed in zip(levels, values, decisions, strict=True)]
        for values, decisions in zip(
            losses, (curve(results, "decisions", one) for one in (arm, other)), strict=True
        )
    )
    shares = np.array(mine) / theirs
    found = estimate(np.log(shares)[:, None], np.ones(1))
    low, high = (None if x is None else float(np.exp(x)) for x in (found.low, found.high))
    whole = Estimate(float(np.exp(found.value)), low, high, tuple(shares.tolist()))
    return whole.scaled(factor)
