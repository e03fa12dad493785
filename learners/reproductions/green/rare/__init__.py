"""`simkit reproduce rare`: order, packing and agents on a pool limited by its power."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.analysis.value_bound import BoundJobs, Capacity, value_bound
from simkit.experiment.api import simulate
from simkit.learners.agent import load_agent
from simkit.learners.games.ready_pool import HORIZON
from simkit.learners.reproductions.common import (
    commit,
    digest_of,
    keep,
    kept_table,
    weights_hash,
)
from simkit.learners.reproductions.green.circumstances import Circumstances, Power
from simkit.learners.reproductions.green.judge import (
    best_threshold,
    games_of,
    judged,
    rule,
    threshold_of,
)
from simkit.learners.reproductions.green.rare.claims import ORDERS, within_12_h
from simkit.learners.reproductions.green.rare.page import Results, write_page
from simkit.learners.reproductions.green.studies import (
    FULL,
    LATE_LEAVE,
    PRINTED,
    QUICK,
    SIZES,
    SMALL_POOL,
    Size,
    leaving,
    printed,
    set_agent,
    small_pool,
)
from simkit.learners.reproductions.green.trainings import Task, agents, minutes, train
from simkit.scenario import Scenario
from simkit.training import Workplace

RULES: Final = (*ORDERS, "value-density", "fit0", "fit12")
FORECASTS: Final = {"perfect": 0.0, "noisy": 0.2}
"""Forecast → the standard deviation of its error at long lead times, as a share."""
JULY: Final = "2019-07-01T00:00:00-06:00"
"""Beginning of the test weather; trainings see the weather from January on."""
_HOUR_S: Final = 3600.0
_SIMULATED: Final = 10
"""Most streams in the comparison of forecasts, which is simulated event by event."""


def reproduce(place: Workplace) -> Path:
    """Run missing trainings and tests, then write rare.md, its picture and its table.

    The full version takes some two hours on two cores; an interrupted run keeps its complete parts.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, size: Size) -> Path:
    """Run the reproduction at a given size."""
    seeds = range(size.seeds)
    printed_tasks = {power: [printed(size, power, seed) for seed in seeds] for power in PRINTED}
    leaving_tasks = [leaving(size, name, seed) for name in ("cocorl", "rare") for seed in seeds]
    pool_tasks = [small_pool(size, seed) for seed in seeds]
    tasks = [*leaving_tasks, *pool_tasks, set_agent(size, 0)]
    tasks += [task for several in printed_tasks.values() for task in several]
    train(place, tasks)
    place.say("judging where nobody leaves")
    as_printed = {
        power: _judge_printed(place, size, _in_july(where), printed_tasks[power])
        for power, where in PRINTED.items()
    }
    full, first = PRINTED["full"], printed_tasks["full"][:1]
    by_size = {
        units: _judge_printed(place, size, replace(full, units=units), first) for units in SIZES
    }
    by_power = {
        power: _judge_printed(place, size, replace(full, power=power), first) for power in _POWERS
    }
    by_pool = {
        ready: _judge_printed(place, size, replace(full, ready=ready), ()) for ready in (5, 15, 25)
    }
    place.say("judging where late jobs leave")
    thetas = {
        where: best_threshold(place, size.at(where), size.tuning)
        for where in (LATE_LEAVE, SMALL_POOL)
    }
    leave = _judge_leaving(place, size, LATE_LEAVE, thetas[LATE_LEAVE], leaving_tasks)
    pool = _judge_leaving(place, size, SMALL_POOL, thetas[SMALL_POOL], pool_tasks)
    elsewhere = {
        name: _judge_leaving(place, size, where, thetas[LATE_LEAVE], leaving_tasks)
        for name, where in _ELSEWHERE.items()
    }
    sizes = {
        units: _judge_leaving(
            place, size, replace(LATE_LEAVE, units=units), thetas[LATE_LEAVE],
            [set_agent(size, 0)],
        )
        for units in SIZES
    }  # fmt: skip
    place.say("bounds and forecasts")
    return write_page(
        place,
        Results(
            size, as_printed, by_size, by_power, by_pool, leave, pool, elsewhere, sizes,
            {str(where.ready): theta for where, theta in thetas.items()},
            {where.late: _bound(place, size, where) for where in (full, LATE_LEAVE)},
            _forecasts(place, size, leaving_tasks[0]), len(tasks), minutes(place, tasks), commit(),
        ),
    )  # fmt: skip


_POWERS: Final[tuple[Power, ...]] = ("full", "90", "80")
_ELSEWHERE: Final[Mapping[str, Circumstances]] = {
    "90 % of the power": replace(LATE_LEAVE, power="90"),
    "80 % of the power": replace(LATE_LEAVE, power="80"),
    "20 units": replace(LATE_LEAVE, units=20),
}
"""Circumstances in which the agents are tested but were not trained."""


