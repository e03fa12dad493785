"""The numbers by which jobs are ordered, from the formulas of `simkit.policy.formulas`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats
from simkit.machine_code import compiled, inner
from simkit.policy import formulas
from simkit.units import ENDLESS_S, TIME_GRID

__all__ = ["KEPT", "Order", "key_at", "key_of", "take_run_time", "write_keys"]

KEPT: Final = -1
"""Stands for a formula: the key is there already."""
_LEAST_S: Final = 10.0  # as in `RecentRunTimes`

Formula = Callable[..., Any]


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
    """(users, 3) how many run times of each user have been seen, and the last two."""


def _either(number: int, this: Formula, other: Formula) -> Formula:
    """Return what calls a formula for its number, and another function for other numbers."""

    def key(formula: int, *numbers: float) -> Any:
        return this(*numbers) if formula == number else other(formula, *numbers)

    return inner(key)


@inner
def _undefined(_formula: int, *_numbers: float) -> float:
    return np.nan


def _by_number(formulas: Sequence[Formula]) -> Formula:
    """Return what takes the number of a formula, its place here, and the formula's arguments."""
    chosen: Formula = _undefined
    for number, formula in enumerate(formulas):
        chosen = _either(number, inner(formula), chosen)
    return chosen


_fixed_key: Final = _by_number(formulas.FIXED)
_changing_key: Final = _by_number(formulas.CHANGING)


@inner
def key_of(formula: int, job: Any, row: int) -> float:
    """Return the key that a job keeps, from its record."""
    one, since = job[row], job[row].submit - job[0].submit
    key: float = _fixed_key(formula, min(one.estimate, ENDLESS_S), one.demand, since, row)
    return key


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
        estimate = _predicted(order.recent, one.user, one.estimate)
    key = _changing_key(order.changing, time - one.submit, estimate, order.factor[row])
    return np.inf if np.isnan(key) else key


@inner
def _predicted(recent: Floats, user: int, estimate: float) -> float:
    """Return the mean of the user's last run times, at most the estimate, at least 10 s."""
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
        order.recent[user, 2] = order.recent[user, 1]
        order.recent[user, 1] = run_s
        order.recent[user, 0] += 1
