"""Rules and agents on windows of the last 20 % of the logs, with several estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, stream
from simkit.experiment.workload import read_trace
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.studies.logs import trainings
from simkit.learners.studies.results import BOUND, long
from simkit.learners.studies.rlscheduler.judge import HOLD_WINDOWS, HoldChoice, best_hold
from simkit.learners.studies.trainings import Part, kept_tables
from simkit.policy.estimates import Requested
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.models.synthetic import requested_times
from simkit.training import Workplace
from simkit.training.evaluate import Candidate, evaluate, policy_candidate
from simkit.training.held_out import SHARE, WINDOW, Unseen
from simkit.workload import Workload

TURNAROUND: Final = "turnaround_time_s"
"""The metric with a bound."""
METRICS: Final = (
    TURNAROUND, "bounded_slowdown", "wait_time_s.p99", "wait_time_s.max", "makespan_s",
)  # fmt: skip
RULES: Final[Mapping[str, str]] = {
    "FCFS": "fcfs+easy", "SJF": "sjf+easy", "SAF": "saf+easy", "WFP3": "wfp3+easy",
    "f2": "f2+easy", "WFP3-p n²": "wfp3-p-n2+easy",
    "shortest first": "{order: fcfs, backfill: {type: easy, order: sjf}}",
}  # fmt: skip
"""Arm → its policy; *shortest first* queues by submission, and backfills the shortest first."""


class Modal(Requested):
    """Requests as careless users write them: round values above the run time.

    They take the place of the log's own; see `requested_times`.
    """

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        super().reset(workload, rng)
        self._modal = requested_times(workload.run_time_s, "modal", rng)

    def estimates(self, first: int, last: int) -> Floats:
        return self._modal[first:last]


ESTIMATES: Final[Mapping[str, Any]] = {
    "": "requested",
    "modal": f"{Modal.__module__}:{Modal.__qualname__}",
    "user-mean": {"type": "user-mean", "correction": "tsafrir"},
    "actual": "actual",
}
"""What follows the name of an arm, after a comma → `estimates` of the scenario."""


@cache
def _to_choose_on(log: trainings.Log) -> tuple[PoolJobs, ...]:
    """Return windows of the first 80 % of a log."""
    jobs = PoolJobs.of(read_trace(log.scenario.workload, 0).workload, log.processors)
    last = len(jobs) - round(SHARE * len(jobs)) - trainings.JOBS
    drawn = stream(0, f"reproduce.logs.hold.{log.name}").integers(0, last + 1, HOLD_WINDOWS)
    return tuple(jobs.window(int(first), trainings.JOBS) for first in drawn)


def hold_of(log: trainings.Log, setting: trainings.LogsSetting) -> HoldChoice:
    """Return the hold rule that is judged on a log, chosen on what agents may be trained on."""
    logs = [log] if log.trained else setting.trained
    return best_hold([window for each in logs for window in _to_choose_on(each)])


@dataclass(frozen=True)
class Group:
    """What is judged and kept together: the rules, with the bound, or an agent."""

    log: trainings.Log
    estimates: str
    candidates: tuple[Candidate, ...]
    """Labelled ``ARM``, or ``ARM#SEED``."""
    digest: str = ""
    """Of the weights of an agent; empty: the rules."""

    def part(self, windows: int) -> Part:
        """Return its rows of the long table, to be kept."""
        who = [[one.label, {} if self.digest else dict(one.policy)] for one in self.candidates]
        key = [self.log.name, self.estimates, who, self.digest, windows]
        name = self.candidates[0].label if self.digest else "rules"
        known = self.estimates or "requested"
        return Part(f"{name} on {self.log.name}, {known}", key, self.judged, (windows,))

    def judged(self, windows: int) -> pl.DataFrame:
        """Return a row of the long table for each candidate, window and metric."""
        estimates, bound = ESTIMATES[self.estimates], not (self.estimates or self.digest)
        found = evaluate(
            load_scenario(self.log.scenario, overrides={"estimates": estimates}),
            self.candidates, unseen=Unseen(windows, trainings.JOBS), metric=TURNAROUND,
            beside=METRICS, bound=bound, workers=1,
        ).frame()  # fmt: skip
        rows = self._long(found, METRICS)
        if not bound:
            return rows
        least = found.filter(label=self.candidates[0].label).with_columns(
            pl.lit(BOUND).alias("label"), pl.col("bound").alias(TURNAROUND)
        )
        return pl.concat([rows, self._long(least, [TURNAROUND])])

    def _long(self, table: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
        arm, known = pl.col("label").str.split("#"), f", {self.estimates}" * bool(self.estimates)
        return long(
            table,
            metrics,
            arm=arm.list.first() + pl.lit(known),
            case=self.log.name,
            item=pl.col(WINDOW).str.split("..").list.first().cast(pl.Int64),
            seed=arm.list.get(1, null_on_oob=True).cast(pl.Int64),
        )


def groups(place: Workplace, setting: trainings.LogsSetting) -> Iterator[Group]:
    """Yield all that is judged: rules, then agents."""
    known = {
        log: ["", *(each for each in setting.estimates if log.requests or each == "modal")]
        for log in setting.cases
    }
    for log in setting.cases:
        rules = _rules(hold_of(log, setting))
        yield from (Group(log, each, rules) for each in known[log])
    for agent in trainings.agents(setting):
        training = trainings.kept(place, agent, setting)
        policy = {"agent": str(training.folder / "agent")}
        for log in setting.cases:
            one = Candidate("agent", policy, f"{agent.arm(log)}#{agent.seed}")
            for each in _with(agent, log, known[log]):
                yield Group(log, each, (one,), training.digest)


def _with(agent: trainings.Agent, log: trainings.Log, known: Sequence[str]) -> Sequence[str]:
    """Return the estimates with which an agent is judged on a log; none: it is not.

    A scorer of one log is judged at home, with requests alone; PPO, which has no agent of all logs,
    also on logs that no agent was trained on.
    """
    if agent.log == trainings.ALL or (agent.kind, agent.log) == ("ppo", log.name):
        return known
    at_home, new_to_all = agent.log == log.name, not log.trained
    return [""] if at_home or (agent.kind == "ppo" and new_to_all) else []


def _rules(hold: HoldChoice) -> tuple[Candidate, ...]:
    held = {"type": "hold", "longer_than": hold.hold.longer_than_s,
            "keep_free": hold.hold.keep_free}  # fmt: skip
    rules = [replace(policy_candidate(text), label=arm) for arm, text in RULES.items()]
    return (*rules, Candidate("policy", {"order": hold.rule, "backfill": held}, "hold"))


def judge_all(place: Workplace, setting: trainings.LogsSetting) -> pl.DataFrame:
    """Return everyone on each window, as a long table; what was judged before is kept."""
    return pl.concat(
        kept_tables(place, [each.part(setting.windows) for each in groups(place, setting)])
    )
