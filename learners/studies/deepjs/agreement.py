"""How similarly agents score the same pairs, and what they made of chunks before they saw them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
from scipy.stats import pearsonr, spearmanr

from simkit.arrays import stream
from simkit.learners.deepjs import DeepJSTraining, begin
from simkit.learners.scorers.pair_model import Chunk, play, roll_out
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.learners.studies.deepjs import judge
from simkit.learners.studies.deepjs.trainings import ALONE, DeepJSSetting
from simkit.learners.studies.results import COLUMNS
from simkit.scenario import Scenario

AGREEMENT: Final = "agreement"
"""The case of the correlations: an arm is a pair of agents."""
SHOWN: Final = ("5 and 10 machines", "chunk 5 and chunk 6", "5 machines and untrained")
"""Pairs of agents whose scores are drawn, those of the first seed; each is a case."""
POINTS: Final = 500
"""Pairs of machine and task that are drawn."""
PAIRS: Final = 2000
"""Pairs to compare, drawn at random from the distinct ones of a trajectory."""
HALVES: Final = ("trained, first half", "trained, second half")
"""The cases of the chunks to train on, each played before it is trained on."""


def agreement(setting: DeepJSSetting, trained: judge.Trained) -> pl.DataFrame:
    """Return the correlations of the paper's figure 5, and further ones, as a long table.

    The pairs are those that the first agent meets when it draws its way through a chunk on which
    neither agent was trained.
    """
    kinds = ("deepjs-paper", "deepjs-ten-machines", *(f"deepjs-chunk-{chunk}" for chunk in ALONE))
    five, ten, one, other = ([judge.scorer_of(each) for each in trained[kind]] for kind in kinds)
    chunk, rows = judge.all_chunks()[setting.judged[0]], list[dict[str, Any]]()
    for seed in range(setting.seeds):
        following, begun = (seed + 1) % setting.seeds, trained["deepjs-paper"][seed].scenario
        comparisons = {
            SHOWN[0]: (five[seed], ten[seed % len(ten)]),
            "5 machines, two seeds": (five[seed], five[following]),
            SHOWN[1]: (one[seed], other[seed]),
            "chunk 5, two seeds": (one[seed], one[following]),
            SHOWN[2]: (five[seed], _untrained(begun, seed + setting.seeds)),
        }
        for label, (first, second) in comparisons.items():
            if first is not second:
                rows += _compared(label, seed, first, second, chunk)
    return pl.DataFrame(rows, schema=COLUMNS)


def _untrained(scenario: Scenario, seed: int) -> PairScorer:
    """Return the network with which a training of DeepJS begins."""
    assert scenario.learn is not None
    begun = scenario.model_copy(update={"seed": seed})
    training = begin(begun, scenario.learn.all_arguments, seed=seed)
    assert isinstance(training, DeepJSTraining)
    return training.scorer


def _compared(
    label: str, seed: int, one: PairScorer, other: PairScorer, chunk: Chunk
) -> Iterator[dict[str, Any]]:
    rng = stream(seed, "reproduce.deepjs.likeness")
    seen = np.unique(roll_out(chunk, one, rng).seen, axis=0)
    chosen = rng.choice(len(seen), min(PAIRS, len(seen)), replace=False)
    # undo shift and scale
    features = seen[chosen].astype(np.float64) * one.scale + one.shift
    scores = one.scores(features), other.scores(features)
    found = {"pearson": pearsonr(*scores).statistic, "spearman": spearmanr(*scores).statistic}
    for metric, value in found.items():
        yield {"arm": label, "seed": seed, "case": AGREEMENT, "item": 0, "metric": metric,
               "value": float(value)}  # fmt: skip
    if seed == 0 and label in SHOWN:
        for arm, values in zip(("first", "second"), scores, strict=True):
            for item, value in enumerate(values[:POINTS].tolist()):
                yield {"arm": arm, "case": label, "item": item, "metric": "score", "value": value}


def sliding(setting: DeepJSSetting, trained: judge.Trained) -> pl.DataFrame:
    """Return makespans on the training chunks, as a long table; random choice has its mean.

    Agents play a chunk before they train on it.
    """
    chunks, rng = judge.all_chunks()[: setting.trained], stream(0, "reproduce.deepjs.sliding")
    blank = PairScorer.of_paper()
    drawn = [[roll_out(one, blank, rng).makespan for one in chunks] for _ in range(setting.draws)]
    played = [
        *((arm, None, [play(one, judge.SIMPLE[arm]).makespan for one in chunks])
          for arm in (judge.FIRST_FIT, judge.LONGEST)),
        ("random", None, np.mean(drawn, axis=0).tolist()),
        *(("deepjs-paper", seed, training.curve["cost_greedy"].drop_nulls().to_list())
          for seed, training in enumerate(trained["deepjs-paper"])),
    ]  # fmt: skip
    rows = [
        {"arm": arm, "seed": seed, "case": HALVES[chunk >= setting.trained // 2], "item": chunk,
         "metric": "makespan", "value": makespan}
        for arm, seed, makespans in played
        for chunk, makespan in enumerate(makespans)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=COLUMNS)
