"""`simkit reproduce schedqrm`: burst times, schedules by burst class, and predictions in logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from simkit.learners.studies.results import long
from simkit.learners.studies.schedqrm import classifiers, logs
from simkit.learners.studies.schedqrm.classifiers import BurstSetting, judge_classifiers
from simkit.learners.studies.schedqrm.judge import judge_arriving, judge_at_once, judge_mistaken
from simkit.learners.studies.schedqrm.logs import LogSetting, judge_logs, path_of
from simkit.learners.studies.schedqrm.numbers import FUNCTIONS
from simkit.learners.studies.schedqrm.pictures import (
    draw_classes,
    draw_loads,
    draw_losses,
    draw_times,
)
from simkit.learners.studies.schedqrm.trainings import FULL, QUICK, SchedQRMSetting, trainings
from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import train
from simkit.traces.elf_bursts import generate_elf_bursts, read_bursts
from simkit.training import Workplace

__all__ = ["STUDY", "Size"]

PROGRAMS: Final = 20_000
"""Programs to measure."""
BURSTS: Final = "schedqrm-bursts.parquet"
"""A table of measured programs beside the page, which saves the measuring."""


@dataclass(frozen=True)
class Size:
    """How much to fit, to train and to replay."""

    bursts: BurstSetting
    schedules: SchedQRMSetting
    logs: LogSetting


def measure(place: Workplace, size: Size) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Fit, train, replay and judge what is missing: three hours of one core in the full version.

    Raises RunError if SIMKIT_DATA does not hold the two logs, TraceError if programs are to be
    measured, which takes five hours, but there is no g++.
    """
    for log in size.logs.logs:
        path_of(log)  # fail now rather than in hours
    bursts = judge_classifiers(place, _bursts(place), size.bursts)
    setting = size.schedules
    at_once = trainings(place, setting)
    every = [*at_once.values(), *trainings(place, setting, arriving=True).values()]
    train(place, every)
    decided = pl.DataFrame({
        "arm": [kind for kind, _ in at_once], "seed": [seed for _, seed in at_once],
        "decisions": [one.curve["decisions"].sum() for one in at_once.values()],
        "case": "training", "item": 0,
    })  # fmt: skip
    replayed, facts = judge_logs(place, size.logs)
    rows = [
        bursts.rows, judge_at_once(place, setting), judge_arriving(place, setting),
        judge_mistaken(place, setting, bursts.confusion), replayed,
        long(decided, ("decisions",), seed="seed"),
    ]  # fmt: skip
    minutes = sum(one.seconds for one in every) / 60
    items = "job sets, classes and weeks"
    return pl.concat(rows), {**bursts.facts, **facts, "items": items, "training, min": minutes}


def _bursts(place: Workplace) -> pl.DataFrame:
    """Return the bundled sample of bursts, or a large table: kept beside the page, or measured."""
    if place.quick:
        return read_bursts()
    beside, folder = place.pages / BURSTS, place.work / "bursts"
    table = beside if beside.exists() else folder / "bursts.parquet"
    if not table.exists():
        generate_elf_bursts(folder, rows=PROGRAMS, workers=place.workers)
    return read_bursts(table)


STUDY: Final = Study(
    "schedqrm",
    Size(classifiers.FULL, FULL, logs.FULL),
    Size(classifiers.QUICK, QUICK, logs.QUICK),
    measure, metrics=logs.METRICS, functions=FUNCTIONS,
    pictures={
        "schedqrm-burst-loss": draw_losses, "schedqrm-burst-times": draw_times,
        "schedqrm-classes": draw_classes, "schedqrm-loads": draw_loads,
    },
)  # fmt: skip
