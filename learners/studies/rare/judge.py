"""Rules and agents on streams of jobs, bounds of any schedule, and forecasts with error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.value_bound import BoundJobs, Capacity, value_bound
from simkit.learners.games.ready_pool import HORIZON
from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.judge import (
    HEURISTICS,
    agents,
    games_of,
    parts,
    rule,
    threshold_of,
)
from simkit.learners.studies.green.trainings import LATE_LEAVE, Size, kind_of
from simkit.learners.studies.judging import Arm, evaluated
from simkit.learners.studies.results import BOUND, long
from simkit.learners.studies.trainings import KeptTraining, Part
from simkit.scenario.yaml_document import load_scenario

SIZES: Final = (10, 20, 50, 100, 300, 1200)
"""Units of the pools on which agents are judged."""
FORECASTS: Final = {"": 0.0, ", noisy forecast": 0.2}
"""Ending of an arm → the error of its forecast at long lead times: standard deviation, a share."""
EARNED: Final = "value_ratio.in_time"
_HOUR_S: Final = 3600.0
_FEW: Final = 10
"""Most streams of long computations: forecasts are simulated event by event."""
_FIRST: Final = 10_000
"""Seed of the first of their streams."""


def within_12_h(order: str) -> str:
    """Return the arm of a heuristic whose jobs start within 12 hours of their decision."""
    return f"{order}, within 12 h"


def printed(
    size: Size, case: str, where: Circumstances, trainings: Sequence[KeptTraining] = ()
) -> list[Part]:
    """Return who is judged where no job leaves: the dissertation's rules with the whole horizon.

    They also are with the horizon of the circumstances, which everyone else has.
    """
    told: dict[str, Any] = {"streams": size.streams, "case": f"as printed, {case}"}
    near = [replace(rule(name), arm=within_12_h(name)) for name in HEURISTICS]
    others = [*near, *map(rule, ("value-density", "fit0", "fit12")), *agents(trainings)]
    far = size.at(replace(where, max_start=HORIZON - 1))
    return [*parts(far, map(rule, HEURISTICS), **told), *parts(size.at(where), others, **told)]


def leaving(
    size: Size, case: str, where: Circumstances, theta: float, trainings: Sequence[KeptTraining]
) -> list[Part]:
    """Return who is judged where late jobs leave: all start jobs at once, but fit12 plans."""
    told: dict[str, Any] = {"streams": size.streams, "case": f"leave, {case}"}
    rules = (*HEURISTICS, "value-density", "fit0", threshold_of(theta))
    ahead = size.at(replace(where, max_start=12))
    now = [*map(rule, rules), *agents(trainings)]
    return [*parts(size.at(where), now, **told), *parts(ahead, [rule("fit12")], **told)]


def bound(size: Size, case: str, where: Circumstances) -> Part:
    """Return an upper bound of any schedule's value on each stream, as an arm.

    Where nobody leaves it takes seconds a stream: there it is of the first streams alone.
    """
    own = size.at(where)
    streams = min(size.streams, _FEW) if where.late == "stay" else size.streams
    index = {"arm": BOUND, "case": case}
    return Part("bound", [asdict(own), streams], _bounds, (own, streams), index)


def _bounds(where: Circumstances, streams: int) -> pl.DataFrame:
    """Return the bound of each stream, over the value of all of its jobs."""
    load, found = games_of(where, streams).sets, []
    hours = np.arange(load.powered.shape[1], dtype=np.float64) * _HOUR_S
    window = (0.0, where.hours * _HOUR_S)
    for row in range(streams):
        submitted = load.enter[row] < where.hours
        due = (load.last_start[row] + load.length[row])[submitted] * _HOUR_S
        jobs = BoundJobs(
            submit_time_s=load.enter[row][submitted] * _HOUR_S,
            run_time_s=load.length[row][submitted] * _HOUR_S,
            demand=load.size[row][submitted].astype(np.float64),
            value=load.value[row][submitted],
            deadline_s=due if where.late == "leave" else np.empty(0),
        )
        capacity = Capacity(hours, load.powered[row].astype(np.float64))
        bound = value_bound(jobs, capacity, window=window, step_s=6 * _HOUR_S)
        found.append(bound.value / bound.submitted)
    return pl.DataFrame({"item": range(streams), "value": found})


def forecasts(size: Size, one: KeptTraining) -> Part:
    """Return the value of QoS, fit0 and an agent with each forecast on wind and sun.

    The arm ``KIND to qos`` is the agent's less that of QoS.
    """
    streams = min(size.streams // 2, _FEW)
    where = replace(LATE_LEAVE, power="wind-sun", hours=min(size.hours, 500), load=0.6)
    key = [asdict(where), streams, one.digest, FORECASTS]
    return Part("forecasts", key, _forecasts, (where, streams, one))


def _forecasts(where: Circumstances, streams: int, one: KeptTraining) -> pl.DataFrame:
    """Return rows of the long table; everyone is simulated event by event."""
    backfill, kind = {"type": "ready-pool", "horizon": 0}, kind_of(one)
    arms = [
        Arm("qos", {"order": "qos", "backfill": backfill}),
        Arm("fit0", {"order": "qos", "backfill": {**backfill, "choose": "left-over"}}),
        Arm(kind, {"agent": str(one.folder / "agent")}, one.scenario.seed),
    ]
    seeds, tables = range(_FIRST, _FIRST + streams), []
    for ending, spread in FORECASTS.items():
        noise = {"type": "noisy", "spread": spread} if spread else {"type": "perfect"}
        forecast = {**noise, "horizon": "48h", "step": "1h"}
        scenario = load_scenario(
            where.scenario("forecasts"), overrides={"power.forecast": forecast}
        )
        found = evaluated(scenario, arms, metric=EARNED, seeds=seeds, workers=1)
        values = found.select("arm", "seed", "item", value=EARNED)
        beside = values.filter(arm="qos").select("item", qos="value")
        apart = values.filter(arm=kind).join(beside, "item").with_columns(
            arm=pl.lit(f"{kind} to qos"), value=pl.col("value") - pl.col("qos")
        )  # fmt: skip
        rows = pl.concat([values, apart.drop("qos")])
        tables.append(rows.with_columns(pl.col("arm") + ending))
    return long(pl.concat(tables), ["value"], case="forecasts")
