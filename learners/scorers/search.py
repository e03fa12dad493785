"""Scorers whose weights are searched for: what they are worth on slices of a workload.

Of jobs, after D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch
job scheduler using reinforcement learning" (SC 2020): one scorer for the 128 oldest waiting jobs,
trained on windows of a log. Here the rules are those of EASY backfilling unless `backfill` says
otherwise, and the features include waiting times and the user's last run times.

Of pairs, after F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in
cloud data center" (ICBDC 2019): one scorer for every pair of a machine and a task that fits,
trained on chunks of ten jobs of a cloud trace, by the rules of its simulator, CloudSimPy. Here the
features include the remaining work of all tasks and do not depend on units. A trace has few chunks,
and later ones differ from earlier ones. So chunks overlap, their requests and run times are varied
at random, they may run on several numbers of machines, the search is short, and the agent is the
average of its generations.

Both searches begin at a simple rule, with which costs are compared. Evolution finds the weights in
place of a policy gradient: a scorer has few of them, a schedule takes milliseconds, and what it is
worth depends on only a few of thousands of decisions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simkit.arrays import Floats
from simkit.learners.common.arguments import NotNegative, Positive
from simkit.learners.common.evolution import SearchArguments
from simkit.learners.networks.inference import WeightedScorer
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.agent import describe_jobs, describe_pairs
from simkit.learners.scorers.job_model import Call, Rule, Windows, play_windows, simulate
from simkit.learners.scorers.job_scorer import JobRules, JobScorer
from simkit.learners.scorers.pair_model import CLOCK, Chunk, Objective, play
from simkit.learners.scorers.pair_scorer import RULES, PairScorer, RuleName
from simkit.learners.scorers.sources import ChunkSource, FurtherLog, WindowSource, logs_of
from simkit.machine_code import kernels
from simkit.scenario import Scenario
from simkit.sections import Count, Many

__all__ = ["JobProblem", "PairProblem", "mean_cost", "ratios"]

if TYPE_CHECKING:
    from simkit.learners.scorers.job_gpu import GpuPlayer

Scorer = TypeVar("Scorer", bound=WeightedScorer)
Slice = TypeVar("Slice")
NotAll = Annotated[float, Field(ge=0, lt=1)]
Generators = Mapping[str, np.random.Generator]
Agent = tuple[Mapping[str, npt.NDArray[np.float32]], Mapping[str, Any]]


class ScorerArguments(SearchArguments):
    """What the searches for both sorts of scorers share."""

    spread: Positive = 0.3
    """Initial standard deviation of the weights."""
    hidden: Annotated[int, Field(ge=0, le=64)] = 0
    """Hidden units that are added to the weighted sum: with max(0, ·) for jobs, tanh for pairs."""
    held_out: NotAll = 0.0
    """Share of each log or of the chunks of a table, its end, that is held out to evaluate the
    scorer; 0: none."""


class ScorerProblem(ABC, Generic[Scorer, Slice]):
    """The weights of a scorer, and slices on which its costs are compared; a `Problem`.

    Attributes:
        start: (P,) weights of the rule at which the search begins.
        unseen: the slices that are held out.
    """

    start: Floats
    unseen: Sequence[Slice]

    def __init__(self, blank: Scorer) -> None:
        """Search for the weights of a scorer of this shape."""
        self._blank = blank

    def scorer(self, weights: Floats) -> Scorer:
        """Return the scorer with (P,) weights, as a bundle holds them."""
        return self._blank.with_flat(weights)

    @abstractmethod
    def costs(self, scorers: Sequence[Scorer], slices: Sequence[Slice], *, judged: bool) -> Floats:
        """Return (K, S) costs of K scorers on slices, which are trained or judged on."""

    @abstractmethod
    def costs_of_rule(self, slices: Sequence[Slice], *, judged: bool) -> Floats:
        """Return (S,) costs of the rule with which scorers are compared."""

    @abstractmethod
    def objective(self, costs: Floats, rule: Floats) -> Floats:
        """Return what is minimised for (K, S) costs, given the rule's, (S,)."""

    @abstractmethod
    def logged(self, costs: Floats, rule: Floats) -> Mapping[str, float]:
        """Return the numbers to log for (K, S) costs, given the rule's, (S,)."""

    @abstractmethod
    def judged(self, costs: Floats, rule: Floats) -> Mapping[str, float]:
        """Return the held-out metrics for (S,) costs, given the rule's, (S,)."""

    @abstractmethod
    def decisions(self, one: Slice) -> int:
        """Return the number of decisions in a slice."""

    def score(
        self, candidates: Floats, drawn: Sequence[Slice], generators: Generators
    ) -> tuple[Floats, Mapping[str, float]]:
        """Return minus the objective of each candidate, a mean over slices, and numbers to log."""
        rule = self.costs_of_rule(drawn, judged=False)
        costs = self.costs([self.scorer(one) for one in candidates], drawn, judged=False)
        scores: Floats = -self.objective(costs, rule).mean(axis=1)  # over slices
        decisions = len(candidates) * sum(map(self.decisions, drawn))
        return scores, {**self.logged(costs, rule), "decisions": float(decisions)}

    def judge(self, weights: Floats, rng: np.random.Generator) -> Mapping[str, float]:
        """Return how the scorer does in the held-out slices; empty if there are none."""
        if not self.unseen:
            return {}
        costs = self.costs([self.scorer(weights)], self.unseen, judged=True)
        return self.judged(costs[0], self._held_out_rule)

    @cached_property
    def _held_out_rule(self) -> Floats:
        """(S,) costs of the rule on the held-out slices."""
        return self.costs_of_rule(self.unseen, judged=True)


