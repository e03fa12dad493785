"""`simkit reproduce launchpad`: agents trained on recorded rules, in games, and on both."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from simkit.learners.reproductions.common import commit
from simkit.learners.reproductions.green.judge import (
    JUDGED_AFRESH,
    best_threshold,
    judged,
    rule,
    threshold_of,
)
from simkit.learners.reproductions.green.launchpad.agreement import agreement
from simkit.learners.reproductions.green.launchpad.data import make
from simkit.learners.reproductions.green.launchpad.page import write_page
from simkit.learners.reproductions.green.launchpad.runs import KINDS, RULES, Plan, Results
from simkit.learners.reproductions.green.studies import (
    FULL,
    LATE_LEAVE,
    MIXES,
    QUICK,
    SMALL_POOL,
    Size,
)
from simkit.learners.reproductions.green.trainings import agents, minutes, train
from simkit.training import Workplace


def reproduce(place: Workplace) -> Path:
    """Run missing recordings, trainings and tests; write launchpad.md, its picture and tables.

    The full version takes hours on two cores; an interrupted run keeps its complete parts.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, size: Size) -> Path:
    """Run the reproduction at a given size."""
    plan = Plan.of(place, size)
    make(place, plan.data, size.episodes)
    train(place, plan.tasks)
    place.say("judging")
    rules = [rule(name) for name in RULES]
    tables, thetas = {}, {}
    for circumstances, tasks in ((LATE_LEAVE, plan.at_15), (SMALL_POOL, plan.at_5)):
        where, pool = size.at(circumstances), circumstances.ready
        thetas[pool] = best_threshold(place, where, size.tuning)
        everyone = [*rules, rule(threshold_of(thetas[pool])), *agents(place, tasks)]
        tables[pool] = judged(place, where, everyone, size.streams, named=JUDGED_AFRESH)
    place.say("writing the page")
    decisions = {data: data.decisions(place) for data in plan.data}
    return write_page(
        place,
        Results(
            size, plan, tables, thetas, _agreements(place, size, plan), decisions,
            minutes(place, plan.tasks), commit(),
        ),
    )  # fmt: skip


def _agreements(place: Workplace, size: Size, plan: Plan) -> dict[int, pl.DataFrame]:
    """Return how often agents agree with the rules of their data, and QoS with all of them."""
    found: dict[int, list[pl.DataFrame]] = {LATE_LEAVE.ready: [], SMALL_POOL.ready: []}
    of_combo = [task for kind in KINDS for task in plan.combo[kind]]
    for circumstances, data, tasks in (
        (LATE_LEAVE, "combo", of_combo),
        *((SMALL_POOL, data, [plan.mixes[kind][data] for kind in KINDS]) for data in MIXES),
    ):
        models = [rule(name) for name in MIXES[data]]
        asked = [*agents(place, tasks), rule("qos")]
        table = agreement(place, size.at(circumstances), asked, models, size.held_out)
        found[circumstances.ready].append(table)
    return {pool: pl.concat(tables).unique(maintain_order=True) for pool, tables in found.items()}
