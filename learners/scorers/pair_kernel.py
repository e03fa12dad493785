"""The terms and the score of a pair, compiled by numba, with the numbers of `PairScorer.scores`.

The fast model of a chunk is built of them, and decisions of the engine.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.machine_code import allocating
from simkit.policy import remaining_work as terms

__all__ = ["PAPER", "TERMS", "Scratch", "Weights", "begin", "hidden", "horizon_s", "make_scratch",
           "match_fit", "match_urgency", "see_match", "see_moment", "see_task", "seen_as",
           "surplus", "weighted", "weights_of"]  # fmt: skip

PAPER: Final = 0
TERMS: Final = 1
"""Numbers of the feature sets."""


horizon_s: Any = allocating(terms.horizon_s)
surplus: Any = allocating(terms.surplus)
_task_urgency: Any = allocating(terms.task_urgency)
match_urgency: Any = allocating(terms.match_urgency)
_task_fit: Any = allocating(terms.task_fit)
match_fit: Any = allocating(terms.match_fit)
_moment_fit: Any = allocating(terms.moment_fit)


class Weights(NamedTuple):
    """A scorer's, as in `PairScorer`."""

    features: int
    plain: bool
    """Whether features are taken as they are: each shift is 0, each scale 1."""
    shift: Floats
    scale: Floats
    widths: Ints
    flat: Floats


class Scratch(NamedTuple):
    """Space to calculate in."""

    before: Floats
    after: Floats
    asked: Floats
    """(R,) the request as a share of the machine."""
    spare: Floats
    """(R,) what is free as a share of the machine."""
    work: Floats
    """(R,) remaining work."""
    above: Floats
    """(R,) how far each resource's is above the mean."""


def weights_of(scorer: PairScorer) -> Weights:
    """Return a scorer as the compiled functions take it."""
    kind = {"paper": PAPER, "terms": TERMS}[scorer.features]
    plain = not scorer.shift.any() and bool((scorer.scale == 1.0).all())
    return Weights(kind, plain, scorer.shift, scorer.scale, np.array(scorer.widths), scorer.flat)


@allocating
def make_scratch(weights: Weights, resources: int) -> Scratch:
    """Return space for the pairs of a scorer."""
    widest = weights.widths.max()
    return Scratch(
        np.empty(widest), np.empty(widest), np.empty(resources), np.empty(resources),
        np.empty(resources), np.empty(resources),
    )  # fmt: skip


# A pair's terms as the network sees them, in the order of `pair_scorer.TERMS`: places 0-2 and 5-7
# are of the task, 3-4 and 8-13 of request and machine.


@allocating
def seen_as(feature: float, place: int, weights: Weights) -> float:
    """Return a feature as the network sees it; divisions take time."""
    if weights.plain:
        return feature
    return (feature - weights.shift[place]) / weights.scale[place]  # type: ignore[no-any-return]


@allocating
def see_task(
    seen: Floats, hold: float, left: float, share: float, horizon: float, longest: float,
    weights: Weights,
) -> None:  # fmt: skip
    """Put a task's terms into (F,) `seen`."""
    first, second = _task_urgency(hold, left, share, horizon), _task_fit(hold, left, longest)
    for k in range(3):
        seen[k] = seen_as(first[k], k, weights)
        seen[5 + k] = seen_as(second[k], 5 + k, weights)


@allocating
def see_match(
    seen: Floats, request: Floats, free: Floats, capacity: Floats, scratch: Scratch,
    weights: Weights,
) -> None:  # fmt: skip
    """Put the terms of a request on a machine into (F,) `seen`; the other arrays are (R,)."""
    asked, spare, above = scratch.asked, scratch.spare, scratch.above
    for k in range(len(asked)):
        largest = capacity[k] if capacity[k] > 0 else 1.0
        asked[k], spare[k] = request[k] / largest, free[k] / largest
    first = match_urgency(asked, spare, above)
    second = match_fit(asked, spare, above)
    for k in range(2):
        seen[3 + k] = seen_as(first[k], 3 + k, weights)
    for k in range(6):
        seen[8 + k] = seen_as(second[k], 8 + k, weights)


@allocating
def see_moment(seen: Floats, horizon: float, above: Floats, weights: Weights) -> None:
    """Put the terms that all pairs share into (F,) `seen`."""
    found = _moment_fit(above, horizon)
    for k in range(2):
        seen[14 + k] = seen_as(found[k], 14 + k, weights)


@allocating
def begin(scratch: Scratch) -> float:
    """Return the horizon, and fill `above`, by the remaining work in `scratch`."""
    surplus(scratch.work, scratch.above)
    horizon: float = horizon_s(scratch.work)
    return horizon


@allocating
def weighted(seen: Floats, flat: Floats) -> float:
    """Return the weighted sum of (F,) features as the network sees them."""
    total = 0.0
    for k in range(len(seen)):
        total += seen[k] * flat[k]
    return total


@allocating
def hidden(seen: Floats, scratch: Scratch, weights: Weights) -> float:
    """Return what the tanh layers add for (F,) features.

    Callers run it in a loop of its own. Within the loop that computes the weighted sums it makes
    them three times slower, even for scorers that have no layers and never get here.
    """
    before, after, widths, flat = scratch.before, scratch.after, weights.widths, weights.flat
    layers, place = len(widths) - 1, len(seen)
    for k in range(len(seen)):
        before[k] = seen[k]
    for layer in range(layers):
        inputs, outputs = widths[layer], widths[layer + 1]
        bias = place + inputs * outputs
        for j in range(outputs):
            after[j] = before[0] * flat[place + j]
        for k in range(1, inputs):
            for j in range(outputs):
                after[j] += before[k] * flat[place + k * outputs + j]
        for j in range(outputs):
            after[j] += flat[bias + j]
            before[j] = np.tanh(after[j]) if layer + 1 < layers else after[j]
        place = bias + outputs
    return before[0]  # type: ignore[no-any-return]
