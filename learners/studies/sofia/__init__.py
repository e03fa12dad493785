"""`simkit reproduce sofia`: natural gradient and figure 4 of the Sofia study."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from simkit.learners.studies.sofia.claims import CLAIMS
from simkit.learners.studies.sofia.judge import METRICS, judge_all
from simkit.learners.studies.sofia.pictures import draw_curves, draw_figure_4
from simkit.learners.studies.sofia.tables import NUMBERS, TABLES
from simkit.learners.studies.sofia.trainings import (
    FULL,
    QUICK,
    RATE,
    SofiaSetting,
    costs,
    learning,
    scenario_at,
    trained,
)
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import kept_table
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(place: Workplace, setting: SofiaSetting) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train, time and judge what is missing: about an hour on one core in the full version."""
    agents = trained(place, setting)
    timed = kept_table(
        place,
        place.work / "costs.parquet",
        lambda: costs(scenario_at(RATE, setting), setting.arguments, iterations=setting.timed),
        "timed the updates",
    )
    learnt = [learning(arm, known) for arm, known in agents.items()]
    seconds = {
        one.folder: one.seconds
        for known in agents.values()
        for one in (*known.pilots.values(), *known.seeds)
    }
    return pl.concat([*learnt, timed, judge_all(place, setting, agents)]), {
        "tuned": {arm: known.value for arm, known in agents.items()},
        "training time, min": sum(seconds.values()) / 60,
    }


STUDY: Final = Study(
    "sofia", FULL, QUICK, measure,
    metrics=METRICS,
    numbers=NUMBERS,
    tables=TABLES,
    claims=CLAIMS,
    pictures={"sofia-curves": draw_curves, "sofia-figure4": draw_figure_4},
)  # fmt: skip
