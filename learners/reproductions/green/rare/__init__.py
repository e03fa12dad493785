"""`simkit reproduce rare`: order, packing and agents on a pool that its power limits."""

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
from simkit.learners.ready_pool.source import HORIZON
from simkit.learners.reproductions.common import commit, digest_of, keep, weights_hash
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
"""Where the weather begins that judges; trainings see it from January on."""
_HOUR_S: Final = 3600.0
_SIMULATED: Final = 10
"""Streams of the comparison of forecasts at most: it is simulated event by event."""


def reproduce(place: Workplace) -> Path:
    """Train and judge what is missing, then write rare.md, its picture and its table.

    The full version takes some two hours on two cores; when it is stopped, complete parts are kept.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, size: Size) -> Path:
    """Do a reproduction of any size."""
    seeds = range(size.seeds)
    of_printed = {power: [printed(size, power, seed) for seed in seeds] for power in PRINTED}
    of_leaving = [leaving(size, name, seed) for name in ("cocorl", "rare") for seed in seeds]
    of_pool = [small_pool(size, seed) for seed in seeds]
    tasks = [*of_leaving, *of_pool, set_agent(size, 0)]
    tasks += [task for several in of_printed.values() for task in several]
    train(place, tasks)
    place.say("judging where nobody leaves")
    as_printed = {
        power: _judge_printed(place, size, _in_july(where), of_printed[power])
        for power, where in PRINTED.items()
    }
    first = of_printed["full"][:1]
    by_size = {units: _judge_printed(place, size, _sized(units), first) for units in SIZES}
    by_power = {
        power: _judge_printed(place, size, replace(PRINTED["full"], power=power), first)
        for power in _POWERS
    }
    by_pool = {
        ready: _judge_printed(place, size, replace(PRINTED["full"], ready=ready), ())
        for ready in (5, 15, 25)
    }
    place.say("judging where late jobs leave")
    thetas = {
        where: best_threshold(place, size.at(where), size.tuning)
        for where in (LATE_LEAVE, SMALL_POOL)
    }
    leave = _judge_leaving(place, size, LATE_LEAVE, thetas[LATE_LEAVE], of_leaving)
    pool = _judge_leaving(place, size, SMALL_POOL, thetas[SMALL_POOL], of_pool)
    elsewhere = {
        name: _judge_leaving(place, size, where, thetas[LATE_LEAVE], of_leaving)
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
            {where.late: _bound(place, size, where) for where in (PRINTED["full"], LATE_LEAVE)},
            _forecasts(place, size, of_leaving[0]), len(tasks), minutes(place, tasks), commit(),
        ),
    )  # fmt: skip


_POWERS: Final[tuple[Power, ...]] = ("full", "90", "80")
_ELSEWHERE: Final[Mapping[str, Circumstances]] = {
    "90 % of the power": replace(LATE_LEAVE, power="90"),
    "80 % of the power": replace(LATE_LEAVE, power="80"),
    "20 units": replace(LATE_LEAVE, units=20),
}
"""Where the agents are judged, but were not trained."""


def _in_july(where: Circumstances) -> Circumstances:
    """Return circumstances with the weather that judges, if there is any."""
    return replace(where, zero=JULY) if where.power == "wind-sun" else where


def _sized(units: int) -> Circumstances:
    return replace(PRINTED["full"], units=units)


def _judge(
    place: Workplace, size: Size, where: Circumstances, rules: Iterable[str], tasks: Sequence[Task]
) -> pl.DataFrame:
    own = size.at(where)
    return judged(place, own, [*map(rule, rules), *agents(place, tasks)], size.streams)


def _judge_printed(
    place: Workplace, size: Size, where: Circumstances, tasks: Sequence[Task]
) -> pl.DataFrame:
    """Judge where nobody leaves: the dissertation's rules with the whole horizon.

    These once more, and all others, have the horizon of the circumstances.
    """
    whole = _judge(place, size, replace(where, max_start=HORIZON - 1), ORDERS, ())
    near = pl.col("candidate").replace({name: within_12_h(name) for name in ORDERS})
    return pl.concat([whole, _judge(place, size, where, RULES, tasks).with_columns(near)])


def _judge_leaving(
    place: Workplace, size: Size, where: Circumstances, theta: float, tasks: Sequence[Task]
) -> pl.DataFrame:
    """Judge where late jobs leave: jobs start at once, but those of fit12, which plans ahead."""
    rules = (*ORDERS, "value-density", "fit0", threshold_of(theta))
    ahead = judged(place, size.at(replace(where, max_start=12)), [rule("fit12")], size.streams)
    return pl.concat([_judge(place, size, where, rules, tasks), ahead])


def _bound(place: Workplace, size: Size, where: Circumstances) -> float:
    """Return the mean over a few streams of what no schedule exceeds in value ratio."""
    own, streams = size.at(where), min(size.streams, 10)
    path = place.work / f"bound-{digest_of([asdict(own), streams])}.json"
    if not path.exists():
        games = games_of(own, streams)
        load, found = games.streams, []
        for row in range(streams):
            came = load.enter[row] < own.hours
            due = (load.last_start[row] + load.length[row])[came] * _HOUR_S
            jobs = BoundJobs(
                submit_time_s=load.enter[row][came] * _HOUR_S,
                run_time_s=load.length[row][came] * _HOUR_S,
                demand=load.size[row][came].astype(np.float64),
                value=load.value[row][came],
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
    """Return a row a forecast, candidate and stream with ``value``; simulated, on wind and sun."""
    where = replace(size.at(LATE_LEAVE), power="wind-sun", hours=min(size.hours, 500), load=0.6)
    streams = min(size.streams, _SIMULATED)
    key = digest_of([asdict(where), streams, weights_hash(task.folder(place)), FORECASTS])
    path = place.work / f"forecasts-{key}.parquet"
    if not path.exists():
        rows = [
            {"forecast": name, "candidate": candidate, "stream": seed,
             "value": _simulated(scenario, place, task, candidate)}
            for name, spread in FORECASTS.items()
            for candidate in ("qos", "fit0", task.name)
            for seed in range(streams)
            for scenario in [_forecast(where, candidate, spread, seed)]
        ]  # fmt: skip
        keep(path, pl.DataFrame(rows).write_parquet)
    return pl.read_parquet(path)


def _forecast(where: Circumstances, candidate: str, spread: float, seed: int) -> Scenario:
    policy = {"order": "qos", "backfill": {"type": "ready-pool", "horizon": 0}}
    if candidate == "fit0":
        policy["backfill"] = {"type": "ready-pool", "horizon": 0, "choose": "left-over"}
    told = where.scenario(candidate, seed=10_000 + seed, policy=policy).model_dump(mode="json")
    forecast = {"type": "noisy", "spread": spread} if spread else {"type": "perfect"}
    told["power"]["forecast"] = {**forecast, "horizon": "48h", "step": "1h"}
    return Scenario.model_validate(told)


def _simulated(scenario: Scenario, place: Workplace, task: Task, candidate: str) -> float:
    """Return the value that was brought in time over the value of all jobs."""
    agent = load_agent(task.folder(place) / "agent", scenario) if candidate == task.name else None
    run = simulate(scenario) if agent is None else simulate(scenario, policy=agent)
    return float(run.metrics["value_ratio"]["in_time"])
