"""Agents and rules on the same job sets: all there at once, arriving, and of mistaken classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.agent.burst_classes import NAMES
from simkit.agent.slotted import Slotted
from simkit.arrays import Floats, Ints, stream
from simkit.experiment import prepare, replay
from simkit.learners.common.bundle import ViewDescription, up_to_date
from simkit.learners.lockstep.class_games import ClassGames
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import ClassJobs
from simkit.learners.studies.results import long
from simkit.learners.studies.schedqrm import trainings
from simkit.learners.studies.schedqrm.rules import RULES
from simkit.learners.studies.schedqrm.trainings import PPO, WHOLE, SchedQRMSetting, Trainings
from simkit.learners.studies.trainings import KeptTraining, kept_table, player
from simkit.scenario import Scenario
from simkit.scenario.bundled import agent_folder
from simkit.traces.models.synthetic import pool_trace
from simkit.training import Workplace

SHOWN: Final = (20, 50, 100, 150, 200)
"""Loads of the page's tables, in percent; policies of numbered slots play at these alone."""
REFERENCE: Final = "SJF in order"
"""The rule with which everyone is compared."""
BEST_RULE: Final = "earliest finish"
CLASS_LOADS: Final = ("100 %", "150 %", "200 %")
"""Loads at which slowdowns are also counted by class: the paper's figure 4."""
PRICED: Final = (50, 100, 200)
"""Loads at which jobs are also taken for wrong classes."""
MEASURES: Final = ("slowdown", "never_placed")
"""Of a job set: the mean slowdown of its jobs, infinite if some never ended, and how many those
are."""
LIMIT, ONLINE_LIMIT = 400, 3000
"""The most decisions in a game; jobs not placed by then never end."""
Player = Callable[[ClassLockstep], None]
"""Plays games to their ends."""


def case_of(load: int, more: str = "") -> str:
    """Return the name of a case: a load in percent, and what else distinguishes it."""
    return f"{load} %{f', {more}' if more else ''}"


# --- players --------------------------------------------------------------------------------------


def _finish(games: Any, choose: Callable[[Any], Ints]) -> None:
    while len(games.active):
        games.step(choose(games))


def by_agent(training: KeptTraining) -> Player:
    """Return how the agent of a complete training plays, by its likeliest actions."""
    choose, stated = player(training.folder / "agent"), training.agent.description
    described = ViewDescription.read(up_to_date(stated))
    actions = described.view.action_arguments or {}
    begin = partial(
        ClassGames, starts=actions["starts"], mask=stated["arguments"].get("mask", "possible"),
        patience=actions["patience"], paper=described.observation["name"] == NAMES[True],
    )  # fmt: skip
    return lambda lockstep: _finish(begin(lockstep), choose)


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
    """Return (S, J) the slowdown of each job, as `Case.play`, if one of `OF_SLOTS` is simulated."""
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


@dataclass(frozen=True)
class Case:
    """Job sets that everyone plays."""

    name: str
    sets: JobSets
    of_slots: bool = False
    """Whether policies of numbered slots play them, too."""
    model: Slotted = trainings.MODEL
    limit: int = LIMIT
    taken_for: Ints | None = None
    """(S, J) lengths by which jobs are placed; None: their true ones."""

    def play(self, play: Player) -> Floats:
        """Return (S, J) the slowdown of each job; infinite if it was never placed, 0: padding."""
        games = ClassLockstep(self.model, self.sets, taken_for=self.taken_for, limit=self.limit)
        play(games)
        slowdown = (games.finish - self.sets.enter) / np.maximum(self.sets.length, 1)
        return np.where(games.finish < 0, np.where(self.sets.there, np.inf, 0.0), slowdown)


