"""A whole decision, compiled: pairs placed by a weighted sum of terms, the best one first.

The sum has a part of the task, a part of request and machine, and a part of the moment, which all
pairs share and which decides nothing. So among the tasks that ask for the same the one whose own
part is largest goes first, on any machine; a decision looks at these alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.pairs.pair_kernel import compiled
from simkit.policy.pairs import terms

__all__ = ["Known", "Waiting", "has_space", "nothing_known", "place_best", "recall",
           "recall_others"]  # fmt: skip

_horizon_s: Any = compiled(terms.horizon_s)
_surplus: Any = compiled(terms.surplus)
_match_urgency: Any = compiled(terms.match_urgency)
_match_fit: Any = compiled(terms.match_fit)

# Places of the terms in `simkit.learners.pairs.scorer.TERMS`: 0-2 and 5-7 are of the task, 3-4 and
# 8-13 of request and machine, 14-15 of the moment.
_NONE: Final = -1
_BLOCK: Final = 64  # tasks of which one that has changed is looked for


class Waiting(NamedTuple):
    """The tasks that wait, by submission; (T,) unless said otherwise."""

    rank: Floats
    """Of submission, ascending."""
    hold: Floats
    """Time for which an instance holds its machine."""
    left: Floats
    """Instances."""
    request: Floats
    """(R, T) what an instance asks for."""


class Known(NamedTuple):
    """What a decision knows of tasks from the one before; (N,) unless said otherwise."""

    sizes: Ints
    """(2,): how many tasks and how many requests there are."""
    rank: Floats
    hold: Floats
    left: Floats
    log_hold: Floats
    log_left: Floats
    number: Ints
    """Of the task's request."""
    request: Floats
    """(2 N, R) by its number."""


def nothing_known(tasks: int, resources: int) -> Known:
    """Return space for so many tasks and twice as many requests."""
    rank, hold, left, log_hold, log_left = np.empty((5, tasks))
    return Known(
        np.zeros(2, np.int64), rank, hold, left, log_hold, log_left, np.empty(tasks, np.int64),
        np.empty((2 * tasks, resources)),
    )  # fmt: skip


def has_space(known: Known, tasks: int) -> bool:
    """Return whether so many tasks fit, although each may ask for what none has asked for."""
    return tasks <= len(known.rank) and known.sizes[1] + tasks <= len(known.request)


@compiled
def recall(waiting: Waiting, known: Known) -> bool:
    """Bring `known` up to date, and return True, if the same tasks wait as before."""
    tasks = len(waiting.rank)
    if known.sizes[0] != tasks or _differences(known.rank, waiting.rank, 0, tasks):
        return False
    for first in range(0, tasks, _BLOCK):
        end = min(first + _BLOCK, tasks)
        if _differences(known.left, waiting.left, first, end) or _differences(
            known.hold, waiting.hold, first, end
        ):
            for t in range(first, end):
                _see_task(known, t, waiting.hold[t], waiting.left[t])
    return True


@compiled
def _differences(one: Floats, other: Floats, first: int, end: int) -> int:
    """Return how many numbers differ; without a way out, so that several are compared at once."""
    count = 0
    for k in range(first, end):
        count += one[k] != other[k]
    return count


@compiled
def _see_task(known: Known, task: int, hold: float, left: float) -> None:
    known.hold[task], known.left[task] = hold, left
    known.log_hold[task] = np.log(max(hold, 1.0)) / 7.0
    known.log_left[task] = np.log(1.0 + left) / 7.0


@compiled
def recall_others(waiting: Waiting, before: Known, now: Known) -> None:
    """Fill `now`, which has space, with the tasks that wait; of some of them it knows `before`."""
    tasks, known, old = len(waiting.rank), before.sizes[0], 0
    requests, resources = before.sizes[1], len(waiting.request)
    now.request[:requests] = before.request[:requests]
    for t in range(tasks):
        rank = now.rank[t] = waiting.rank[t]
        _see_task(now, t, waiting.hold[t], waiting.left[t])
        while old < known and before.rank[old] < rank:
            old += 1
        if old < known and before.rank[old] == rank:
            now.number[t] = before.number[old]
        else:
            number = 0
            while number < requests and not _same(now.request[number], waiting.request, t):
                number += 1
            if number == requests:
                for r in range(resources):
                    now.request[number, r] = waiting.request[r, t]
                requests += 1
            now.number[t] = number
    now.sizes[0], now.sizes[1] = tasks, requests


@compiled
def _same(request: Floats, requests: Floats, task: int) -> bool:
    same = True
    for r in range(len(request)):
        same &= request[r] == requests[r, task]
    return same


