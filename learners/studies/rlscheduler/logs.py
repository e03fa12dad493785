"""The logs, windows, rules and trainings of the comparison with RLScheduler.

D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch job scheduler
using reinforcement learning" (SC 2020). In an archive log the first 10,000 jobs are for tests, and
those from row 11,100 on for training. A Lublin log has 10,000 jobs: the agent trained on one half
is tested on the other, and windows across the middle are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit.arrays import Floats, stream
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.job_model import Rule
from simkit.learners.scorers.job_scorer import Backfill
from simkit.learners.studies.trainings import KeptTraining, data_file
from simkit.scenario import Scenario
from simkit.traces.swf import RLSchedulerLog
from simkit.training import Workplace
from simkit.workload import Workload

ALL: Final = "all"
"""What an agent is trained on, in place of the name of a log."""
SCORER: Final = "scorer"
"""The arm of the scorers that are trained under RLScheduler's rules."""
JOBS: Final = 1024
"""Jobs in a test window."""
VISIBLE: Final = 128
"""Jobs that an agent sees; rules see all."""
TEN: Final = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
"""First rows of the paper's test windows, the same in every log."""
_LUBLIN: Final = 10_000
_JUDGED, _TRAINED = 10_000, 11_100  # rows of archive logs


@dataclass(frozen=True)
class Log:
    """One of the four logs."""

    name: str
    file: str
    processors: int
    published: tuple[float, float]
    """The published agent's mean bounded slowdown, without and with backfilling."""
    least_slowdown: float
    """Training windows in which SAF-p has a lower one are skipped; chosen on held-out windows of
    the training part."""
    archive: bool
    """Whether it is long enough for separate training and test parts."""

    @property
    def path(self) -> Path:
        """Where the log is; raises RunError if it is missing."""
        return data_file("rlscheduler", f"swf/{self.file}.gz")

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts with an agent each: ``whole``, or the halves on which agents are trained."""
        return ("whole",) if self.archive else ("a", "b")

    def rows(self, part: str) -> tuple[int, int | None]:
        """Return the first and last row on which the agent of a part is trained."""
        if self.archive:
            return _TRAINED, None
        return (0, _LUBLIN // 2 - 1) if part == "a" else (_LUBLIN // 2, _LUBLIN - 1)

    def judge_of(self, first_row: int, *, everywhere: bool = False) -> str | None:
        """Return the part whose agent, of this log or of all, has not seen a window."""
        if self.archive:
            return "a" if everywhere else "whole"
        if first_row + JOBS <= _LUBLIN // 2:
            return "b"
        return "a" if first_row >= _LUBLIN // 2 else None

    def windows(self, number: int) -> dict[str, list[int]]:
        """Return first rows of test windows: the ``ten``, and `number` distinct ``others``."""
        rng = stream(0, f"reproduce.rlscheduler.{self.name}")
        drawn: list[int] = []
        while len(drawn) < number:
            first = int(rng.integers(0, _JUDGED - JOBS + 1))
            if self.judge_of(first) is not None and first not in drawn:
                drawn.append(first)
        ten = [first for first in TEN if self.judge_of(first) is not None]
        return {"ten": ten, "others": sorted(drawn)}


LOGS: Final[tuple[Log, ...]] = (
    Log("Lublin-1", "lublin_256.swf", 256, (254.67, 58.64), 5.0, archive=False),
    Log("SDSC-SP2", "SDSC-SP2-1998-4.2-cln.swf", 128, (466.44, 397.82), 50.0, archive=True),
    Log("HPC2N", "HPC2N-2002-2.2-cln.swf", 240, (117.01, 86.14), 5.0, archive=True),
    Log("Lublin-2", "lublin2.swf", 256, (724.51, 118.79), 5.0, archive=False),
)  # fmt: skip


PUBLISHED: Final[Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "Lublin-1": ((7273.77, 19753.53, 22274.74, 277.35, 258.37),
                 (235.82, 133.87, 307.23, 73.31, 75.07)),
    "SDSC-SP2": ((1727.54, 3000.88, 1848.45, 2680.55, 1232.06),
                 (1595.12, 1083.12, 548.01, 2167.84, 1098.22)),
    "HPC2N": ((297.18, 426.99, 609.77, 157.71, 118.01), (127.38, 97.39, 175.12, 122.04, 71.95)),
    "Lublin-2": ((7842.47, 9523.18, 11265.31, 787.89, 698.34),
                 (247.61, 318.35, 379.59, 91.99, 148.25)),
}  # fmt: skip
"""Log → the published mean bounded slowdowns of FCFS, WFP3, UNICEP, SJF and F1, without and with
backfilling."""


@cache
def workload_of(log: Log) -> Workload:
    """Return the jobs of a log as RLScheduler reads them."""
    return RLSchedulerLog.of(path=log.path).read().workload


@cache
def jobs_of(log: Log) -> PoolJobs:
    """Return the jobs of a log as columns."""
    return PoolJobs.of(workload_of(log), log.processors)


def _by_key(key: Callable[[PoolJobs], Floats]) -> Callable[[PoolJobs], Rule]:
    return lambda jobs: Rule.by_key(key(jobs))


def _log10(values: Floats) -> Floats:
    found: Floats = np.log10(np.maximum(values, 2.0))
    return found


def _f2(jobs: PoolJobs) -> Floats:
    since = jobs.submit_s - jobs.submit_s[0]
    return np.sqrt(jobs.r_s) * jobs.processors + 25_600.0 * _log10(since)


RULES: Final[Mapping[str, Callable[[PoolJobs], Rule]]] = {
    "fcfs": _by_key(lambda jobs: jobs.submit_s),
    "sjf": _by_key(lambda jobs: jobs.r_s),
    "saf": _by_key(lambda jobs: jobs.r_s * jobs.processors),
    "log-r-n": _by_key(lambda jobs: _log10(jobs.r_s) * jobs.processors),
    "r2-n": _by_key(lambda jobs: np.maximum(jobs.r_s, 10.0) ** 2 * jobs.processors),
    "f2": _by_key(_f2),
    "wfp3": Rule.wfp3,
    "saf-p": Rule.saf_p,
    "wfp3-p-n2": Rule.wfp3_p_n2,
}
"""Order → its rule in the fast simulation, which starts jobs as the engine does."""

HOLDS: Final = tuple(
    (minutes * 60.0, h) for minutes in (10, 30, 60, 180) for h in (0.1, 0.2, 0.3, 0.45)
)
"""Parameters of the hold rule: it holds jobs longer than r₀, in s; the share h kept free."""


@dataclass(frozen=True)
class RLSchedulerSetting:
    """How much to train and to test."""

    seeds: int
    iterations: int
    windows: int
    candidates: int
    units: tuple[int, ...]
    """Units of the scorers: 0 is a weighted sum. Scorers for all logs have the first of these."""
    others: int
    """Test windows in addition to the ten."""
    theirs: int
    """How many of the ten windows are played under RLScheduler's rules."""
    their_iterations: int
    """Iterations of the trainings under RLScheduler's rules, whose scorers are weighted sums."""


