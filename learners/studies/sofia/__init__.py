"""`simkit reproduce sofia`: natural gradient and figure 4 of the Sofia study."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import chain
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
    agents = trainings.trained(place, setting)
    tried = {arm: trainings.pilots(place, setting, arm) for arm in agents}
    rows = [trainings.learning(arm, several, tried[arm]) for arm, several in agents.items()]
    scenario = trainings.scenario_at(trainings.RATE, setting)
    timed = partial(trainings.costs, scenario, setting.arguments, iterations=setting.timed)
    rows.append(kept_table(place, "costs", asdict(setting), timed))
    every = chain(*agents.values(), *(known.values() for known in tried.values()))
    seconds = {one.folder: one.seconds for one in every}
    return pl.concat([*rows, judge_all(place, setting, agents)]), {
        "tuned": {arm: trainings.tuned(arm, several[0]) for arm, several in agents.items()},
        "training time, min": sum(seconds.values()) / 60,
    }


STUDY: Final = Study(
    "sofia", trainings.FULL, trainings.QUICK, measure, metrics=METRICS, page=page,
    pictures=page.PICTURES,
)  # fmt: skip
