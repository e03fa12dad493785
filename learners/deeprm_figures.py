"""The numbers of the DeepRM page: gains over heuristics with intervals, all jobs counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .deeprm_study import HEURISTICS, RESERVING, WITHHOLDING, Setting, agents_for

if TYPE_CHECKING:
    import polars as pl

Floats = npt.NDArray[np.float64]

RESAMPLES = 4000
OPPONENTS = tuple(label for label in HEURISTICS if label != "Random")
"""SJF, Packer and Tetris with every knob: what the paper compares with."""


@dataclass(frozen=True)
class Estimate:
    """A number with its interval of 95 %, by resampling job sets."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class AtLoad:
    """Everyone at one load; means over all jobs of all held-out sets."""

    load: int
    means: dict[str, float]
    """Label → mean; of the agents, each seed's."""
    unfinished: dict[str, int]
    agents: tuple[str, ...]
    """Labels of the agents trained for the load, seed by seed."""
    agent: Estimate
    """The mean over these seeds."""
    best: str
    """The best of SJF, Packer and Tetris with any knob."""
    gain: Estimate
    """1 − agents' mean / best's mean, paired by job set."""
    best_reserving: str
    gain_over_reserving: Estimate
    best_withholding: str
    gain_over_withholding: Estimate


def at_load(judged: pl.DataFrame, load: int, setting: Setting, metric: str = "slowdown") -> AtLoad:
    """Return how all fare at a load."""
    objective = "slowdown" if metric == "slowdown" else "completion"
    here = judged.filter((judged["load"] == load) & (judged["metric"] == metric))
    sums, jobs, unfinished = {}, {}, {}
    for (label,), rows in here.group_by("label", maintain_order=True):
        ordered = rows.sort("set")
        sums[str(label)] = ordered["sum"].to_numpy().astype(np.float64)
        jobs[str(label)] = ordered["jobs"].to_numpy().astype(np.float64)
        unfinished[str(label)] = int(ordered["unfinished"].sum())
    means = {label: float(sums[label].sum() / jobs[label].sum()) for label in sums}
    agents = tuple(
        task.name for task in agents_for(load, setting)
        if task.objective == objective and task.fresh and task.name in means
    )  # fmt: skip
    together = np.mean([sums[label] for label in agents], axis=0)
    count = jobs[agents[0]]
    best, reserving, withholding = (
        min((label for label in labels if label in means), key=means.__getitem__)
        for labels in (OPPONENTS, tuple(RESERVING), tuple(WITHHOLDING))
    )
    return AtLoad(
        load, means, unfinished, agents,
        _ratio(together, count, 0.0, 1.0),
        best, _ratio(together, sums[best], 1.0, -1.0),
        reserving, _ratio(together, sums[reserving], 1.0, -1.0),
        withholding, _ratio(together, sums[withholding], 1.0, -1.0),
    )  # fmt: skip


def _ratio(above: Floats, below: Floats, offset: float, sign: float) -> Estimate:
    """Return offset + sign · Σ above / Σ below, with the interval of resampled job sets."""
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(1,)))
    drawn = rng.integers(len(above), size=(RESAMPLES, len(above)))
    values = offset + sign * above[drawn].sum(axis=1) / below[drawn].sum(axis=1)
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    return Estimate(float(offset + sign * above.sum() / below.sum()), low, high)


def first_below(curve: pl.DataFrame, threshold: float) -> int | None:
    """Return the first iteration whose held-out slowdown, over seeds, is below a threshold."""
    looks = curve.select("iteration", "held_out_slowdown").drop_nulls()
    looks = looks.group_by("iteration").mean().sort("iteration")
    below = looks.filter(looks["held_out_slowdown"] < threshold)
    return int(below["iteration"][0]) if len(below) else None
