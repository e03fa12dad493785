"""Decisions of the engine, compiled: the scores of pairs, and whole decisions of weighted sums.

A weighted sum of terms has a part that depends on the task, one that depends on its request and the
machine, and one that depends only on the time of the decision; all pairs share the last, so it is
left out. Of the tasks with the same request, the one with the largest part of its own goes first,
on any machine; so a decision looks at one task for each request, and places the best pair first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.scorers.pair_kernel import (
    Weights,
    begin,
    hidden,
    horizon_s,
    make_scratch,
    match_fit,
    match_urgency,
    see_match,
    see_moment,
    see_task,
    surplus,
    weighted,
    weights_of,
)
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.machine_code import allocating
from simkit.policy.pairs import MachineTaskPairs
from simkit.policy.queue import QueueColumns
from simkit.units import ENDLESS_S

__all__ = ["CompiledScores"]

_NONE: Final = -1
_BLOCK: Final = 64  # tasks compared at a time when looking for changes


class Waiting(NamedTuple):
    """The tasks that wait, by submission; (T,) unless said otherwise."""

    rank: Floats
    """Order of submission, ascending."""
    hold: Floats
    """Time for which an instance holds its machine."""
    left: Floats
    """Instances that are left."""
    request: Floats
    """(R, T) what an instance asks for."""


class TaskCache(NamedTuple):
    """What a decision keeps of tasks for the next one; (N,) unless said otherwise."""

    sizes: Ints
    """(2,): how many tasks and how many different requests there are."""
    rank: Floats
    hold: Floats
    left: Floats
    log_hold: Floats
    log_left: Floats
    request_row: Ints
    """Row of the task's request in `request`."""
    request: Floats
    """(2 N, R) different requests."""
    lookup: Ints
    """(4 N,) hash table: rows of `request`, -1 where there is none."""


def empty_cache(tasks: int, resources: int) -> TaskCache:
    """Return a cache with space for `tasks` tasks and twice as many requests."""
    rank, hold, left, log_hold, log_left = np.empty((5, tasks))
    return TaskCache(
        np.zeros(2, np.int64), rank, hold, left, log_hold, log_left, np.empty(tasks, np.int64),
        np.empty((2 * tasks, resources)), np.full(4 * tasks, _NONE),
    )  # fmt: skip


def has_space(cache: TaskCache, tasks: int) -> bool:
    """Return whether `tasks` tasks fit, even if every one of them has a new request."""
    return tasks <= len(cache.rank) and cache.sizes[1] + tasks <= len(cache.request)


@allocating
def update(waiting: Waiting, cache: TaskCache) -> None:
    """Bring a cache up to date that holds the tasks that wait: instances may have been placed."""
    tasks = len(waiting.rank)
    for start in range(0, tasks, _BLOCK):
        end = min(start + _BLOCK, tasks)
        if _differences(cache.left, waiting.left, start, end):
            for t in range(start, end):
                _store_task(cache, t, waiting.hold[t], waiting.left[t])


@allocating
def _differences(one: Floats, other: Floats, start: int, end: int) -> int:
    """Return how many numbers differ; no early exit, so that the loop vectorises."""
    count = 0
    for k in range(start, end):
        count += one[k] != other[k]
    return count


@allocating
def _store_task(cache: TaskCache, task: int, hold: float, left: float) -> None:
    cache.hold[task], cache.left[task] = hold, left
    cache.log_hold[task] = np.log(max(hold, 1.0)) / 7.0
    cache.log_left[task] = np.log(1.0 + left) / 7.0


@allocating
def rebuild(waiting: Waiting, before: TaskCache, cache: TaskCache) -> None:
    """Fill a cache, which has space; requests are numbered as `before`, and new ones added."""
    tasks, known, old = len(waiting.rank), before.sizes[0], 0
    requests = before.sizes[1]
    cache.request[:requests] = before.request[:requests]
    cache.lookup[:] = before.lookup
    asked = np.empty(len(waiting.request))
    for t in range(tasks):
        rank = cache.rank[t] = waiting.rank[t]
        _store_task(cache, t, waiting.hold[t], waiting.left[t])
        while old < known and before.rank[old] < rank:
            old += 1
        if old < known and before.rank[old] == rank:
            cache.request_row[t] = before.request_row[old]
            continue
        asked[:] = waiting.request[:, t]
        place = _find(asked, cache)
        if cache.lookup[place] == _NONE:
            cache.lookup[place] = requests
            cache.request[requests] = asked
            requests += 1
        cache.request_row[t] = cache.lookup[place]
    cache.sizes[0], cache.sizes[1] = tasks, requests


