"""Arms on the job sets of a scenario: the loop by which studies judge what runs in the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from simkit.learners.studies.results import BOUND
from simkit.scenario import Scenario
from simkit.training.evaluate import Candidate, evaluate
from simkit.training.held_out import WINDOW

__all__ = ["Arm", "evaluated"]


@dataclass(frozen=True)
class Arm:
    """A policy, or the agent of one training."""

    name: str
    policy: Mapping[str, Any]
    """The section `policy` of a scenario."""
    seed: int | None = None
    """Of the agent's training."""

    @property
    def label(self) -> str:
        """Its name, followed by the seed of an agent: ``ARM#SEED``."""
        return self.name if self.seed is None else f"{self.name}#{self.seed}"


def evaluated(
    scenario: Scenario, arms: Sequence[Arm], *, metric: str, bound: bool = False, **asked: Any
) -> pl.DataFrame:
    """Return a row for each arm and job set with jobs, as `long` reads it.

    Args:
        scenario: whose jobs they play.
        arms: policies and agents.
        metric: of jobs or runs, see `evaluate`.
        bound: whether the arm `BOUND` has what no schedule can be below in the metric.
        asked: which job sets, further metrics, and how many workers, see `evaluate`.

    Returns:
        ``arm``, ``seed``, and ``item``: the number of the set, or the first job of a window that
        is held out; a column by the name of the metric, its mean; and those of `Evaluation.rows`.
    """
    kinds = ("policy" if one.seed is None else "agent" for one in arms)
    everyone = [
        Candidate(kind, one.policy, one.label)  # type: ignore[arg-type] # one of two words
        for kind, one in zip(kinds, arms, strict=True)
    ]
    rows = evaluate(scenario, everyone, metric=metric, bound=bound, **asked).rows
    by_label = {one.label: {"arm": one.name, "seed": one.seed} for one in arms}
    found = [
        {metric: row["sum"] / row["jobs"], **row, **by_label[row["label"]],
         "item": int(str(row.get(WINDOW, row["set"])).partition("..")[0])}
        for row in rows if row["jobs"]
    ]  # fmt: skip
    if bound:
        least = [row for row in found if row["label"] == arms[0].label]
        found += [{"arm": BOUND, "item": row["item"], metric: row["bound"]} for row in least]
    return pl.DataFrame(found, schema_overrides={"seed": pl.Int64}, infer_schema_length=None)
