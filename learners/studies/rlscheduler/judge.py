"""Rules and agents on windows of the logs, under EASY and under RLScheduler's own rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import polars as pl

from simkit import plugins
from simkit.arrays import Floats, stream
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.agent import JobAgent, JobDescription
from simkit.learners.scorers.job_model import Hold, simulate
from simkit.learners.scorers.job_scorer import Backfill, JobScorer
from simkit.learners.studies.results import long
from simkit.learners.studies.rlscheduler import logs
from simkit.learners.studies.trainings import kept_table
from simkit.results.run_writer import MemoryWriter
from simkit.training import Workplace
from simkit.training.folder import read_training
from simkit.workload.cluster import Cluster

THEIRS: Final = ("fcfs", "rlscheduler-wfp3", "rlscheduler-unicep", "sjf", "rlscheduler-f1")
"""The orders of the published table, in its order."""
OURS: Final = ("log-r-n", "f2", "r2-n", "saf-p", "wfp3-p-n2")
"""Our orders, for comparison."""
SCORER: Final = "scorer"
"""The arm of the scorers that are trained under RLScheduler's rules."""
HOLD_WINDOWS: Final = 40
"""Training windows on which the parameters of the hold rule are chosen."""
MEASURES: Final = ("bounded_slowdown", "makespan_s", "area_weighted_wait_s", "longest_wait_s")


def case_of(log: str, windows: str) -> str:
    """Return the name of a case: a log, and the ``ten`` windows of the paper or the ``others``."""
    return f"{log}, {windows}"


def their_case(log: str, *, backfilling: bool) -> str:
    """Return the name of a case of the published table."""
    return f"{log}, {'with' if backfilling else 'without'} backfilling"


def scorer_of(place: Workplace, agent: logs.Agent, setting: logs.RLSchedulerSetting) -> JobScorer:
    """Return the scorer of a complete training."""
    bundle = logs.kept(place, agent, setting).agent
    return JobAgent.of(bundle, JobDescription.read(bundle.description)).scorer


def _key(place: Workplace, setting: logs.RLSchedulerSetting) -> list[Any]:
    """Return what a kept table depends on: the setting and the agents' weights."""
    return [
        asdict(setting),
        *(logs.kept(place, agent, setting).digest for agent in logs.agents(setting)),
    ]


# --- EASY -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HoldChoice:
    """The hold rule: an order, and the parameters chosen for it on training windows."""

    rule: str
    hold: Hold

    @property
    def words(self) -> str:
        """The choice in words."""
        minutes = self.hold.longer_than_s / 60
        return f"{self.rule}, longer than {minutes:g} min, {self.hold.keep_free:g} free"


@cache
def choose_hold(log: logs.Log, part: str) -> HoldChoice:
    """Return the order and parameters with the lowest geometric mean on training windows."""
    first, last = log.rows(part)
    jobs, rng = logs.jobs_of(log), stream(0, f"reproduce.rlscheduler.hold.{log.name}.{part}")
    end = len(jobs) if last is None else last + 1
    drawn = rng.integers(first, end - logs.JOBS + 1, HOLD_WINDOWS)
    return best_hold([jobs.window(int(row), logs.JOBS) for row in drawn])


def best_hold(windows: Sequence[PoolJobs]) -> HoldChoice:
    """Return the order and parameters with the lowest geometric mean slowdown on windows."""

    def log_slowdown(choice: HoldChoice) -> float:
        found = [
            w.bounded_slowdown(simulate(w, logs.RULES[choice.rule](w), hold=choice.hold))
            for w in windows
        ]
        return float(np.log(found).mean())

    rules = ("saf-p", "wfp3-p-n2", "f2")
    return min(
        [HoldChoice(rule, Hold(*hold)) for rule in rules for hold in logs.HOLDS], key=log_slowdown
    )


Played = Iterator[tuple[str, int | None, int, PoolJobs, Floats]]
"""Arm, seed, first row of a window, its jobs, and (J,) their starts."""


def _long(by_case: Iterable[tuple[str, Played]], metrics: Sequence[str]) -> pl.DataFrame:
    rows = [
        {"case": case, "arm": arm, "seed": seed, "item": first, **measures(window, starts)}
        for case, played in by_case
        for arm, seed, first, window, starts in played
    ]
    return long(pl.DataFrame(rows, infer_schema_length=None), metrics)


def judge_easy(place: Workplace, setting: logs.RLSchedulerSetting) -> pl.DataFrame:
    """Return the measures of everyone on each window under EASY, as a long table; kept."""

    def play() -> pl.DataFrame:
        return _long(
            ((case_of(log.name, kind), _under_easy(place, log, setting, rows))
             for log in logs.LOGS
             for kind, rows in log.windows(setting.others).items()),
            MEASURES,
        )  # fmt: skip

    return kept_table(place, "easy", _key(place, setting), play)


