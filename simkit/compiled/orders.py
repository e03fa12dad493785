"""The numbers by which jobs are ordered, from the formulas of `simkit.policy.formulas`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats
from simkit.machine_code import compiled, inner
from simkit.policy import formulas
from simkit.units import ENDLESS_S, TIME_GRID

__all__ = [
    "KEPT", "Order", "key_at", "key_of", "none_seen", "predicted", "take", "take_run_time",
    "write_keys",
]  # fmt: skip

_LEAST_S: Final = 10.0  # as in `RecentRunTimes`
KEPT: Final = -1
"""Stands for a formula: the key is there already."""

for _formula in (*formulas.FIXED, *formulas.CHANGING):
    inner(_formula)


class Order(NamedTuple):
    """How waiting jobs are ordered, where it is not known from the start."""

    fixed: int
    """Number of the formula of a key that is made at submission; `KEPT`: there is none."""
    changing: int
    """Number of the formula of a key that changes; `KEPT`: there is none."""
    predicts: bool
    """Whether a changing key takes a prediction in place of the estimate."""
    key: Floats
    """(J,) keys that are kept."""
    factor: Floats
    """(J,) of a changing formula."""
    recent: Floats
    """(users, 3) see `none_seen`; (0, …) unless it predicts."""


@inner
def _fixed_key(formula: int, r: float, n: float, s: float, i: float) -> float:
    """Return the number by a formula of `formulas.FIXED`."""
    if formula == 0:
        return formulas.first_come(r, n, s, i)
    if formula == 1:
        return formulas.last_come(r, n, s, i)
    if formula == 2:
        return formulas.shortest(r, n, s, i)
    if formula == 3:
        return formulas.longest(r, n, s, i)
    if formula == 4:
        return formulas.smallest_area(r, n, s, i)
    if formula == 5:
        return formulas.largest_area(r, n, s, i)
    if formula == 6:
        return formulas.f1(r, n, s, i)
    if formula == 7:
        return formulas.f2(r, n, s, i)
    if formula == 8:
        return formulas.f3(r, n, s, i)
    if formula == 9:
        return formulas.f4(r, n, s, i)
    if formula == 10:
        return formulas.log_area(r, n, s, i)
    return formulas.squared_area(r, n, s, i)


@inner
def _changing_key(formula: int, w: float, r: float, factor: float) -> float:
    """Return the number by a formula of `formulas.CHANGING`."""
    if formula == 0:
        return formulas.expansion(w, r, factor)  # type: ignore[no-any-return]
    if formula == 1:
        return formulas.cubed_wait(w, r, factor)  # type: ignore[no-any-return]
    if formula == 2:
        return formulas.wait_by_area(w, r, factor)  # type: ignore[no-any-return]
    return formulas.area(w, r, factor)  # type: ignore[no-any-return]


@inner
def key_of(formula: int, job: Any, row: int) -> float:
    """Return the key that a job keeps, from its record."""
    one, since = job[row], job[row].submit - job[0].submit
    return _fixed_key(formula, min(one.estimate, ENDLESS_S), one.demand, since, row)


@compiled
def write_keys(formula: int, job: Any, keys: Floats) -> bool:
    """Write (J,) the keys of all jobs, from their records; return that it is done."""
    for row in range(len(job)):
        keys[row] = key_of(formula, job, row)
    return True


@inner
def key_at(order: Order, job: Any, row: int, time: float) -> float:
    """Return a waiting job's key at a time; one that is undefined is infinite."""
    if order.changing == KEPT:
        return order.key[row]  # type: ignore[no-any-return]
    one = job[row]
    estimate = min(max(one.estimate, TIME_GRID), ENDLESS_S)
    if order.predicts:
        estimate = predicted(order.recent, one.user, one.estimate)
    key = _changing_key(order.changing, time - one.submit, estimate, order.factor[row])
    return np.inf if np.isnan(key) else key


def none_seen(users: int, last: int = 2) -> Floats:
    """Return a table of the last run times of so many users, (users, 1 + last).

    A row tells how many have been seen, and the last ones, the newest first. Replays of whole logs
    and games of learners keep the same table.
    """
    return np.zeros((users, 1 + last))


@inner
def take(recent: Floats, user: int, run_s: float) -> None:
    """Take in the run time of a user's job that has ended."""
    for row in range(recent.shape[1] - 1, 1, -1):
        recent[user, row] = recent[user, row - 1]
    recent[user, 1] = run_s
    recent[user, 0] += 1


@inner
def predicted(recent: Floats, user: int, estimate: float) -> float:
    """Return the mean of the user's last two run times, at most the estimate, at least 10 s.

    `user` is -1 if unknown.
    """
    mean = ENDLESS_S
    if user >= 0 and recent[user, 0] > 1:
        mean = (recent[user, 2] + recent[user, 1]) / 2
    elif user >= 0 and recent[user, 0] > 0:
        mean = recent[user, 1]
    return max(min(mean, estimate), _LEAST_S)


@inner
def take_run_time(order: Order, user: int, run_s: float) -> None:
    """Take in the run time of a job that has ended."""
    if order.predicts and user >= 0:
        take(order.recent, user, run_s)
