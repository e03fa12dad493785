"""`simkit reproduce logs`: rules, PPO and evolution on six logs, one agent for each and for all."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from simkit.learners.studies.logs import page
from simkit.learners.studies.logs.judge import hold_of, judge_all
from simkit.learners.studies.logs.trainings import FULL, JOBS, QUICK, LogsSetting, agents, kept
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.training import Workplace

__all__ = ["STUDY"]


def measure(place: Workplace, setting: LogsSetting) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train and judge what is missing; raises RunError if SIMKIT_DATA does not hold the logs."""
    trainings = {agent: kept(place, agent, setting) for agent in agents(setting)}
    facts: dict[str, Any] = {
        f"hold of {log.name}": hold_of(log, setting).words for log in setting.cases
    }
    train(place, trainings.values())
    for kind in setting.seeds:
        seconds = [one.seconds for agent, one in trainings.items() if agent.kind == kind]
        facts |= {f"{kind} trainings": len(seconds), f"{kind}, s": sum(seconds)}
    return judge_all(place, setting), facts


STUDY: Final = Study("logs", FULL, QUICK, measure, width=JOBS, page=page, best=page.BEST)
