"""The terms and the score of a pair, compiled by numba, with the numbers of `PairScorer.scores`.

The fast model of a chunk is built of them; `score_pairs` is what a decision of the engine calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import numba
import numpy as np

from simkit.arrays import Floats, Ints
from simkit.policy import remaining_work as terms

__all__ = ["PAPER", "TERMS", "Scratch", "Weights", "begin", "compiled", "hidden", "make_scratch",
           "score_pairs", "see_match", "see_moment", "see_task", "seen_as", "weighted"]  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])

PAPER: Final = 0
TERMS: Final = 1
"""Numbers of the feature sets."""


def compiled(function: Function) -> Function:
    """Return the function as machine code, made when it is first called."""
    made: Function = numba.njit(function, error_model="numpy")  # nothing here divides by 0
    return made


_horizon_s: Any = compiled(terms.horizon_s)
_surplus: Any = compiled(terms.surplus)
_task_urgency: Any = compiled(terms.task_urgency)
_match_urgency: Any = compiled(terms.match_urgency)
_task_fit: Any = compiled(terms.task_fit)
_match_fit: Any = compiled(terms.match_fit)
_moment_fit: Any = compiled(terms.moment_fit)


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


@compiled
def make_scratch(weights: Weights, resources: int) -> Scratch:
    """Return space for the pairs of a scorer."""
    widest = weights.widths.max()
    return Scratch(
        np.empty(widest), np.empty(widest), np.empty(resources), np.empty(resources),
        np.empty(resources), np.empty(resources),
    )  # fmt: skip


# A pair's terms as the network sees them, in the order of `simkit.learners.pairs.scorer.TERMS`:
# places 0-2 and 5-7 are of the task, 3-4 and 8-13 of request and machine.


@compiled
def seen_as(feature: float, place: int, weights: Weights) -> float:
    """Return a feature as the network sees it; divisions take time."""
    if weights.plain:
        return feature
    return (feature - weights.shift[place]) / weights.scale[place]  # type: ignore[no-any-return]


@compiled
def see_task(
    seen: Floats, hold: float, left: float, share: float, horizon: float, longest: float,
    weights: Weights,
) -> None:  # fmt: skip
    """Put a task's terms into (F,) `seen`."""
    first, second = _task_urgency(hold, left, share, horizon), _task_fit(hold, left, longest)
    for k in range(3):
        seen[k] = seen_as(first[k], k, weights)
        seen[5 + k] = seen_as(second[k], 5 + k, weights)


@compiled
def see_match(
    seen: Floats, request: Floats, free: Floats, capacity: Floats, asked: Floats, spare: Floats,
    above: Floats, weights: Weights,
) -> None:  # fmt: skip
    """Put the terms of a request on a machine into (F,) `seen`; the other arrays are (R,).

    `asked` and `spare` are scratch space, as in `Scratch`.
    """
    for k in range(len(asked)):
        largest = capacity[k] if capacity[k] > 0 else 1.0
        asked[k], spare[k] = request[k] / largest, free[k] / largest
    first = _match_urgency(asked, spare, above)
    second = _match_fit(asked, spare, above)
    for k in range(2):
        seen[3 + k] = seen_as(first[k], 3 + k, weights)
    for k in range(6):
        seen[8 + k] = seen_as(second[k], 8 + k, weights)


@compiled
def see_moment(seen: Floats, horizon: float, above: Floats, weights: Weights) -> None:
    """Put the terms that all pairs share into (F,) `seen`."""
    found = _moment_fit(above, horizon)
    for k in range(2):
        seen[14 + k] = seen_as(found[k], 14 + k, weights)


@compiled
def begin(scratch: Scratch) -> float:
    """Return the horizon, and fill `above`, by the remaining work in `scratch`."""
    _surplus(scratch.work, scratch.above)
    horizon: float = _horizon_s(scratch.work)
    return horizon


@compiled
def weighted(seen: Floats, flat: Floats) -> float:
    """Return the weighted sum of (F,) features as the network sees them."""
    total = 0.0
    for k in range(len(seen)):
        total += seen[k] * flat[k]
    return total


@compiled
def hidden(seen: Floats, before: Floats, after: Floats, widths: Ints, flat: Floats) -> float:
    """Return what the tanh layers add for (F,) features; `before` and `after` are scratch space.

    Callers run it in a loop of its own. Within the loop that computes the weighted sums it makes
    them three times slower, even for scorers that have no layers and never get here.
    """
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


@compiled
def score_pairs(
    hold: Floats, left: Floats, request: Floats, free: Floats, capacity: Floats, total: Floats,
    work: Floats, longest: float, weights: Weights,
) -> Floats:  # fmt: skip
    """Return (P,) scores.

    Args:
        hold: (P,) time for which an instance holds its machine.
        left: (P,) instances of the task.
        request: (P, R)
        free: (P, R) on the machine.
        capacity: (P, R) of the machine.
        total: (R,) the cluster's capacity, above 0.
        work: (R,) remaining work.
        longest: the longest time for which a waiting task holds a machine.
        weights: of a scorer whose features are terms.
    """
    scores, seen = np.empty(len(hold)), np.empty(len(weights.shift))
    deep = len(weights.widths) > 1
    table = np.empty((len(hold) if deep else 0, len(seen)))
    scratch = make_scratch(weights, len(total))
    scratch.work[:] = work
    before, after, asked, spare = scratch.before, scratch.after, scratch.asked, scratch.spare
    above, widths, flat = scratch.above, weights.widths, weights.flat
    horizon = begin(scratch)
    see_moment(seen, horizon, above, weights)
    # Many tasks ask for the same: a match that was seen before is looked up.
    known = np.full(_MATCHES, -1)
    matches = np.empty((_MATCHES, len(seen) + 1))
    request_bits, free_bits = request.view(np.uint64), free.view(np.uint64)
    for pair in range(len(hold)):
        place = _place_of(request_bits[pair], free_bits[pair])
        match, other = matches[place], known[place]
        if other < 0 or _differ(pair, other, request, free, capacity):
            known[place] = pair
            see_match(
                match, request[pair], free[pair], capacity[pair], asked, spare, above, weights
            )
            share = request[pair, 0] / total[0]
            for k in range(1, len(total)):
                share = max(share, request[pair, k] / total[k])
            match[len(seen)] = share
        seen[3], seen[4] = match[3], match[4]
        for k in range(8, 14):
            seen[k] = match[k]
        see_task(seen, hold[pair], left[pair], match[len(seen)], horizon, longest, weights)
        scores[pair] = weighted(seen, flat)
        if deep:
            table[pair] = seen
    for pair in range(len(table)):
        scores[pair] += hidden(table[pair], before, after, widths, flat)
    return scores


_MATCHES: Final = 512
"""Requests on machines whose terms are remembered; a later one takes the place of an earlier."""


@compiled
def _place_of(request: Any, free: Any) -> int:
    """Return a hash of the bits of (R,) amounts, from 0 to `_MATCHES` - 1."""
    mixed = np.uint64(0)
    for k in range(len(request)):
        mixed = (mixed ^ request[k]) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ free[k]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return int(mixed & np.uint64(_MATCHES - 1))


@compiled
def _differ(one: int, other: int, request: Floats, free: Floats, capacity: Floats) -> bool:
    """Return whether two pairs differ in request or machine."""
    for k in range(request.shape[1]):
        if (
            request[one, k] != request[other, k]
            or free[one, k] != free[other, k]
            or capacity[one, k] != capacity[other, k]
        ):
            return True
    return False
