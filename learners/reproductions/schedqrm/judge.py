"""Agents and rules on the same job sets, at loads of 10 to 200 %, with all jobs there at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.agent.burst_classes import NAMES
from simkit.analysis.intervals import set_interval
from simkit.arrays import Floats, Ints
from simkit.learners.common.bundle import ViewDescription, read_bundle, up_to_date
from simkit.learners.lockstep.class_games import ClassGames
from simkit.learners.lockstep.class_rules import RULES
from simkit.learners.lockstep.class_rules import play as play_rule
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.networks.inference import PlainNetwork, plain_network
from simkit.learners.reproductions.common import digest_of, kept_table, weights_hash
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
"""The rule with which everyone is compared."""
Player = Callable[[ClassLockstep], None]
"""Plays games to the end."""
LIMIT: Final = 400
"""The most decisions in a game; jobs not placed by then never end."""


def player_of(place: Workplace, agent: Agent) -> Player:
    """Return how the agent of a complete training plays."""
    bundle = read_bundle(place.work / "trainings" / agent.name / "agent")
    described = ViewDescription.read(up_to_date(bundle.description))
    network = plain_network(described.architecture, bundle.weights)
    actions = described.view.action_arguments or {}
    mask = bundle.description["arguments"].get("mask", "possible")
    paper = described.observation["name"] == NAMES[True]

    def play(lockstep: ClassLockstep) -> None:
        games = ClassGames(
            lockstep, actions["starts"], mask, patience=actions["patience"], paper=paper
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
    """Return the slowdown of each candidate, seed, load and job, a row each; kept.

    Columns ``candidate``, ``seed``, 0 for rules, ``load``, ``set``, ``class`` and ``slowdown``.
    """
    folder = place.work / "trainings"
    key = [JUDGED, asdict(setting), *(weights_hash(folder / one.name) for one in agents(setting))]
    return kept_table(
        place, place.work / f"offline-{digest_of(key)}.parquet",
        lambda: pl.concat(_rows(place, setting)), "judged on job sets that are all there at once",
    )  # fmt: skip


def _rows(place: Workplace, setting: SchedQRMSetting) -> Iterator[pl.DataFrame]:
    players = {(name, 0): rule_player(name) for name in RULES}
    players |= {(one.kind, one.seed): player_of(place, one) for one in agents(setting)}
    for load in LOADS:
        sets = judged_sets(load, setting.judged)
        for (name, seed), play in players.items():
            yield _table(name, seed, load, sets, played(play, sets))
        if load in SHOWN:  # these are simulated, which takes longer
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
    """Mean difference of mean slowdowns over job sets, with a 95 % interval."""

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


def gap(
    judged: pl.DataFrame, candidate: str, seed: int, load: int, baseline: str = REFERENCE
) -> Gap:
    """Return the paired difference of a candidate to a baseline at a load."""
    mine, other = set_means(judged, candidate, seed, load), set_means(judged, baseline, 0, load)
    return paired(mine, other)


def paired(mine: Floats, other: Floats) -> Gap:
    """Return the mean difference of (S,) means of the same job sets.

    It is infinite if some of `mine` are, because jobs were never placed. Raises ValueError if some
    of `other` are.
    """
    if not np.isfinite(other).all():
        raise ValueError("the baseline has jobs that never ended")
    if not np.isfinite(mine).all():
        return Gap(np.inf, np.inf, np.inf)
    interval = set_interval(mine - other, np.ones(len(mine)))
    low = -np.inf if interval.low is None else interval.low
    high = np.inf if interval.high is None else interval.high
    return Gap(float((mine - other).mean()), low, high)


MOST_BELOW: Final = 0.01
"""The most by which an agent may be worse than the reference at loads below 100 %."""


def meets_bar(judged: pl.DataFrame, candidate: str, seed: int) -> bool:
    """Return whether a candidate is at most 0.01 worse below 100 %, and surely better otherwise."""
    gaps = {load: gap(judged, candidate, seed, load) for load in LOADS}
    return all(
        one.value <= MOST_BELOW if load < 100 else one.is_below for load, one in gaps.items()
    )


def by_class(judged: pl.DataFrame, candidate: str, loads: Sequence[int]) -> pl.DataFrame:
    """Return mean and largest slowdown of each class at some loads, averaged over seeds."""
    here = judged.filter(candidate=candidate).filter(pl.col("load").is_in(loads))
    seeds = here.group_by("seed", "class").agg(
        pl.col("slowdown").mean().alias("mean"), pl.col("slowdown").max().alias("largest")
    )  # fmt: skip
    return seeds.group_by("class").agg(pl.col("mean", "largest").mean()).sort("class")
