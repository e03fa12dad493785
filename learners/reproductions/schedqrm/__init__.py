"""`simkit reproduce schedqrm`: burst times, schedules by burst class, and predictions in logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from simkit.learners.reproductions.common import commit, train_in
from simkit.learners.reproductions.schedqrm import logs
from simkit.learners.reproductions.schedqrm.classifiers import judge_classifiers
from simkit.learners.reproductions.schedqrm.judge import judge
from simkit.learners.reproductions.schedqrm.online import judge_online
from simkit.learners.reproductions.schedqrm.page import Results, write_page
from simkit.learners.reproductions.schedqrm.price import price
from simkit.learners.reproductions.schedqrm.study import (
    FULL,
    QUICK,
    SchedQRMSetting,
    agents,
    online_agents,
    scenario_of,
)
from simkit.traces.elf_bursts import generate_elf_bursts, read_bursts
from simkit.training import Workplace

PROGRAMS = 20_000
"""Programs to measure."""


def reproduce(place: Workplace) -> Path:
    """Run missing measurements, trainings and tests; write schedqrm.md, its pictures and tables.

    The full version takes four hours on two cores, most of them to measure programs; an interrupted
    run keeps its complete parts. Raises RunError if SIMKIT_DATA does not hold the two logs,
    TraceError without g++.
    """
    return carry_out(
        place, QUICK if place.quick else FULL, logs.QUICK if place.quick else logs.FULL
    )


def carry_out(place: Workplace, setting: SchedQRMSetting, log_setting: logs.LogSetting) -> Path:
    """Run the reproduction at a given size."""
    logs.require(log_setting)  # fail now rather than in hours
    bursts = judge_classifiers(place, _bursts(place))
    trained = [*agents(setting), *online_agents(setting)]
    train_in(place, [scenario_of(one, setting) for one in trained])
    offline, online = judge(place, setting), judge_online(place, setting)
    priced = price(place, bursts, setting)
    replayed = logs.replay_logs(place, log_setting)
    place.say("writing the page")
    folder = place.work / "trainings"
    decisions = {}
    for kind in setting.kinds:
        tables = [
            pl.read_parquet(folder / one.name / "metrics.parquet")
            for one in agents(setting)
            if one.kind == kind
        ]
        decisions[kind] = float(np.mean([float(table["decisions"].sum()) for table in tables]))
    return write_page(
        place,
        Results(
            setting, bursts, offline, online, priced, replayed, log_setting, decisions,
            commit(),
        ),
    )  # fmt: skip


def _bursts(place: Workplace) -> pl.DataFrame:
    """Return the bundled sample of bursts, or a large table that is measured here and kept."""
    if place.quick:
        return read_bursts()
    folder = place.work / "bursts"
    table = folder / "bursts.parquet"
    if not table.exists():
        generate_elf_bursts(folder, rows=PROGRAMS, workers=place.workers)
    return read_bursts(table)
