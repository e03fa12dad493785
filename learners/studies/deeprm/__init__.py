"""`simkit reproduce deeprm`: the figures of the paper, and an agent of ours for all loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from simkit.learners.studies.deeprm import page, trainings
from simkit.learners.studies.deeprm.judge import METRICS, judge_all
from simkit.learners.studies.deeprm.withheld import watch
from simkit.learners.studies.results import long
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(
    place: Workplace, setting: trainings.DeepRMSetting
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing: on one core some four hours in the full version."""
    papers, ours = trainings.paper_agents(place, setting), trainings.our_agents(place, setting)
    train(place, [one for agents in (*ours, *papers) for one in agents.kept])
    rows, chosen = judge_all(place, setting, papers, ours)
    parts = [rows, *curves(papers), watch(place, papers, setting.held_out)]
    facts: dict[str, Any] = {"items": "every job set", "chosen rules": chosen}
    for agents in ours:
        facts[f"{agents.arm}, s"] = ", ".join(f"{one.seconds:.0f}" for one in agents.kept)
    seconds = sum(one.seconds for agents in papers for one in agents.kept)
    facts["trainings by the paper's recipe, s"] = f"{seconds:,.0f}"
    return pl.concat(parts), facts


def curves(papers: Sequence[trainings.Agents]) -> Iterator[pl.DataFrame]:
    """Yield the curves of trainings at every evaluation; an item is an iteration."""
    for agents in papers:
        for seed, one in enumerate(agents.kept):
            curve, item = one.curve.drop_nulls(page.CURVE), pl.col("iteration")
            told = {"arm": agents.arm, "seed": seed, "case": page.LEARNING, "item": item}
            yield long(curve, (page.CURVE, "return", "return_best"), **told)


STUDY: Final = Study(
    "deeprm", trainings.FULL, trainings.QUICK, measure, metrics=METRICS, page=page,
    pictures=page.PICTURES, best=page.BEST,
    pages=("deeprm", "deeprm-one-agent"),
)  # fmt: skip
