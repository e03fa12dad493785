"""The difference of one metric between paired runs, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from simkit.bootstrap import Floats, Interval, seed_interval, weekly_interval
from simkit.job_metrics import JobMetric
from simkit.metric_numbers import metric_numbers
from simkit.metrics import counted_resource
from simkit.paired_metrics import RunMetric
from simkit.pairing import Pair


@dataclass(frozen=True)
class Difference:
    """How one metric differs between paired jobs or runs: B - A, below 0 where B is lower."""

    metric: str
    unit: str
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    """Mean of B - A over the pairs, or over the seeds' means."""
    interval: Interval
    better: float | None
    """Share of pairs of jobs where B is lower than A, then equal to it, then higher; of what should
    be high, such as what jobs are worth, better is higher. None of whole runs."""
    equal: float | None
    worse: float | None
    n: int
    """Jobs, or pairs of runs, that have a value on both sides, summed over the seeds."""
    without_value: int
    """Those of both sides that are left out, as one or both have no value."""
    of: Literal["jobs", "runs"] = "jobs"
    """What `n` counts."""


class Bootstrap(NamedTuple):
    """How an interval over weeks is made."""

    level: float
    resamples: int
    seed: int


def of_jobs(
    metric: JobMetric, pairs: Sequence[Pair], tau: float, bootstrap: Bootstrap
) -> Difference:
    """Return the difference of a metric of single jobs; `tau` in s is the floor of run times."""
    columns = [pair.values(metric.value(tau, counted_resource(pair.resources))) for pair in pairs]
    lost = sum(pair.size - len(x) for pair, (x, _, _) in zip(pairs, columns, strict=True))
    means = np.array([[x.mean(), y.mean()] for x, y, _ in columns if len(x)]).reshape(-1, 2)
    apart = np.array([(y - x).mean() for x, y, _ in columns if len(x)])
    if len(pairs) > 1:
        interval = seed_interval(apart, level=bootstrap.level)
    else:
        first, second, submit = columns[0]
        interval = weekly_interval(second - first, submit, **bootstrap._asdict())
    first, second = (np.concatenate([column[side] for column in columns]) for side in (0, 1))
    shares: list[float | None] = [None] * 3
    if len(first):
        shares = [
            float(where.mean()) for where in (second < first, second == first, second > first)
        ]
    if metric.high_is_good:
        shares.reverse()
    better, equal, worse = shares
    return Difference(
        metric.name,
        metric.unit,
        *_middle(means, apart),
        interval,
        better,
        equal,
        worse,
        n=len(first),
        without_value=lost,
    )


def of_runs(metric: RunMetric, pairs: Sequence[Pair], level: float) -> Difference:
    """Return the difference of a number of whole runs."""
    numbers = [
        [metric_numbers(run.metrics)[metric.name].value for run in (pair.a, pair.b)]
        for pair in pairs
    ]
    known = np.array([row for row in numbers if None not in row], np.float64).reshape(-1, 2)
    apart: Floats = known[:, 1] - known[:, 0]
    interval = seed_interval(apart, level=level)
    if len(pairs) == 1:
        why = "none: a number of a whole run has an interval over several seeds alone"
        interval = Interval(None, None, level, why, len(known))
    return Difference(
        metric.name,
        metric.unit,
        *_middle(known, apart),
        interval,
        better=None,
        equal=None,
        worse=None,
        n=len(known),
        without_value=len(pairs) - len(known),
        of="runs",
    )


def _middle(means: Floats, apart: Floats) -> tuple[float | None, float | None, float | None]:
    """Return the mean over seeds of A, of B and of B - A.

    Args:
        means: (S, 2) of each seed that has values, that of A and that of B.
        apart: (S,) of these, that of B - A.
    """
    if not len(means):
        return None, None, None
    return float(means[:, 0].mean()), float(means[:, 1].mean()), float(apart.mean())
