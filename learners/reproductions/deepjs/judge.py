"""Makespans of every scheduler on the test chunks, and how similarly agents score the same pairs.

Chunks are played in the fast model, which places tasks as the engine does under CloudSimPy's rules;
Tetris is not a sum of terms, so it runs in the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

import numpy as np
import polars as pl
from scipy.stats import pearsonr, spearmanr

from simkit.analysis.intervals import Interval, set_interval
from simkit.arrays import Floats, stream
from simkit.learners.agent import load_agent
from simkit.learners.deepjs import DeepJSTraining, begin
from simkit.learners.reproductions.common import digest_of, kept_table, weights_hash
from simkit.learners.reproductions.deepjs.bounds import look_ahead, lower_bound
from simkit.learners.reproductions.deepjs.study import (
    ALONE,
    JOBS,
    MACHINES,
    Agent,
    DeepJSSetting,
    agents,
    cluster_scenario,
    scenario_of,
    table_path,
)
from simkit.learners.scorers.agent import PairAgent
from simkit.learners.scorers.pair_model import Chunk, chunks, play, roll_out
from simkit.learners.scorers.pair_scorer import RULES, PairScorer
from simkit.scenario import Scenario
from simkit.traces.task_table import read_task_table
from simkit.training import Workplace
from simkit.training.evaluate import Candidate, evaluate

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
"""Label → simple rule."""


@dataclass(frozen=True)
class Standing:
    """The results of a scheduler on some chunks; means over its seeds and draws."""

    label: str
    runs: int
    """Seeds times draws."""
    makespan: float
    """Mean over chunks, in ticks."""
    over_bound: float
    """Geometric mean of the ratio to the lower bound."""
    log_ratio: float
    """Mean logarithm of the ratio to the balance rule's makespan."""
    interval: Interval
    """Interval of `log_ratio`, over chunks."""
    against: Mapping[str, tuple[float, float, float]]
    """First-fit or Tetris → number of chunks with a larger, an equal and a smaller makespan."""


@cache
def all_chunks() -> tuple[Chunk, ...]:
    """Return all chunks of the table."""
    workload = read_task_table(table_path(), submit="last").workload
    return tuple(chunks(workload, np.array([[64.0, 1.0]] * MACHINES), JOBS))


def scorer_of(place: Workplace, agent: Agent) -> PairScorer:
    """Return the scorer that a complete training found."""
    found = load_agent(place.work / "trainings" / agent.name / "agent")
    assert isinstance(found, PairAgent)
    return found.scorer


def judge(place: Workplace, setting: DeepJSSetting) -> pl.DataFrame:
    """Return the makespans on the test chunks; those of earlier runs are kept.

    Columns: `chunk`, `label`, `seed`, `draw` and `makespan`.
    """
    tables = []
    for one in _contestants(place, setting):
        name = one.label.replace(" ", "-").replace(",", "")
        digest = digest_of([setting.judged, one.depends_on])
        path = place.work / "judged" / f"{name}-{one.seed}-{digest}.parquet"
        message = f"judged {one.label}" + (f", seed {one.seed}" if one.seed is not None else "")
        tables.append(kept_table(place, path, partial(_rows, one, setting.judged), message))
    return pl.concat(tables)


@dataclass(frozen=True)
class _Contestant:
    """A scheduler to test."""

    label: str
    seed: int | None
    """Seed of its training."""
    depends_on: object
    """What else its makespans depend on."""
    play: Callable[[], list[list[float]]]
    """Returns the makespans on the test chunks, a list for each draw."""


