"""`simkit reproduce rare`: order, packing and agents on a pool limited by its power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

import polars as pl

from simkit.learners.studies.green.circumstances import Circumstances, Power
from simkit.learners.studies.green.judge import METRICS, best_threshold
from simkit.learners.studies.green.trainings import (
    FULL,
    LATE_LEAVE,
    QUICK,
    SMALL_POOL,
    Size,
    free,
    training,
)
from simkit.learners.studies.rare import judge, page
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import KeptTraining, kept_rows, kept_tables, train
from simkit.training import Workplace

__all__ = ["PRINTED", "STUDY"]

PRINTED: Final[Mapping[Power, Circumstances]] = {
    power: Circumstances(load=1.0, ready=5, late="stay", power=power, max_start=12)
    for power in ("full", "wind-sun")
}
"""The dissertation's circumstances: ready pool of 5, load 100 %; no job leaves."""
JULY: Final = "2019-07-01T00:00:00-06:00"
"""Beginning of the test weather; trainings see the weather from January on."""


def printed(place: Workplace, size: Size, power: Power, seed: int) -> KeptTraining:
    """Return the training as printed: RARE, whose memory begins with the play of fit12."""
    return training(
        place, size, f"printed-{power}", "rare", PRINTED[power], size.iterations(60), seed,
        teacher="left-over", warm_up=size.iterations(40), discount=0.995, games=size.games // 2,
    )  # fmt: skip


def measure(place: Workplace, size: Size) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing: some two hours on two cores in the full version."""
    make, seeds, many = partial(training, place, size), range(size.seeds), size.iterations(150)
    full, windy = ([printed(place, size, power, seed) for seed in seeds] for power in PRINTED)
    ppo = [free(place, size, seed) for seed in seeds]
    rare = [
        make("rare", "rare", LATE_LEAVE, size.iterations(60), seed, games=size.games // 2)
        for seed in seeds
    ]
    pool = [make("ppo-pool5", "cocorl", SMALL_POOL, many, seed) for seed in seeds]
    several = make("sizes", "cocorl", LATE_LEAVE, many, 0, units=[10, 20, 50])
    trainings = [*ppo, *rare, *pool, several, *full, *windy]
    train(place, trainings)
    theta, theta_pool = (
        best_threshold(place, size.at(where), size.tuning) for where in (LATE_LEAVE, SMALL_POOL)
    )
    place.say("judging")
    where, stay, leave = PRINTED["full"], partial(judge.printed, size), partial(judge.leaving, size)
    less: dict[str, Power] = {"90 % of the power": "90", "80 % of the power": "80"}
    sizes = {f"{units} units": units for units in judge.SIZES}
    parts = [
        *(stay(case, replace(where, units=units), full) for case, units in sizes.items()),
        *(stay(case, replace(where, power=power), full) for case, power in less.items()),
        stay("wind and sun", replace(PRINTED["wind-sun"], zero=JULY), windy),
        *(stay(f"ready pool {ready}", replace(where, ready=ready)) for ready in (15, 25)),
        *(
            leave(case, replace(LATE_LEAVE, units=units), theta,
                  [*ppo, *rare, several] if units <= 20 else [several])
            for case, units in sizes.items()
        ),
        *(
            leave(case, replace(LATE_LEAVE, power=power), theta, [*ppo, *rare])
            for case, power in less.items()
        ),
        leave("ready pool 5", SMALL_POOL, theta_pool, pool),
    ]  # fmt: skip
    bounds = {"as printed, 10 units": where, "leave, 10 units": LATE_LEAVE}
    rows = [
        kept_rows(place, list(chain(*parts)), METRICS),
        kept_rows(place, [judge.bound(size, *one) for one in bounds.items()], ["value"]),
        *kept_tables(place, [judge.forecasts(size, ppo[0])]),
    ]
    return pl.concat(rows), {
        "threshold": theta,
        "threshold, ready pool 5": theta_pool,
        "training minutes": sum(one.seconds for one in trainings) / 60.0,
    }


STUDY: Final = Study(
    "rare", FULL, replace(QUICK, hours=100), measure, page=page, pictures={"rare": page.draw},
    best=page.BEST,
)  # fmt: skip
