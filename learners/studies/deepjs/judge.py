"""Everyone on the test chunks, as a long table with a row for each chunk.

Chunks are played in the fast model, which places tasks as the engine does under CloudSimPy's rules;
Tetris is not a sum of terms, so it runs in the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import stream
from simkit.learners.agent import load_agent
from simkit.learners.scorers.agent import PairAgent
from simkit.learners.scorers.chunk_bounds import look_ahead, lower_bound
from simkit.learners.scorers.pair_model import Chunk, Objective, chunks, play, roll_out
from simkit.learners.scorers.pair_scorer import RULES, PairScorer
from simkit.learners.studies.deepjs import trainings
from simkit.learners.studies.judging import Arm, evaluated
from simkit.learners.studies.results import long
from simkit.learners.studies.trainings import KeptTraining, kept_table
from simkit.scenario import Scenario
from simkit.traces.task_table import read_task_table
from simkit.training import Workplace

Trained = Mapping[str, Sequence[KeptTraining]]
"""Kind → complete trainings, seed by seed."""
FIRST_FIT: Final = "first-fit"
TETRIS: Final = "Tetris"
BALANCE: Final = "balance"
LONGEST: Final = "longest first"
BOUND: Final = "lower bound"
SIMPLE: Final[Mapping[str, PairScorer]] = {
    FIRST_FIT: PairScorer.by_terms({}),
    "shortest first": PairScorer.by_terms({"log_time": -1.0}),
    LONGEST: PairScorer.by_terms({"log_time": 1.0}),
    "longest first, cosine": RULES["longest-cosine"],
    BALANCE: RULES["balance"],
}
"""Arm → simple rule."""
OPTIONS: Final = (
    *(f"deepjs-{name}" for name in trainings.VARIANTS),
    *(f"fitness-{goal}" for goal in trainings.OBJECTIVES[1:]),
)  # fmt: skip
"""Arms that compare the learners' options."""
TEST: Final = "test"
"""The case of as many chunks as in the paper, 320 in the full version, from the first one on."""
LATER: Final = "two later"
"""The case of the last 320: the paper does not say which ones it has."""
RIVALS: Final = (FIRST_FIT, TETRIS)
SPANS: Final = ("makespan", "log makespan")
BESIDE: Final = tuple(f"{side} {rival}" for rival in RIVALS for side in ("above", "below"))
"""Whether the makespan is above or below a rival's."""
METRICS: Final = (*trainings.OBJECTIVES, *(f"log {goal}" for goal in trainings.OBJECTIVES), *BESIDE)
"""Costs, their logarithms, and the comparisons; means over the draws of those that draw."""


@cache
def all_chunks(machines: int = trainings.MACHINES) -> tuple[Chunk, ...]:
    """Return all chunks of the table."""
    path = Path(trainings.cluster_scenario((0, 0))["workload"]["path"])
    workload = read_task_table(path, submit="last").workload
    return tuple(chunks(workload, np.array([[64.0, 1.0]] * machines), trainings.JOBS))


def scorer_of(training: KeptTraining) -> PairScorer:
    """Return the scorer that a complete training found."""
    found = load_agent(training.folder / "agent")
    assert isinstance(found, PairAgent)
    return found.scorer


Play = Callable[[Chunk], Mapping[str, float]]
"""Plays a chunk; returns its costs by some objectives."""


