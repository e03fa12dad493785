"""`simkit reproduce launchpad`: agents trained on recorded rules, in games, and on both."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from simkit.learners.studies.green import judge
from simkit.learners.studies.green.trainings import FULL, LATE_LEAVE, QUICK, SMALL_POOL, Size
from simkit.learners.studies.launchpad import page
from simkit.learners.studies.launchpad.agreement import agreement, over_data
from simkit.learners.studies.launchpad.data import MIXES, Data, make
from simkit.learners.studies.launchpad.trainings import data_trainings, online
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(place: Workplace, size: Size) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Record, train and judge what is missing: some hours on two cores in the full version."""
    large, small = size.at(LATE_LEAVE), size.at(SMALL_POOL)
    data = [Data(place, "combo", large), *(Data(place, name, small) for name in MIXES)]
    make(data, size.episodes)
    on_data = {
        one: [
            each
            for seed in range(size.seeds if one.where == large else 1)
            for each in data_trainings(place, size, one, seed)
        ]
        for one in data
    }
    alone = [online(place, size, seed) for seed in range(size.seeds)]
    trainings = [*alone, *(each for several in on_data.values() for each in several)]
    train(place, trainings)
    place.say("judging")
    rows, facts = list[pl.DataFrame](), dict[str, Any]()
    for where, further in ((large, alone), (small, [])):
        theta = judge.best_threshold(place, where, size.tuning)
        rules = map(judge.rule, (*page.RULES, judge.threshold_of(theta)))
        several = [each for one in data if one.where == where for each in on_data[one]]
        everyone = [*rules, *judge.agents([*several, *further])]
        case, streams = f"pool {where.ready}", judge.JUDGED_AFRESH
        rows.append(judge.judged(place, where, everyone, size.streams, case=case, named=streams))
        facts[f"θ, {case}"] = theta
    for one, several in on_data.items():
        asked = [*judge.agents(several), judge.rule("qos")]
        rows.append(agreement(place, one.where, asked, one.name, size.held_out))
        facts[f"decisions of {one.name}, pool {one.where.ready}"] = one.decisions
    rows.append(over_data(pl.concat(rows), SMALL_POOL.ready))
    return pl.concat(rows), facts | {
        "trainings": len(trainings),
        "training time, min": sum(one.seconds for one in trainings) / 60,
    }


STUDY: Final = Study(
    "launchpad", FULL, QUICK, measure, page=page, pictures={"launchpad": page.draw}, best=judge.BEST
)
