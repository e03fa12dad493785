"""Learning curves of the Sofia study's trainings: what a look showed, and samples to a level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simkit.bootstrap import Interval, seed_interval
from simkit.training_folder import Row

from .sofia_study import LOOKS, METHODS, Task

Floats = npt.NDArray[np.float64]

GRID: Final = 80
"""Points of a curve of several trainings."""


@dataclass(frozen=True)
class Curve:
    """What the looks at the held-out batches showed in one training."""

    task: Task
    iteration: Floats
    """(L,)"""
    decisions: Floats
    """(L,) taken in training until then: the samples."""
    slowdown: Floats
    """(L,) mean over all jobs of the held-out batches."""
    returns: Floats
    """(L,) mean sum of rewards of a held-out batch, below 0."""
    load: tuple[float, float]
    """The mean load L = Q + M of the first iteration's steps, and of the last's."""
    load_at_cut: tuple[float, float]
    """Likewise of the step at which the study looks at it; of batches that are done, 0."""

    @classmethod
    def of(cls, task: Task, rows: Sequence[Row]) -> Curve:
        """Return the curve of a training's rows; the first is that before all iterations."""
        taken = np.cumsum([row.get("decisions", 0.0) for row in rows])
        looks = [number for number, row in enumerate(rows) if "held_out_slowdown" in row]

        def column(name: str) -> Floats:
            return np.array([rows[number][name] for number in looks])

        ends = rows[1], rows[-1]
        return cls(
            task=task,
            iteration=column("iteration"),
            decisions=taken[looks],
            slowdown=column("held_out_slowdown"),
            returns=column("held_out_return"),
            load=(ends[0]["load"], ends[1]["load"]),
            load_at_cut=(ends[0]["last_load"], ends[1]["last_load"]),
        )

    @property
    def end(self) -> float:
        """The slowdown that it ends with."""
        return float(smooth(self.slowdown)[-1])

    def samples_to(self, level: float, *, of: str = "slowdown") -> float | None:
        """Return the decisions at the first look at which a level is met; None: at none.

        Args:
            level: a slowdown, which is to be at most that, or a return, to be at least that; of the
                mean of a look and those just before.
            of: ``slowdown`` or ``returns``.
        """
        values = smooth(getattr(self, of))
        met = np.flatnonzero(values >= level if of == "returns" else values <= level)
        return float(self.decisions[met[0]]) if len(met) else None

    def as_rows(self) -> Iterable[dict[str, Any]]:
        """Yield a row a look, for a table."""
        for number in range(len(self.decisions)):
            yield {
                "method": METHODS[self.task.method].label,
                "learning_rate": self.task.rate,
                "seed": self.task.seed,
                "iteration": int(self.iteration[number]),
                "decisions": int(self.decisions[number]),
                "held_out_slowdown": self.slowdown[number],
                "held_out_return": self.returns[number],
            }


def smooth(values: Floats) -> Floats:
    """Return the mean of each value and the `LOOKS` - 1 before it, fewer at the beginning."""
    sums = np.cumsum(values)
    sums[LOOKS:] = sums[LOOKS:] - sums[:-LOOKS]
    result: Floats = sums / np.minimum(np.arange(1, len(values) + 1), LOOKS)
    return result


@dataclass(frozen=True)
class Band:
    """Curves of several seeds as one: a mean, and an interval where there are two or more."""

    decisions: Floats
    """(P,)"""
    mean: Floats
    """(P,)"""
    low: Floats
    """(P,) nan with one seed."""
    high: Floats
    """(P,)"""


def band(curves: Sequence[Curve], of: str = "slowdown") -> Band:
    """Return the mean of the curves, each smoothed, where all have been, with 95 % intervals."""
    decisions = np.linspace(0, min(curve.decisions[-1] for curve in curves), GRID)
    values = np.array(
        [np.interp(decisions, curve.decisions, smooth(getattr(curve, of))) for curve in curves]
    )  # (seeds, P)
    intervals = [seed_interval(column) for column in values.T]
    return Band(
        decisions,
        values.mean(axis=0),
        np.array([np.nan if one.low is None else one.low for one in intervals]),
        np.array([np.nan if one.high is None else one.high for one in intervals]),
    )


@dataclass(frozen=True)
class Saving:
    """Samples that one method takes to where another ends, as a share of the other's, by seed."""

    shares: tuple[float | None, ...]
    """One a seed; None: the one never came there."""

    @property
    def interval(self) -> tuple[float, Interval] | None:
        """The geometric mean and its interval; None unless all seeds came there."""
        known = [share for share in self.shares if share is not None]
        if len(known) < len(self.shares) or not known:
            return None
        logs = np.log(known)
        found = seed_interval(logs)
        bounds = [None if x is None else float(np.exp(x)) for x in (found.low, found.high)]
        mean = float(np.exp(logs.mean()))
        return mean, Interval(bounds[0], bounds[1], found.level, found.method, found.blocks)


def saving(one: Sequence[Curve], other: Sequence[Curve]) -> Saving:
    """Return how many samples one method needs for the return that another ends with.

    Seed by seed: the level is what the other's training ends with, its samples those with which it
    first was there.
    """
    shares: list[float | None] = []
    for mine, theirs in zip(one, other, strict=True):
        level = float(smooth(theirs.returns)[-1])
        needed = mine.samples_to(level, of="returns")
        taken = theirs.samples_to(level, of="returns")
        assert taken is not None  # at its end at the latest
        shares.append(None if needed is None else max(needed, 1.0) / max(taken, 1.0))
    return Saving(tuple(shares))
