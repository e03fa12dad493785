"""`simkit reproduce cocorl`: agents of limited cost, compared with rules of equal cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import polars as pl

from simkit.learners.studies.cocorl import page
from simkit.learners.studies.cocorl import trainings as planned
from simkit.learners.studies.green.judge import BEST, HEURISTICS, agents, judged, rule
from simkit.learners.studies.green.trainings import FULL, LATE_LEAVE, QUICK, Size
from simkit.learners.studies.results import Results
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(place: Workplace, size: Size) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing: some 80 minutes on one core in the full version."""
    unlimited = planned.free_trainings(place, size)
    limited = planned.limited_trainings(place, size)
    train(place, unlimited)
    train(place, limited)  # these read the costs of the former
    place.say("judging")
    trainings, where = [*unlimited, *limited], size.at(LATE_LEAVE)
    rules = [rule(name) for name in HEURISTICS]
    everyone = [*rules, *map(rule, page.THRESHOLD_RULES), *agents(trainings)]
    trained = judged(place, where, everyone, size.streams, case=page.TRAINED)
    few = [*rules, *agents([unlimited[0], limited[0]])]
    others = [
        judged(place, replace(where, load=int(load) / 100), few, size.streams, case=load)
        for load in page.LOADS
        if load != page.TRAINED
    ]
    rows = pl.concat([trained, page.equal_cost_rows(Results(trained)), *others])
    return rows, {
        "limits": {one.scenario.name: planned.kept_to_limit(one) for one in limited},
        "trainings": len(trainings),
        "training time, min": sum(one.seconds for one in trainings) / 60,
    }


STUDY: Final = Study(
    "cocorl", FULL, QUICK, measure, page=page, best=BEST,
    pictures={"cocorl-frontier": page.draw_frontier, "cocorl-loads": page.draw_loads},
)  # fmt: skip
