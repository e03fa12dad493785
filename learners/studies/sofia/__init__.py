"""`simkit reproduce sofia`: natural gradient and figure 4 of the Sofia study."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, Final

import polars as pl

from simkit.learners.studies.sofia import page, trainings
from simkit.learners.studies.sofia.judge import METRICS, judge_all
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import kept_table
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(
    place: Workplace, setting: trainings.SofiaSetting
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train, time and judge what is missing: about an hour on one core in the full version."""
    found = trainings.trained(place, setting)
    rows = [trainings.learning(arm, tuned) for arm, tuned in found.items()]
    scenario = trainings.scenario_at(trainings.RATE, setting)
    timed = partial(trainings.costs, scenario, setting.arguments, iterations=setting.timed)
    rows.append(kept_table(place, "costs", asdict(setting), timed))
    rows.append(judge_all(place, setting, {arm: tuned.seeds for arm, tuned in found.items()}))
    every = [one for tuned in found.values() for one in (*tuned.seeds, *tuned.pilots.values())]
    return pl.concat(rows), {
        "tuned": {arm: tuned.value for arm, tuned in found.items()},
        "training time, min": sum({one.folder: one.seconds for one in every}.values()) / 60,
    }


STUDY: Final = Study(
    "sofia", trainings.FULL, trainings.QUICK, measure, metrics=METRICS, page=page,
    pictures=page.PICTURES,
)  # fmt: skip
