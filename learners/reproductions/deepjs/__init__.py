"""`simkit reproduce deepjs`: the published table and figures, and better schedulers."""

from __future__ import annotations

from pathlib import Path

from simkit.learners.reproductions.common import commit, train_in
from simkit.learners.reproductions.deepjs.judge import judge, likenesses, sliding
from simkit.learners.reproductions.deepjs.options import judge_options
from simkit.learners.reproductions.deepjs.page import Results, write_page
from simkit.learners.reproductions.deepjs.study import (
    FULL,
    QUICK,
    DeepJSSetting,
    agents,
    optional_agents,
    scenario_of,
)
from simkit.training import Workplace


def reproduce(place: Workplace) -> Path:
    """Run missing trainings and tests, then write deepjs.md, its pictures and its tables.

    The full version takes about four hours on one core; an interrupted run keeps its complete
    parts. Raises RunError if SIMKIT_DATA does not hold the table of jobs.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: DeepJSSetting) -> Path:
    """Run the reproduction at a given size."""
    trainings = (*agents(setting), *optional_agents(setting))
    train_in(place, [scenario_of(agent, setting) for agent in trainings])
    judged = judge(place, setting)
    place.say("writing the page")
    record, correlations = sliding(place, setting), likenesses(place, setting)
    options = judge_options(place, setting)
    return write_page(place, Results(setting, judged, record, correlations, options, commit()))
