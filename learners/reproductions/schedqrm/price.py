"""The price of a misprediction: jobs are placed by predicted class but run their true time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints, stream
from simkit.learners.reproductions.common import digest_of, kept_table, weights_hash
from simkit.learners.reproductions.schedqrm.classifiers import PAPER, RANDOM, Judged
from simkit.learners.reproductions.schedqrm.judge import (
    REFERENCE,
    Player,
    played,
    player_of,
    rule_player,
)
from simkit.learners.reproductions.schedqrm.study import (
    CLASSES,
    JUDGED,
    PPO,
    WHOLE,
    Agent,
    SchedQRMSetting,
    judged_sets,
)
from simkit.training import Workplace

LOADS: Final = (50, 100, 200)
RULES: Final = (REFERENCE, "earliest-finish")
TRUE: Final = "true classes"


def confusion(judged: Judged, model: str) -> Floats:
    """Return (C, C) the share of programs of each true class (row) that is taken for each class."""
    counts = np.zeros((CLASSES, CLASSES))
    for part in judged.of(RANDOM, model):
        np.add.at(counts, (part["class"].to_numpy(), part["label"].to_numpy()), 1.0)
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def taken_for(length: Ints, shares: Floats, rng: np.random.Generator) -> Ints:
    """Return (S, J) the predicted lengths of jobs, drawn from the confusion of their classes."""
    below = shares.cumsum(axis=1)[np.maximum(length - 1, 0)]
    drawn = (below <= rng.random((*length.shape, 1))).sum(axis=-1) + 1
    return np.where(length > 0, np.minimum(drawn, CLASSES), 0)


def price(place: Workplace, judged: Judged, setting: SchedQRMSetting) -> pl.DataFrame:
    """Return the mean ``slowdown`` of each candidate, model of classes and load, a row each; kept.

    ``model`` is `TRUE` where classes are known. For agents it is the mean over their seeds.
    """
    kinds = [kind for kind in (WHOLE, PPO) if kind in setting.kinds]
    found = [Agent(kind, seed) for kind in kinds for seed in range(setting.seeds)]
    shares = {model: confusion(judged, model) for model in (judged.best, PAPER)}
    folder = place.work / "trainings"
    key = [
        JUDGED, asdict(setting), {model: share.tolist() for model, share in shares.items()},
        [weights_hash(folder / one.name) for one in found],
    ]  # fmt: skip

    def play() -> pl.DataFrame:
        players = [(name, rule_player(name)) for name in RULES]
        players += [(one.kind, player_of(place, one)) for one in found]
        rows = list(_rows(players, shares, setting))
        means = pl.DataFrame(rows).group_by("candidate", "model", "load", maintain_order=True)
        return means.agg(pl.col("slowdown").mean())

    path = place.work / f"price-{digest_of(key)}.parquet"
    return kept_table(place, path, play, "judged with predicted classes")


def _rows(
    players: list[tuple[str, Player]], shares: dict[str, Floats], setting: SchedQRMSetting
) -> Iterator[dict[str, Any]]:
    for load in LOADS:
        sets = judged_sets(load, setting.judged)
        guesses: dict[str, Ints | None] = {TRUE: None}
        for model, share in shares.items():
            rng = stream(load, f"reproduce.schedqrm.price.{model}")
            guesses[model] = taken_for(sets.length, share, rng)
        for name, play in players:
            for model, guess in guesses.items():
                slowdown = played(play, sets, guess)[sets.there].mean()
                yield {"candidate": name, "model": model, "load": load, "slowdown": slowdown}
