"""`simkit reproduce rlscheduler`: the published table, and rules and scorers under EASY."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from simkit.learners.studies.rlscheduler.judge import (
    choose_hold,
    judge_easy,
    judge_theirs,
    never_better,
)
from simkit.learners.studies.rlscheduler.logs import (
    FULL,
    JOBS,
    LOGS,
    QUICK,
    Log,
    RLSchedulerSetting,
    agents,
    kept,
)
from simkit.learners.studies.rlscheduler.numbers import FUNCTIONS
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(place: Workplace, setting: RLSchedulerSetting) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing: about an hour on one core in the full version.

    Raises RunError if SIMKIT_DATA does not hold the four logs.
    """
    trainings = [kept(place, agent, setting) for agent in agents(setting)]
    train(place, trainings)
    rows = pl.concat([judge_easy(place, setting), judge_theirs(place, setting)])
    facts: dict[str, Any] = {f"hold of {log.name}": _hold(log) for log in LOGS}
    return rows, facts | {
        "training time, s": sum(one.seconds for one in trainings),
        "never better": never_better(place, setting),
    }


def _hold(log: Log) -> str:
    return "; ".join(choose_hold(log, part).words for part in log.parts)


STUDY: Final = Study("rlscheduler", FULL, QUICK, measure, width=JOBS, functions=FUNCTIONS)
