"""Rules and agents on streams of jobs, bounds of any schedule, and forecasts with error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from simkit.analysis.value_bound import BoundJobs, Capacity, value_bound
from simkit.experiment.api import simulate
from simkit.learners.agent import load_agent
from simkit.learners.games.ready_pool import HORIZON
from simkit.learners.studies.green import judge
from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.trainings import LATE_LEAVE, Size, kind_of
from simkit.learners.studies.results import BOUND, long
from simkit.learners.studies.trainings import KeptTraining, kept_table
from simkit.scenario import Scenario
from simkit.training import Workplace

SIZES: Final = (10, 20, 50, 100, 300, 1200)
"""Units of the pools on which agents are judged."""
FORECASTS: Final = {"": 0.0, ", noisy forecast": 0.2}
"""Ending of an arm → the error of its forecast at long lead times: standard deviation, a share."""
_HOUR_S: Final = 3600.0
_FEW: Final = 10
"""Most streams of long computations: forecasts are simulated event by event."""


def within_12_h(order: str) -> str:
    """Return the arm of a heuristic whose jobs start within 12 hours of their decision."""
    return f"{order}, within 12 h"


@dataclass(frozen=True)
class Judge:
    """Judges at one size; results are kept."""

    place: Workplace
    size: Size

    def _judged(
        self, case: str, where: Circumstances, candidates: Iterable[judge.Candidate]
    ) -> pl.DataFrame:
        return judge.judged(
            self.place, self.size.at(where), candidates, self.size.streams, case=case
        )

    def printed(
        self, case: str, where: Circumstances, trainings: Sequence[KeptTraining] = ()
    ) -> pl.DataFrame:
        """Compare where no job leaves: the dissertation's rules with the whole horizon.

        They are then compared with everyone else within the horizon of the circumstances.
        """
        case, whole = f"as printed, {case}", replace(where, max_start=HORIZON - 1)
        near = [replace(judge.rule(name), arm=within_12_h(name)) for name in judge.HEURISTICS]
        others = [*near, *map(judge.rule, ("value-density", *judge.FIT)), *judge.agents(trainings)]
        far = self._judged(case, whole, map(judge.rule, judge.HEURISTICS))
        return pl.concat([far, self._judged(case, where, others)])

    def leaving(
        self, case: str, where: Circumstances, theta: float, trainings: Sequence[KeptTraining]
    ) -> pl.DataFrame:
        """Compare where late jobs leave: all start jobs at once, except fit12, which plans."""
        case, ahead = f"leave, {case}", replace(where, max_start=12)
        rules = map(
            judge.rule, (*judge.HEURISTICS, "value-density", "fit0", judge.threshold_of(theta))
        )
        now = self._judged(case, where, [*rules, *judge.agents(trainings)])
        return pl.concat([now, self._judged(case, ahead, [judge.rule("fit12")])])

    def bound(self, case: str, where: Circumstances) -> pl.DataFrame:
        """Return an upper bound of any schedule's value on each stream, as an arm.

        Where nobody leaves it takes seconds a stream: there it is of the first streams alone.
        """
        own = self.size.at(where)
        streams = min(self.size.streams, _FEW) if where.late == "stay" else self.size.streams
        found = kept_table(self.place, "bound", [asdict(own), streams], _bounds, own, streams)
        return long(found, ["value"], arm=BOUND, case=case)

    def forecasts(self, one: KeptTraining) -> pl.DataFrame:
        """Return the value of QoS, fit0 and an agent with each forecast on wind and sun.

        The arm ``KIND to qos`` is the agent's less that of QoS.
        """
        hours, streams = min(self.size.hours, 500), range(min(self.size.streams // 2, _FEW))
        where = replace(LATE_LEAVE, power="wind-sun", hours=hours, load=0.6)
        kind, seed = kind_of(one), one.scenario.seed

        def compute() -> pl.DataFrame:
            parts = []
            for ending, spread in FORECASTS.items():
                qos, fit0, agent = (
                    np.array([_simulated(where, arm, spread, each, one) for each in streams])
                    for arm in ("qos", "fit0", kind)
                )
                for arm, own, values in (
                    ("qos", None, qos), ("fit0", None, fit0), (kind, seed, agent),
                    (f"{kind} to qos", seed, agent - qos),
                ):  # fmt: skip
                    told = {"arm": arm + ending, "seed": own, "case": "forecasts"}
                    found = pl.DataFrame({"item": streams, "value": values})
                    parts.append(long(found, ["value"], **told))
            return pl.concat(parts)

        key = [asdict(where), len(streams), one.digest, FORECASTS]
        return kept_table(self.place, "forecasts", key, compute)


def _bounds(where: Circumstances, streams: int) -> pl.DataFrame:
    """Return the bound of each stream, over the value of all of its jobs."""
    load, found = judge.games_of(where, streams).sets, []
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


def _simulated(
    where: Circumstances, arm: str, spread: float, seed: int, one: KeptTraining
) -> float:
    """Return the value earned in time over the value of all jobs, simulated event by event."""
    backfill = {"type": "ready-pool", "horizon": 0}
    backfill |= {"choose": "left-over"} if arm == "fit0" else {}
    policy = {"order": "qos", "backfill": backfill}
    data = where.scenario(arm, seed=10_000 + seed, policy=policy).model_dump(mode="json")
    forecast = {"type": "noisy", "spread": spread} if spread else {"type": "perfect"}
    data["power"]["forecast"] = {**forecast, "horizon": "48h", "step": "1h"}
    scenario = Scenario.model_validate(data)
    agent = load_agent(one.folder / "agent", scenario) if arm == kind_of(one) else None
    run = simulate(scenario) if agent is None else simulate(scenario, policy=agent)
    return float(run.metrics["value_ratio"]["in_time"])