@compiled
def _task_parts(
    known: Known, share: Floats, horizon: float, longest: float, slope: Floats
) -> Floats:
    """Return (T,) the tasks' parts of the score; `share` is by number of request.

    The terms are those of `task_urgency` and `task_fit`. In a loop without calls, branches and
    divisions several tasks are calculated at once.
    """
    tasks = known.sizes[0]
    parts, shares = np.empty(tasks), np.empty(tasks)
    for t in range(tasks):
        shares[t] = share[known.number[t]]
    holds, left, log_hold, log_left = known.hold, known.left, known.log_hold, known.log_left
    per_s, relative = 1.0 / horizon, slope[6] / max(longest, 1e-12)
    for t in range(tasks):
        time, work = holds[t] * per_s, left[t] * holds[t] * shares[t] * per_s
        time = time if time < 3.0 else 3.0
        work = work if work < 3.0 else 3.0
        urgency = time if time > work else work
        parts[t] = (
            slope[0] * time + slope[1] * urgency + slope[2] * work + slope[5] * log_hold[t]
            + relative * holds[t] + slope[7] * log_left[t]
        )  # fmt: skip
    return parts


@compiled
def _see_machine(
    found: Floats, free: Floats, capacity: Floats, request: Floats, first: Ints, above: Floats,
    slope: Floats,
) -> None:  # fmt: skip
    """Fill (N,) `found` with the part of the score of each request that fits; the others: -inf."""
    resources = len(above)
    asked, spare, largest = np.empty(resources), np.empty(resources), np.empty(resources)
    for r in range(resources):
        largest[r] = capacity[r] if capacity[r] > 0 else 1.0
        spare[r] = free[r] / largest[r]
    for n in range(len(first)):
        found[n] = -np.inf
        fits = first[n] != _NONE
        for r in range(resources):
            fits &= request[n, r] <= max(free[r], 0.0)
            asked[r] = request[n, r] / largest[r]
        if fits:
            balance, cosine = _match_urgency(asked, spare, above)
            of_fit = _match_fit(asked, spare, above)
            part = slope[3] * balance + slope[4] * cosine
            for k in range(6):
                part += slope[8 + k] * of_fit[k]
            found[n] = part


@compiled
def _best(found: Floats, parts: Floats, first: Ints) -> tuple[float, int]:
    """Return the highest score on a machine and its task; the first of those that score alike."""
    best, task = -np.inf, _NONE
    for n in range(len(first)):
        if first[n] != _NONE and found[n] > -np.inf:
            score = parts[first[n]] + found[n]
            if score > best or (score == best and first[n] < task):
                best, task = score, first[n]
    return best, task


@compiled
def _first_of(number: int, known: Known, parts: Floats, left: Floats) -> int:
    """Return the task that goes first among those of a request; -1: none is left."""
    first = _NONE
    for t in range(known.sizes[0]):
        if (
            known.number[t] == number
            and left[t] > 0
            and (first == _NONE or parts[t] > parts[first])
        ):
            first = t
    return first


@compiled
def place_best(
    known: Known, free: Floats, capacity: Floats, total: Floats, work: Floats, longest: float,
    slope: Floats,
) -> Ints:  # fmt: skip
    """Return (n, 2): the rows of task and machine of each instance placed, in order.

    Ties go to the first task, then to the first machine.

    Args:
        known: the tasks that wait, as `recall` leaves them.
        free: (M, R) free amounts of the machines to try; changed.
        capacity: (M, R) their totals.
        total: (R,) the cluster's capacity, above 0.
        work: (R,) remaining work.
        longest: the longest time for which a waiting task holds a machine.
        slope: (F,) what a score rises by with each term.
    """
    tasks, requests = known.sizes[0], known.sizes[1]
    machines, resources = free.shape
    share, first = np.zeros(requests), np.full(requests, _NONE)
    for n in range(requests):
        for r in range(resources):
            share[n] = max(share[n], known.request[n, r] / total[r])
    parts = _task_parts(known, share, _horizon_s(work), longest, slope)
    for t in range(tasks):
        n = known.number[t]
        if first[n] == _NONE or parts[t] > parts[first[n]]:
            first[n] = t
    above = np.empty(resources)
    _surplus(work, above)
    found, request = np.empty((machines, requests)), known.request
    score, task = np.empty(machines), np.empty(machines, np.int64)
    for m in range(machines):
        _see_machine(found[m], free[m], capacity[m], request, first, above, slope)
        score[m], task[m] = _best(found[m], parts, first)
    left, placed, count = known.left[:tasks].copy(), np.empty((16, 2), np.int64), 0
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
        n = known.number[t]
        for r in range(resources):
            free[m, r] -= request[n, r]
        if left[t] <= 0:
            first[n] = _first_of(n, known, parts, left)
            for other in range(machines):
                if task[other] == t:
                    score[other], task[other] = _best(found[other], parts, first)
        _see_machine(found[m], free[m], capacity[m], request, first, above, slope)
        score[m], task[m] = _best(found[m], parts, first)
    return placed[:count]