# --- jobs -----------------------------------------------------------------------------------------


STARTS: Final[Mapping[str, Mapping[str, float]]] = {
    "fcfs": {"log_since": -1.0},
    "saf-p": {"log_predicted": -2.0, "log_processors": -1.0},
    "wfp3-p-n2": {"log_wait": 3.0, "log_predicted": -3.0, "log_processors": 1.0},
    "f2": {"root_requested_share": -0.2, "log_since": -1.0},
}
"""Rule → weights that approximate it; those of f2 are for some 200 processors."""


class JobArguments(JobRules, ScorerArguments):
    """The keys of `learn.arguments` with `scorer: jobs`."""

    scorer: Literal["jobs"] = "jobs"
    iterations: Count = 100
    job_sets: Count = 24
    averaged: Count = 1
    held_out: NotAll = 0.15
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
    held_out_sets: Count = 50
    """Largest number of held-out windows, spread evenly; those below least_slowdown are skipped."""
    logs: Many[FurtherLog] = ()
    """Further logs, to train one agent for several machines."""

    def broken(self) -> Iterator[tuple[tuple[str], str]]:
        yield from super().broken()
        if self.fewest_jobs > self.most_jobs:
            key, other = "fewest_jobs", "most_jobs"
            if key not in self.model_fields_set:  # the default is not to blame
                key, other = other, key
            text = f"is {getattr(self, key)}, but {other} is {getattr(self, other)}"
            yield (key,), f"{text}; give fewest_jobs ≤ most_jobs"


