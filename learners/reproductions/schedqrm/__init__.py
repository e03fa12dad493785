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
"""Programs that are measured."""


def reproduce(place: Workplace) -> Path:
    """Measure, train and judge what is missing, then write schedqrm.md, its pictures and tables.

    The full version takes four hours on two cores, most of them to measure programs; when it is
    stopped, complete parts are kept. Raises RunError if SIMKIT_DATA does not hold the two logs,
    TraceError without g++.
    """
    return carry_out(
        place, QUICK if place.quick else FULL, logs.QUICK if place.quick else logs.FULL
    )


def carry_out(place: Workplace, setting: SchedQRMSetting, log_setting: logs.LogSetting) -> Path:
    """Do a reproduction of any size."""
    logs.require(log_setting)  # before hours have passed
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
        names = [folder / one.name for one in agents(setting) if one.kind == kind]
        counts = [float(_metrics(name)["decisions"].sum()) for name in names]
        decisions[kind] = float(np.mean(counts))
    return write_page(
        place,
        Results(
            setting, bursts, offline, online, priced, replayed, log_setting, decisions,
            commit(),
        ),
    )  # fmt: skip


def _metrics(training: Path) -> pl.DataFrame:
    return pl.read_parquet(training / "metrics.parquet")


def _bursts(place: Workplace) -> pl.DataFrame:
    """Return the bundled sample, or a large table that is measured in the place."""
    if place.quick:
        return read_bursts()
    folder = place.work / "bursts"
    table = folder / "bursts.parquet"
    if not table.exists():
        generate_elf_bursts(folder, rows=PROGRAMS, workers=place.workers)
    return read_bursts(table)
