"""A recorded series on a run's clock: its intervals, its gaps, and what holds past its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from simkit.verify.numbers import TICK, Floats, seconds
from simkit.verify.site.course import Course, NotRecomputedError, pieces_of

_REGULAR = 1.5
"""Rows that are more than so many steps apart have a gap between them."""


@dataclass(frozen=True)
class Record:
    """What a file says, in the units of the ledger."""

    times: Floats
    """(n,) ascending Unix times in s."""
    values: Floats
    """(n,) numbers."""
    unit: str
    zone: str
    """Of the place."""
    instant: bool = False
    """Whether values are readings at an instant, not means of an interval."""
    ends: bool = False
    """Whether times are the ends of the intervals."""
    step: float = 0.0
    """Declared length of an interval in s; 0: the most frequent one."""
    slack: float = 0.0
    """By how much a value may differ, besides rounding."""

    def intervals(self) -> tuple[Floats, Floats]:
        """Return (n,) begins and ends of what the rows stand for.

        An interval lasts until the next row. Beside a gap, and at the end of the file, it is as
        long as the one on its other side, or as a step.
        """
        step, apart = self.usual_step, np.diff(self.times)
        near = apart <= _REGULAR * step
        length = np.where(near & (self.step == 0), apart, step)
        if self.ends and not self.instant:
            begins = self.times - np.append(length, step)
            begins[1:][near] = self.times[:-1][near]
            return begins, self.times
        ends = self.times + np.append(step, length)
        ends[:-1][near] = self.times[1:][near]
        return self.times, ends

    @property
    def usual_step(self) -> float:
        """The declared step, else the most frequent distance of two rows, the shortest of these."""
        if self.step:
            return self.step
        if len(self.times) < 2:
            raise NotRecomputedError("a single row has no step")
        lengths, counts = np.unique(np.diff(self.times), return_counts=True)
        return float(lengths[counts.argmax()])

    def at_least(self, least: float) -> Record:
        """Return it with lower values raised: the scenario refuses them, or reads them as least."""
        return replace(self, values=np.maximum(self.values, least))

    def pieces(self, gaps: Mapping[str, Any]) -> Pieces:
        """Return the record without gaps, filled by the scenario's rule."""
        begins, ends = self.intervals()
        values = self.values
        if self.instant:
            near = np.diff(self.times) <= _REGULAR * self.usual_step
            means = (values[:-1] + values[1:]) / 2.0
            values = np.append(np.where(near, means, values[:-1]), values[-1:])
        holes = np.flatnonzero(begins[1:] > ends[:-1])
        parts: list[tuple[Floats, Floats]] = [(begins, values)]
        for hole in holes:
            span = float(ends[hole]), float(begins[hole + 1])
            parts.append(filled(gaps, span, values[hole : hole + 2], self.usual_step))
        times, numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(times, kind="stable")
        return Pieces(times[order], numbers[order], float(ends[-1]))


class Pieces(NamedTuple):
    """A step function of Unix time, or of the second of a year."""

    begins: Floats
    """(n,) ascending."""
    values: Floats
    """(n,)"""
    end: float

    def mean(self) -> float:
        """Return the mean over time."""
        lengths = np.diff(self.begins, append=self.end)
        return float((self.values * lengths).sum() / lengths.sum())


def filled(
    gaps: Mapping[str, Any], span: tuple[float, float], beside: Floats, step: float
) -> tuple[Floats, Floats]:
    """Return begins and values of what fills a gap.

    Args:
        gaps: the scenario's rule, and the longest gap that it fills.
        span: begin and end of the gap, in s.
        beside: the values before and after it.
        step: length of the pieces of a straight line, in s.
    """
    begin, end = span
    rule = gaps.get("rule", "error")
    if rule == "error" or end - begin > seconds(gaps.get("longest", 10_800.0)):
        raise NotRecomputedError("the file has gaps that its rule does not fill")
    if rule != "interpolate":
        return np.array([begin]), np.array([0.0 if rule == "zero" else float(beside[0])])
    number = max(1, round((end - begin) / step))
    places = np.arange(float(number))
    rise = float(beside[1] - beside[0]) / (number + 1)
    return begin + places * ((end - begin) / number), float(beside[0]) + rise * (places + 1.0)


def on_run(pieces: Pieces, zero: float, past_end: str, first: float, last: float) -> Course:
    """Return pieces on the clock of a run over a span in s.

    Args:
        pieces: of Unix time.
        zero: Unix time of second 0 of the run.
        past_end: what holds before the first piece and after the last: error, hold or wrap.
        first: begin of the span.
        last: its end.
    """
    edges = np.round((np.append(pieces.begins, pieces.end) - zero) / TICK) * TICK
    begins, end = edges[:-1], float(edges[-1])
    if past_end == "hold":
        return Course(np.append(-np.inf, begins[1:]), pieces.values)
    if past_end == "error":
        return Course(np.append(begins, end), np.append(pieces.values, np.nan))
    length = end - float(begins[0])
    pieces_of(first, last, length / len(begins), "a file that repeats")
    low, high = (np.floor((at - begins[0]) / length) for at in (first, last))
    rounds = np.arange(low, high + 1.0)
    times = (rounds[:, None] * length + begins).ravel()
    return Course(times, np.tile(pieces.values, len(rounds)))
