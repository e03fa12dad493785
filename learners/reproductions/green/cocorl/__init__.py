"""`simkit reproduce cocorl`: agents of limited cost, compared with rules of equal cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from simkit.learners.reproductions.common import commit
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.cocorl.page import write_page
from simkit.learners.reproductions.green.cocorl.runs import (
    LOADS,
    RULES,
    Constraint,
    Plan,
    Results,
)
from simkit.learners.reproductions.green.judge import (
    THRESHOLDS,
    Candidate,
    judged,
    rule,
    threshold_of,
)
from simkit.learners.reproductions.green.studies import FULL, LATE_LEAVE, QUICK, Size
from simkit.learners.reproductions.green.trainings import Task, agents, minutes, train
from simkit.training import Workplace


def reproduce(place: Workplace) -> Path:
    """Run missing trainings and tests, then write cocorl.md, its pictures and its table.

    The full version takes hours on two cores; an interrupted run keeps its complete parts.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, size: Size) -> Path:
    """Run the reproduction at a given size."""
    plan = Plan.of(place, size)
    for tasks in plan.rounds:
        train(place, tasks)
    place.say("judging")
    where = size.at(LATE_LEAVE)
    rules = [rule(name) for name in RULES]
    thresholds = [rule(threshold_of(theta)) for theta in THRESHOLDS]
    everyone = [*rules, *thresholds, *agents(place, plan.tasks)]
    table = judged(place, where, everyone, size.streams)
    few = [*rules, *agents(place, [plan.free[0], plan.half[0]])]
    loads = _at_loads(place, where, few, size.streams)
    place.say("writing the page")
    _, limits = plan.rounds
    return write_page(
        place,
        Results(
            size, plan, table, loads, {task.name: _constraint(place, task) for task in limits},
            minutes(place, plan.tasks), commit(),
        ),
    )  # fmt: skip


def _at_loads(
    place: Workplace, where: Circumstances, few: list[Candidate], streams: int
) -> pl.DataFrame:
    tables = []
    for load in LOADS:
        table = judged(place, replace(where, load=load / 100), few, streams)
        tables.append(table.with_columns(load=pl.lit(load)))
    return pl.concat(tables)


def _constraint(place: Workplace, task: Task) -> Constraint:
    """Return how well a complete training kept to its limit."""
    metrics = pl.read_parquet(task.folder(place) / "metrics.parquet").drop_nulls("cost")
    cost = metrics.select(pl.max_horizontal("cost", "cost_watched")).to_series().to_numpy()
    limit = float(metrics["cost_limit"][-1])
    above = np.asarray(cost > limit)
    return Constraint(limit, float(above.mean()), float(above[len(above) // 2 :].mean()))
