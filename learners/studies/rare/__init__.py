"""`simkit reproduce rare`: order, packing and agents on a pool limited by its power."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import polars as pl

from simkit.learners.studies.green.judge import best_threshold
from simkit.learners.studies.green.trainings import FULL, LATE_LEAVE, QUICK, SMALL_POOL, Size, free
from simkit.learners.studies.rare.judge import Judge
from simkit.learners.studies.rare.setting import (
    JULY,
    PRINTED,
    SIZES,
    leaving,
    printed,
    several_sizes,
    small_pool,
)
from simkit.learners.studies.rare.tables import CLAIMS, NUMBERS, TABLES, draw
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(place: Workplace, size: Size) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing: some two hours on two cores in the full version."""
    seeds = range(size.seeds)
    full, windy = ([printed(place, size, power, seed) for seed in seeds] for power in PRINTED)
    ppo, rare, pool = (
        [make(place, size, seed) for seed in seeds] for make in (free, leaving, small_pool)
    )
    several = several_sizes(place, size, 0)
    trainings = [*ppo, *rare, *pool, several, *full, *windy]
    train(place, trainings)
    judge, where = Judge(place, size), PRINTED["full"]
    place.say("judging where nobody leaves")
    tables = [
        *(judge.printed(f"{units} units", replace(where, units=units), full) for units in SIZES),
        judge.printed("90 % of the power", replace(where, power="90"), full),
        judge.printed("80 % of the power", replace(where, power="80"), full),
        judge.printed("wind and sun", replace(PRINTED["wind-sun"], zero=JULY), windy),
        *(judge.printed(f"ready pool {ready}", replace(where, ready=ready)) for ready in (15, 25)),
        judge.bound("as printed, 10 units", where),
    ]
    place.say("judging where late jobs leave")
    theta, theta_pool = (
        best_threshold(place, size.at(where), size.tuning) for where in (LATE_LEAVE, SMALL_POOL)
    )
    for units in SIZES:
        who = [*ppo, *rare, several] if units <= 20 else [several]
        tables.append(judge.leaving(f"{units} units", replace(LATE_LEAVE, units=units), theta, who))
    tables += [
        judge.leaving("90 % of the power", replace(LATE_LEAVE, power="90"), theta, [*ppo, *rare]),
        judge.leaving("80 % of the power", replace(LATE_LEAVE, power="80"), theta, [*ppo, *rare]),
        judge.leaving("ready pool 5", SMALL_POOL, theta_pool, pool),
        judge.bound("leave, 10 units", LATE_LEAVE),
        judge.forecasts(ppo[0]),
    ]
    return pl.concat(tables), {
        "threshold": theta,
        "threshold, ready pool 5": theta_pool,
        "training minutes": sum(one.seconds for one in trainings) / 60.0,
    }


STUDY: Final = Study(
    "rare", FULL, replace(QUICK, hours=100), measure,
    numbers=NUMBERS, tables=TABLES, claims=CLAIMS, pictures={"rare": draw},
)  # fmt: skip
