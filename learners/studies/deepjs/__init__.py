"""`simkit reproduce deepjs`: the published table and figures, and better schedulers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from simkit.learners.studies.deepjs import page
from simkit.learners.studies.deepjs.agreement import agreement, sliding
from simkit.learners.studies.deepjs.judge import judge
from simkit.learners.studies.deepjs.trainings import FULL, QUICK, DeepJSSetting, scenarios
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import KeptTraining, train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(place: Workplace, setting: DeepJSSetting) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing: about four hours on one core in the full version.

    Raises RunError if SIMKIT_DATA does not hold the table of jobs.
    """
    trained = {
        kind: [KeptTraining(place, one) for one in seeds]
        for kind, seeds in scenarios(setting).items()
    }
    train(place, [one for seeds in trained.values() for one in seeds])
    rows = pl.concat([
        judge(place, setting, trained),
        sliding(setting, trained),
        agreement(setting, trained),
    ])  # fmt: skip
    minutes = {
        kind: round(float(np.mean([one.seconds for one in seeds])) / 60, 1)
        for kind, seeds in trained.items()
        if seeds
    }
    return rows, {"minutes": minutes}


STUDY: Final = Study("deepjs", FULL, QUICK, measure, page=page, pictures=page.PICTURES)
