"""Rules and agents on windows of the logs, under EASY and under RLScheduler's own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit import plugins
from simkit.arrays import Floats, Ints, stream
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.learners.common.bundle import read_bundle
from simkit.learners.reproductions.common import digest_of, kept_table, weights_hash
from simkit.learners.reproductions.rlscheduler.study import (
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
    workload_of,
)
from simkit.learners.scorers.agent import JobAgent, JobDescription
from simkit.learners.scorers.job_model import Hold, PoolJobs, simulate
from simkit.learners.scorers.job_scorer import Backfill, JobScorer
from simkit.results.run_writer import MemoryWriter
from simkit.training import Workplace
from simkit.training.folder import read_training
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

THEIRS: Final = ("fcfs", "rlscheduler-wfp3", "rlscheduler-unicep", "sjf", "rlscheduler-f1")
"""The orders of the published table, in its order."""
OURS: Final = ("log-r-n", "f2", "r2-n", "saf-p", "wfp3-p-n2")
"""Our orders, for comparison."""
HOLD_WINDOWS: Final = 40
"""Training windows on which the parameters of the hold rule are chosen."""
RESAMPLES: Final = 2000


def scorer_of(place: Workplace, agent: Agent) -> JobScorer:
    """Return the scorer of a complete training."""
    bundle = read_bundle(place.work / "trainings" / agent.name / "agent")
    return JobAgent.of(bundle, JobDescription.read(bundle.description)).scorer


def _path(place: Workplace, name: str, setting: RLSchedulerSetting) -> Path:
    """Return the path of a kept table, which depends on the setting and the agents' weights."""
    folder = place.work / "trainings"
    key = [asdict(setting), *(weights_hash(folder / agent.name) for agent in agents(setting))]
    return place.work / f"{name}-{digest_of(key)}.parquet"


# --- EASY -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HoldChoice:
    """The hold rule: an order, and the parameters chosen for it on training windows."""

    rule: str
    hold: Hold


def choose_hold(log: Log, part: str) -> HoldChoice:
    """Return the order and parameters with the lowest geometric mean on training windows."""
    first, last = log.rows(part)
    jobs, rng = jobs_of(log), stream(0, f"reproduce.rlscheduler.hold.{log.name}.{part}")
    end = len(jobs) if last is None else last + 1
    windows = [jobs.window(int(r), JOBS) for r in rng.integers(first, end - JOBS + 1, HOLD_WINDOWS)]

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
    """Return all measures of each log, set of windows, window and candidate, a row each; kept."""

    def play() -> pl.DataFrame:
        return pl.DataFrame([row for log in LOGS for row in _easy_rows(place, log, setting)])

    return kept_table(place, _path(place, "easy", setting), play, "judged with EASY")


def _easy_rows(place: Workplace, log: Log, setting: RLSchedulerSetting) -> Iterator[dict[str, Any]]:
    holds = {part: choose_hold(log, part) for part in log.parts}
    scorers = {
        agent: scorer_of(place, agent)
        for agent in agents(setting)
        if agent.log in (log.name, "all") and agent.backfill == "easy"
    }
    for kind, rows in log.windows(setting.others).items():
        for first in rows:
            window = jobs_of(log).window(first, JOBS)
            key = {"log": log.name, "windows": kind, "first_row": first}
            for name, rule in RULES.items():
                starts = simulate(window, rule(window))
                yield {**key, "candidate": name, "seed": 0, **measures(window, starts)}
            held = holds[judge_of(log, first, everywhere=False)]
            starts = simulate(window, RULES[held.rule](window), hold=held.hold)
            yield {**key, "candidate": "hold", "seed": 0, **measures(window, starts)}
            for agent, scorer in scorers.items():
                if agent.part == judge_of(log, first, everywhere=agent.log == "all"):
                    starts = simulate(window, scorer, visible=VISIBLE)
                    found = measures(window, starts)
                    yield {**key, "candidate": agent.kind, "seed": agent.seed, **found}


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


@dataclass(frozen=True)
class Standing:
    """A candidate on a set of windows of a log; for a scorer, the mean over its seeds."""

    name: str
    mean: float
    median: float
    geometric: float
    won: float
    """Share of windows in which its bounded slowdown is below the rule's."""
    ratio: tuple[float, float, float]
    """Ratio of its mean to the rule's, with a 95 % interval."""
    geometric_ratio: tuple[float, float, float]
    """The same of the geometric means."""
    makespan: float
    """Geometric mean of the ratio to the rule's."""
    area_weighted_wait_h: float
    longest_wait_h: float
    seeds: tuple[float, ...]
    """The mean of each seed."""


