"""Results as the pages that are not ported yet read them; see `simkit.learners.studies.green`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from simkit.analysis.intervals import set_interval
from simkit.arrays import Floats
from simkit.learners.studies.green import judge as now
from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.judge import (
    FIT,
    JUDGED,
    JUDGED_AFRESH,
    THRESHOLDS,
    TUNING,
    Candidate,
    best_threshold,
    games_of,
    rule,
    threshold_of,
)
from simkit.training import Workplace

__all__ = [
    "FIT",
    "JUDGED_AFRESH",
    "THRESHOLDS",
    "TUNING",
    "Candidate",
    "Gap",
    "best_threshold",
    "column",
    "games_of",
    "gap",
    "judged",
    "mean",
    "paired",
    "rule",
    "threshold_of",
]


def judged(
    place: Workplace, where: Circumstances, candidates: Iterable[Candidate], streams: int,
    *, named: str = JUDGED,
) -> pl.DataFrame:  # fmt: skip
    """Return a row for each candidate and stream: value, cost, completed, utilisation."""
    tables = []
    for one in candidates:
        rows = now.judged(place, where, [one], streams, named=named)
        wide = rows.pivot("metric", index="item", values="value").rename({"item": "stream"})
        tables.append(wide.select(pl.lit(one.arm).alias("candidate"), pl.all()))
    return pl.concat(tables)


@dataclass(frozen=True)
class Gap:
    """A mean difference over streams in points, with an interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def column(table: pl.DataFrame, candidate: str, name: str = "value") -> Floats:
    """Return (S,) a column of a candidate, stream by stream."""
    found: Floats = table.filter(candidate=candidate).sort("stream")[name].to_numpy()
    return found.astype(np.float64)


def mean(table: pl.DataFrame, candidate: str, name: str = "value") -> float:
    """Return the mean of a column over the streams."""
    return float(column(table, candidate, name).mean())


def gap(table: pl.DataFrame, candidate: str, baseline: str, name: str = "value") -> Gap:
    """Return by how much a candidate exceeds a baseline on the same streams, in hundredths."""
    return paired(column(table, candidate, name), column(table, baseline, name))


def paired(mine: Floats, other: Floats) -> Gap:
    """Return the mean difference of (S,) numbers of the same streams, in hundredths."""
    difference = 100.0 * (mine - other)
    interval = set_interval(difference, np.ones(len(difference)))
    low = -np.inf if interval.low is None else interval.low
    high = np.inf if interval.high is None else interval.high
    return Gap(float(difference.mean()), low, high)
