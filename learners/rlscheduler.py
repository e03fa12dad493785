"""A scorer of jobs for one pool with backfilling, trained by an evolution strategy on windows.

After D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch job
scheduler using reinforcement learning" (SC 2020): one scorer for the 128 oldest waiting jobs,
trained on windows of a log. Here the rules are those of EASY backfilling unless `backfill` says
otherwise, the features include waiting times and the user's last run times, and the weights are
found by CMA-ES (N. Hansen, "The CMA evolution strategy: a tutorial", 2016) instead of PPO, since a
scorer has few weights and a schedule takes milliseconds. All candidates of an iteration are scored
on the same windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from simkit.arrays import Floats
from simkit.errors import ScenarioError, TraceError, at_key
from simkit.experiment.workload import read_trace
from simkit.learners.common.arguments import NotNegative, Positive, attempt, read_arguments
from simkit.learners.common.bundle import safetensors
from simkit.learners.common.evolution import CMAEvolution
from simkit.learners.common.training import SeededTraining, Stateful
from simkit.learners.pool.agent import unknown_rules
from simkit.learners.pool.description import describe
from simkit.learners.pool.jobs import PoolJobs
from simkit.learners.pool.scorer import Scorer
from simkit.learners.pool.simulation import Backfill, End, Rule, require_numba, simulate
from simkit.learners.pool.windows import WindowSource
from simkit.scenario import Scenario
from simkit.scenario.references import File
from simkit.sections import BrokenRulesError, Count, Many, Section
from simkit.traces.swf import RLSchedulerLog
from simkit.training import Training

STARTS: Final[Mapping[str, Mapping[str, float]]] = {
    "fcfs": {"log_since": -1.0},
    "saf-p": {"log_predicted": -2.0, "log_processors": -1.0},
    "wfp3-p-n2": {"log_wait": 3.0, "log_predicted": -3.0, "log_processors": 1.0},
    "f2": {"root_requested_share": -0.2, "log_since": -1.0},
}
"""Rule → weights that approximate it; those of f2 are for some 200 processors."""

Start = Literal["fcfs", "saf-p", "wfp3-p-n2", "f2"]


class FurtherLog(Section):
    """A training log in addition to the scenario's, read as RLScheduler reads it."""

    path: File
    """The log's file."""
    processors: Count
    """Processors of its machine."""
    first: Annotated[int, Field(ge=0)] = 0
    """Rank of the first job to use."""
    last: Annotated[int, Field(ge=0)] | None = None
    """Rank of the last job to use; null: the last of the log."""

    @model_validator(mode="after")
    def _first_is_not_after_last(self) -> Self:
        if self.last is not None and self.first > self.last:
            text = f"is {self.first} and last {self.last}; exchange them"
            raise BrokenRulesError([(("first",), text)])
        return self

    def jobs(self) -> PoolJobs:
        """Return the jobs.

        Raises ScenarioError if arguments do not fit the log, TraceError if it cannot be read.
        """
        whole = RLSchedulerLog.of(path=self.path).read().workload
        end, last = len(whole) - 1, self.last
        for name, rank in (("first", self.first), ("last", self.first if last is None else last)):
            if rank > end:
                raise ScenarioError(f"{name}: is {rank}, but the last job of the log is {end}")
        used = whole.take(np.arange(self.first, (end if last is None else last) + 1))
        widest = (used.request[:, 0] * used.instances).max()
        if widest > self.processors:
            raise ScenarioError(
                f"processors: is {self.processors}, but a job asks for {widest:g}; give the size "
                "of its machine"
            )
        return PoolJobs.of(used, self.processors)


class RLSchedulerArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 100
    """Generations of the search."""
    candidates: Annotated[int, Field(ge=4)] = 16
    """Candidates of a generation."""
    windows: Count = 24
    """New windows per generation; all of its candidates schedule the same ones."""
    fewest_jobs: Count = 256
    """Smallest number of jobs in a window."""
    most_jobs: Count = 1024
    """Largest number of jobs in a window, and the number in a held-out one."""
    least_slowdown: NotNegative = 5.0
    """Windows in which SAF-p has a lower bounded slowdown are skipped."""
    objective: Literal["log", "relative", "mean"] = "log"
    """What is minimised over windows: the mean logarithm of the bounded slowdown, the mean of its
    ratio to that of SAF-p, or its mean, which the worst windows dominate."""
    start: Start = "saf-p"
    """The rule at which the search starts."""
    spread: Positive = 0.3
    """Initial standard deviation of the weights."""
    units: Annotated[int, Field(ge=0, le=64)] = 0
    """Hidden units with max(0, ·) that are added to the weighted sum."""
    visible: Count = 128
    """Number of waiting jobs, the earliest submitted ones, from which the scorer picks."""
    backfill: Backfill = "easy"
    """What may start while a picked job does not fit: what EASY allows; what RLScheduler's
    backfilling allows; or, as in RLScheduler without backfilling, nothing."""
    end: End = "never"
    """With EASY, when the scorer may let time go on although a job could start. It can then hold
    jobs back, and large ones may wait for very long."""
    held_out_share: Annotated[float, Field(ge=0, lt=1)] = 0.15
    """Share of each log, taken from the end, that is held out to evaluate the scorer; 0: none."""
    held_out_windows: Count = 50
    """Largest number of held-out windows, spread evenly; those below least_slowdown are skipped."""
    logs: Many[FurtherLog] = ()
    """Further logs, to train one agent for several machines."""

    @model_validator(mode="after")
    def _fewest_is_not_above_most(self) -> Self:
        if self.fewest_jobs > self.most_jobs:
            raise BrokenRulesError([self._crossing()])
        return self

    def _crossing(self) -> tuple[tuple[str], str]:
        """Return the argument at fault if `fewest_jobs` exceeds `most_jobs`, and the problem."""
        fewest, most = self.fewest_jobs, self.most_jobs
        if "fewest_jobs" not in self.model_fields_set:
            text = f"is {most} and fewest_jobs, by default, {fewest}; give at least {fewest}"
            return ("most_jobs",), f"{text}, or fewest_jobs as well"
        if "most_jobs" not in self.model_fields_set:
            text = f"is {fewest} and most_jobs, by default, {most}; give at most {most}"
            return ("fewest_jobs",), f"{text}, or most_jobs as well"
        return ("fewest_jobs",), f"is {fewest} and most_jobs {most}; exchange them"

    @model_validator(mode="after")
    def _end_needs_easy(self) -> Self:
        if self.backfill != "easy" and self.end != "never":
            text = (
                f"is {self.end}, which is for easy, but backfill is {self.backfill}; leave it out"
            )
            raise BrokenRulesError([(("end",), text)])
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not one pool of processors
    which decides at every event by requested times, arguments out of range, windows longer than the
    log, or a device other than the CPU; PluginError without safetensors, cma or numba.
    """
    safetensors()
    require_numba()
    problems = _problems(scenario, device)
    chosen = attempt(lambda: read_arguments(RLSchedulerArguments, arguments), problems)
    if problems or chosen is None:
        raise ScenarioError(problems)
    return RLSchedulerTraining(scenario, chosen, seed)


def _problems(scenario: Scenario, device: str) -> list[str]:
    """Return what the fast simulation does not support, a line each."""
    only_processors = scenario.cluster.model_dump(exclude_defaults=True).keys() <= {"processors"}
    rules = {
        "cluster: must be one pool, {processors: N}, and nothing else": only_processors,
        "power: is not supported by this learner; leave it out": scenario.power is None,
        "processes: are not supported by this learner; leave them out": not scenario.processes,
        "scheduling: every and step must be left out": not scenario.scheduling.model_dump(
            exclude_none=True
        ),
        f"device: is {device}; this learner runs on the cpu": device == "cpu",
    }
    return [text for text, holds in rules.items() if not holds] + unknown_rules(scenario)


class RLSchedulerTraining(SeededTraining):
    """A training of a scorer of jobs."""

    learner = "rlscheduler"
    held_out_metrics = ("slowdown", "slowdown_geometric", "slowdown_ratio")
    extendable = True

    def __init__(self, scenario: Scenario, arguments: RLSchedulerArguments, seed: int) -> None:
        super().__init__(scenario, arguments, seed, ("windows",))
        self.chosen = arguments
        # Environment
        self.source = WindowSource(
            logs=list(_logs(scenario, arguments)),
            jobs=(arguments.fewest_jobs, arguments.most_jobs),
            held_out_share=arguments.held_out_share,
            slowdown=self._slowdown_of_rule,
            least_slowdown=arguments.least_slowdown,
        )
        self.unseen = self.source.held_out(arguments.held_out_windows)
        # Agent
        scorer = Scorer.zero(arguments.units).starting_at(STARTS[arguments.start])
        hidden = self.stream("weights").normal(0.0, 0.3, scorer.hidden.shape)
        self.shape = Scorer(**{**scorer.weights, "hidden": hidden})
        self.search = CMAEvolution(
            self.shape.flat, spread=arguments.spread, seed=seed, candidates=arguments.candidates
        )

    def _slowdown_of_rule(self, jobs: PoolJobs) -> float:
        visible, backfill = self.chosen.visible, self.chosen.backfill
        starts = simulate(jobs, Rule.saf_p(jobs), visible=visible, backfill=backfill)
        return jobs.bounded_slowdown(starts)

    @property
    def scorer(self) -> Scorer:
        """The best scorer so far."""
        return self.shape.with_flat(self.search.mean)

    def parts(self) -> Mapping[str, Stateful]:
        return {"search": self.search}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``slowdown``: bounded slowdown, mean over windows and candidates; ``ratio_to_rule``:
        geometric mean of its ratio to that of SAF-p; ``return``: minus the objective, mean over
        candidates; ``decisions``: jobs scheduled.
        """
        # Draw: the same windows for all candidates
        windows = self.source.draw(self.generators["windows"], self.chosen.windows)
        rule = np.array([self.source.slowdown(window) for window in windows])
        # Score
        candidates = self.search.ask()
        scorers = [self.shape.with_flat(weights) for weights in candidates]
        slowdowns = np.array([self._slowdowns(scorer, windows) for scorer in scorers])
        scores = -self._objective(slowdowns, rule).mean(axis=1)  # over windows
        # Search on
        self.search.tell(scores)
        return {
            "return": float(scores.mean()),
            "slowdown": float(slowdowns.mean()),
            "ratio_to_rule": float(np.exp(np.log(slowdowns / rule).mean())),
            "decisions": float(len(candidates) * sum(map(len, windows))),
        }

    def _slowdowns(self, scorer: Scorer, windows: Sequence[PoolJobs]) -> Floats:
        """Return (windows,) mean bounded slowdowns of a scorer."""
        chosen = self.chosen
        rules: Any = {"visible": chosen.visible, "backfill": chosen.backfill, "end": chosen.end}
        return np.array([w.bounded_slowdown(simulate(w, scorer, **rules)) for w in windows])

    def _objective(self, slowdowns: Floats, rule: Floats) -> Floats:
        """Return the objective for (…, windows) slowdowns, given the rule's, (windows,)."""
        if self.chosen.objective == "log":
            logarithm: Floats = np.log(slowdowns)
            return logarithm
        return slowdowns / rule if self.chosen.objective == "relative" else slowdowns

    def held_out(self) -> Mapping[str, float]:
        """Evaluate the scorer on held-out windows, if there are any.

        ``slowdown``: mean bounded slowdown; ``slowdown_geometric``: its geometric mean;
        ``slowdown_ratio``: geometric mean of its ratio to that of SAF-p.
        """
        if not self.unseen:
            return {}
        slowdowns = self._slowdowns(self.scorer, self.unseen)
        rule = np.array([self.source.slowdown(window) for window in self.unseen])
        return {
            "slowdown": float(slowdowns.mean()),
            "slowdown_geometric": float(np.exp(np.log(slowdowns).mean())),
            "slowdown_ratio": float(np.exp(np.log(slowdowns / rule).mean())),
        }

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        chosen = self.chosen
        description = describe(
            self.scorer, visible=chosen.visible, backfill=chosen.backfill, end=chosen.end
        )
        weights = {name: a.astype(np.float32) for name, a in self.scorer.weights.items()}
        self.write_weights(folder, weights, description, curve_end)


def _logs(scenario: Scenario, arguments: RLSchedulerArguments) -> Sequence[PoolJobs]:
    """Return the jobs of the scenario and of the further logs."""
    workload = read_trace(scenario.workload, scenario.seed).workload
    size = int(scenario.cluster.build(workload).capacity[0, 0])
    logs, problems = [PoolJobs.of(workload, size)], []
    for number, further in enumerate(arguments.logs):
        key = f"learn.arguments.logs.{number}"
        try:
            logs.append(further.jobs())
        except ScenarioError as error:
            problems += [f"{key}.{text}" for text in error.problems]
        except TraceError as error:
            problems += at_key(key, [str(error)])
    if problems:
        raise ScenarioError(problems)
    return logs
