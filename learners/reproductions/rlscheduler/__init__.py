"""`simkit reproduce rlscheduler`: the published table, and rules and scorers with EASY."""

from __future__ import annotations

import subprocess
from pathlib import Path

from simkit.learners.reproductions.common import train_in
from simkit.learners.reproductions.rlscheduler.judge import (
    judge_easy,
    judge_theirs,
    never_better,
    training_seconds,
)
from simkit.learners.reproductions.rlscheduler.page import Results, write_page
from simkit.learners.reproductions.rlscheduler.study import (
    FULL,
    QUICK,
    RLSchedulerSetting,
    agents,
    scenario_of,
)
from simkit.training.reproduction import Workplace


def reproduce(place: Workplace) -> Path:
    """Train and judge what is missing, then write rlscheduler.md and rlscheduler.csv.

    The full version takes some hours of one core; when it is stopped, complete parts are kept.
    Raises RunError if SIMKIT_DATA does not hold the four logs.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: RLSchedulerSetting) -> Path:
    """Do a reproduction of any size."""
    tasks = list(agents(setting))
    train_in(place, [scenario_of(task, setting) for task in tasks])
    easy = judge_easy(place, setting)
    theirs = judge_theirs(place, setting)
    place.say("writing the page")
    folder, names = place.work / "trainings", [task.name for task in tasks]
    seconds, began = training_seconds(folder, names), never_better(folder, names)
    return write_page(place, Results(setting, easy, theirs, seconds, began, _commit()))


def _commit() -> str:
    """Return the commit of the checkout that this file is in; ``unknown`` if it is in none."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()
