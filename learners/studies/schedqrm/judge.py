"""Agents and rules on the same job sets: all there at once, arriving, and of mistaken classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.agent.burst_classes import NAMES
from simkit.arrays import Floats, Ints, stream
from simkit.experiment import prepare, replay
from simkit.learners.common.bundle import ViewDescription, up_to_date
from simkit.learners.lockstep.class_games import ClassGames
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import ClassJobs
from simkit.learners.networks.inference import PlainNetwork, plain_network
from simkit.learners.studies.results import long
from simkit.learners.studies.schedqrm import trainings
from simkit.learners.studies.schedqrm.rules import RULES
from simkit.learners.studies.schedqrm.rules import play as play_rule
from simkit.learners.studies.trainings import KeptTraining, kept_table
from simkit.scenario import Scenario
from simkit.scenario.bundled import agent_folder
from simkit.traces.models.synthetic import pool_trace
from simkit.training import Workplace

SHOWN: Final = (20, 50, 100, 150, 200)
"""Loads of the page's tables, in percent; policies of numbered slots play at these alone."""
REFERENCE: Final = "SJF in order"
"""The rule with which everyone is compared."""
BEST_RULE: Final = "earliest finish"
CLASS_LOADS: Final = (100, 150, 200)
"""Loads at which slowdowns are also counted by class: the paper's figure 4."""
PRICED: Final = (50, 100, 200)
"""Loads at which jobs are also taken for wrong classes."""
MEASURES: Final = ("slowdown", "never_placed")
"""Of a job set: the mean slowdown of its jobs, infinite if some never ended, and how many those
are."""
LIMIT, ONLINE_LIMIT = 400, 3000
"""The most decisions in a game; jobs not placed by then never end."""
Player = Callable[[ClassLockstep], None]
"""Plays games to the end."""


def case_of(load: int, more: str = "") -> str:
    """Return the name of a case: a load in percent, and what else distinguishes it."""
    return f"{load} %{f', {more}' if more else ''}"


# --- players --------------------------------------------------------------------------------------


def player_of(training: KeptTraining) -> Player:
    """Return how the agent of a complete training plays."""
    bundle = training.agent
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


def _players(
    rules: Iterable[str], trained: trainings.Trainings
) -> dict[tuple[str, int | None], Player]:
    """Return arm and seed → how it plays."""
    found: dict[tuple[str, int | None], Player] = {
        (name, None): partial(play_rule, rule=RULES[name]) for name in rules
    }
    return found | {key: player_of(one) for key, one in trained.items()}


def played(games: ClassLockstep, play: Player) -> Floats:
    """Return (S, J) the slowdown of each job; infinite if it was never placed, 0 for padding."""
    play(games)
    sets = games.sets
    slowdown = (games.finish - sets.enter) / np.maximum(sets.length, 1)
    return np.where(games.finish < 0, np.where(sets.there, np.inf, 0.0), slowdown)


MIXED: Final = "agent of slots, mixed loads"
OF_SLOTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "slotted-sjf": {"name": "slotted-sjf"},
    "slotted-tetris": {"name": "slotted-tetris"},
    "slotted-headroom": {"name": "slotted-headroom"},
    MIXED: {"agent": str(agent_folder("deeprm-mixed", Path())), "args": {"choose": "greedy"}},
}
"""Policies that see ten waiting jobs in numbered slots, as DeepRM: name → section `policy`."""
_SLOTS: Final[Mapping[str, Any]] = {
    "workload": {"type": "schedqrm"}, "admission": {"slots": 10, "backlog": 60}, **trainings.POOL,
}  # fmt: skip


def slowdown_of_slots(name: str, sets: JobSets) -> Floats:
    """Return (S, J) the slowdown of each job, as `played`, in simulations of one of `OF_SLOTS`."""
    found = np.where(sets.there, np.inf, 0.0)
    scenario = Scenario.model_validate({**_SLOTS, "policy": OF_SLOTS[name]})
    for row, there in enumerate(sets.there):
        if there.any():
            jobs = pool_trace(
                sets.enter[row, there], sets.length[row, there],
                sets.size[row, there].astype(np.float64), 1.0, 10.0,
            )  # fmt: skip
            ended = replay(prepare(scenario, workload=jobs.workload), ("jobs",)).jobs.sort("job_id")
            times = ended["wait_time_s"] / ended["run_time_s"] + 1.0
            found[row, there] = times.fill_null(np.inf).to_numpy()
    return found


# --- judging --------------------------------------------------------------------------------------


def _kept_rows(
    place: Workplace, setting: trainings.SchedQRMSetting, trained: trainings.Trainings, what: str,
    rows: Callable[[], Iterator[pl.DataFrame]], *more: Any,
) -> pl.DataFrame:  # fmt: skip
    """Return rows of the long table, kept under a name that depends on the agents' weights."""
    key = [trainings.JUDGED, asdict(setting), [one.digest for one in trained.values()], *more]
    return kept_table(place, what, key, lambda: pl.concat(rows()))