FULL = RLSchedulerSetting(3, 45, 20, 16, (0, 8), 100, 10, 25)
QUICK = RLSchedulerSetting(2, 4, 8, 8, (0,), 10, 3, 4)

THEIR_RULES: Final[tuple[Backfill, ...]] = ("rlscheduler-none", "rlscheduler")
"""RLScheduler's rules without and with backfilling, as its table has them."""
THEIR_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SDSC-SP2": {"objective": "mean", "fewest_jobs": JOBS},
}
"""Log → arguments that its trainings under these rules change; chosen on held-out windows of the
training part: as in the published table, the worst windows decide the mean of full windows."""


@dataclass(frozen=True)
class Agent:
    """A training on one log, or on all four, named after the agent that it makes."""

    log: str
    """Name of the log, or `ALL`."""
    part: str
    units: int
    seed: int
    backfill: Backfill = "easy"
    """The rules under which it is trained."""

    @property
    def kind(self) -> str:
        """The arm to which it belongs where it is judged."""
        scope = "all logs" if self.log == ALL else "one log"
        return f"scorer, {self.units} units, {scope}" if self.backfill == "easy" else SCORER

    @property
    def name(self) -> str:
        """Name of its folder."""
        by = "" if self.backfill == "easy" else f"by-{self.backfill}-"
        return f"rlscheduler-{self.log}-{self.part}-{self.units}-{by}seed{self.seed}".lower()


def agents(setting: RLSchedulerSetting) -> Iterator[Agent]:
    """Yield the trainings."""
    for seed in range(setting.seeds):
        for units in setting.units:
            for log in LOGS:
                yield from (Agent(log.name, part, units, seed) for part in log.parts)
        yield from (Agent(ALL, part, setting.units[0], seed) for part in ("a", "b"))
        for backfill in THEIR_RULES:
            for log in LOGS:
                yield from (Agent(log.name, part, 0, seed, backfill) for part in log.parts)


def workload_section(log: Log, rows: str = "") -> dict[str, Any]:
    """Return the section `workload` of a scenario that reads a log, or some rows of it."""
    reader = f"{RLSchedulerLog.__module__}:{RLSchedulerLog.__qualname__}"
    section = {"type": "plugin", "reader": reader, "args": {"path": str(log.path)}}
    return {**section, "window": {"jobs": rows}} if rows else section


def scenario_of(agent: Agent, setting: RLSchedulerSetting) -> Scenario:
    """Return the scenario of a training."""
    theirs = agent.backfill != "easy"
    chosen = [log for log in LOGS if agent.log in (log.name, ALL)]
    first, *further = chosen
    low, high = first.rows(agent.part)
    last = len(workload_of(first)) - 1 if high is None else high
    return Scenario.model_validate({
        "name": agent.name, "seed": agent.seed,
        "workload": workload_section(first, f"{low}..{last}"),
        "cluster": {"processors": first.processors},
        "learn": {
            "learner": "rlscheduler", "held_out_every": 5, "criterion": "slowdown_ratio",
            "iterations": setting.their_iterations if theirs else setting.iterations,
            "keep": "best",
            "arguments": {
                "job_sets": setting.windows, "candidates": setting.candidates,
                "hidden": agent.units, "visible": VISIBLE, "backfill": agent.backfill,
                "held_out": 0.25, "least_slowdown": min(log.least_slowdown for log in chosen),
                "logs": [_further(log, agent.part) for log in further],
                **(THEIR_ARGUMENTS.get(agent.log, {}) if theirs else {}),
            },
        },
    })  # fmt: skip


def kept(place: Workplace, agent: Agent, setting: RLSchedulerSetting) -> KeptTraining:
    """Return the training of an agent."""
    return KeptTraining(place, scenario_of(agent, setting))


def _further(log: Log, part: str) -> dict[str, Any]:
    first, last = log.rows(part)
    return {"path": str(log.path), "processors": log.processors, "first": first, "last": last}
