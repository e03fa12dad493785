"""`simkit reproduce rlscheduler`: the published table, and rules and scorers under EASY."""

from __future__ import annotations

from pathlib import Path

from simkit.learners.reproductions.common import commit, train_in, wall_time_s
from simkit.learners.reproductions.rlscheduler.judge import (
    judge_easy,
    judge_theirs,
    never_better,
)
from simkit.learners.reproductions.rlscheduler.page import Results, write_page
from simkit.learners.reproductions.rlscheduler.study import (
    FULL,
    QUICK,
    RLSchedulerSetting,
    agents,
    scenario_of,
)
from simkit.training import Workplace


def reproduce(place: Workplace) -> Path:
    """Run missing trainings and tests, then write rlscheduler.md and rlscheduler.csv.

    The full version takes about an hour on one core; an interrupted run keeps its complete parts.
    Raises RunError if SIMKIT_DATA does not hold the four logs.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: RLSchedulerSetting) -> Path:
    """Run the reproduction at a given size."""
    tasks = list(agents(setting))
    train_in(place, [scenario_of(task, setting) for task in tasks])
    easy = judge_easy(place, setting)
    theirs = judge_theirs(place, setting)
    place.say("writing the page")
    folder, names = place.work / "trainings", [task.name for task in tasks]
    seconds = sum(wall_time_s(folder / name) for name in names)
    unchanged = never_better(folder, names)
    return write_page(place, Results(setting, easy, theirs, seconds, unchanged, commit()))
