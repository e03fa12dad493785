"""Learning curves of the Sofia study's trainings, and the costs of iterations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, Final

import numpy as np

from simkit.analysis.intervals import seed_interval
from simkit.arrays import Floats
from simkit.learners.recipes import sofia
from simkit.learners.reproductions.sofia.study import LOOKS, METHODS, SofiaRun
from simkit.scenario import Scenario
from simkit.training.folder import Row

GRID: Final = 80
"""Points of a mean curve."""


@dataclass(frozen=True)
class TrainingCurve:
    """The evaluations on held-out batches in one training."""

    task: SofiaRun
    iteration: Floats
    """(L,)"""
    decisions: Floats
    """(L,) decisions taken in training up to then: the samples."""
    slowdown: Floats
    """(L,) mean over all jobs of the held-out batches."""
    returns: Floats
    """(L,) mean sum of rewards of a held-out batch, below 0."""
    load: tuple[float, float] | None
    """The mean load L = Q + M of the first iteration's steps, and of the last iteration's; None if
    the learner does not measure it."""
    load_at_cut: tuple[float, float] | None
    """The same at the step at which the study reads it; 0 for batches that are done."""

    @classmethod
    def of(cls, task: SofiaRun, rows: Sequence[Row]) -> TrainingCurve:
        """Return the curve of a training's rows; the first row precedes all iterations."""
        taken = np.cumsum([row.get("decisions", 0.0) for row in rows])
        looks = [number for number, row in enumerate(rows) if "held_out_slowdown" in row]

        def column(name: str) -> Floats:
            return np.array([rows[number][name] for number in looks])

        def ends(name: str) -> tuple[float, float] | None:
            return (rows[1][name], rows[-1][name]) if name in rows[1] else None

        return cls(
            task=task,
            iteration=column("iteration"),
            decisions=taken[looks],
            slowdown=column("held_out_slowdown"),
            returns=column("held_out_return"),
            load=ends("load"),
            load_at_cut=ends("last_load"),
        )

    @property
    def end(self) -> float:
        """The final slowdown."""
        return float(smooth(self.slowdown)[-1])

    @property
    def end_return(self) -> float:
        """The final return."""
        return float(smooth(self.returns)[-1])

    def samples_to(self, level: float, *, of: str = "slowdown") -> float | None:
        """Return the decisions at the first evaluation that meets a level; None if none does.

        Args:
            level: the highest slowdown, or the lowest return, that meets it; evaluations are
                averaged by `smooth`.
            of: ``slowdown`` or ``returns``.
        """
        values = smooth(getattr(self, of))
        met = np.flatnonzero(values >= level if of == "returns" else values <= level)
        return float(self.decisions[met[0]]) if len(met) else None

    def as_rows(self) -> Iterable[dict[str, Any]]:
        """Yield a row for each evaluation, for a table."""
        for number in range(len(self.decisions)):
            yield {
                "method": METHODS[self.task.method].label,
                METHODS[self.task.method].tuned: self.task.value,
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
    """The mean of several seeds' curves, with an interval if there are two or more."""

    decisions: Floats
    """(P,)"""
    mean: Floats
    """(P,)"""
    low: Floats
    """(P,) nan with one seed."""
    high: Floats
    """(P,)"""


def band(curves: Sequence[TrainingCurve], of: str = "slowdown") -> Band:
    """Return the mean of the smoothed curves, up to the shortest's end, with 95 % intervals."""
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
    """Samples that one method needs for the same return, as a share of another's, by seed."""

    shares: tuple[float, ...]
    """A share for each seed."""
    ends_better: int
    """Number of seeds for which the one method's final return is at least the other's."""

    @property
    def mean(self) -> float:
        """Geometric mean of the shares."""
        return float(np.exp(np.log(self.shares).mean()))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The geometric mean's interval; None with one seed."""
        found = seed_interval(np.log(self.shares))
        if found.low is None or found.high is None:
            return None
        return float(np.exp(found.low)), float(np.exp(found.high))


def saving(one: Sequence[TrainingCurve], other: Sequence[TrainingCurve]) -> Saving:
    """Return how many samples one method needs for the same return as another.

    Seed by seed, that return is the worse of the two final ones, and each training's samples count
    until it first reaches it.
    """
    shares, better = [], 0
    for mine, theirs in zip(one, other, strict=True):
        ends = mine.end_return, theirs.end_return
        needed, taken = (c.samples_to(min(ends), of="returns") for c in (mine, theirs))
        assert needed is not None  # at its end at the latest
        assert taken is not None
        shares.append(max(needed, 1.0) / max(taken, 1.0))
        better += ends[0] >= ends[1]
    return Saving(tuple(shares), better)


WAYS: Final[dict[str, dict[str, Any]]] = {
    "gradient": {"update": "gradient"},
    "natural": {"update": "natural"},
    "natural, all decisions": {"update": "natural", "fisher_share": 1.0},
}
"""The plain gradient by Adam, and the natural one over a tenth of the decisions or over all."""


@dataclass(frozen=True)
class Cost:
    """The mean cost of an iteration with one kind of update."""

    seconds: float
    """Processor time of an iteration, playing included."""
    decisions: float
    """Decisions of an iteration: a policy that wastes time takes more of them."""

    @property
    def us_a_decision(self) -> float:
        """Processor time per decision, in microseconds."""
        return 1e6 * self.seconds / self.decisions


def costs(
    scenario: Scenario, arguments: Mapping[str, Any], *, iterations: int, seed: int = 0
) -> dict[str, Cost]:
    """Train with all kinds of update side by side; return the cost of an iteration of each.

    They take turns in one process, an iteration each, so that other load on the machine affects
    all equally. The first iteration, which warms the caches, is not counted.

    Args:
        scenario: with Sofia's workload.
        arguments: arguments of the learner; those in `WAYS` take precedence.
        iterations: timed iterations of each kind.
        seed: seed of all trainings.
    """
    trainings = {
        name: sofia(scenario, {**arguments, **way}, seed=seed) for name, way in WAYS.items()
    }
    seconds, decisions = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0.0)
    for number in range(iterations + 1):
        for name, training in trainings.items():
            begun = process_time()
            logged = training.step()
            if number:
                seconds[name] += process_time() - begun
                decisions[name] += logged["decisions"]
    return {name: Cost(seconds[name] / iterations, decisions[name] / iterations) for name in WAYS}