def _contestants(place: Workplace, setting: DeepJSSetting) -> Iterator[_Contestant]:
    first, last = setting.judged
    tests = all_chunks()[first : last + 1]
    rules = list(RULES.values())

    def bound() -> list[list[float]]:
        return [[lower_bound(chunk) for chunk in tests]]

    def greedy(scorer: PairScorer) -> list[list[float]]:
        return [[play(chunk, scorer).makespan for chunk in tests]]

    def drawn(scorer: PairScorer) -> list[list[float]]:
        streams = [stream(draw, "reproduce.deepjs.pairs") for draw in range(setting.draws)]
        return [[roll_out(chunk, scorer, rng).makespan for chunk in tests] for rng in streams]

    def looking_ahead(*further: PairScorer) -> list[list[float]]:
        return [[look_ahead(chunk, [*rules, *further]).makespan for chunk in tests]]

    def tetris() -> list[list[float]]:
        return [_tetris(range(first, last + 1), place.workers)]

    yield _Contestant(BOUND, None, None, bound)
    yield _Contestant(TETRIS, None, None, tetris)
    yield _Contestant("random", None, setting.draws, partial(drawn, PairScorer.of_paper()))
    for label, rule in SIMPLE.items():
        yield _Contestant(label, None, rule.flat.tolist(), partial(greedy, rule))
    yield _Contestant("lookahead of rules", None, None, looking_ahead)
    for seed in range(setting.seeds):
        sixth = _perturbed_balance(seed)
        yield _Contestant(
            "lookahead of rules and a random one", seed, sixth.flat.tolist(),
            partial(looking_ahead, sixth),
        )  # fmt: skip
    for agent in agents(setting):
        if agent.machines != MACHINES or agent.chunks[0] == agent.chunks[1]:
            continue
        scorer, seed = scorer_of(place, agent), agent.seed
        weights = weights_hash(place.work / "trainings" / agent.name)
        yield _Contestant(agent.kind, seed, weights, partial(greedy, scorer))
        if agent.learner == "deepjs":
            yield _Contestant(
                f"{agent.kind}, drawn", seed, [weights, setting.draws], partial(drawn, scorer)
            )
        else:
            yield _Contestant(
                "lookahead of rules and fitness", seed, weights, partial(looking_ahead, scorer)
            )


def _perturbed_balance(seed: int) -> PairScorer:
    """Return the rule `balance` with weights moved about as far as learning moves them."""
    rule = RULES["balance"]
    steps = stream(seed, "reproduce.deepjs.sixth").normal(0.0, 0.2, len(rule.flat))
    return rule.with_flat(rule.flat + steps)


def _tetris(windows: Sequence[int], workers: int) -> list[float]:
    scenario = Scenario.model_validate(cluster_scenario((0, 0)))
    tetris = Candidate("policy", {"fitness": "tetris", "compat": "cloudsimpy"}, TETRIS)
    found = evaluate(
        scenario, [tetris], windows=windows, metric="cloudsimpy_makespan", workers=workers
    )
    rows = sorted(found.rows, key=lambda row: row["set"])
    return [float(row["sum"]) for row in rows]  # one number per window


def _rows(one: _Contestant, span: tuple[int, int]) -> pl.DataFrame:
    chunk = np.arange(span[0], span[1] + 1)
    parts = [
        pl.DataFrame({"chunk": chunk, "makespan": np.array(makespans, float)}).with_columns(
            pl.lit(one.label).alias("label"),
            pl.lit(one.seed, pl.Int64).alias("seed"),
            pl.lit(draw, pl.Int64).alias("draw"),
        )
        for draw, makespans in enumerate(one.play())
    ]
    return pl.concat(parts)


def matrix(judged: pl.DataFrame, label: str, seed: int | None = None) -> Floats:
    """Return (runs, chunks) makespans of a scheduler, for one training or for all."""
    rows = judged.filter(pl.col("label") == label)
    if seed is not None:
        rows = rows.filter(pl.col("seed") == seed)
    parts = rows.sort("seed", "draw", "chunk").partition_by("seed", "draw", maintain_order=True)
    return np.stack([part["makespan"].to_numpy() for part in parts])


def standings(judged: pl.DataFrame, span: tuple[int, int]) -> list[Standing]:
    """Return the standing of each scheduler on chunks `span` (first, last), the best one last."""
    judged = judged.filter(pl.col("chunk").is_between(*span))
    labels = [label for label in judged["label"].unique(maintain_order=True) if label != BOUND]
    found = [standing(judged, label) for label in labels]
    return sorted(found, key=lambda one: -one.makespan)


def standing(judged: pl.DataFrame, label: str, seed: int | None = None) -> Standing:
    """Return the standing of a scheduler, over all its trainings or for one of them."""
    mine = matrix(judged, label, seed)
    bound, balance = matrix(judged, BOUND)[0], matrix(judged, BALANCE)[0]
    ratios = np.log(mine / balance).mean(axis=0)
    against = {}
    for other in (FIRST_FIT, TETRIS):
        gap = mine - matrix(judged, other)[0]
        counts = ((gap > 0).sum(), (gap == 0).sum(), (gap < 0).sum())
        worse, equal, better = (float(count) / len(mine) for count in counts)
        against[other] = (worse, equal, better)
    return Standing(
        label,
        len(mine),
        float(mine.mean()),
        float(np.exp(np.log(mine / bound).mean())),
        float(ratios.mean()),
        set_interval(ratios, np.ones(len(ratios))),
        against,
    )


