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
    """Run missing trainings and tests, then write the pages, their tables and their pictures.

    On one core deeprm-one-agent.md takes an hour and a half and deeprm.md some more hours; an
    interrupted run keeps its complete parts.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: DeepRMSetting) -> Path:
    """Run the reproduction at a given size."""
    write_one_agent_page(one_agent.study(place, setting), place)
    place.say("wrote deeprm-one-agent.md")
    train_missing(place, setting)
    judged = judge_all(place, setting)
    place.say("writing the page")
    return write_page(place, setting, judged, curves(place, setting), withheld(place, setting))
