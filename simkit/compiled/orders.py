"""The numbers by which jobs are ordered and machines chosen, by `simkit.policy.formulas`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats
from simkit.machine_code import compiled, inner
from simkit.policy import formulas
from simkit.units import ENDLESS_S, TIME_GRID

__all__ = [
    "KEPT", "PART", "Order", "key_at", "key_of", "none_seen", "predicted", "score_of", "sum_of",
    "take", "take_run_time", "write_keys",
]  # fmt: skip

KEPT: Final = -1
"""Stands for a formula: the key is there already."""
_SUMMED: Final = 128  # numbers that NumPy adds up eight by eight; more are divided
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
    """(users, 3) see `none_seen`; (0, …) unless it predicts."""


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
score_of: Final = _by_number(formulas.MACHINE)
"""Takes the number of a formula of `formulas.MACHINE` and its arguments."""
for _formula in (formulas.aligned, formulas.mixed):
    inner(_formula)


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


PART: Final = np.dtype([
    ("begin", np.int64), ("count", np.int64), ("state", np.int64), ("sum", np.float64),
])  # fmt: skip
"""A part of the numbers to be added up, and the sum of its first half."""


@inner
def sum_of(numbers: Floats, count: int, parts: Any) -> float:
    """Return the sum of the first numbers, to the bit what NumPy's `sum` returns: pairwise."""
    parts[0].begin, parts[0].count, parts[0].state = 0, count, 0
    depth, total = 0, 0.0
    while True:
        part = parts[depth]
        if part.state == 0 and part.count > _SUMMED:
            part.state = 1
            half = part.count // 2
            half -= half % 8
            _divide(parts, depth, part.begin, half)
            depth += 1
            continue
        if part.state == 0:
            total = _sum_of_block(numbers, part.begin, part.count)
        elif part.state == 1:
            part.sum, part.state = total, 2
            half = part.count // 2
            half -= half % 8
            _divide(parts, depth, part.begin + half, part.count - half)
            depth += 1
            continue
        else:
            total = part.sum + total
        if depth == 0:
            return total
        depth -= 1


@inner
def _divide(parts: Any, depth: int, begin: int, count: int) -> None:
    """Let a part of a part be added up next."""
    below = parts[depth + 1]
    below.begin, below.count, below.state = begin, count, 0


@inner
def _sum_of_block(numbers: Floats, begin: int, count: int) -> float:
    """Return the sum of at most 128 numbers, eight by eight."""
    total = 0.0
    done = count - count % 8
    if done > 0:
        a, b, c, d = numbers[begin], numbers[begin + 1], numbers[begin + 2], numbers[begin + 3]
        e, f, g, h = numbers[begin + 4], numbers[begin + 5], numbers[begin + 6], numbers[begin + 7]
        for row in range(begin + 8, begin + done, 8):
            a += numbers[row]
            b += numbers[row + 1]
            c += numbers[row + 2]
            d += numbers[row + 3]
            e += numbers[row + 4]
            f += numbers[row + 5]
            g += numbers[row + 6]
            h += numbers[row + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for row in range(begin + done, begin + count):
        total += numbers[row]
    return total
