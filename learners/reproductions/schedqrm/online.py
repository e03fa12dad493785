"""Jobs that arrive one by one: agents of burst classes beside rules and an agent of numbered slots.

The workload is DeepRM's, on the unseen job sets of its original code; an agent of classes sees one
job of each length, the others the first ten that came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import set_interval
from simkit.learners.lockstep.class_jobs import ClassJobs
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.reproductions.common import digest_of, keep, weights_hash
from simkit.learners.reproductions.schedqrm.judge import Gap, player_of
from simkit.learners.reproductions.schedqrm.study import (
    ONLINE_LOADS,
    POOL,
    SchedQRMSetting,
    online_agents,
)
from simkit.scenario import Scenario
from simkit.training.candidates import Candidate
from simkit.training.evaluate import evaluate
from simkit.training.reproduction import Workplace

MIXED: Final = "agent of slots, mixed loads"
OTHERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "slotted-sjf": {"name": "slotted-sjf"},
    "slotted-tetris": {"name": "slotted-tetris"},
    "slotted-headroom": {"name": "slotted-headroom"},
    MIXED: {"agent": "deeprm-mixed"},
}
"""What sees ten numbered slots."""
LIMIT: Final = 3000
"""Decisions of a game."""


def _scenario(load: float, **changes: Any) -> Scenario:
    workload = {"type": "deeprm", "offered_load": load}
    return Scenario.model_validate({"workload": workload, **POOL, **changes})


def judge_online(place: Workplace, setting: SchedQRMSetting) -> pl.DataFrame:
    """Return a row a candidate, seed, load and set: its mean ``slowdown``; it is kept.

    All jobs count; the slowdown of one that never ended is infinite.
    """
    folder = place.work / "trainings"
    told = [asdict(setting), *(weights_hash(folder / one.name) for one in online_agents(setting))]
    path = place.work / f"online-{digest_of(told)}.parquet"
    if not path.exists():
        rows = [*_by_classes(place, setting), *_by_slots(setting)]
        keep(path, pl.DataFrame(rows).write_parquet)
        place.say("judged on jobs that arrive one by one")
    return pl.read_parquet(path)


def _by_classes(place: Workplace, setting: SchedQRMSetting) -> Iterator[dict[str, Any]]:
    for load in ONLINE_LOADS:
        source = ClassJobs(_scenario(load), "reproduce schedqrm")
        sets = source.unseen(setting.online_sets)
        for agent in online_agents(setting):
            games = ClassLockstep(source.model, sets, limit=LIMIT)
            player_of(place, agent)(games)
            slowdown = (games.finish - sets.enter) / np.maximum(sets.length, 1)
            slowdown = np.where(games.finish < 0, np.inf, slowdown)
            for number, there in enumerate(sets.there):
                if there.any():
                    yield {
                        "candidate": agent.kind, "seed": agent.seed, "load": load, "set": number,
                        "slowdown": float(slowdown[number, there].mean()),
                    }  # fmt: skip


def _by_slots(setting: SchedQRMSetting) -> Iterator[dict[str, Any]]:
    candidates = [
        Candidate("agent" if "agent" in policy else "policy", dict(policy), label=name)
        for name, policy in OTHERS.items()
    ]
    for load in ONLINE_LOADS:
        scenario = _scenario(load, admission={"slots": 10, "backlog": 60})
        found = evaluate(scenario, candidates, sets=setting.online_sets, workers=1)
        for row in found.frame().iter_rows(named=True):
            if row["jobs"]:
                yield {
                    "candidate": row["label"], "seed": 0, "load": load, "set": row["set"],
                    "slowdown": row["sum"] / row["jobs"],
                }  # fmt: skip


def online_gap(judged: pl.DataFrame, candidate: str, seed: int, load: float, beside: str) -> Gap:
    """Return the paired difference of a candidate to another at a load, over the job sets."""
    mine, other = (
        judged.filter(candidate=name, seed=number, load=load).sort("set")["slowdown"].to_numpy()
        for name, number in ((candidate, seed), (beside, 0))
    )
    if not np.isfinite(mine).all():
        return Gap(np.inf, np.inf, np.inf)
    interval = set_interval(mine - other, np.ones(len(mine)))
    low, high = interval.low, interval.high
    return Gap(
        float((mine - other).mean()),
        float("-inf") if low is None else low, float("inf") if high is None else high,
    )  # fmt: skip
