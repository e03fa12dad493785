"""How agents and rules do on the same job sets, at loads of 10 to 200 %, all jobs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.agent.burst_classes import NAMES
from simkit.analysis.intervals import set_interval
from simkit.arrays import Floats, Ints
from simkit.learners.classes.description import ClassDescription
from simkit.learners.common.bundle import read_bundle
from simkit.learners.common.inference import PlainNetwork, plain_network
from simkit.learners.lockstep.class_games import ClassGames
from simkit.learners.lockstep.class_rules import RULES
from simkit.learners.lockstep.class_rules import play as play_rule
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.reproductions.common import digest_of, keep, weights_hash
from simkit.learners.reproductions.schedqrm.numbered_slots import OF_SLOTS, slowdown_of_slots
from simkit.learners.reproductions.schedqrm.study import (
    JUDGED,
    LOADS,
    MODEL,
    Agent,
    SchedQRMSetting,
    agents,
    judged_sets,
)
from simkit.training import Workplace

SHOWN: Final = (20, 50, 100, 150, 200)
"""Loads of the page's tables, in percent."""
REFERENCE: Final = "sjf-in-order"
"""The rule that everyone is compared with."""
Player = Callable[[ClassLockstep], None]
"""Plays games to their ends."""
LIMIT: Final = 400
"""Decisions of a game; jobs that were not placed by then have no end."""


def player_of(place: Workplace, agent: Agent) -> Player:
    """Return how the agent of a training that is complete plays."""
    bundle = read_bundle(place.work / "trainings" / agent.name / "agent")
    described = ClassDescription.read(bundle.description)
    network = plain_network(described.architecture, bundle.weights)
    actions, paper = described.actions, described.observation["name"] == NAMES[True]

    def play(lockstep: ClassLockstep) -> None:
        games = ClassGames(
            lockstep, actions.starts, actions.mask, patience=actions.patience, paper=paper
        )
        while len(games.active):
            games.step(_best(network, games))

    return play


def _best(network: PlainNetwork, games: ClassGames) -> Ints:
    scores = np.where(games.mask(), network.logits(games.observe()), -np.inf)
    best: Ints = scores.argmax(axis=1)
    return best


def rule_player(name: str) -> Player:
    """Return how a rule plays."""
    return lambda lockstep: play_rule(lockstep, RULES[name])


def played(play: Player, sets: JobSets, taken_for: Ints | None = None) -> Floats:
    """Return (S, J) the slowdown of each job; infinite if it was never placed, 0 for padding."""
    games = ClassLockstep(MODEL, sets, taken_for=taken_for, limit=LIMIT)
    play(games)
    slowdown = (games.finish - sets.enter) / np.maximum(sets.length, 1)
    return np.where(games.finish < 0, np.where(sets.there, np.inf, 0.0), slowdown)


def judge(place: Workplace, setting: SchedQRMSetting) -> pl.DataFrame:
    """Return a row a candidate, seed, load and job: ``set``, ``class``, ``slowdown``; it is kept.

    Rules have the seed 0.
    """
    folder = place.work / "trainings"
    told = [JUDGED, asdict(setting), *(weights_hash(folder / one.name) for one in agents(setting))]
    path = place.work / f"offline-{digest_of(told)}.parquet"
    if not path.exists():
        keep(path, pl.concat(list(_rows(place, setting))).write_parquet)
        place.say("judged on job sets that are all there at once")
    return pl.read_parquet(path)


def _rows(place: Workplace, setting: SchedQRMSetting) -> Iterator[pl.DataFrame]:
    players = {(name, 0): rule_player(name) for name in RULES}
    players |= {(one.kind, one.seed): player_of(place, one) for one in agents(setting)}
    for load in LOADS:
        sets = judged_sets(load, setting.judged)
        for (name, seed), play in players.items():
            yield _table(name, seed, load, sets, played(play, sets))
        if load in SHOWN:  # they are simulated, which takes longer
            for name in OF_SLOTS:
                yield _table(name, 0, load, sets, slowdown_of_slots(name, sets))


def _table(name: str, seed: int, load: int, sets: JobSets, slowdown: Floats) -> pl.DataFrame:
    row, _ = np.nonzero(sets.there)
    columns = {
        "set": row.astype(np.int32), "class": sets.length[sets.there].astype(np.int16),
        "slowdown": slowdown[sets.there].astype(np.float32),
    }  # fmt: skip
    return pl.DataFrame(columns).select(
        pl.lit(name).alias("candidate"), pl.lit(seed, pl.Int16).alias("seed"),
        pl.lit(load, pl.Int16).alias("load"), "set", "class", "slowdown",
    )  # fmt: skip


@dataclass(frozen=True)
class Gap:
    """The mean over job sets of the difference of mean slowdowns, with an interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "never done"
        return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"

    @property
    def is_below(self) -> bool:
        """Whether the interval lies below 0."""
        return self.high < 0.0


def set_means(judged: pl.DataFrame, candidate: str, seed: int, load: int) -> Floats:
    """Return (S,) the mean slowdown of each job set."""
    here = judged.filter(candidate=candidate, seed=seed, load=load)
    found: Floats = (
        here.group_by("set").agg(pl.col("slowdown").mean()).sort("set")["slowdown"].to_numpy()
    )
    return found.astype(np.float64)


def gap(judged: pl.DataFrame, candidate: str, seed: int, load: int, beside: str = REFERENCE) -> Gap:
    """Return the paired difference of a candidate to a rule at a load."""
    return paired(
        set_means(judged, candidate, seed, load), set_means(judged, beside, 0, load)
    )  # fmt: skip


def paired(mine: Floats, other: Floats) -> Gap:
    """Return the mean difference of (S,) means of the same job sets.

    Where some of mine are infinite, as jobs were never placed, so is the difference; raises
    ValueError where others are.
    """
    if not np.isfinite(other).all():
        raise ValueError("what is compared with has jobs that never ended")
    if not np.isfinite(mine).all():
        return Gap(np.inf, np.inf, np.inf)
    interval = set_interval(mine - other, np.ones(len(mine)))
    low = -np.inf if interval.low is None else interval.low
    high = np.inf if interval.high is None else interval.high
    return Gap(float((mine - other).mean()), low, high)


MOST_BELOW: Final = 0.01
"""How much worse than the reference an agent may be at loads below 100 %."""


def meets_bar(judged: pl.DataFrame, candidate: str, seed: int) -> bool:
    """Return whether it is at most 0.01 worse below 100 %, and surely better from there on."""
    gaps = {load: gap(judged, candidate, seed, load) for load in LOADS}
    return all(
        one.value <= MOST_BELOW if load < 100 else one.is_below for load, one in gaps.items()
    )


def by_class(judged: pl.DataFrame, candidate: str, loads: Sequence[int]) -> pl.DataFrame:
    """Return mean and largest slowdown of each class at some loads, as means over the seeds."""
    here = judged.filter(candidate=candidate).filter(pl.col("load").is_in(loads))
    seeds = here.group_by("seed", "class").agg(
        pl.col("slowdown").mean().alias("mean"), pl.col("slowdown").max().alias("largest")
    )  # fmt: skip
    return seeds.group_by("class").agg(pl.col("mean", "largest").mean()).sort("class")
