"""Rules and agents on windows of the last 20 % of the logs, with several estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, stream
from simkit.experiment.workload import read_trace
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.studies.judging import Arm, evaluated
from simkit.learners.studies.logs import trainings
from simkit.learners.studies.results import long
from simkit.learners.studies.rlscheduler.judge import HOLD_WINDOWS, HoldChoice, best_hold
from simkit.learners.studies.trainings import Part, kept_tables
from simkit.policy.estimates import Requested
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.models.synthetic import requested_times
from simkit.training import Workplace
from simkit.training.evaluate import policy_candidate
from simkit.training.held_out import SHARE, Unseen
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
    arms: tuple[Arm, ...]
    digest: str = ""
    """Of the weights of an agent; empty: the rules."""

    def part(self, windows: int) -> Part:
        """Return its table, to be kept."""
        who = [[one.label, {} if self.digest else dict(one.policy)] for one in self.arms]
        key = [self.log.name, self.estimates, who, self.digest, windows]
        name = self.arms[0].label if self.digest else "rules"
        known = self.estimates or "requested"
        return Part(f"{name} on {self.log.name}, {known}", key, self.judged, (windows,))

    def judged(self, windows: int) -> pl.DataFrame:
        """Return a row of the long table for each arm, window and metric."""
        found = evaluated(
            load_scenario(
                self.log.scenario, overrides={"estimates": ESTIMATES[self.estimates]}
            ),
            self.arms, unseen=Unseen(windows, trainings.JOBS), metric=TURNAROUND,
            beside=METRICS, bound=not (self.estimates or self.digest), workers=1,
        )  # fmt: skip
        known = pl.lit(f", {self.estimates}" if self.estimates else "")
        return long(found, METRICS, arm=pl.col("arm") + known, case=self.log.name)


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
            one = Arm(agent.arm(log), policy, agent.seed)
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


def _rules(hold: HoldChoice) -> tuple[Arm, ...]:
    held = {"type": "hold", "longer_than": hold.hold.longer_than_s,
            "keep_free": hold.hold.keep_free}  # fmt: skip
    rules = [Arm(name, policy_candidate(text).policy) for name, text in RULES.items()]
    return (*rules, Arm("hold", {"order": hold.rule, "backfill": held}))


def judge_all(place: Workplace, setting: trainings.LogsSetting) -> pl.DataFrame:
    """Return everyone on each window, as a long table; what was judged before is kept."""
    return pl.concat(
        kept_tables(place, [each.part(setting.windows) for each in groups(place, setting)])
    )