def _by_set(arm: str, seed: int | None, case: str, sets: JobSets, slowdown: Floats) -> pl.DataFrame:
    """Return the measures of each job set with jobs."""
    jobs = sets.there.sum(axis=1)
    table = pl.DataFrame({
        "item": np.arange(len(jobs)), "slowdown": slowdown.sum(axis=1) / np.maximum(jobs, 1),
        "never_placed": np.isinf(slowdown).sum(axis=1),
    }).filter(pl.Series(jobs > 0))  # fmt: skip
    return long(table, MEASURES, arm=arm, case=case, seed=seed)


def judge_at_once(place: Workplace, setting: trainings.SchedQRMSetting) -> pl.DataFrame:
    """Return the measures of everyone on job sets that are all there at once, and some by class.

    A case ``by class`` has the classes as items, at all of `CLASS_LOADS` together.
    """
    trained = trainings.trainings(place, setting)

    def rows() -> Iterator[pl.DataFrame]:
        players = _players(RULES, trained)
        jobs: dict[tuple[str, int | None], list[pl.DataFrame]] = {
            (arm, seed): [] for arm, seed in players if arm in (REFERENCE, trainings.WHOLE)
        }
        for load in trainings.LOADS:
            sets = trainings.judged_sets(load, setting.judged)
            for (arm, seed), play in players.items():
                slowdown = played(ClassLockstep(trainings.MODEL, sets, limit=LIMIT), play)
                yield _by_set(arm, seed, case_of(load), sets, slowdown)
                if load in CLASS_LOADS and (arm, seed) in jobs:
                    there = {"item": sets.length[sets.there], "mean": slowdown[sets.there]}
                    jobs[arm, seed].append(pl.DataFrame(there))
            for name in OF_SLOTS if load in SHOWN else ():  # these are simulated: it takes longer
                yield _by_set(name, None, case_of(load), sets, slowdown_of_slots(name, sets))
        for (arm, seed), parts in jobs.items():
            table = pl.concat(parts).group_by("item").agg(
                pl.col("mean").mean(), pl.col("mean").max().alias("largest")
            ).sort("item")  # fmt: skip
            yield long(table, ("mean", "largest"), arm=arm, case="by class", seed=seed)

    return _kept_rows(place, setting, trained, "at-once", rows)


def judge_arriving(place: Workplace, setting: trainings.SchedQRMSetting) -> pl.DataFrame:
    """Return the measures on DeepRM's workload, with the unseen job sets of its original code."""
    trained = trainings.trainings(place, setting, arriving=True)

    def rows() -> Iterator[pl.DataFrame]:
        players = _players((), trained)
        for load in trainings.ONLINE_LOADS:
            workload = {"type": "deeprm", "offered_load": load}
            source = ClassJobs(
                Scenario.model_validate({"workload": workload, **trainings.POOL}),
                "reproduce schedqrm",
            )
            sets = source.unseen(setting.online_sets, trainings.FIRST_UNSEEN)
            case = case_of(round(100 * load), "arriving")
            for name in OF_SLOTS:
                yield _by_set(name, None, case, sets, slowdown_of_slots(name, sets))
            for (arm, seed), play in players.items():
                slowdown = played(ClassLockstep(source.model, sets, limit=ONLINE_LIMIT), play)
                yield _by_set(arm, seed, case, sets, slowdown)

    return _kept_rows(place, setting, trained, "arriving", rows, trainings.FIRST_UNSEEN)


# --- mispredictions -------------------------------------------------------------------------------


def taken_for(length: Ints, shares: Floats, rng: np.random.Generator) -> Ints:
    """Return (S, J) the predicted lengths of jobs, drawn from the confusion of their classes."""
    below = shares.cumsum(axis=1)[np.maximum(length - 1, 0)]
    drawn = (below <= rng.random((*length.shape, 1))).sum(axis=-1) + 1
    return np.where(length > 0, np.minimum(drawn, trainings.CLASSES), 0)


def judge_mistaken(
    place: Workplace, setting: trainings.SchedQRMSetting, confusion: Mapping[str, Floats]
) -> pl.DataFrame:
    """Return the measures where jobs are placed by predicted class but run their true time.

    Args:
        place: keeps the rows.
        setting: of the trainings.
        confusion: model → (C, C) share of the programs of each class that it takes for each.
    """
    every = trainings.trainings(place, setting)
    trained = {key: every[key] for key in every if key[0] in (trainings.WHOLE, trainings.PPO)}

    def rows() -> Iterator[pl.DataFrame]:
        players = _players((REFERENCE, BEST_RULE), trained)
        for load in PRICED:
            sets = trainings.judged_sets(load, setting.judged)
            for model, shares in confusion.items():
                rng = stream(load, f"reproduce.schedqrm.price.{model}")
                guess = taken_for(sets.length, shares, rng)
                for (arm, seed), play in players.items():
                    games = ClassLockstep(trainings.MODEL, sets, taken_for=guess, limit=LIMIT)
                    yield _by_set(arm, seed, case_of(load, model), sets, played(games, play))

    told = {model: shares.tolist() for model, shares in confusion.items()}
    return _kept_rows(place, setting, trained, "mistaken", rows, told)