def judge(place: Workplace, setting: trainings.DeepJSSetting, trained: Trained) -> pl.DataFrame:
    """Return the metrics on the test chunks, as a long table; costs of earlier runs are kept."""
    (first, last), rules, tables = setting.judged, list(RULES.values()), list[pl.DataFrame]()

    def add(arm: str, depends_on: object, *runs: Play, seed: int | None = None,
            machines: int = trainings.MACHINES) -> None:  # fmt: skip
        """Play the test chunks, once for each draw, or find what was kept."""

        def played() -> pl.DataFrame:
            rows = [
                {"arm": arm, "seed": seed, "machines": machines, "draw": draw, "chunk": number,
                 **run(all_chunks(machines)[number])}
                for draw, run in enumerate(runs)
                for number in range(first, last + 1)
            ]  # fmt: skip
            return pl.DataFrame(rows, schema_overrides={"seed": pl.Int64})

        name = f"{arm}-{machines}-{seed}"
        tables.append(kept_table(place, name, [setting.judged, depends_on], played))

    add(BOUND, None, lambda chunk: {"makespan": lower_bound(chunk)})
    add(TETRIS, None, _tetris(range(first, last + 1), place.workers))
    add("random", setting.draws, *_drawn(PairScorer.of_paper(), setting.draws))
    for arm, rule in SIMPLE.items():
        add(arm, rule.flat.tolist(), _greedy(rule, trainings.OBJECTIVES))
    add("lookahead of rules", None, _looking_ahead(rules))
    for seed in range(setting.seeds):
        sixth = _perturbed_balance(seed)
        arm, depends_on = "lookahead of rules and a random one", sixth.flat.tolist()
        add(arm, depends_on, _looking_ahead([*rules, sixth]), seed=seed)
    for arm in ("deepjs-paper", "deepjs-program", "fitness", *OPTIONS):
        for seed, training in enumerate(trained[arm]):
            scorer, weights = scorer_of(training), training.digest
            goals = (
                trainings.OBJECTIVES
                if arm in ("fitness", *OPTIONS) and seed == 0
                else trainings.OBJECTIVES[:1]
            )
            add(arm, [weights, goals], _greedy(scorer, goals), seed=seed)
            if arm == "fitness":
                ahead = _looking_ahead([*rules, scorer])
                add("lookahead of rules and fitness", weights, ahead, seed=seed)
            elif arm not in OPTIONS:
                depends_on = [weights, setting.draws]
                add(f"{arm}, drawn", depends_on, *_drawn(scorer, setting.draws), seed=seed)
    fitness = trained["fitness"][0]
    for machines in setting.machines:
        add(BALANCE, None, _greedy(SIMPLE[BALANCE]), machines=machines)
        add("fitness", fitness.digest, _greedy(scorer_of(fitness)), seed=0, machines=machines)
    return rows_of(pl.concat(tables, how="diagonal"), first, last)


def _greedy(scorer: PairScorer, goals: Sequence[Objective] = trainings.OBJECTIVES[:1]) -> Play:
    def costs(chunk: Chunk) -> dict[str, float]:
        found = play(chunk, scorer)
        return {goal: found.cost(chunk, goal) for goal in goals}

    return costs


def _drawn(scorer: PairScorer, draws: int) -> list[Play]:
    def makespan(rng: np.random.Generator, chunk: Chunk) -> dict[str, float]:
        return {"makespan": roll_out(chunk, scorer, rng).makespan}

    return [partial(makespan, stream(draw, "reproduce.deepjs.pairs")) for draw in range(draws)]


def _looking_ahead(rules: Sequence[PairScorer]) -> Play:
    return lambda chunk: {"makespan": look_ahead(chunk, rules).makespan}


def rows_of(played: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
    """Return long rows of what was played on chunks `first` to `last`.

    `played` has columns `arm`, `seed`, `machines`, `draw`, `chunk` and costs by `OBJECTIVES`.
    """
    makespan, chunk = pl.col("makespan"), pl.col("chunk")
    here = pl.col("machines") == trainings.MACHINES
    rivals = played.filter(here, pl.col("arm").is_in(RIVALS))
    wide = played.join(rivals.pivot("arm", index="chunk", values="makespan"), on="chunk")
    wide = wide.with_columns(
        pl.col(trainings.OBJECTIVES).log().name.prefix("log "),
        *((makespan > pl.col(rival)).alias(f"above {rival}") for rival in RIVALS),
        *((makespan < pl.col(rival)).alias(f"below {rival}") for rival in RIVALS),
    )
    index = ("arm", "seed", "machines", "chunk")
    means = wide.group_by(index, maintain_order=True).agg(pl.col(METRICS).mean())
    rows = partial(long, item=chunk)
    test, later = chunk <= last - 2, (chunk >= first + 2) & ~pl.col("arm").is_in(OPTIONS)
    elsewhere = pl.format("{} machines", "machines")
    return pl.concat([
        rows(means.filter(here, test), METRICS, case=TEST),
        rows(means.filter(here, later), (*SPANS, *BESIDE), case=LATER),
        rows(means.filter(~here, test), SPANS, case=elsewhere),
    ])  # fmt: skip


def _perturbed_balance(seed: int) -> PairScorer:
    """Return the rule `balance` with weights moved about as far as learning moves them."""
    rule = RULES["balance"]
    steps = stream(seed, "reproduce.deepjs.sixth").normal(0.0, 0.2, len(rule.flat))
    return rule.with_flat(rule.flat + steps)


def _tetris(windows: Sequence[int], workers: int) -> Play:
    """Return what the engine makes of the windows, all at once when the first one is asked for."""

    @cache
    def played() -> Iterator[float]:
        scenario = Scenario.model_validate(trainings.cluster_scenario((0, 0)))
        tetris = Arm(TETRIS, {"fitness": "tetris", "compat": "cloudsimpy"})
        metric = "cloudsimpy_makespan"
        found = evaluated(scenario, [tetris], windows=windows, metric=metric, workers=workers)
        return iter(found.sort("set")[metric].to_list())

    return lambda _: {"makespan": next(played())}