def judged(
    place: Workplace, key: list[object], cases: Sequence[Case], rules: Iterable[str],
    trained: Trainings,
) -> pl.DataFrame:  # fmt: skip
    """Return the measures of rules and agents on each job set, as a long table; kept.

    Args:
        place: keeps it.
        key: its name, and what it depends on besides the agents, see `Part`.
        cases: what is played.
        rules: from `RULES`.
        trained: the agents.
    """
    name, setting, *more = key

    def rows() -> Iterator[pl.DataFrame]:
        players: dict[tuple[str, int | None], Player] = {
            (rule, None): partial(_finish, choose=RULES[rule].choose) for rule in rules
        }
        players |= {arm: by_agent(one) for arm, one in trained.items()}
        classes = list[pl.DataFrame]()
        for case in cases:
            for (arm, seed), play in players.items():
                slowdown = case.play(play)
                yield _by_set(arm, seed, case, slowdown)
                if case.name in CLASS_LOADS and arm in (REFERENCE, WHOLE):
                    there = case.sets.there
                    jobs = {"item": case.sets.length[there], "mean": slowdown[there]}
                    own = pl.lit(seed, pl.Int64).alias("seed")
                    classes.append(pl.DataFrame(jobs).with_columns(own, arm=pl.lit(arm)))
            for policy in OF_SLOTS if case.of_slots else ():
                yield _by_set(policy, None, case, slowdown_of_slots(policy, case.sets))
        if classes:
            largest = pl.col("mean").max().alias("largest")
            table = pl.concat(classes).group_by("arm", "seed", "item").agg(pl.mean("mean"), largest)
            yield long(table.sort("arm", "seed", "item"), ("mean", "largest"), case="by class")

    key = [trainings.JUDGED, setting, [one.digest for one in trained.values()], *more]
    return kept_table(place, str(name), key, lambda: pl.concat(rows()))


def _by_set(arm: str, seed: int | None, case: Case, slowdown: Floats) -> pl.DataFrame:
    """Return the measures of each job set with jobs."""
    jobs = case.sets.there.sum(axis=1)
    table = pl.DataFrame({
        "item": np.arange(len(jobs)), "slowdown": slowdown.sum(axis=1) / np.maximum(jobs, 1),
        "never_placed": np.isinf(slowdown).sum(axis=1),
    }).filter(pl.Series(jobs > 0))  # fmt: skip
    return long(table, MEASURES, arm=arm, case=case.name, seed=seed)


def judge_schedules(
    place: Workplace, setting: SchedQRMSetting, confusion: Mapping[str, Floats]
) -> pl.DataFrame:
    """Return everyone's measures: all jobs at once, jobs that arrive, and jobs that are mistaken.

    Args:
        place: keeps the rows.
        setting: of the trainings.
        confusion: model → (C, C) share of the programs of each class that it takes for each. Jobs
            are placed by predicted class, but run their true time.
    """
    agents = trainings.trainings(place, setting)
    few = {key: one for key, one in agents.items() if key[0] in (WHOLE, PPO)}
    sets = {load: trainings.judged_sets(load, setting.judged) for load in trainings.LOADS}
    at_once = [Case(case_of(load), drawn, load in SHOWN) for load, drawn in sets.items()]
    mistaken = [
        Case(case_of(load, model), sets[load], taken_for=taken_for(
            sets[load].length, shares, stream(load, f"reproduce.schedqrm.price.{model}")
        ))
        for load in PRICED for model, shares in confusion.items()
    ]  # fmt: skip
    arriving = [_arriving(load, setting.online_sets) for load in trainings.ONLINE_LOADS]
    online = trainings.trainings(place, setting, arriving=True)
    told = {model: shares.tolist() for model, shares in confusion.items()}
    size = asdict(setting)
    return pl.concat([
        judged(place, ["at-once", size], at_once, RULES, agents),
        judged(place, ["arriving", size, trainings.FIRST_UNSEEN], arriving, (), online),
        judged(place, ["mistaken", size, told], mistaken, (REFERENCE, BEST_RULE), few),
    ])  # fmt: skip


def _arriving(load: float, count: int) -> Case:
    """Return DeepRM's workload at a load, with unseen job sets of its original code."""
    workload = {"type": "deeprm", "offered_load": load}
    scenario = Scenario.model_validate({"workload": workload, **trainings.POOL})
    source = ClassJobs(scenario, "reproduce schedqrm")
    sets, name = (
        source.unseen(count, trainings.FIRST_UNSEEN),
        case_of(round(100 * load), "arriving"),
    )
    return Case(name, sets, of_slots=True, model=source.model, limit=ONLINE_LIMIT)


def taken_for(length: Ints, shares: Floats, rng: np.random.Generator) -> Ints:
    """Return (S, J) the predicted lengths of jobs, drawn from the confusion of their classes."""
    below = shares.cumsum(axis=1)[np.maximum(length - 1, 0)]
    drawn = (below <= rng.random((*length.shape, 1))).sum(axis=-1) + 1
    return np.where(length > 0, np.minimum(drawn, trainings.CLASSES), 0)
