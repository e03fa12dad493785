"""A scorer of jobs for one pool with backfilling, trained by an evolution strategy on windows.

After D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch job
scheduler using reinforcement learning" (SC 2020): one scorer for all of the 128 oldest jobs that
wait, trained on windows of a log. What differs: the rules are those of EASY backfilling unless
`backfill` is set otherwise, waiting times and the user's last run times are seen, and weights are
searched by CMA-ES (N. Hansen, "The CMA evolution strategy: a tutorial", 2016) instead of PPO,
since a scorer has few weights and a schedule takes milliseconds. All candidates of an iteration
are scored on the same windows.
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
"""Rules as weights, nearly; of f2 for some 200 processors."""

Start = Literal["fcfs", "saf-p", "wfp3-p-n2", "f2"]


class FurtherLog(Section):
    """A log that is trained on in addition to the scenario's, read as RLScheduler reads it."""

    path: File
    """The log."""
    processors: Count
    """Processors of its machine."""
    first: Annotated[int, Field(ge=0)] = 0
    """Rank of the first job that may be used."""
    last: Annotated[int, Field(ge=0)] | None = None
    """Rank of the last one; null: the log's."""

    @model_validator(mode="after")
    def _first_is_not_after_last(self) -> Self:
        if self.last is not None and self.first > self.last:
            text = f"is {self.first} and last {self.last}; exchange them"
            raise BrokenRulesError([(("first",), text)])
        return self

    def jobs(self) -> PoolJobs:
        """Return the jobs; raises ScenarioError, or TraceError if the log cannot be read."""
        whole = RLSchedulerLog.of(path=self.path).read().workload
        end, last = len(whole) - 1, self.last
        for name, rank in (("first", self.first), ("last", self.first if last is None else last)):
            if rank > end:
                raise ScenarioError(f"{name}: is {rank}, and the last job of the log is {end}")
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
    """Scorers of a generation."""
    windows: Count = 24
    """Fresh windows of a generation; all of its candidates schedule the same ones."""
    fewest_jobs: Count = 256
    """Fewest jobs of a window."""
    most_jobs: Count = 1024
    """Most jobs of a window, and those of a held-out one."""
    least_slowdown: NotNegative = 5.0
    """Windows in which SAF-p has a lower bounded slowdown are passed over."""
    objective: Literal["log", "relative", "mean"] = "log"
    """What is minimised over windows: the mean of the logarithm of a window's bounded slowdown, of
    its ratio to that of SAF-p, or of itself, which the worst windows then decide."""
    start: Start = "saf-p"
    """The rule that the search begins at."""
    spread: Positive = 0.3
    """First standard deviation of the weights."""
    units: Annotated[int, Field(ge=0, le=64)] = 0
    """Units max(0, ·) that are added to the weighted sum."""
    visible: Count = 128
    """So many waiting jobs, the first ones submitted, can be picked."""
    backfill: Backfill = "easy"
    """What may start while a picked job does not fit: what EASY allows; by RLScheduler's
    own rules; or, as it has it without backfilling, nothing."""
    end: End = "never"
    """With EASY, when the scorer may let time go on although a job could start. It then can hold
    jobs back, and large ones may wait for very long."""
    held_out_share: Annotated[float, Field(ge=0, lt=1)] = 0.15
    """The last jobs of every log are not trained on; 0: nothing is held out."""
    held_out_windows: Count = 50
    """At most so many windows evaluate the scorer, evenly over what is held out; those below
    least_slowdown are passed over."""
    logs: Many[FurtherLog] = ()
    """Further logs, for one agent for several machines."""

    @model_validator(mode="after")
    def _windows_grow(self) -> Self:
        if self.fewest_jobs > self.most_jobs:
            raise BrokenRulesError([self._exceeding()])
        return self

    def _exceeding(self) -> tuple[tuple[str], str]:
        """Return the argument at fault for windows that shrink, and what is wrong with it."""
        fewest, most = self.fewest_jobs, self.most_jobs
        if "fewest_jobs" not in self.model_fields_set:
            text = f"is {most} and fewest_jobs, by default, {fewest}; give at least {fewest}"
            return ("most_jobs",), f"{text}, or fewest_jobs as well"
        if "most_jobs" not in self.model_fields_set:
            text = f"is {fewest} and most_jobs, by default, {most}; give at most {most}"
            return ("fewest_jobs",), f"{text}, or most_jobs as well"
        return ("fewest_jobs",), f"is {fewest} and most_jobs {most}; exchange them"

    @model_validator(mode="after")
    def _time_goes_on_with_easy(self) -> Self:
        if self.backfill != "easy" and self.end != "never":
            text = (
                f"is {self.end}, which is for easy, but backfill is {self.backfill}; leave it out"
            )
            raise BrokenRulesError([(("end",), text)])
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not one pool of processors
    which decides at every event by requested times, arguments out of their range, windows longer
    than the log, or a device other than the processor; PluginError without safetensors, cma or
    numba.
    """
    safetensors()
    require_numba()
    problems = _problems(scenario, device)
    chosen = attempt(lambda: read_arguments(RLSchedulerArguments, arguments), problems)
    if problems or chosen is None:
        raise ScenarioError(problems)
    return RLSchedulerTraining(scenario, chosen, seed)


def _problems(scenario: Scenario, device: str) -> list[str]:
    """Return what the fast simulation does not know, a line each."""
    alone = scenario.cluster.model_dump(exclude_defaults=True).keys() <= {"processors"}
    stands = {
        "cluster: must be one pool, {processors: N}, and nothing else": alone,
        "power: is not known to this learner; leave it out": scenario.power is None,
        "processes: are not known to this learner; leave them out": not scenario.processes,
        "scheduling: every and step must be left out": not scenario.scheduling.model_dump(
            exclude_none=True
        ),
        f"device: is {device}; this learner calculates on the cpu": device == "cpu",
    }
    return [text for text, holds in stands.items() if not holds] + unknown_rules(scenario)


class RLSchedulerTraining(SeededTraining):
    """A training under way."""

    learner = "rlscheduler"
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
        """What the search has found so far."""
        return self.shape.with_flat(self.search.mean)

    def parts(self) -> Mapping[str, Stateful]:
        return {"search": self.search}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``slowdown``: the bounded slowdown, mean over windows and candidates; ``ratio_to_rule``:
        geometric mean of its ratio to that of SAF-p; ``return``: minus the objective, mean over
        candidates; ``decisions``: jobs that were scheduled.
        """
        # Draw: the same windows for all candidates
        windows = self.source.draw(self.generators["windows"], self.chosen.windows)
        rule = np.array([self.source.slowdown(window) for window in windows])
        # Score
        candidates = self.search.ask()
        found = np.array([self._slowdowns(self.shape.with_flat(c), windows) for c in candidates])
        scores = -self._objective(found, rule).mean(
            axis=1
        )  # (candidates, windows) -> (candidates,)
        # Search on
        self.search.tell(scores)
        return {
            "return": float(scores.mean()),
            "slowdown": float(found.mean()),
            "ratio_to_rule": float(np.exp(np.log(found / rule).mean())),
            "decisions": float(len(candidates) * sum(map(len, windows))),
        }

    def _slowdowns(self, scorer: Scorer, windows: Sequence[PoolJobs]) -> Floats:
        """Return (windows,) mean bounded slowdowns."""
        chosen = self.chosen
        rules: Any = {"visible": chosen.visible, "backfill": chosen.backfill, "end": chosen.end}
        return np.array([w.bounded_slowdown(simulate(w, scorer, **rules)) for w in windows])

    def _objective(self, found: Floats, rule: Floats) -> Floats:
        """Return what is minimised of (…, windows) slowdowns, given the rule's (windows,)."""
        if self.chosen.objective == "log":
            logarithm: Floats = np.log(found)
            return logarithm
        return found / rule if self.chosen.objective == "relative" else found

    def held_out(self) -> Mapping[str, float]:
        """Return the mean and geometric mean of the slowdown of held-out windows, if there are any.

        ``slowdown_ratio``: the geometric mean of the ratio to SAF-p.
        """
        if not self.unseen:
            return {}
        found = self._slowdowns(self.scorer, self.unseen)
        rule = np.array([self.source.slowdown(window) for window in self.unseen])
        return {
            "slowdown": float(found.mean()),
            "slowdown_geometric": float(np.exp(np.log(found).mean())),
            "slowdown_ratio": float(np.exp(np.log(found / rule).mean())),
        }

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        chosen = self.chosen
        how = describe(
            self.scorer, visible=chosen.visible, backfill=chosen.backfill, end=chosen.end
        )
        weights = {name: a.astype(np.float32) for name, a in self.scorer.weights.items()}
        self.write_weights(folder, weights, how, curve_end)


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
