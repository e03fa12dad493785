"""Action agreement: how often an agent would do what a rule does.

The rule plays; at each of its decisions the agent is asked what it would do instead. This is the
metric of table 7.1 of the dissertation on power-modulated datacenters (University of Virginia,
2023).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

import numpy as np
import polars as pl

from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.judge import JUDGED_AFRESH, Candidate, games_of, rule
from simkit.learners.studies.launchpad.data import MIXES
from simkit.learners.studies.trainings import Part, kept_rows
from simkit.training import Workplace

METRICS: Final = ("agreement", "agreement with a choice", "choices")
"""The share of decisions with equal actions, the same where more than one job could start, and how
often that was so."""


def agreement(
    place: Workplace, where: Circumstances, candidates: Iterable[Candidate], data: str,
    streams: int,
) -> pl.DataFrame:  # fmt: skip
    """Return how often candidates agree with each rule of a mix, as a long table; kept.

    The items are the rules, by their place in the mix of all four; the case is ``pool N, DATA``,
    and the arm the kind of agents, with how they act. They play the first test streams.
    """
    parts = []
    for one in candidates:
        kind, comma, acts = one.arm.partition(",")
        mine = {"arm": f"{kind.partition('-')[0]}{comma}{acts}", "seed": one.seed,
                "case": f"pool {where.ready}, {data}"}  # fmt: skip
        for item, played in enumerate(map(rule, MIXES[data])):
            key = [asdict(where), played.digest, one.digest, streams, JUDGED_AFRESH]
            asked = (where, one, played, streams)
            name = f"{one.arm} beside {played.arm}"
            parts.append(Part(name, key, _ask, asked, {**mine, "item": item}))
    return kept_rows(place, parts, METRICS)


def _ask(where: Circumstances, one: Candidate, played: Candidate, streams: int) -> pl.DataFrame:
    games = games_of(where, streams, named=JUDGED_AFRESH)
    plays, asked = played.make(), one.make()
    same, count = np.zeros(2, np.int64), np.zeros(2, np.int64)  # with a choice, and all
    while len(games.active):
        done = plays(games)
        agrees, choice = asked(games) == done, games.mask()[:, :-1].sum(axis=1) > 1
        same += int(agrees[choice].sum()), int(agrees.sum())
        count += int(choice.sum()), len(choice)
        games.step(done)
    share = same / np.maximum(count, 1)
    return pl.DataFrame([(share[1], share[0], count[0])], METRICS, orient="row")


def over_data(rows: pl.DataFrame, pool: int) -> pl.DataFrame:
    """Return the mean agreement with the rules of each of the data: the items of one case."""
    cases = {f"pool {pool}, {data}": item for item, data in enumerate(MIXES)}
    here = rows.filter(pl.col("case").is_in(list(cases)), metric="agreement")
    means = here.group_by("arm", "seed", "case", "metric", maintain_order=True).agg(
        pl.col("value").mean()
    )
    item = pl.col("case").replace_strict(cases, return_dtype=pl.Int64)
    return means.with_columns(item=item, case=pl.lit(f"pool {pool}, all data")).select(rows.columns)
