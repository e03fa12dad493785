"""What the event loops of the fast simulation share, compiled by numba: scores, expected ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba
import numpy as np

from simkit.arrays import Floats, Ints
from simkit.learners.pool.scorer import job_features, job_score
from simkit.units import ENDLESS_S

__all__ = [
    "AREA_P", "KEY", "LAST", "RATIO", "RATIO_P", "SCORER", "compiled", "expected_end",
    "first_to_end", "next_instant", "put_by_expected_end", "remember", "score_of",
]  # fmt: skip

KEY: Final = 0
"""Forms of scores, the highest is picked. This one: -key."""
RATIO: Final = 1
"""(wait / key)³·factor."""
RATIO_P: Final = 2
"""(wait / p)³·factor, with p at most the key."""
AREA_P: Final = 3
"""-p·factor."""
SCORER: Final = 4
"""That of weights."""

LAST: Final = 2
"""Run times of a user that count in p."""
LEAST_S: Final = 10.0
"""The least p."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Return the function as machine code, made when it is first called.

    It is not kept on disk: numba would not notice changes of the functions that it calls.
    """
    made: Function = numba.njit(function)
    return made


_features: Any = compiled(job_features)
_network: Any = compiled(job_score)


@compiled
def score_of(
    form: int, key: float, factor: float, wait: float, since: float, requested: float,
    processors: float, user: int, recent: Floats, free: float, waiting: int, size: int,
    linear: Floats, hidden: Floats, bias: Floats, out: Floats,
) -> float:  # fmt: skip
    """Return a job's score by a rule or by weights; the highest is picked.

    The arguments are as in `simkit.learners.pool.scorer` and in `kernel.start_times`, of one job.
    `recent`: (users, 2) each user's last run times, the last one first, NaN: none.
    """
    if form == KEY:
        return -key
    if form == RATIO:
        return (wait / key) ** 3 * factor
    if form != SCORER:
        predicted = _predicted(recent, user, key)
        if form == RATIO_P:
            return (wait / predicted) ** 3 * factor
        return -predicted * factor
    predicted = _predicted(recent, user, requested)
    features = _features(requested, predicted, processors, wait, since, free, waiting, size)
    return _network(features, linear, hidden, bias, out)  # type: ignore[no-any-return]


@compiled
def _predicted(recent: Floats, user: int, requested: float) -> float:
    """Return p: the mean of the user's last run times, at most the request, at least 10 s."""
    predicted = min(requested, ENDLESS_S)
    if user >= 0 and not np.isnan(recent[user, 0]):
        mean = recent[user, 0]
        if not np.isnan(recent[user, 1]):
            mean = (recent[user, 1] + recent[user, 0]) / 2
        predicted = min(mean, predicted)
    return max(predicted, LEAST_S)


@compiled
def next_instant(to_come: Floats, running: Ints, start: Floats, run: Floats) -> float:
    """Return when the next job comes or ends, in s; infinity if none does.

    `to_come`: submissions that are to come, ascending.
    """
    now = to_come[0] if len(to_come) > 0 else np.inf
    for job in running:
        now = min(now, start[job] + run[job])
    return now


@compiled
def remember(recent: Floats, user: int, run_s: float) -> None:
    """Make a run time the last one of a user, if the user is known."""
    if user >= 0:
        recent[user, 1] = recent[user, 0]
        recent[user, 0] = run_s


@compiled
def first_to_end(running: Ints, now: float, start: Floats, run: Floats, rank: Ints) -> int:
    """Return the place of what ends by now, of several what started first; -1 if nothing does."""
    first = -1
    for i in range(len(running)):
        job = running[i]
        if start[job] + run[job] <= now and (first < 0 or rank[job] < rank[running[first]]):
            first = i
    return first


@compiled
def expected_end(job: int, start: Floats, requested: Floats) -> float:
    """Return when a job that runs is due, in s."""
    return start[job] + requested[job]  # type: ignore[no-any-return]


@compiled
def put_by_expected_end(
    job: int, running: Ints, active: int, start: Floats, requested: Floats
) -> None:
    """Put a job that starts among the `active` that run, behind those expected to end with it."""
    place = active
    while place > 0 and (
        expected_end(running[place - 1], start, requested) > expected_end(job, start, requested)
    ):
        running[place] = running[place - 1]
        place -= 1
    running[place] = job
