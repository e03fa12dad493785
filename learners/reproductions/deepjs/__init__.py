"""`simkit reproduce deepjs`: the published table and figures, and better schedulers beside them."""

from __future__ import annotations

from pathlib import Path

from simkit.learners.reproductions.common import commit, train_in
from simkit.learners.reproductions.deepjs.judge import judge, likenesses, sliding
from simkit.learners.reproductions.deepjs.page import Results, write_page
from simkit.learners.reproductions.deepjs.study import (
    FULL,
    QUICK,
    DeepJSSetting,
    agents,
    scenario_of,
)
from simkit.training.reproduction import Workplace


def reproduce(place: Workplace) -> Path:
    """Train and judge what is missing, then write deepjs.md, its pictures and its tables.

    The full version takes about three hours of one core; when it is stopped, complete parts are
    kept. Raises RunError if SIMKIT_DATA does not hold the table of jobs.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: DeepJSSetting) -> Path:
    """Do a reproduction of any size."""
    train_in(place, [scenario_of(agent, setting) for agent in agents(setting)])
    judged = judge(place, setting)
    place.say("writing the page")
    record, alike = sliding(place, setting), likenesses(place, setting)
    return write_page(place, Results(setting, judged, record, alike, commit()))
