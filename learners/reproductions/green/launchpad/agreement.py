"""Action agreement: how often an agent would do what a rule does.

The rule plays; at each of its decisions the agent is asked what it would do instead. This is the
metric of table 7.1 of the dissertation on power-modulated datacenters (University of Virginia,
2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np
import polars as pl

from simkit.arrays import stream
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.reproductions.common import digest_of, kept_table
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.judge import JUDGED_AFRESH, Candidate
from simkit.training import Workplace

__all__ = ["agreement"]


def agreement(
    place: Workplace, where: Circumstances, candidates: Iterable[Candidate],
    rules: Sequence[Candidate], streams: int,
) -> pl.DataFrame:  # fmt: skip
    """Return a row for each candidate and rule; results are kept.

    Columns ``candidate``, ``rule``; ``choice``: the share of equal actions where more than one job
    could start; ``all``: the same for all decisions; ``decisions``: number of those with a choice.

    Args:
        place: keeps results.
        where: circumstances.
        candidates: rules and agents to ask.
        rules: rules that play.
        streams: number of streams, the first ones of the test streams.
    """
    tables = []
    for one in candidates:
        for rule in rules:
            key = digest_of([asdict(where), rule.digest, one.digest, streams, JUDGED_AFRESH])
            path = place.work / "agreement" / f"{key}.parquet"
            tables.append(kept_table(place, path, partial(_ask, where, one, rule, streams)))
    return pl.concat(tables)


def _ask(where: Circumstances, one: Candidate, rule: Candidate, streams: int) -> pl.DataFrame:
    source = ReadySource(where.scenario("agreement"), hours=where.hours, max_start=where.max_start)
    games = source.games(source.draw(stream(0, JUDGED_AFRESH), streams))
    plays, asked = rule.make(), one.make()
    same, count = np.zeros(2, np.int64), np.zeros(2, np.int64)  # with a choice, and all
    while len(games.active):
        done = plays(games)
        agrees, choice = asked(games) == done, games.mask()[:, :-1].sum(axis=1) > 1
        same += int(agrees[choice].sum()), int(agrees.sum())
        count += int(choice.sum()), len(choice)
        games.step(done)
    share = same / np.maximum(count, 1)
    return pl.DataFrame(
        {
            "candidate": [one.arm], "rule": [rule.arm], "choice": [float(share[0])],
            "all": [float(share[1])], "decisions": [int(count[0])],
        }
    )  # fmt: skip