def standings(
    judged: pl.DataFrame, log: str, windows: str, baseline: str | None = None
) -> tuple[str, list[Standing]]:
    """Return a rule, by default the one with the lowest mean, and everyone compared with it."""
    here = judged.filter((pl.col("log") == log) & (pl.col("windows") == windows))
    by = ["candidate", "first_row"]
    names = ["bounded_slowdown", "makespan_s", "area_weighted_wait_s", "longest_wait_s"]
    table = {
        str(name[0]): part.group_by(by, maintain_order=True).agg(pl.col(names).mean())
        for name, part in here.group_by("candidate", maintain_order=True)
    }
    best = baseline or min(RULES, key=lambda one: _mean(table[one]["bounded_slowdown"].to_numpy()))
    base, found = table[best], []
    block = base["first_row"].to_numpy() // JOBS
    for name, part in table.items():
        mine, rule = (t["bounded_slowdown"].to_numpy() for t in (part, base))
        seeds = here.filter(candidate=name).group_by("seed").agg(pl.col(names[0]).mean())
        found.append(
            Standing(
                name, _mean(mine), float(np.median(mine)), float(np.exp(np.log(mine).mean())),
                float((mine < rule).mean()),
                _interval(mine, rule, block, _ratio_of_means),
                _interval(np.log(mine), np.log(rule), block, _ratio_of_geometric_means),
                float(np.exp(np.log((part["makespan_s"] / base["makespan_s"]).to_numpy()).mean())),
                _mean(part["area_weighted_wait_s"].to_numpy()) / 3600,
                _mean(part["longest_wait_s"].to_numpy()) / 3600,
                tuple(sorted(seeds["bounded_slowdown"].to_list())),
            )
        )  # fmt: skip
    return best, found


def _mean(values: Floats) -> float:
    return float(values.mean())


def _ratio_of_means(mine: Floats, rule: Floats, _count: Floats) -> Floats:
    return mine / rule


def _ratio_of_geometric_means(mine: Floats, rule: Floats, count: Floats) -> Floats:
    ratio: Floats = np.exp((mine - rule) / count)
    return ratio


def _interval(
    mine: Floats, rule: Floats, block: Ints, ratio: Callable[[Floats, Floats, Floats], Floats]
) -> tuple[float, float, float]:
    """Return a paired ratio with its percentile interval, by resampling blocks of rows.

    Windows overlap, so those that begin in the same 1,024 rows are drawn together.
    """
    _, place = np.unique(block, return_inverse=True)
    sums = np.array([np.bincount(place, column) for column in (mine, rule, np.ones(len(mine)))])
    blocks = sums.shape[1]
    draws = stream(0, "bootstrap").multinomial(blocks, np.full(blocks, 1 / blocks), RESAMPLES)
    found = ratio(*(draws @ column for column in sums))
    low, high = np.quantile(found, (0.025, 0.975))
    (value,) = ratio(*sums.sum(axis=1)[:, None])
    return float(value), float(low), float(high)


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
    """Return the mean bounded slowdowns under RLScheduler's rules, a row for each cell; kept.

    The scorers are those trained under these rules.
    """

    def play() -> pl.DataFrame:
        return pl.DataFrame([
            {
                "log": log.name, "backfilling": backfill == "rlscheduler", "order": name,
                "seed": seed, "bounded_slowdown": value,
            }
            for log in LOGS
            for backfill in THEIR_RULES
            for name, seed, value in _cells(place, log, setting, backfill)
        ])  # fmt: skip

    path = _path(place, "theirs", setting)
    return kept_table(place, path, play, "judged by RLScheduler's rules")


def _cells(
    place: Workplace, log: Log, setting: RLSchedulerSetting, backfill: Backfill
) -> Iterator[tuple[str, int, float]]:
    """Yield the mean over the ten windows of each order, and of the scorer of each seed.

    A scorer's mean is over the windows that it has not seen.
    """
    rows = TEN[: setting.theirs]
    windows = [jobs_of(log).window(row, JOBS) for row in rows]
    for name in (*THEIRS, *OURS):
        if name in RULES:
            starts = [simulate(w, RULES[name](w), backfill=backfill) for w in windows]
        else:
            starts = [_starts_by_order(name, log, row, backfill) for row in rows]
        found = [w.bounded_slowdown(start) for w, start in zip(windows, starts, strict=True)]
        yield name, 0, float(np.mean(found))
    for seed in range(setting.seeds):
        scorers = {
            part: scorer_of(place, Agent(log.name, part, 0, seed, backfill)) for part in log.parts
        }
        found = [
            w.bounded_slowdown(simulate(w, scorers[part], visible=VISIBLE, backfill=backfill))
            for row, w in zip(rows, windows, strict=True)
            if (part := log.judge_of(row)) is not None
        ]
        yield "scorer", seed, float(np.mean(found))


def _starts_by_order(name: str, log: Log, row: int, backfill: Backfill) -> Floats:
    """Return the engine's starts of a window under an order that the fast simulation lacks."""
    rule: Any = plugins.find("simkit.policies", "rlscheduler", kind="backfill")
    order: Any = plugins.find("simkit.policies", name, kind="order")
    policy = rule(backfill == "rlscheduler").compose(order())
    return _engine_starts(policy, workload_of(log).take(np.arange(row, row + JOBS)), log.processors)


def hold_words(log: Log) -> str:
    """Return the chosen parameters of the hold rule, in words."""
    chosen = {part: choose_hold(log, part) for part in log.parts}
    return "; ".join(
        f"{one.rule}, longer than {one.hold.longer_than_s / 60:g} min, {one.hold.keep_free:g} free"
        for one in chosen.values()
    )


def never_better(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the trainings that no iteration improved: their scorer is still the initial rule."""
    return [name for name in names if read_training(folder / name)["best"]["iteration"] == 0]
