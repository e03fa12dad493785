"""Jobs that arrive one by one: agents of burst classes beside rules and an agent of numbered slots.

The workload is DeepRM's, on the unseen job sets of its original code; an agent of classes sees one
job of each length, the others the first ten that came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.learners.lockstep.class_jobs import ClassJobs
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.reproductions.common import digest_of, keep, weights_hash
from simkit.learners.reproductions.schedqrm.judge import Gap, paired, player_of
from simkit.learners.reproductions.schedqrm.numbered_slots import OF_SLOTS, slowdown_of_slots
from simkit.learners.reproductions.schedqrm.study import (
    FIRST_UNSEEN,
    ONLINE_LOADS,
    POOL,
    SchedQRMSetting,
    online_agents,
)
from simkit.scenario import Scenario
from simkit.training import Workplace

LIMIT: Final = 3000
"""Decisions of a game."""


def judge_online(place: Workplace, setting: SchedQRMSetting) -> pl.DataFrame:
    """Return a row a candidate, seed, load and set: its mean ``slowdown``; it is kept.

    All jobs count; the slowdown of one that never ended is infinite.
    """
    folder = place.work / "trainings"
    told = [
        FIRST_UNSEEN,
        asdict(setting),
        *(weights_hash(folder / one.name) for one in online_agents(setting)),
    ]
    path = place.work / f"online-{digest_of(told)}.parquet"
    if not path.exists():
        keep(path, pl.DataFrame(list(_rows(place, setting))).write_parquet)
        place.say("judged on jobs that arrive one by one")
    return pl.read_parquet(path)


def _rows(place: Workplace, setting: SchedQRMSetting) -> Iterator[dict[str, Any]]:
    for load in ONLINE_LOADS:
        workload = {"type": "deeprm", "offered_load": load}
        source = ClassJobs(
            Scenario.model_validate({"workload": workload, **POOL}), "reproduce schedqrm"
        )
        sets = source.unseen(setting.online_sets, FIRST_UNSEEN)
        found = {(name, 0): slowdown_of_slots(name, sets) for name in OF_SLOTS}
        for agent in online_agents(setting):
            games = ClassLockstep(source.model, sets, limit=LIMIT)
            player_of(place, agent)(games)
            slowdown = (games.finish - sets.enter) / np.maximum(sets.length, 1)
            found[agent.kind, agent.seed] = np.where(games.finish < 0, np.inf, slowdown)
        for (name, seed), slowdown in found.items():
            for number, there in enumerate(sets.there):
                if there.any():
                    yield {
                        "candidate": name, "seed": seed, "load": load, "set": number,
                        "slowdown": float(slowdown[number, there].mean()),
                    }  # fmt: skip


def online_gap(judged: pl.DataFrame, candidate: str, seed: int, load: float, beside: str) -> Gap:
    """Return the paired difference of a candidate to another at a load, over the job sets."""
    mine, other = (
        judged.filter(candidate=name, seed=number, load=load).sort("set")["slowdown"].to_numpy()
        for name, number in ((candidate, seed), (beside, 0))
    )
    return paired(mine, other)
