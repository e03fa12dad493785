"""Ranges of numbers, checked when an object is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np


class Range(NamedTuple):
    """What a number may be. NaN lies in no range."""

    text: str
    """How messages say it, after "it must be"."""
    holds: Callable[[float], bool]


POSITIVE: Final = Range("above 0 and finite", lambda v: 0 < v < math.inf)
NOT_NEGATIVE: Final = Range("at least 0 and finite", lambda v: 0 <= v < math.inf)
AT_LEAST_ZERO: Final = Range("at least 0", lambda v: v >= 0)
NOT_NAN: Final = Range("a threshold", lambda v: not math.isnan(v))
FINITE: Final = Range("a finite number", math.isfinite)
SHARE: Final = Range("in 0..1", lambda v: 0 <= v <= 1)
EFFICIENCY: Final = Range("above 0 and at most 1", lambda v: 0 < v <= 1)


def range_problems(thing: object, **ranges: Range) -> list[str]:
    """Return ``floor is 2; it must be in 0..1`` for every attribute outside its range.

    An attribute that is None passes.
    """
    problems = []
    for name, allowed in ranges.items():
        value = getattr(thing, name)
        if value is not None and not is_number(value):
            problems.append(f"{name} is {value!r}; it must be a number")
        elif value is not None and not allowed.holds(value):
            problems.append(f"{name} is {value:g}; it must be {allowed.text}")
    return problems


def is_number(value: object) -> bool:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
