"""A scorer of jobs whose weights are searched for: it is worth the slowdowns of windows of logs.

After D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch job
scheduler using reinforcement learning" (SC 2020): one scorer for the 128 oldest waiting jobs,
trained on windows of a log. Here the rules are those of EASY backfilling unless `backfill` says
otherwise, the features include waiting times and the user's last run times, and the weights are
found by evolution instead of PPO, since a scorer has few weights and a schedule takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from simkit.arrays import Floats
from simkit.learners.common.arguments import NotNegative, Positive, prepared
from simkit.learners.common.compiled import kernel
from simkit.learners.common.evolution import SearchArguments
from simkit.learners.pool.agent import describe
from simkit.learners.pool.jobs import PoolJobs
from simkit.learners.pool.scorer import Scorer
from simkit.learners.pool.simulation import Backfill, End, Rule, simulate
from simkit.learners.pool.windows import FurtherLog, WindowSource, logs_of
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many

__all__ = ["JobProblem", "prepare"]

STARTS: Final[Mapping[str, Mapping[str, float]]] = {
    "fcfs": {"log_since": -1.0},
    "saf-p": {"log_predicted": -2.0, "log_processors": -1.0},
    "wfp3-p-n2": {"log_wait": 3.0, "log_predicted": -3.0, "log_processors": 1.0},
    "f2": {"root_requested_share": -0.2, "log_since": -1.0},
}
"""Rule → weights that approximate it; those of f2 are for some 200 processors."""


class JobArguments(SearchArguments):
    """The keys of `learn.arguments` with `scorer: jobs`."""

    scorer: Literal["jobs"] = "jobs"
    """A scorer of the waiting jobs of one pool of processors."""
    iterations: Count = 100
    """Generations of the search."""
    job_sets: Count = 24
    """New windows per generation; all of its candidates schedule the same ones."""
    spread: Positive = 0.3
    """Initial standard deviation of the weights."""
    averaged: Count = 1
    """With CMA-ES, number of the last generations whose means are averaged for the agent."""
    hidden: Annotated[int, Field(ge=0, le=64)] = 0
    """Hidden units with max(0, ·) that are added to the weighted sum."""
    fewest_jobs: Count = 256
    """Smallest number of jobs in a window."""
    most_jobs: Count = 1024
    """Largest number of jobs in a window, and the number in a held-out one."""
    least_slowdown: NotNegative = 5.0
    """Windows in which SAF-p has a lower bounded slowdown are skipped."""
    objective: Literal["log", "relative", "mean"] = "log"
    """What is minimised over windows: the mean logarithm of the bounded slowdown, the mean of its
    ratio to that of SAF-p, or its mean, which the worst windows dominate."""
    start: Literal["fcfs", "saf-p", "wfp3-p-n2", "f2"] = "saf-p"
    """The rule at which the search starts."""
    visible: Count = 128
    """Number of waiting jobs, the earliest submitted ones, from which the scorer picks."""
    backfill: Backfill = "easy"
    """What may start while a picked job does not fit: what EASY allows; what RLScheduler's
    backfilling allows; or, as in RLScheduler without backfilling, nothing."""
    end: End = "never"
    """With EASY, when the scorer may let time go on although a job could start. It can then hold
    jobs back, and large ones may wait for very long."""
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.15
    """Share of each log, its end, that is held out to evaluate the scorer; 0: none."""
    held_out_sets: Count = 50
    """Largest number of held-out windows, spread evenly; those below least_slowdown are skipped."""
    logs: Many[FurtherLog] = ()
    """Further logs, to train one agent for several machines."""

    @model_validator(mode="after")
    def _numbers_fit(self) -> Self:
        broken: list[tuple[tuple[str], str]] = []
        if self.fewest_jobs > self.most_jobs:
            key, other = "fewest_jobs", "most_jobs"
            if key not in self.model_fields_set:  # the default is not to blame
                key, other = other, key
            text = f"is {getattr(self, key)}, but {other} is {getattr(self, other)}"
            broken.append(((key,), f"{text}; give fewest_jobs ≤ most_jobs"))
        if self.backfill != "easy" and self.end != "never":
            text = f"is {self.end}, which is for easy, but backfill is {self.backfill}"
            broken.append((("end",), f"{text}; leave it out"))
        if broken:
            raise BrokenRulesError(broken)
        return self


def prepare(
    scenario: Scenario, arguments: Mapping[str, Any], device: str, rng: np.random.Generator
) -> tuple[JobArguments, JobProblem]:
    """Return the arguments and the problem.

    `rng` draws the first weights of hidden units.

    Raises ScenarioError, all problems at once, for a scenario that is not one pool of processors
    which decides at every event by requested times, or windows longer than the log; PluginError
    without numba.
    """
    kernel("pool.kernel")
    chosen, logs = prepared(
        JobArguments, arguments, lambda chosen: logs_of(scenario, chosen.logs), device, on_gpu=False
    )
    return chosen, JobProblem(logs, chosen, rng)


class JobProblem:
    """The weights of a scorer of jobs, and windows of logs; a `Problem`."""

    streams: ClassVar = ("windows",)
    criterion: ClassVar = "slowdown"
    held_out_metrics: ClassVar = ("slowdown", "slowdown_geometric", "slowdown_ratio")
    metrics_of_runs: ClassVar = dict.fromkeys(held_out_metrics, "bounded_slowdown")

    def __init__(
        self, logs: Sequence[PoolJobs], arguments: JobArguments, rng: np.random.Generator
    ) -> None:
        self.chosen = arguments
        self.source = WindowSource(
            logs=logs,
            jobs=(arguments.fewest_jobs, arguments.most_jobs),
            held_out_share=arguments.held_out,
            slowdown=self._slowdown_of_rule,
            least_slowdown=arguments.least_slowdown,
        )
        self.unseen = self.source.held_out(arguments.held_out_sets)
        blank = Scorer.zero(arguments.hidden).starting_at(STARTS[arguments.start])
        hidden = rng.normal(0.0, 0.3, blank.hidden.shape)
        self.start = Scorer(**{**blank.weights, "hidden": hidden}).flat
        self.scorer = blank.with_flat

    def _slowdown_of_rule(self, jobs: PoolJobs) -> float:
        visible, backfill = self.chosen.visible, self.chosen.backfill
        starts = simulate(jobs, Rule.saf_p(jobs), visible=visible, backfill=backfill)
        return jobs.bounded_slowdown(starts)

    def draw(self, generators: Mapping[str, np.random.Generator]) -> Sequence[PoolJobs]:
        return self.source.draw(generators["windows"], self.chosen.job_sets)

    def score(
        self, candidates: Floats, drawn: Sequence[PoolJobs],
        generators: Mapping[str, np.random.Generator],
    ) -> tuple[Floats, Mapping[str, float]]:  # fmt: skip
        """Return minus the objective of each candidate, a mean over windows, and numbers to log.

        ``slowdown``: bounded slowdown, mean over windows and candidates; ``ratio_to_rule``:
        geometric mean of its ratio to that of SAF-p; ``decisions``: jobs scheduled.
        """
        rule = np.array([self.source.slowdown(window) for window in drawn])
        slowdowns = np.array([self._slowdowns(self.scorer(one), drawn) for one in candidates])
        scores: Floats = -self._objective(slowdowns, rule).mean(axis=1)  # over windows
        return scores, {
            "slowdown": float(slowdowns.mean()),
            "ratio_to_rule": float(np.exp(np.log(slowdowns / rule).mean())),
            "decisions": float(len(candidates) * sum(map(len, drawn))),
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

    def judge(self, weights: Floats, rng: np.random.Generator) -> Mapping[str, float]:
        """Return how the scorer does in the held-out windows.

        ``slowdown``: mean bounded slowdown; ``slowdown_geometric``: its geometric mean;
        ``slowdown_ratio``: geometric mean of its ratio to that of SAF-p.
        """
        if not self.unseen:
            return {}
        slowdowns = self._slowdowns(self.scorer(weights), self.unseen)
        rule = np.array([self.source.slowdown(window) for window in self.unseen])
        return {
            "slowdown": float(slowdowns.mean()),
            "slowdown_geometric": float(np.exp(np.log(slowdowns).mean())),
            "slowdown_ratio": float(np.exp(np.log(slowdowns / rule).mean())),
        }

    def agent(
        self, weights: Floats
    ) -> tuple[Mapping[str, npt.NDArray[np.float32]], Mapping[str, Any]]:
        chosen, scorer = self.chosen, self.scorer(weights)
        how = describe(scorer, visible=chosen.visible, backfill=chosen.backfill, end=chosen.end)
        return scorer.stored, how
