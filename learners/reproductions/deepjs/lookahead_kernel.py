"""The event loop of the lookahead over rules, compiled by numba; see `bounds`."""

from __future__ import annotations

from typing import Any

import numpy as np

from simkit.learners.common.compiled import compiled
from simkit.learners.scorers.cloudsimpy_kernel import (
    Progress,
    Tasks,
    nothing_done,
    nothing_placed,
    nothing_runs,
    play_on,
)

__all__ = ["look_ahead"]


@compiled
def look_ahead(tasks: Tasks, rules: Any, most: int) -> Any:
    """Return the same by the lookahead over a tuple of rules, and how often each was chosen.

    Whenever jobs are first seen, the tasks that are known are played to their end under each rule,
    and the one with the smallest makespan decides until the next time; ties keep the present one.
    """
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


@compiled
def _copy(progress: Progress) -> Progress:
    return Progress(progress.left.copy(), progress.free.copy(), progress.starts.copy())