class JobProblem(ScorerProblem[JobScorer, PoolJobs]):
    """A scorer of jobs, and windows of logs; costs are mean bounded slowdowns, the rule SAF-p.

    Logged are ``slowdown``: mean over windows and candidates; ``ratio_to_rule``: geometric mean of
    its ratio to that of SAF-p. Held-out metrics are ``slowdown``, ``slowdown_geometric``, its
    geometric mean, and ``slowdown_ratio``, as ``ratio_to_rule``. ``decisions`` are jobs scheduled.
    """

    arguments: ClassVar = JobArguments
    device: ClassVar = "numba"
    streams: ClassVar = ("windows",)
    criterion: ClassVar = "slowdown"
    held_out_metrics: ClassVar = ("slowdown", "slowdown_geometric", "slowdown_ratio")
    metrics_of_runs: ClassVar = dict.fromkeys(held_out_metrics, "bounded_slowdown")

    @staticmethod
    def source_of(scenario: Scenario, chosen: JobArguments) -> list[PoolJobs]:
        """Return the jobs of the logs.

        Raises ScenarioError for a scenario that is not one pool of processors which decides at
        every event by requested times; PluginError without numba.
        """
        kernels("simkit.learners.scorers.job_kernel")
        return logs_of(scenario, chosen.logs)

    def __init__(
        self, logs: Sequence[PoolJobs], arguments: JobArguments, rng: np.random.Generator
    ) -> None:
        super().__init__(JobScorer.zero(arguments.hidden).starting_at(STARTS[arguments.start]))
        self.chosen = arguments
        self._gpu: GpuPlayer | None = None
        self.source = WindowSource(
            logs=logs,
            jobs=(arguments.fewest_jobs, arguments.most_jobs),
            held_out_share=arguments.held_out,
            slowdown=self._slowdown_of_rule,
            least_slowdown=arguments.least_slowdown,
        )
        self.unseen = self.source.held_out(arguments.held_out_sets)
        weights = self._blank.weights
        weights["hidden"] = rng.normal(0.0, 0.3, weights["hidden"].shape)
        self.start = self._blank.with_weights(weights).flat

    def play_on_gpu(self) -> None:
        """Play the windows of the search on the GPU; those that are judged stay on the CPU.

        Raises PluginError without a GPU or what it needs.
        """
        self._gpu = kernels("simkit.learners.scorers.job_gpu").GpuPlayer()

    def _slowdown_of_rule(self, jobs: PoolJobs) -> float:
        visible, backfill = self.chosen.visible, self.chosen.backfill
        starts = simulate(jobs, Rule.saf_p(jobs), visible=visible, backfill=backfill)
        return jobs.bounded_slowdown(starts)

    def draw(self, generators: Generators) -> Sequence[PoolJobs]:
        return self.source.draw(generators["windows"], self.chosen.job_sets)

    def costs(
        self, scorers: Sequence[JobScorer], slices: Sequence[PoolJobs], *, judged: bool
    ) -> Floats:
        windows = Windows.of(slices)
        if self._gpu is not None and not judged:
            return self._gpu.slowdowns(windows, Call.of(windows, scorers, **self.chosen.keywords))
        return windows.bounded_slowdowns(play_windows(windows, scorers, **self.chosen.keywords))

    def costs_of_rule(self, slices: Sequence[PoolJobs], *, judged: bool) -> Floats:
        rules, chosen = [Rule.saf_p(jobs) for jobs in slices], self.chosen
        windows = Windows.of(slices)
        starts = play_windows(windows, rules, visible=chosen.visible, backfill=chosen.backfill)
        (slowdowns,) = windows.bounded_slowdowns(starts)
        return np.asarray(slowdowns)

    def objective(self, costs: Floats, rule: Floats) -> Floats:
        if self.chosen.objective == "log":
            logarithm: Floats = np.log(costs)
            return logarithm
        return costs / rule if self.chosen.objective == "relative" else costs

    def logged(self, costs: Floats, rule: Floats) -> Mapping[str, float]:
        return {"slowdown": float(costs.mean()), "ratio_to_rule": _geometric(costs / rule)}

    def judged(self, costs: Floats, rule: Floats) -> Mapping[str, float]:
        return {
            "slowdown": float(costs.mean()),
            "slowdown_geometric": _geometric(costs),
            "slowdown_ratio": _geometric(costs / rule),
        }

    def decisions(self, one: PoolJobs) -> int:
        return len(one)

    def agent(self, weights: Floats) -> Agent:
        scorer = self.scorer(weights)
        return scorer.stored, describe_jobs(scorer, self.chosen)


def _geometric(numbers: Floats) -> float:
    return float(np.exp(np.log(numbers).mean()))


# --- pairs ----------------------------------------------------------------------------------------


OF_RUNS: Final[Mapping[Objective, str]] = {
    "makespan": "makespan_s", "turnaround": "turnaround_time_s",
    "weighted-turnaround": "turnaround_time_s", "slowdown": "slowdown",
}  # fmt: skip
"""Objective → the metric of runs that stands for it."""


class PairArguments(ScorerArguments):
    """The keys of `learn.arguments` with `scorer: pairs`."""

    scorer: Literal["pairs"] = "pairs"
    iterations: Count = 30
    job_sets: Count = 100
    spread: Positive = 0.1
    averaged: Count = 30
    held_out: NotAll = 0.2
    jobs: Count = 10
    """Jobs of a chunk; each is scheduled on an empty cluster."""
    apart: Count = 1
    """Distance between the starts of successive chunks, in jobs; chunks overlap below `jobs`."""
    machines: Many[Count] = ()
    """Numbers of machines to train on, made by repeating the cluster's; none: the cluster itself.
    """
    objective: Objective = "makespan"
    """What is minimised: the makespan of a chunk, the mean ``turnaround`` or ``slowdown`` of its
    jobs, or ``weighted-turnaround``, a mean weighted by the jobs' instances."""
    vary_requests: Annotated[float, Field(ge=0, le=2)] = 0.4
    """How much the requests of a chunk are varied when it is drawn: the standard deviation of the
    logarithm of a factor for each resource; 0: not at all."""
    vary_run_times: Annotated[float, Field(ge=0, le=2)] = 0.7
    """The same for the run times of a chunk, which share one factor."""
    start: RuleName = "balance"
    """The rule at which the search starts, and with which costs are compared."""
    instances_at_a_time: Count = 4
    """Instances that a pair gets at a time in training; more are faster but a little worse."""


