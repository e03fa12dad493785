"""Rules and agents on windows of the logs, under EASY and under RLScheduler's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, stream
from simkit.experiment import api as engine
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.agent import JobAgent, JobDescription
from simkit.learners.scorers.job_model import Hold, simulate
from simkit.learners.scorers.job_scorer import Backfill, JobScorer
from simkit.learners.studies.results import long
from simkit.learners.studies.rlscheduler import logs
from simkit.learners.studies.trainings import KeptTraining, kept_table
from simkit.training import Workplace
from simkit.training.folder import read_training

THEIRS: Final = ("fcfs", "rlscheduler-wfp3", "rlscheduler-unicep", "sjf", "rlscheduler-f1")
"""The orders of the published table, in its order."""
OURS: Final = ("log-r-n", "f2", "r2-n", "saf-p", "wfp3-p-n2")
"""Our orders, for comparison."""
HOLD_WINDOWS: Final = 40
"""Training windows on which the parameters of the hold rule are chosen."""
MEASURES: Final = ("bounded_slowdown", "makespan_s", "area_weighted_wait_s", "longest_wait_s")


def case_of(log: str, windows: str) -> str:
    """Return the name of a case: a log, and the ``ten`` windows of the paper or the ``others``."""
    return f"{log}, {windows}"


def their_case(log: str, *, backfilling: bool) -> str:
    """Return the name of a case of the published table."""
    return f"{log}, {'with' if backfilling else 'without'} backfilling"


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


def judge_all(place: Workplace, setting: logs.RLSchedulerSetting) -> Iterator[pl.DataFrame]:
    """Yield the `MEASURES` of everyone under EASY, and slowdowns by RLScheduler's rules; kept.

    By those rules the scorers are judged that are trained by them.
    """
    easy = [
        (case_of(log.name, kind), log, rows, "easy")
        for log in logs.LOGS
        for kind, rows in log.windows(setting.others).items()
    ]
    theirs = [
        (their_case(log.name, backfilling=backfill == "rlscheduler"), log,
         logs.TEN[: setting.theirs], backfill)
        for log in logs.LOGS
        for backfill in logs.THEIR_RULES
    ]  # fmt: skip
    yield _kept(place, setting, "easy", easy, MEASURES)
    yield _kept(place, setting, "theirs", theirs, MEASURES[:1])


def _kept(
    place: Workplace, setting: logs.RLSchedulerSetting, name: str,
    cases: Sequence[tuple[str, logs.Log, Sequence[int], Any]], metrics: Sequence[str],
) -> pl.DataFrame:  # fmt: skip
    """Return everyone on the windows of some cases, as a long table; kept."""
    agents = {agent: logs.kept(place, agent, setting) for agent in logs.agents(setting)}

    def play() -> pl.DataFrame:
        rows = [
            {"case": case, "arm": arm, "seed": seed, "item": first, **measures(window, starts)}
            for case, log, firsts, backfill in cases
            for arm, seed, first, window, starts in _played(agents, log, firsts, backfill)
        ]
        return long(pl.DataFrame(rows, infer_schema_length=None), metrics)

    key = [asdict(setting), *(one.digest for one in agents.values())]
    return kept_table(place, name, key, play)


def _played(
    agents: Mapping[logs.Agent, KeptTraining], log: logs.Log, rows: Sequence[int],
    backfill: Backfill,
) -> Iterator[tuple[str, int | None, int, PoolJobs, Floats]]:  # fmt: skip
    """Yield arm, seed, first row of a window, its jobs, and (J,) their starts.

    A window is played by the scorers that have not seen it.
    """
    here = [one for one in agents if one.log in (log.name, logs.ALL) and one.backfill == backfill]
    scorers = {one: _scorer(agents[one]) for one in here}
    for first in rows:
        window = logs.jobs_of(log).window(first, logs.JOBS)
        for name in logs.RULES if backfill == "easy" else (*THEIRS, *OURS):
            if name in logs.RULES:
                starts = simulate(window, logs.RULES[name](window), backfill=backfill)
            else:
                starts = _starts_by_order(name, log, first, backfill)
            yield name, None, first, window, starts
        if backfill == "easy":
            held = choose_hold(log, str(log.judge_of(first)))
            starts = simulate(window, logs.RULES[held.rule](window), hold=held.hold)
            yield "hold", None, first, window, starts
        for agent, scorer in scorers.items():
            if agent.part == log.judge_of(first, everywhere=agent.log == logs.ALL):
                starts = simulate(window, scorer, visible=logs.VISIBLE, backfill=backfill)
                yield agent.kind, agent.seed, first, window, starts


def _scorer(training: KeptTraining) -> JobScorer:
    bundle = training.agent
    return JobAgent.of(bundle, JobDescription.read(bundle.description)).scorer


def _starts_by_order(name: str, log: logs.Log, row: int, backfill: Backfill) -> Floats:
    """Return (J,) the engine's starts of a window under an order that the fast simulation lacks."""
    workload = logs.workload_of(log).take(np.arange(row, row + logs.JOBS))
    theirs = {"type": "rlscheduler", "backfilling": backfill == "rlscheduler"}
    scenario = {"cluster": {"processors": log.processors}, "workload": logs.workload_section(log)}
    policy = {"order": name, "backfill": theirs}
    jobs = engine.simulate(scenario, policy=policy, workload=workload, seed=0).jobs
    start = dict(jobs.select("job_id", "start_time_s").iter_rows())
    return np.array([start[job] for job in workload.job_id.tolist()])


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


def never_better(place: Workplace, setting: logs.RLSchedulerSetting) -> list[str]:
    """Return the trainings that no iteration improved: their scorer is still the initial rule."""
    return [
        agent.name
        for agent in logs.agents(setting)
        if read_training(logs.kept(place, agent, setting).folder)["best"]["iteration"] == 0
    ]
