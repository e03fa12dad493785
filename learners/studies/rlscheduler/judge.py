"""Rules and agents on windows of the logs, under EASY and under RLScheduler's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
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
from simkit.learners.studies.rlscheduler.logs import (
    HOLDS,
    JOBS,
    LOGS,
    RULES,
    TEN,
    THEIR_RULES,
    VISIBLE,
    Agent,
    Log,
    RLSchedulerSetting,
    agents,
    jobs_of,
    judge_of,
    kept,
    workload_of,
)
from simkit.learners.studies.trainings import digest_of, kept_table
from simkit.results.run_writer import MemoryWriter
from simkit.training import Workplace
from simkit.training.folder import read_training
from simkit.workload import Workload
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


def scorer_of(place: Workplace, agent: Agent, setting: RLSchedulerSetting) -> JobScorer:
    """Return the scorer of a complete training."""
    bundle = kept(place, agent, setting).agent
    return JobAgent.of(bundle, JobDescription.read(bundle.description)).scorer


def _path(place: Workplace, name: str, setting: RLSchedulerSetting) -> Path:
    """Return the path of a kept table, which depends on the setting and the agents' weights."""
    key = [asdict(setting), *(kept(place, agent, setting).digest for agent in agents(setting))]
    return place.work / f"{name}-{digest_of(key)}.parquet"


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


def choose_hold(log: Log, part: str) -> HoldChoice:
    """Return the order and parameters with the lowest geometric mean on training windows."""
    first, last = log.rows(part)
    jobs, rng = jobs_of(log), stream(0, f"reproduce.rlscheduler.hold.{log.name}.{part}")
    end = len(jobs) if last is None else last + 1
    return best_hold([
        jobs.window(int(r), JOBS) for r in rng.integers(first, end - JOBS + 1, HOLD_WINDOWS)
    ])  # fmt: skip


def best_hold(windows: Sequence[PoolJobs]) -> HoldChoice:
    """Return the order and parameters with the lowest geometric mean slowdown on windows."""

    def log_slowdown(choice: HoldChoice) -> float:
        found = [
            w.bounded_slowdown(simulate(w, RULES[choice.rule](w), hold=choice.hold))
            for w in windows
        ]
        return float(np.log(found).mean())

    rules = ("saf-p", "wfp3-p-n2", "f2")
    return min(
        [HoldChoice(rule, Hold(*hold)) for rule in rules for hold in HOLDS], key=log_slowdown
    )


def judge_easy(place: Workplace, setting: RLSchedulerSetting) -> pl.DataFrame:
    """Return the measures of everyone on each window under EASY, as a long table; kept."""

    def play() -> pl.DataFrame:
        rows = [row for log in LOGS for row in _easy_rows(place, log, setting)]
        return long(pl.DataFrame(rows), MEASURES, seed="seed")

    return kept_table(place, _path(place, "easy", setting), play, "judged with EASY")


def _easy_rows(place: Workplace, log: Log, setting: RLSchedulerSetting) -> Iterator[dict[str, Any]]:
    holds = {part: choose_hold(log, part) for part in log.parts}
    scorers = {
        agent: scorer_of(place, agent, setting)
        for agent in agents(setting)
        if agent.log in (log.name, "all") and agent.backfill == "easy"
    }
    for kind, rows in log.windows(setting.others).items():
        for first in rows:
            window = jobs_of(log).window(first, JOBS)
            key = {"case": case_of(log.name, kind), "item": first}
            for name, rule in RULES.items():
                starts = simulate(window, rule(window))
                yield {**key, "arm": name, "seed": None, **measures(window, starts)}
            held = holds[judge_of(log, first, everywhere=False)]
            starts = simulate(window, RULES[held.rule](window), hold=held.hold)
            yield {**key, "arm": "hold", "seed": None, **measures(window, starts)}
            for agent, scorer in scorers.items():
                if agent.part == judge_of(log, first, everywhere=agent.log == "all"):
                    starts = simulate(window, scorer, visible=VISIBLE)
                    found = measures(window, starts)
                    yield {**key, "arm": agent.kind, "seed": agent.seed, **found}


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


def _engine_starts(policy: Any, workload: Workload, processors: int) -> Floats:
    """Return (J,) start times of the engine's schedule, in order of submission."""
    cluster = Cluster.pool({"processors": float(processors)})
    writer = MemoryWriter({}, digested=False)
    Simulation(workload, cluster, Recorder(workload, cluster.resources, writer)).run(policy, seed=0)
    writer.close_tables()
    jobs = writer.results().jobs
    start = dict(zip(jobs["job_id"].to_list(), jobs["start_time_s"].to_list(), strict=True))
    return np.array([start[job] for job in workload.job_id.tolist()])


def judge_theirs(place: Workplace, setting: RLSchedulerSetting) -> pl.DataFrame:
    """Return the slowdowns under RLScheduler's rules, as a long table; kept.

    The scorers are those trained under these rules.
    """

    def play() -> pl.DataFrame:
        cells = [
            {"case": their_case(log.name, backfilling=backfill == "rlscheduler"), **row}
            for log in LOGS
            for backfill in THEIR_RULES
            for row in _cells(place, log, setting, backfill)
        ]
        return long(pl.DataFrame(cells), MEASURES[:1], seed="seed")

    path = _path(place, "theirs", setting)
    return kept_table(place, path, play, "judged by RLScheduler's rules")


def _cells(
    place: Workplace, log: Log, setting: RLSchedulerSetting, backfill: Backfill
) -> Iterator[dict[str, Any]]:
    """Yield the slowdown on each of the ten windows, or on those that a scorer has not seen."""
    rows = TEN[: setting.theirs]
    windows = [jobs_of(log).window(row, JOBS) for row in rows]
    for name in (*THEIRS, *OURS):
        for row, w in zip(rows, windows, strict=True):
            if name in RULES:
                starts = simulate(w, RULES[name](w), backfill=backfill)
            else:
                starts = _starts_by_order(name, log, row, backfill)
            yield {
                "arm": name, "seed": None, "item": row,
                "bounded_slowdown": w.bounded_slowdown(starts),
            }  # fmt: skip
    for seed in range(setting.seeds):
        scorers = {
            part: scorer_of(place, Agent(log.name, part, 0, seed, backfill), setting)
            for part in log.parts
        }
        for row, w in zip(rows, windows, strict=True):
            if (part := log.judge_of(row)) is not None:
                starts = simulate(w, scorers[part], visible=VISIBLE, backfill=backfill)
                yield {
                    "arm": SCORER, "seed": seed, "item": row,
                    "bounded_slowdown": w.bounded_slowdown(starts),
                }  # fmt: skip


def _starts_by_order(name: str, log: Log, row: int, backfill: Backfill) -> Floats:
    """Return the engine's starts of a window under an order that the fast simulation lacks."""
    rule: Any = plugins.find("simkit.policies", "rlscheduler", kind="backfill")
    order: Any = plugins.find("simkit.policies", name, kind="order")
    policy = rule(backfill == "rlscheduler").compose(order())
    return _engine_starts(policy, workload_of(log).take(np.arange(row, row + JOBS)), log.processors)


def never_better(place: Workplace, setting: RLSchedulerSetting) -> list[str]:
    """Return the trainings that no iteration improved: their scorer is still the initial rule."""
    found = []
    for agent in agents(setting):
        best = read_training(kept(place, agent, setting).folder)["best"]
        if best["iteration"] == 0:
            found.append(agent.name)
    return found
