"""`simkit reproduce cocorl`: agents of limited cost, compared with rules of equal cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import polars as pl

from simkit.learners.studies.cocorl import tables
from simkit.learners.studies.cocorl import trainings as planned
from simkit.learners.studies.cocorl.claims import CLAIMS, rules_at_par
from simkit.learners.studies.cocorl.equal_cost import equal_cost_rows
from simkit.learners.studies.cocorl.pictures import PICTURES
from simkit.learners.studies.cocorl.tables import LOADS, TRAINED
from simkit.learners.studies.green.judge import HEURISTICS, agents, judged, rule
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
    everyone = [*rules, *map(rule, tables.THRESHOLD_RULES), *agents(trainings)]
    trained = judged(place, where, everyone, size.streams, case=TRAINED)
    few = [*rules, *agents([unlimited[0], limited[0]])]
    others = [
        judged(place, replace(where, load=int(load) / 100), few, size.streams, case=load)
        for load in LOADS
        if load != TRAINED
    ]
    rows = pl.concat([trained, equal_cost_rows(Results(trained), TRAINED), *others])
    return rows, {
        "limits": {one.scenario.name: planned.kept_to_limit(one) for one in limited},
        "trainings": len(trainings),
        "training time, min": sum(one.seconds for one in trainings) / 60,
    }


def _surely_beside(results: Results) -> tuple[int, int]:
    """Return how many agents are surely above, and below, the line of threshold rules."""
    trainings = tables.keys_of(results, tables.FRONTIER)
    gaps = [
        results.ask(tables.over_equal(f"{arm} | {TRAINED} | seed={seed}"))
        for arm, seed in trainings
    ]
    above = sum(gap.surely(0.0) for gap in gaps)
    return above, sum(gap.high is not None and gap.high < 0 for gap in gaps)


STUDY: Final = Study(
    "cocorl", FULL, QUICK, measure,
    tables=tables.TABLES, claims=CLAIMS, pictures=PICTURES,
    numbers={
        "bar, likeliest": lambda found: tables.bar_met(found, "likeliest"),
        "bar, drawn": lambda found: tables.bar_met(found, "drawn"),
        "surely above": lambda found: _surely_beside(found)[0],
        "surely below": lambda found: _surely_beside(found)[1],
        "best θ": lambda found: tables.best_threshold_rule(found).removeprefix("threshold "),
        "best θ over QoS": lambda found: found.ask(
            f"value | {tables.best_threshold_rule(found)} | {TRAINED} | less=qos | percent"
        ),
        "rules at par": rules_at_par,
    },
)  # fmt: skip