def _in_july(where: Circumstances) -> Circumstances:
    """Return circumstances with the test weather, if they depend on weather."""
    return replace(where, zero=JULY) if where.power == "wind-sun" else where


def _judge(
    place: Workplace, size: Size, where: Circumstances, rules: Iterable[str], tasks: Sequence[Task]
) -> pl.DataFrame:
    own = size.at(where)
    return judged(place, own, [*map(rule, rules), *agents(place, tasks)], size.streams)


def _judge_printed(
    place: Workplace, size: Size, where: Circumstances, tasks: Sequence[Task]
) -> pl.DataFrame:
    """Compare where no job leaves: the dissertation's rules with the whole horizon.

    They are then compared with everyone else within the horizon of the circumstances.
    """
    whole = _judge(place, size, replace(where, max_start=HORIZON - 1), ORDERS, ())
    near = pl.col("candidate").replace({name: within_12_h(name) for name in ORDERS})
    return pl.concat([whole, _judge(place, size, where, RULES, tasks).with_columns(near)])


def _judge_leaving(
    place: Workplace, size: Size, where: Circumstances, theta: float, tasks: Sequence[Task]
) -> pl.DataFrame:
    """Compare where late jobs leave: all start jobs at once, except fit12, which plans ahead."""
    rules = (*ORDERS, "value-density", "fit0", threshold_of(theta))
    ahead = judged(place, size.at(replace(where, max_start=12)), [rule("fit12")], size.streams)
    return pl.concat([_judge(place, size, where, rules, tasks), ahead])


def _bound(place: Workplace, size: Size, where: Circumstances) -> float:
    """Return an upper bound of the value ratio of any schedule, the mean over a few streams."""
    own, streams = size.at(where), min(size.streams, 10)
    path = place.work / f"bound-{digest_of([asdict(own), streams])}.json"
    if not path.exists():
        games = games_of(own, streams)
        load, found = games.sets, []
        for row in range(streams):
            submitted = load.enter[row] < own.hours
            due = (load.last_start[row] + load.length[row])[submitted] * _HOUR_S
            jobs = BoundJobs(
                submit_time_s=load.enter[row][submitted] * _HOUR_S,
                run_time_s=load.length[row][submitted] * _HOUR_S,
                demand=load.size[row][submitted].astype(np.float64),
                value=load.value[row][submitted],
                deadline_s=due if own.late == "leave" else np.empty(0),
            )
            hours = np.arange(load.powered.shape[1], dtype=np.float64) * _HOUR_S
            capacity = Capacity(hours, load.powered[row].astype(np.float64))
            bound = value_bound(
                jobs, capacity, window=(0.0, own.hours * _HOUR_S), step_s=6 * _HOUR_S
            )
            found.append(bound.value / bound.submitted)
        text = json.dumps(float(np.mean(found)))
        keep(path, lambda part: part.write_text(text, "utf-8"))
    return float(json.loads(path.read_text("utf-8")))


def _forecasts(place: Workplace, size: Size, task: Task) -> pl.DataFrame:
    """Return the ``value`` of each forecast, candidate and stream, simulated on wind and sun."""
    where = replace(size.at(LATE_LEAVE), power="wind-sun", hours=min(size.hours, 500), load=0.6)
    streams = min(size.streams, _SIMULATED)
    key = digest_of([asdict(where), streams, weights_hash(task.folder(place)), FORECASTS])

    def simulate_all() -> pl.DataFrame:
        return pl.DataFrame([
            {"forecast": name, "candidate": candidate, "stream": seed,
             "value": _simulated(scenario, place, task, candidate)}
            for name, spread in FORECASTS.items()
            for candidate in ("qos", "fit0", task.name)
            for seed in range(streams)
            for scenario in [_with_forecast(where, candidate, spread, seed)]
        ])  # fmt: skip

    return kept_table(place, place.work / f"forecasts-{key}.parquet", simulate_all)


def _with_forecast(where: Circumstances, candidate: str, spread: float, seed: int) -> Scenario:
    policy = {"order": "qos", "backfill": {"type": "ready-pool", "horizon": 0}}
    if candidate == "fit0":
        policy["backfill"] = {"type": "ready-pool", "horizon": 0, "choose": "left-over"}
    data = where.scenario(candidate, seed=10_000 + seed, policy=policy).model_dump(mode="json")
    forecast = {"type": "noisy", "spread": spread} if spread else {"type": "perfect"}
    data["power"]["forecast"] = {**forecast, "horizon": "48h", "step": "1h"}
    return Scenario.model_validate(data)


def _simulated(scenario: Scenario, place: Workplace, task: Task, candidate: str) -> float:
    """Return the value earned in time over the value of all jobs."""
    agent = load_agent(task.folder(place) / "agent", scenario) if candidate == task.name else None
    run = simulate(scenario) if agent is None else simulate(scenario, policy=agent)
    return float(run.metrics["value_ratio"]["in_time"])