@dataclass(frozen=True)
class Likeness:
    """How similarly two agents score the same pairs."""

    label: str
    seed: int
    pearson: float
    p_value: float
    spearman: float
    scores: Floats
    """(2, P) their scores."""


PAIRS: Final = 2000
"""Pairs to compare, drawn at random from the distinct ones of a trajectory."""


def likenesses(place: Workplace, setting: DeepJSSetting) -> list[Likeness]:
    """Return the correlations of the paper's figure 5, and further ones, seed by seed.

    The pairs are those that the first agent meets when it draws its way through a chunk on which
    neither agent was trained.
    """
    known = {(agent.kind, agent.seed): agent for agent in agents(setting)}
    five, ten = "deepjs-paper", "deepjs-ten-machines"
    one, other = (f"deepjs-chunk-{chunk}" for chunk in ALONE)
    chunk = all_chunks()[setting.judged[0]]
    found = []
    for seed in range(setting.seeds):
        following, mine = (seed + 1) % setting.seeds, scorer_of(place, known[five, seed])
        comparisons = {
            "5 and 10 machines": ((five, seed), (ten, seed % setting.ten_machines_seeds)),
            "5 machines, two seeds": ((five, seed), (five, following)),
            "chunk 5 and chunk 6": ((one, seed), (other, seed)),
            "chunk 5, two seeds": ((one, seed), (one, following)),
        }
        for label, pair in comparisons.items():
            if pair[0] != pair[1]:
                first, second = (scorer_of(place, known[each]) for each in pair)
                found.append(_likeness(label, seed, first, second, chunk))
        untrained = _untrained(replace(known[five, seed], seed=seed + setting.seeds), setting)
        found.append(_likeness("5 machines and untrained", seed, mine, untrained, chunk))
    return found


def _untrained(agent: Agent, setting: DeepJSSetting) -> PairScorer:
    """Return the network with which a training of DeepJS begins."""
    scenario = scenario_of(agent, setting)
    assert scenario.learn is not None
    training = begin(scenario, scenario.learn.all_arguments, seed=scenario.seed)
    assert isinstance(training, DeepJSTraining)
    return training.scorer


def _likeness(label: str, seed: int, one: PairScorer, other: PairScorer, chunk: Chunk) -> Likeness:
    rng = stream(seed, "reproduce.deepjs.likeness")
    seen = np.unique(roll_out(chunk, one, rng).seen, axis=0)
    chosen = rng.choice(len(seen), min(PAIRS, len(seen)), replace=False)
    # undo shift and scale
    features = seen[chosen].astype(np.float64) * one.scale + one.shift
    scores = np.stack([one.scores(features), other.scores(features)])
    pearson = pearsonr(*scores)
    return Likeness(
        label, seed, float(pearson.statistic), float(pearson.pvalue),
        float(spearmanr(*scores).statistic), scores,
    )  # fmt: skip


def sliding(place: Workplace, setting: DeepJSSetting) -> pl.DataFrame:
    """Return makespans on the training chunks: `chunk`, `label`, `seed`, `makespan`.

    Agents play a chunk before they train on it. Other schedulers have no seed, and random choice
    has the mean of its draws.
    """
    folder, parts = place.work / "trainings", []
    for agent in agents(setting):
        if agent.kind == "deepjs-paper":
            table = pl.read_parquet(folder / agent.name / "metrics.parquet")
            before = table.drop_nulls("cost_greedy")["cost_greedy"].to_numpy()
            parts.append(_played(agent.kind, agent.seed, before))
    trained = all_chunks()[: setting.trained]
    for label in (FIRST_FIT, LONGEST):
        parts.append(_played(label, None, [play(one, SIMPLE[label]).makespan for one in trained]))
    rng, blank = stream(0, "reproduce.deepjs.sliding"), PairScorer.of_paper()
    drawn = [[roll_out(one, blank, rng).makespan for one in trained] for _ in range(setting.draws)]
    parts.append(_played("random", None, np.mean(drawn, axis=0)))
    return pl.concat(parts)


def _played(label: str, seed: int | None, makespans: Sequence[float] | Floats) -> pl.DataFrame:
    columns = {"chunk": np.arange(len(makespans)), "makespan": np.asarray(makespans, np.float64)}
    return pl.DataFrame(columns).with_columns(
        pl.lit(label).alias("label"), pl.lit(seed, pl.Int64).alias("seed")
    )
