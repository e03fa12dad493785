"""`simkit reproduce deeprm`: the figures of the DeepRM paper, from training to page."""

from __future__ import annotations

from pathlib import Path

from simkit.reproduction import Workplace

from .deeprm_curves import curves
from .deeprm_page import write_page
from .deeprm_study import FULL, QUICK, Setting, judge_all, train_all
from .deeprm_withheld import withheld


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
