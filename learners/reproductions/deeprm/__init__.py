"""`simkit reproduce deeprm`: the figures of the DeepRM paper, from training to page."""

from __future__ import annotations

from pathlib import Path

from simkit.learners.reproductions.deeprm import one_agent
from simkit.learners.reproductions.deeprm.figures import withheld
from simkit.learners.reproductions.deeprm.one_agent_page import write_one_agent_page
from simkit.learners.reproductions.deeprm.page import write_page
from simkit.learners.reproductions.deeprm.study import (
    FULL,
    QUICK,
    DeepRMSetting,
    curves,
    judge_all,
    train_missing,
)
from simkit.training import Workplace


def reproduce(place: Workplace) -> Path:
    """Train and judge what is missing, then write the pages, their tables and their pictures.

    First deeprm-one-agent.md, after an hour and a half of one core, then deeprm.md, after some more
    hours; when it is stopped, complete parts are kept.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: DeepRMSetting) -> Path:
    """Do a reproduction of any size."""
    write_one_agent_page(one_agent.study(place, setting), place)
    place.say("wrote deeprm-one-agent.md")
    train_missing(place, setting)
    judged = judge_all(place, setting)
    place.say("writing the page")
    return write_page(place, setting, judged, curves(place, setting), withheld(place, setting))
