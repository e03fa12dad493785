"""A course: a recomputed signal over time, constant between instants, and sums and means of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simkit.verify.audit import NotAuditedError
from simkit.verify.numbers import TICK, Bools, Floats, Ints

MOST_PIECES = 20_000_000
"""A course of more pieces is not recomputed: what a few keys ask for must not fill the memory."""
_NEAR = 4.0 * TICK
"""A change may come so much earlier or later in the ledger, in s."""


@dataclass(frozen=True)
class Course:
    """A piecewise constant function of the run's time."""

    times: Floats
    """(n,) ascending instants in s; before the first the value is not known."""
    values: Floats
    """(n,) the value from each on; NaN where there is none."""
    slack: float = 0.0
    """By how much a value may differ, besides rounding."""

    @classmethod
    def constant(cls, value: float) -> Course:
        """Return a course that never changes."""
        return cls(np.array([-np.inf]), np.array([float(value)]))

    def at(self, times: Floats) -> Floats:
        """Return the values at (N,) instants, those of a change included; NaN where unknown."""
        row = np.searchsorted(self.times, times, side="right") - 1
        return np.where(row >= 0, self.values[row], np.nan)

    def scaled(self, factor: float) -> Course:
        """Return it times a factor."""
        return replace(self, values=self.values * factor, slack=self.slack * abs(factor))

    def integral(self, first: float, last: float) -> float:
        """Return the integral over a span in s."""
        return float(self._areas(np.array([first, last]))[0])

    def means(self, step: float, first: float, last: float) -> Course:
        """Return the means of steps from the run's zero, over the steps of a span in s."""
        pieces_of(first, last, step, "a signal of means")
        edges = step * np.arange(np.floor(first / step), np.floor(last / step) + 2.0)
        return Course(edges[:-1], self._areas(edges) / step, self.slack)

    def _areas(self, edges: Floats) -> Floats:
        """Return (k,) the integrals between (k + 1,) ascending instants; NaN where unknown."""
        cuts = np.union1d(edges, self.times[(self.times > edges[0]) & (self.times < edges[-1])])
        areas = self.at(cuts[:-1]) * np.diff(cuts)
        if len(edges) < 2:
            return np.empty(0)
        return np.asarray(np.add.reduceat(areas, np.searchsorted(cuts, edges[:-1])))


def pieces_of(first: float, last: float, step: float, what: str) -> int:
    """Return how many steps a span in s has; raises NotAuditedError if they are too many."""
    number = (last - first) / step + 2.0
    if not number <= MOST_PIECES:
        raise NotAuditedError(f"{what} has {number:.3g} pieces in the run")
    return int(number)


def total(courses: Sequence[Course]) -> Course:
    """Return the sum of courses."""
    if len(courses) == 1:
        return courses[0]
    times = np.unique(np.concatenate([course.times for course in courses]))
    values = np.sum([course.at(times) for course in courses], axis=0)
    return Course(times, values, sum(course.slack for course in courses))


def rows_that_differ(
    row: dict[str, Floats], found: Floats, course: Course, slack: Floats
) -> tuple[Bools, Floats]:
    """Return which rows of the ledger do not have the value of a course, and what they should have.

    Args:
        row: columns of the ledger.
        found: (N,) what the rows have.
        course: what they should have from start to end.
        slack: (N,) by how much they may differ.

    A change may fall a few ticks beside the row's start or end; in a row of a few ticks any value
    that holds around it counts.
    """
    start, end = row["start_s"], row["end_s"]
    slack = slack + course.slack
    expected = course.at(starts_of(row))
    wrong = ~(np.abs(found - expected) <= slack)
    if wrong.any():
        short = np.flatnonzero(wrong & (end - start <= 2.0 * _NEAR))
        for times in (start[short] - _NEAR, end[short] + _NEAR):
            wrong[short] &= ~(np.abs(found[short] - course.at(times)) <= slack[short])
    at, values = changes_within(row, course)
    wrong[at[~(np.abs(found[at] - values) <= slack[at])]] = True
    return wrong, expected


def starts_of(row: dict[str, Floats]) -> Floats:
    """Return (N,) instants just after the starts of the ledger's rows."""
    start, end = row["start_s"], row["end_s"]
    return np.asarray(np.minimum(start + _NEAR, (start + end) / 2.0))


def changes_within(row: dict[str, Floats], course: Course) -> tuple[Ints, Floats]:
    """Return (k,) the rows of the ledger in which a course changes, and (k,) to which value."""
    times = changes_of(row, course)
    return np.searchsorted(row["start_s"], times, side="right") - 1, course.at(times)


def changes_of(row: dict[str, Floats], course: Course) -> Floats:
    """Return (k,) the instants of a course that lie within rows of the ledger."""
    at = np.searchsorted(row["start_s"], course.times, side="right") - 1
    within = (at >= 0) & (course.times > starts_of(row)[at])
    return course.times[within & (course.times < row["end_s"][at] - _NEAR)]


def lowest_in_rows(row: dict[str, Floats], course: Course) -> Floats:
    """Return (N,) the lowest value of a course in each row of the ledger."""
    lowest = course.at(starts_of(row))
    np.minimum.at(lowest, *changes_within(row, course))
    return lowest
