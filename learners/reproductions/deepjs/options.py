"""The value of both learners' options: short trainings, compared by every objective."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Interval, set_interval
from simkit.learners.reproductions.common import (
    digest_of,
    kept_table,
    markdown_table,
    wall_time_s,
    weights_hash,
)
from simkit.learners.reproductions.deepjs.judge import (
    BALANCE,
    SIMPLE,
    Standing,
    all_chunks,
    scorer_of,
)
from simkit.learners.reproductions.deepjs.study import (
    Agent,
    DeepJSSetting,
    agents,
    optional_agents,
)
from simkit.learners.scorers.pair_model import Objective, play
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.training import Workplace

OBJECTIVES: Final[tuple[Objective, ...]] = (
    "makespan", "turnaround", "weighted-turnaround", "slowdown"
)  # fmt: skip


def judge_options(place: Workplace, setting: DeepJSSetting) -> pl.DataFrame:
    """Return the costs on the test chunks: `chunk`, `label`, `objective`, `cost`; kept.

    Agents have the first seed and take the best pair.
    """
    hashes = [weights_hash(place.work / "trainings" / agent.name) for agent in _all_agents(setting)]
    path = place.work / "judged" / f"options-{digest_of([setting.judged, hashes])}.parquet"

    def costs() -> pl.DataFrame:
        return pl.concat(_costs(*one, setting) for one in _scorers(place, setting))

    return kept_table(place, path, costs, "judged options")


def _all_agents(setting: DeepJSSetting) -> Iterator[Agent]:
    yield from (each for each in agents(setting) if each.name == "fitness-seed0")
    yield from optional_agents(setting)


def _scorers(place: Workplace, setting: DeepJSSetting) -> Iterator[tuple[str, PairScorer]]:
    yield from SIMPLE.items()
    for agent in _all_agents(setting):
        yield agent.kind, scorer_of(place, agent)


def _costs(label: str, scorer: PairScorer, setting: DeepJSSetting) -> pl.DataFrame:
    first, last = setting.judged
    chunks = all_chunks()[first : last + 1]
    plays = [play(chunk, scorer) for chunk in chunks]
    parts = [
        pl.DataFrame({
            "chunk": np.arange(first, last + 1),
            "cost": [one.cost(chunk, goal) for one, chunk in zip(plays, chunks, strict=True)],
        }).with_columns(pl.lit(label).alias("label"), pl.lit(goal).alias("objective"))
        for goal in OBJECTIVES
    ]  # fmt: skip
    return pl.concat(parts)


@dataclass(frozen=True)
class Gain:
    """A scheduler's costs relative to those of the rule `balance`."""

    log_ratio: float
    """Mean logarithm of the ratio, over chunks."""
    interval: Interval


def gain(table: pl.DataFrame, label: str, objective: str, span: tuple[int, int]) -> Gain:
    """Return the gain of a scheduler by one objective, on chunks `span` (first, last)."""
    rows = table.filter(
        (pl.col("objective") == objective) & pl.col("chunk").is_between(*span)
    ).sort("chunk")
    mine, rule = (
        rows.filter(pl.col("label") == name)["cost"].to_numpy() for name in (label, BALANCE)
    )
    ratios = np.log(mine / rule)
    return Gain(float(ratios.mean()), set_interval(ratios, np.ones(len(ratios))))


def section(
    place: Workplace, setting: DeepJSSetting, table: pl.DataFrame, span: tuple[int, int]
) -> str:
    """Return the page's section on options."""
    rows = [("", *OBJECTIVES, "wall time")]
    minutes = {
        agent.kind: f"{wall_time_s(place.work / 'trainings' / agent.name) / 60:.1f} min"
        for agent in _all_agents(setting)
    }
    for label in table["label"].unique(maintain_order=True):
        cells = [hundredths(gain(table, label, goal, span)) for goal in OBJECTIVES]
        cells = [""] * len(OBJECTIVES) if label == BALANCE else cells
        rows.append((label, *cells, minutes.get(label, "")))
    iterations = f"{setting.trained * setting.variant_repeats:,}"
    return f"""## Options of the learners

One training of each, with seed 0, taken greedily, by four objectives: the makespan, and the mean
over jobs of the turnaround, of the turnaround weighted by instances and of the slowdown. Each
number is the mean logarithm of the ratio to the rule `balance`, in hundredths, on chunks {span[0]}
to {span[1]}, with an interval of 95 %; less is better.

The `deepjs-` trainings have {iterations} iterations. *short* is the paper's set-up but for that;
*terms* sees the terms of `fitness` instead of the paper's features; *ppo* takes three passes of PPO
over an iteration's rollouts, with the mean return at the same tick as the baseline; *started*
begins at the rule `balance`, and *clusters* trains it on 4, 5, 6 and 8 machines. The `fitness-`
trainings minimise what their name says.

{markdown_table(rows, left=1)}

All costs: [deepjs-options.csv](deepjs-options.csv).
"""


def hundredths(found: Gain | Standing) -> str:
    """Return a mean logarithm of ratios in hundredths, with its interval."""
    low, high = found.interval.low, found.interval.high
    mean = f"{100 * found.log_ratio:+.2f}"
    return mean if low is None or high is None else f"{mean} [{100 * low:+.2f}, {100 * high:+.2f}]"