class PairProblem(ScorerProblem[PairScorer, Chunk]):
    """A scorer of pairs, and chunks of a trace; held-out ones are judged an instance at a time.

    Logged, and held-out metrics, are ``cost_ratio``: geometric mean of the ratio of costs to those
    of the rule; ``cost``: mean of the objective, if all schedules end; ``unfinished``: number of
    schedules that never end. ``decisions`` are instances placed.
    """

    arguments: ClassVar = PairArguments
    device: ClassVar = None
    streams: ClassVar = ("chunks",)
    criterion: ClassVar = "cost_ratio"
    held_out_metrics: ClassVar = ("cost_ratio", "cost", "unfinished")

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        return dict.fromkeys(self.held_out_metrics, OF_RUNS[self.chosen.objective])

    @staticmethod
    def source_of(scenario: Scenario, chosen: PairArguments) -> ChunkSource:
        """Return the chunks.

        Raises ScenarioError for a scenario that is not bags of tasks on machines; PluginError
        without numba.
        """
        kernels(CLOCK)
        return ChunkSource.of(
            scenario, chosen.jobs, chosen.held_out, "learn.arguments.scorer:", apart=chosen.apart,
            machines=chosen.machines,
        )  # fmt: skip

    def __init__(
        self, source: ChunkSource, arguments: PairArguments, rng: np.random.Generator
    ) -> None:
        super().__init__(PairScorer.by_terms({}, (arguments.hidden,) if arguments.hidden else ()))
        self.source, self.chosen, self.unseen = source, arguments, source.held_out
        self.rule = RULES[arguments.start]
        self.start = self._blank.flat
        self.start[: len(self.rule.linear)] = self.rule.linear
        for weight, _ in self._blank.layers[:1]:  # units differ, but add 0 until they get weights
            first = slice(len(self.rule.linear), len(self.rule.linear) + weight.size)
            self.start[first] = rng.normal(0.0, 0.5, weight.size)

    def draw(self, generators: Generators) -> Sequence[Chunk]:
        rng, chosen = generators["chunks"], self.chosen
        return [
            chunk.varied(rng, chosen.vary_requests, chosen.vary_run_times)
            for chunk in self.source.draw(rng, chosen.job_sets)
        ]

    def costs(
        self, scorers: Sequence[PairScorer], slices: Sequence[Chunk], *, judged: bool
    ) -> Floats:
        goal, at_a_time = self.chosen.objective, 1 if judged else self.chosen.instances_at_a_time
        return np.array(
            [[play(one, by, at_a_time).cost(one, goal) for one in slices] for by in scorers]
        )

    def costs_of_rule(self, slices: Sequence[Chunk], *, judged: bool) -> Floats:
        (costs,) = self.costs([self.rule], slices, judged=judged)
        return np.asarray(costs)

    def objective(self, costs: Floats, rule: Floats) -> Floats:
        logarithm: Floats = np.log(ratios(costs, rule))
        return logarithm

    def logged(self, costs: Floats, rule: Floats) -> Mapping[str, float]:
        each = self.objective(costs, rule).mean(axis=-1)  # over chunks
        return {"cost_ratio": float(np.exp(each.mean())), **mean_cost(costs)}

    judged = logged

    def decisions(self, one: Chunk) -> int:
        return one.total_instances

    def agent(self, weights: Floats) -> Agent:
        scorer = self.scorer(weights)
        return scorer.stored, describe_pairs(scorer, self.source.resources)


WORST: Final = 10.0
"""Ratio for a schedule that never ends, as rounding keeps an instance from ever fitting."""


def ratios(costs: Floats, rule: Floats) -> Floats:
    """Return the ratios of costs to the rule's, from 1 / 10 to 10; 1 where neither ends."""
    neither = np.broadcast_to(np.isinf(rule), costs.shape) & np.isinf(costs)
    finite = np.where(np.isinf(rule), 1.0, rule)
    found = np.where(np.isinf(rule), 0.0, costs / finite)
    return np.where(neither, 1.0, np.clip(found, 1.0 / WORST, WORST))


def mean_cost(costs: Floats) -> Mapping[str, float]:
    """Return how many schedules never end, and the mean cost if all end."""
    endless = int(np.isinf(costs).sum())
    return {"unfinished": endless} | ({} if endless else {"cost": float(costs.mean())})
