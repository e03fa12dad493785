"""`simkit reproduce rlscheduler`: the published table, and rules and scorers under EASY."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from simkit.learners.studies.rlscheduler import judge, logs, page
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(
    place: Workplace, setting: logs.RLSchedulerSetting
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing: about an hour on one core in the full version.

    Raises RunError if SIMKIT_DATA does not hold the four logs.
    """
    trainings = [logs.kept(place, agent, setting) for agent in logs.agents(setting)]
    train(place, trainings)
    rows = pl.concat(judge.judge_all(place, setting))
    facts: dict[str, Any] = {f"hold of {log.name}": _hold(log) for log in logs.LOGS}
    return rows, facts | {
        "training time, s": sum(one.seconds for one in trainings),
        "never better": judge.never_better(place, setting),
    }


def _hold(log: logs.Log) -> str:
    return "; ".join(judge.choose_hold(log, part).words for part in log.parts)


STUDY: Final = Study(
    "rlscheduler", logs.FULL, logs.QUICK, measure, width=logs.JOBS, page=page,
    best=page.BEST,
)  # fmt: skip
