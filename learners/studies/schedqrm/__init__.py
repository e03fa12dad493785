"""`simkit reproduce schedqrm`: burst times, schedules by burst class, and predictions in logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from simkit.learners.studies.results import long
from simkit.learners.studies.schedqrm import classifiers, judge, logs, page, trainings
from simkit.learners.studies.schedqrm.classifiers import BurstSetting, judge_classifiers
from simkit.learners.studies.schedqrm.logs import LogSetting, judge_logs, path_of
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
    schedules: trainings.SchedQRMSetting
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
    at_once = trainings.trainings(place, setting)
    every = [*at_once.values(), *trainings.trainings(place, setting, arriving=True).values()]
    train(place, every)
    decided = pl.DataFrame({
        "arm": [kind for kind, _ in at_once], "seed": [seed for _, seed in at_once],
        "decisions": [one.curve["decisions"].sum() for one in at_once.values()],
        "case": "training", "item": 0,
    })  # fmt: skip
    replayed, facts = judge_logs(place, size.logs)
    rows = [
        bursts.rows, judge.judge_schedules(place, setting, bursts.confusion), replayed,
        long(decided, ("decisions",)),
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
    Size(classifiers.FULL, trainings.FULL, logs.FULL),
    Size(classifiers.QUICK, trainings.QUICK, logs.QUICK),
    measure, metrics=logs.METRICS, page=page,
    pictures={
        "schedqrm-burst-loss": page.draw_losses, "schedqrm-burst-times": page.draw_times,
        "schedqrm-classes": page.draw_classes, "schedqrm-loads": page.draw_loads,
    },
)  # fmt: skip
