"""Learning curves of the Sofia study: changes, samples to a level, and savings."""

from __future__ import annotations

from typing import Final

import numpy as np

from simkit.analysis.intervals import Estimate, estimate
from simkit.arrays import Floats
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.trainings import LOOKS

SLOWDOWN: Final = "held_out_slowdown"
RETURN: Final = "held_out_return"


def curve(results: Results, metric: str, arm: str) -> Floats:
    """Return (S, L) values of a metric by seed and evaluation, in the order of the training."""
    mine = results.rows.filter(
        metric=metric,
        arm=arm,
        case=results.rows["case"].is_in(["untrained", "training", "trained"]),
    ).sort("seed", "item")
    return mine["value"].to_numpy().reshape(mine["seed"].n_unique(), -1)


def smooth(values: Floats) -> Floats:
    """Return (S, L) means of each value and the `LOOKS` - 1 before it, fewer at the beginning."""
    sums = np.cumsum(values, axis=1)
    sums[:, LOOKS:] = sums[:, LOOKS:] - sums[:, :-LOOKS]
    result: Floats = sums / np.minimum(np.arange(1, values.shape[1] + 1), LOOKS)
    return result


def samples_to(level: float, values: Floats, decisions: Floats) -> float:
    """Return the decisions at the first evaluation that is at or below a level; nan: none is.

    Args:
        level: the highest value that meets it.
        values: (L,) of the evaluations, smoothed.
        decisions: (L,) taken in training until each of them.
    """
    met = np.flatnonzero(values <= level)
    return float(decisions[met[0]]) if len(met) else np.nan


def change(results: Results, metric: str, arm: str) -> Estimate:
    """Return by how many percent training changes a held-out value; the interval is over seeds."""
    ends, begins = (
        results.values(metric, arm, case)[0].mean(axis=1, keepdims=True)
        for case in ("trained", "untrained")
    )
    return estimate(ends, np.ones(1), begins, relation="ratio").scaled(100, -100)


def shares(results: Results, arm: str, other: str) -> Floats:
    """Return (S,) samples that one arm needs for the same return, as shares of another's.

    Seed by seed, that return is the worse of the two final ones, and each training's samples count
    until it first reaches it.
    """
    losses = [-smooth(curve(results, RETURN, one)) for one in (arm, other)]
    decisions = [curve(results, "decisions", one) for one in (arm, other)]
    levels = np.maximum(losses[0][:, -1], losses[1][:, -1])
    mine, theirs = (
        np.array([max(samples_to(*one), 1.0) for one in zip(levels, *both, strict=True)])
        for both in zip(losses, decisions, strict=True)
    )
    result: Floats = mine / theirs
    return result


def saving(results: Results, arm: str, other: str) -> Estimate:
    """Return the geometric mean of `shares`, with Student's interval over seeds."""
    found = estimate(np.log(shares(results, arm, other))[:, None], np.ones(1))
    low, high = (None if x is None else float(np.exp(x)) for x in (found.low, found.high))
    return Estimate(float(np.exp(found.value)), low, high, tuple(np.exp(found.by_seed).tolist()))
