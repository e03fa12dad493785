"""Jobs that arrive one by one: agents of burst classes against rules and an agent of slots.

The workload is DeepRM's, with the unseen job sets of its original code. An agent of classes sees
one job of each length, the others the ten that arrived first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sources import ClassJobs
from simkit.learners.reproductions.common import digest_of, kept_table, weights_hash
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
"""The most decisions in a game."""


def judge_online(place: Workplace, setting: SchedQRMSetting) -> pl.DataFrame:
    """Return the mean ``slowdown`` of each candidate, seed, load and set, a row each; kept.

    All jobs count; the slowdown of one that never ended is infinite.
    """
    folder = place.work / "trainings"
    key = [
        FIRST_UNSEEN,
        asdict(setting),
        *(weights_hash(folder / one.name) for one in online_agents(setting)),
    ]
    return kept_table(
        place, place.work / f"online-{digest_of(key)}.parquet",
        lambda: pl.DataFrame(list(_rows(place, setting))), "judged on jobs that arrive one by one",
    )  # fmt: skip


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


def online_gap(judged: pl.DataFrame, candidate: str, seed: int, load: float, baseline: str) -> Gap:
    """Return the paired difference of a candidate to a baseline at a load, over the job sets."""
    mine, other = (
        judged.filter(candidate=name, seed=number, load=load).sort("set")["slowdown"].to_numpy()
        for name, number in ((candidate, seed), (baseline, 0))
    )
    return paired(mine, other)
