"""Figure 4 of the Sofia page: slowdowns by two counts, with intervals over batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from simkit.bootstrap import Interval, set_interval

from .sofia_judge import EVERYWHERE, GREEDY, HEURISTICS
from .sofia_study import METHODS, RATE, Task

if TYPE_CHECKING:
    import polars as pl

Floats = npt.NDArray[np.float64]

REFERENCE: Final = "SJF, reserving best"
"""The study's SJF: it may start jobs later, as agents may."""
PACKER: Final = "Packer, reserving best"
"""The study's Packer, likewise."""


@dataclass(frozen=True)
class Estimate:
    """A mean over jobs with its interval over batches."""

    value: float
    interval: Interval

    def __str__(self) -> str:
        low, high = self.interval.low, self.interval.high
        if low is None or high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({low:.2f} to {high:.2f})"


@dataclass(frozen=True)
class Score:
    """How a heuristic fares at a rate, or agents of one method, each batch's mean over seeds."""

    rate: float
    label: str
    seeds: tuple[float, ...]
    """The mean slowdown of each training's agent; empty for heuristics."""
    batches: int
    everyone: Estimate
    """Mean slowdown of all jobs, played to the end."""
    at_cut: Estimate
    """Of the jobs that are finished at the cut: the study's count."""
    done_at_cut: float
    """Their share of all jobs."""
    unfinished: int
    """Jobs that never finished; they are in `everyone`."""
    apart: Estimate | None
    """Of `everyone`, this one's less the reference's, paired by batch; None of the reference."""


def scores(table: pl.DataFrame, agents: Mapping[str, list[Task]]) -> list[Score]:
    """Return a score for each rate and whoever was judged there."""
    found = []
    for rate in table["rate"].unique(maintain_order=True):
        here = table.filter(table["rate"] == rate)
        reference = _sums(here, [REFERENCE])
        for label, members in _groups(agents, at_training=rate == RATE).items():
            found.append(_score(rate, label, here, members, reference))
    return found


def _groups(agents: Mapping[str, list[Task]], *, at_training: bool) -> dict[str, list[str]]:
    """Return label → labels of the judged that it stands for."""
    groups = {label: [label] for label in HEURISTICS}
    for method, tasks in agents.items():
        if at_training or method in EVERYWHERE:
            groups[METHODS[method].label] = [task.name for task in tasks]
        if method == "natural":
            groups[METHODS[method].label + GREEDY] = [task.name + GREEDY for task in tasks]
    return groups


def _sums(here: pl.DataFrame, members: list[str]) -> dict[str, Floats]:
    """Return column → (members, batches) of the judged."""
    columns = ("sum", "jobs", "sum_at_cut", "done_at_cut", "unfinished")
    tables = [here.filter(here["label"] == label).sort("batch") for label in members]
    return {
        name: np.array([table[name].to_numpy() for table in tables], np.float64) for name in columns
    }


def _score(
    rate: float,
    label: str,
    here: pl.DataFrame,
    members: list[str],
    reference: Mapping[str, Floats],
) -> Score:
    mine = _sums(here, members)
    mean = {name: values.mean(axis=0) for name, values in mine.items()}  # (batches,)
    by_member = mine["sum"].sum(axis=1) / mine["jobs"].sum(axis=1)
    apart = _estimate(mean["sum"] - reference["sum"][0], mean["jobs"])
    return Score(
        rate=rate,
        label=label,
        seeds=() if label in HEURISTICS else tuple(by_member.tolist()),
        batches=mine["sum"].shape[1],
        everyone=_estimate(mean["sum"], mean["jobs"]),
        at_cut=_estimate(mean["sum_at_cut"], mean["done_at_cut"]),
        done_at_cut=float(mean["done_at_cut"].sum() / mean["jobs"].sum()),
        unfinished=int(mine["unfinished"].sum()),
        apart=None if label == REFERENCE else apart,
    )


def _estimate(sums: Floats, counts: Floats) -> Estimate:
    return Estimate(float(sums.sum() / counts.sum()), set_interval(sums, counts))