@allocating
def _find(request: Floats, cache: TaskCache) -> int:
    """Return the place of a request (R,) in the hash table: where it is, or where it may go."""
    mixed = np.uint64(0)
    for bits in request.view(np.uint64):
        mixed = (mixed ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    place = int(np.int64(mixed % np.uint64(len(cache.lookup))))
    while cache.lookup[place] != _NONE:
        same = True
        for r in range(len(request)):
            same &= cache.request[cache.lookup[place], r] == request[r]
        if same:
            break
        place = place + 1 if place + 1 < len(cache.lookup) else 0
    return place


@allocating
def _task_scores(
    cache: TaskCache, share: Floats, horizon: float, longest: float, slope: Floats
) -> Floats:
    """Return (T,) the parts of the score that depend on the task; `share` is by request.

    The terms are those of `task_urgency` and `task_fit`, at positions 0 to 2 and 5 to 7 of `TERMS`.
    The loop has no calls, branches or divisions, so the compiler vectorises it.
    """
    tasks = cache.sizes[0]
    scores, shares = np.empty(tasks), np.empty(tasks)
    for t in range(tasks):
        shares[t] = share[cache.request_row[t]]
    holds, left, log_hold, log_left = cache.hold, cache.left, cache.log_hold, cache.log_left
    per_s, relative = 1.0 / horizon, slope[6] / max(longest, 1e-12)
    for t in range(tasks):
        time, work = holds[t] * per_s, left[t] * holds[t] * shares[t] * per_s
        time = time if time < 3.0 else 3.0
        work = work if work < 3.0 else 3.0
        urgency = time if time > work else work
        scores[t] = (
            slope[0] * time + slope[1] * urgency + slope[2] * work + slope[5] * log_hold[t]
            + relative * holds[t] + slope[7] * log_left[t]
        )  # fmt: skip
    return scores


@allocating
def _score_matches(
    scores: Floats, free: Floats, capacity: Floats, request: Floats, best: Ints, above: Floats,
    slope: Floats,
) -> None:  # fmt: skip
    """Fill (N,) `scores` with the part of each request on a machine; -inf where it has no room.

    The terms are those of `match_urgency` and `match_fit`, at positions 3, 4 and 8 to 13 of
    `TERMS`.
    """
    resources = len(above)
    asked, spare, largest = np.empty(resources), np.empty(resources), np.empty(resources)
    for r in range(resources):
        largest[r] = capacity[r] if capacity[r] > 0 else 1.0
        spare[r] = free[r] / largest[r]
    for n in range(len(best)):
        scores[n] = -np.inf
        fits = best[n] != _NONE
        for r in range(resources):
            fits &= request[n, r] <= max(free[r], 0.0)
            asked[r] = request[n, r] / largest[r]
        if fits:
            balance, cosine = match_urgency(asked, spare, above)
            of_fit = match_fit(asked, spare, above)
            score = slope[3] * balance + slope[4] * cosine
            for k in range(6):
                score += slope[8 + k] * of_fit[k]
            scores[n] = score


@allocating
def _best_on(match_scores: Floats, task_scores: Floats, best: Ints) -> tuple[float, int]:
    """Return the highest score on a machine and its task; the first of those that score alike."""
    highest, task = -np.inf, _NONE
    for n in range(len(best)):
        if best[n] != _NONE and match_scores[n] > -np.inf:
            score = task_scores[best[n]] + match_scores[n]
            if score > highest or (score == highest and best[n] < task):
                highest, task = score, best[n]
    return highest, task


@allocating
def _best_with(request_row: int, cache: TaskCache, task_scores: Floats, left: Floats) -> int:
    """Return the task that goes first among those with a request; -1: none is left."""
    best = _NONE
    for t in range(cache.sizes[0]):
        if (
            cache.request_row[t] == request_row
            and left[t] > 0
            and (best == _NONE or task_scores[t] > task_scores[best])
        ):
            best = t
    return best


@allocating
def place_best(
    cache: TaskCache, free: Floats, capacity: Floats, total: Floats, work: Floats, longest: float,
    slope: Floats,
) -> Ints:  # fmt: skip
    """Return (n, 2): the rows of task and machine of each instance placed, in order.

    Equal scores go to the first task, then to the first machine.

    Args:
        cache: the tasks that wait, up to date.
        free: (M, R) free amounts of the machines to try; changed.
        capacity: (M, R) their totals.
        total: (R,) the cluster's capacity, above 0.
        work: (R,) remaining work.
        longest: the longest time for which a waiting task holds a machine.
        slope: (F,) what a score rises by with each term.
    """
    tasks, requests = cache.sizes[0], cache.sizes[1]
    machines, resources = free.shape
    share, best = np.zeros(requests), np.full(requests, _NONE)
    for n in range(requests):
        for r in range(resources):
            share[n] = max(share[n], cache.request[n, r] / total[r])
    task_scores = _task_scores(cache, share, horizon_s(work), longest, slope)
    for t in range(tasks):
        n = cache.request_row[t]
        if best[n] == _NONE or task_scores[t] > task_scores[best[n]]:
            best[n] = t
    above = np.empty(resources)
    surplus(work, above)
    matches, request = np.empty((machines, requests)), cache.request
    score, task = np.empty(machines), np.empty(machines, np.int64)
    for m in range(machines):
        _score_matches(matches[m], free[m], capacity[m], request, best, above, slope)
        score[m], task[m] = _best_on(matches[m], task_scores, best)
    left, placed, count = cache.left[:tasks].copy(), np.empty((16, 2), np.int64), 0
    while machines:
        m = 0
        for other in range(1, machines):
            if score[other] > score[m] or (score[other] == score[m] and task[other] < task[m]):
                m = other
        t = task[m]
        if t == _NONE:
            break
        if count == len(placed):
            longer = np.empty((2 * count, 2), np.int64)
            longer[:count] = placed
            placed = longer
        placed[count, 0], placed[count, 1] = t, m
        count += 1
        left[t] -= 1
        n = cache.request_row[t]
        for r in range(resources):
            free[m, r] -= request[n, r]
        if left[t] <= 0:
            best[n] = _best_with(n, cache, task_scores, left)
            for other in range(machines):
                if task[other] == t:
                    score[other], task[other] = _best_on(matches[other], task_scores, best)
        _score_matches(matches[m], free[m], capacity[m], request, best, above, slope)
        score[m], task[m] = _best_on(matches[m], task_scores, best)
    return placed[:count]


# --- scores of pairs ------------------------------------------------------------------------------


@allocating
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
    horizon = begin(scratch)
    see_moment(seen, horizon, scratch.above, weights)
    for pair in range(len(hold)):
        see_match(seen, request[pair], free[pair], capacity[pair], scratch, weights)
        share = request[pair, 0] / total[0]
        for k in range(1, len(total)):
            share = max(share, request[pair, k] / total[k])
        see_task(seen, hold[pair], left[pair], share, horizon, longest, weights)
        scores[pair] = weighted(seen, weights.flat)
        if deep:
            table[pair] = seen
    for pair in range(len(table)):
        scores[pair] += hidden(table[pair], scratch, weights)
    return scores


class CompiledScores:
    """Scores pairs as `PairScorer` does, and plans whole decisions, for one run.

    It goes over the pairs once; NumPy does some two hundred times.
    """

    def __init__(self, scorer: PairScorer) -> None:
        self._weights = weights_of(scorer)
        self._slope: Floats = scorer.linear / scorer.scale
        self._cache = self._spare = empty_cache(0, 0)
        self._columns: QueueColumns | None = None  # those that the cache holds

    def scores(
        self, pairs: MachineTaskPairs, work_s: Floats, longest_s: float, total: Floats
    ) -> Floats:
        """Return (P,) scores.

        Args:
            pairs: P of them.
            work_s: (R,) remaining work.
            longest_s: the longest time for which a waiting task holds a machine.
            total: (R,) the cluster's capacity.
        """
        return score_pairs(
            pairs.hold_s, pairs.remaining, pairs.request, pairs.free, pairs.capacity, total, work_s,
            longest_s, self._weights,
        )  # fmt: skip

    def place(
        self, columns: QueueColumns, free: Floats, capacity: Floats, work_s: Floats,
        longest_s: float, total: Floats,
    ) -> Ints:  # fmt: skip
        """Return (n, 2) rows of task and machine, one per instance, of a scorer without layers.

        Scores are summed in another order than in `scores`, without what all pairs share: where
        rounding alone tells two pairs apart, the other one may go first.

        Args:
            columns: the tasks.
            free: (M, R) free amounts of machines; changed.
            capacity: (M, R) their totals.
            work_s: this and what follows as in `scores`.
            longest_s: in seconds.
            total: (R,)
        """
        estimate_s = np.minimum(columns.estimate_s, ENDLESS_S)
        waiting = Waiting(columns.index, estimate_s, columns.remaining, columns.request)
        if columns is self._columns:  # the queue returns the same until tasks come or go
            update(waiting, self._cache)
        else:
            if not has_space(self._cache, len(columns)):
                self._cache, self._spare = (
                    empty_cache(2 * len(columns), len(total)) for _ in range(2)
                )
            rebuild(waiting, self._cache, self._spare)
            self._cache, self._spare = self._spare, self._cache
            self._columns = columns
        return place_best(self._cache, free, capacity, total, work_s, longest_s, self._slope)
