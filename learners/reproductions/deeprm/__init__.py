"""`simkit reproduce deeprm`: the figures of the DeepRM paper, from training to page."""

from __future__ import annotations

from pathlib import Path

from simkit.learners.reproductions.deeprm.figures import withheld
from simkit.learners.reproductions.deeprm.page import write_page
from simkit.learners.reproductions.deeprm.study import (
    FULL,
    QUICK,
    Setting,
    curves,
    judge_all,
    train_all,
)
from simkit.training.reproduction import Workplace


def reproduce(place: Workplace) -> Path:
    """Train and judge what is not done yet, then write deeprm.md, its tables and its pictures.

    The full version is some hours of two cores; what is whole stays, whenever it is stopped.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: Setting) -> Path:
    """Do a reproduction of a size of one's own."""
    train_all(place, setting)
    judged = judge_all(place, setting)
    place.say("writing the page")
    return write_page(place, setting, judged, curves(place, setting), withheld(place, setting))
