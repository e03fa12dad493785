"""What is possible on a chunk: a lower bound on makespans, and a lookahead over rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simkit.arrays import Ints
from simkit.learners.scorers.cloudsimpy_kernel import (
    Progress,
    Tasks,
    nothing_done,
    nothing_placed,
    nothing_runs,
    play_on,
)
from simkit.learners.scorers.pair_model import TERMS, Chunk, Outcome, tasks_of
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.machine_code import allocating, kernels

__all__ = ["LookedAhead", "look_ahead", "lower_bound"]


def lower_bound(chunk: Chunk) -> float:
    """Return a number of ticks that no schedule's makespan can be below.

    What is first seen at a tick T or later begins no sooner: so T plus the time of the longest
    instance, and T plus the work of all of it over the cluster's capacity, of any resource, are
    bounds, for each T.
    """
    if not len(chunk.seen):
        return 0.0
    total = chunk.capacity.sum(axis=0)
    total[total <= 0] = 1.0  # nobody asks for what there is none of
    work = (chunk.instances * chunk.hold)[:, None] * chunk.request / total
    to_come = work[::-1].cumsum(axis=0)[::-1].max(axis=1)
    longest = np.maximum.accumulate(chunk.hold[::-1])[::-1]
    first = np.searchsorted(chunk.seen, chunk.seen)  # what is seen together counts together
    return float((chunk.seen + np.ceil(np.maximum(to_come, longest)[first] - 1e-9)).max())


@dataclass(frozen=True)
class LookedAhead(Outcome):
    """How a chunk was scheduled by the lookahead."""

    chosen: Ints
    """(rules,) how often each was chosen."""


def look_ahead(chunk: Chunk, rules: Sequence[PairScorer], most: int = 4) -> LookedAhead:
    """Place by the rule that, whenever jobs are first seen, ends what is known soonest.

    Then the tasks that are known are played to their end under each rule.

    Args:
        chunk: the tasks and machines.
        rules: at least one; ties keep the present one, at first the first.
        most: as for `play`.
    """
    weights = tuple(kernels(TERMS).weights_of(rule) for rule in rules)
    return LookedAhead(*_look_ahead(tasks_of(chunk), weights, most))


@allocating
def _look_ahead(tasks: Tasks, rules: Any, most: int) -> Any:
    """Return span, placements and how often each of a tuple of rules was chosen."""
    progress, heap, placed = nothing_done(tasks), nothing_runs(), nothing_placed()
    chosen, current, span = np.zeros(len(rules), np.int64), 0, 0.0
    known = 0
    while known < len(tasks.seen):
        now = tasks.seen[known]
        known = np.searchsorted(tasks.seen, now, side="right")
        least, best = np.inf, current
        for turn in range(len(rules)):
            rule = (current + turn) % len(rules)  # the present one first
            found = play_on(
                tasks, rules[rule], _copy(progress), heap.copy(), now, np.inf, known, most,
                nothing_placed(),
            )  # fmt: skip
            if found < least:
                least, best = found, rule
        current = best
        chosen[current] += 1
        until = tasks.seen[known] if known < len(tasks.seen) else np.inf
        span = play_on(tasks, rules[current], progress, heap, now, until, known, most, placed)
    return span, placed, chosen


@allocating
def _copy(progress: Progress) -> Progress:
    return Progress(progress.left.copy(), progress.free.copy(), progress.starts.copy())