def _under_easy(
    place: Workplace, log: logs.Log, setting: logs.RLSchedulerSetting, rows: Sequence[int]
) -> Played:
    holds = {part: choose_hold(log, part) for part in log.parts}
    scorers = {
        agent: scorer_of(place, agent, setting)
        for agent in logs.agents(setting)
        if agent.log in (log.name, "all") and agent.backfill == "easy"
    }
    for first in rows:
        window = logs.jobs_of(log).window(first, logs.JOBS)
        for name, rule in logs.RULES.items():
            yield name, None, first, window, simulate(window, rule(window))
        held = holds[logs.judge_of(log, first, everywhere=False)]
        starts = simulate(window, logs.RULES[held.rule](window), hold=held.hold)
        yield "hold", None, first, window, starts
        for agent, scorer in scorers.items():
            if agent.part == logs.judge_of(log, first, everywhere=agent.log == "all"):
                starts = simulate(window, scorer, visible=logs.VISIBLE)
                yield agent.kind, agent.seed, first, window, starts


def measures(jobs: PoolJobs, start_s: Floats) -> dict[str, float]:
    """Return what a schedule is worth, given (J,) the starts.

    ``bounded_slowdown``: mean over jobs, bounded at 10 s; ``makespan_s``: from the first submission
    to the last end; ``area_weighted_wait_s``: each job counts by processors × run time;
    ``longest_wait_s``.
    """
    wait, area = start_s - jobs.submit_s, jobs.processors * jobs.run_s
    return {
        "bounded_slowdown": jobs.bounded_slowdown(start_s),
        "makespan_s": float((start_s + jobs.run_s).max() - jobs.submit_s[0]),
        "area_weighted_wait_s": float((wait * area).sum() / max(area.sum(), 1e-9)),
        "longest_wait_s": float(wait.max()),
    }


# --- RLScheduler's own rules ----------------------------------------------------------------------


def judge_theirs(place: Workplace, setting: logs.RLSchedulerSetting) -> pl.DataFrame:
    """Return the slowdowns under RLScheduler's rules, as a long table; kept.

    The scorers are those trained under these rules.
    """

    def play() -> pl.DataFrame:
        return _long(
            ((their_case(log.name, backfilling=backfill == "rlscheduler"),
              _by_their_rules(place, log, setting, backfill))
             for log in logs.LOGS
             for backfill in logs.THEIR_RULES),
            MEASURES[:1],
        )  # fmt: skip

    return kept_table(place, "theirs", _key(place, setting), play)


def _by_their_rules(
    place: Workplace, log: logs.Log, setting: logs.RLSchedulerSetting, backfill: Backfill
) -> Played:
    """Play each of the ten windows, or those that a scorer has not seen."""
    windows = {row: logs.jobs_of(log).window(row, logs.JOBS) for row in logs.TEN[: setting.theirs]}
    for name in (*THEIRS, *OURS):
        for row, window in windows.items():
            if name in logs.RULES:
                starts = simulate(window, logs.RULES[name](window), backfill=backfill)
            else:
                starts = _starts_by_order(name, log, row, backfill)
            yield name, None, row, window, starts
    for seed in range(setting.seeds):
        scorers = {
            part: scorer_of(place, logs.Agent(log.name, part, 0, seed, backfill), setting)
            for part in log.parts
        }
        for row, window in windows.items():
            if (part := log.judge_of(row)) is not None:
                starts = simulate(window, scorers[part], visible=logs.VISIBLE, backfill=backfill)
                yield SCORER, seed, row, window, starts


def _starts_by_order(name: str, log: logs.Log, row: int, backfill: Backfill) -> Floats:
    """Return (J,) the engine's starts of a window under an order that the fast simulation lacks."""
    rule: Any = plugins.find("simkit.policies", "rlscheduler", kind="backfill")
    order: Any = plugins.find("simkit.policies", name, kind="order")
    policy = rule(backfill == "rlscheduler").compose(order())
    workload = logs.workload_of(log).take(np.arange(row, row + logs.JOBS))
    cluster = Cluster.pool({"processors": float(log.processors)})
    writer = MemoryWriter({}, digested=False)
    Simulation(workload, cluster, Recorder(workload, cluster.resources, writer)).run(policy, seed=0)
    writer.close_tables()
    jobs = writer.results().jobs
    start = dict(zip(jobs["job_id"].to_list(), jobs["start_time_s"].to_list(), strict=True))
    return np.array([start[job] for job in workload.job_id.tolist()])


def never_better(place: Workplace, setting: logs.RLSchedulerSetting) -> list[str]:
    """Return the trainings that no iteration improved: their scorer is still the initial rule."""
    return [
        agent.name
        for agent in logs.agents(setting)
        if read_training(logs.kept(place, agent, setting).folder)["best"]["iteration"] == 0
    ]
