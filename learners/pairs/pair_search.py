"""A scorer of pairs whose weights are searched for: it is worth short schedules of chunks of jobs.

After F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data
center" (ICBDC 2019): one scorer for every pair of a machine and a task that fits, trained on chunks
of ten jobs of a cloud trace, by the rules of its simulator, CloudSimPy. Here the features include
the remaining work of all tasks and do not depend on units, the search begins at a rule, and the
weights are found by evolution instead of REINFORCE, since a makespan depends on only a few of
thousands of decisions. A trace has few chunks, and later ones differ from earlier ones. So chunks
overlap, their requests and run times are varied at random, they may run on several numbers of
machines, the search is short, and the agent is the average of its generations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simkit.arrays import Floats
from simkit.learners.common.arguments import Positive, prepared
from simkit.learners.common.compiled import kernel
from simkit.learners.common.evolution import SearchArguments
from simkit.learners.pairs.agent import describe
from simkit.learners.pairs.chunk import Chunk
from simkit.learners.pairs.chunk_source import ChunkSource
from simkit.learners.pairs.model import CLOCK, Objective, play
from simkit.learners.pairs.scorer import RULES, PairScorer, RuleName
from simkit.scenario import Scenario
from simkit.sections import Count, Many

__all__ = ["PairProblem", "mean_cost", "prepare", "ratios"]


OF_RUNS: Final[Mapping[Objective, str]] = {
    "makespan": "makespan_s", "turnaround": "turnaround_time_s",
    "weighted-turnaround": "turnaround_time_s", "slowdown": "slowdown",
}  # fmt: skip
"""Objective → the metric of runs that stands for it."""


class PairArguments(SearchArguments):
    """The keys of `learn.arguments` with `scorer: pairs`."""

    scorer: Literal["pairs"] = "pairs"
    """A scorer of pairs of a machine and a task."""
    iterations: Count = 30
    """Generations of the search."""
    job_sets: Count = 100
    """Chunks of a generation; all of its candidates schedule the same ones."""
    spread: Positive = 0.1
    """Initial standard deviation of the weights."""
    averaged: Count = 30
    """With CMA-ES, number of the last generations whose means are averaged for the agent."""
    hidden: Annotated[int, Field(ge=0, le=64)] = 0
    """Hidden units with tanh that are added to the weighted sum."""
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
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the chunks, the last ones, that is held out to evaluate the scorer; 0: none."""


def prepare(
    scenario: Scenario, arguments: Mapping[str, Any], device: str, rng: np.random.Generator
) -> tuple[PairArguments, PairProblem]:
    """Return the arguments and the problem.

    `rng` draws the first weights of hidden units.

    Raises ScenarioError, all problems at once, for a scenario that is not bags of tasks on
    machines; PluginError without numba.
    """
    kernel(CLOCK)

    def source_of(chosen: PairArguments) -> ChunkSource:
        return ChunkSource.of(
            scenario, chosen.jobs, chosen.held_out, "learn.arguments.scorer:", apart=chosen.apart,
            machines=chosen.machines,
        )  # fmt: skip

    chosen, source = prepared(PairArguments, arguments, source_of, device, on_gpu=False)
    return chosen, PairProblem(source, chosen, rng)


class PairProblem:
    """The weights of a scorer of pairs, and chunks of a trace; a `Problem`."""

    streams: ClassVar = ("chunks",)
    criterion: ClassVar = "cost_ratio"
    held_out_metrics: ClassVar = ("cost_ratio", "cost", "unfinished")

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        return dict.fromkeys(self.held_out_metrics, OF_RUNS[self.chosen.objective])

    def __init__(
        self, source: ChunkSource, arguments: PairArguments, rng: np.random.Generator
    ) -> None:
        self.source, self.chosen = source, arguments
        self.rule = RULES[arguments.start]
        blank = PairScorer.by_terms({}, (arguments.hidden,) if arguments.hidden else ())
        self.scorer = blank.with_flat
        self.start = blank.flat
        self.start[: len(self.rule.linear)] = self.rule.linear
        for weight, _ in blank.layers[:1]:  # units differ, but add 0 until they get weights
            first = slice(len(self.rule.linear), len(self.rule.linear) + weight.size)
            self.start[first] = rng.normal(0.0, 0.5, weight.size)

    def draw(self, generators: Mapping[str, np.random.Generator]) -> Sequence[Chunk]:
        rng, chosen = generators["chunks"], self.chosen
        return [
            self.source.trained[number].varied(rng, chosen.vary_requests, chosen.vary_run_times)
            for number in self.source.draw(rng, chosen.job_sets)
        ]

    def score(
        self, candidates: Floats, drawn: Sequence[Chunk],
        generators: Mapping[str, np.random.Generator],
    ) -> tuple[Floats, Mapping[str, float]]:  # fmt: skip
        """Return minus the mean logarithm of the ratio of costs to the rule's, and numbers to log.

        ``cost_ratio``: geometric mean of this ratio over chunks and candidates; ``cost``: mean of
        the objective, if all schedules end; ``unfinished``: number of schedules that never end;
        ``decisions``: instances placed.
        """
        at_a_time = self.chosen.instances_at_a_time
        rule = self._costs(self.rule, drawn, at_a_time)
        costs = np.array([self._costs(self.scorer(one), drawn, at_a_time) for one in candidates])
        scores: Floats = -np.log(ratios(costs, rule)).mean(axis=1)  # over chunks
        instances = sum(chunk.total_instances for chunk in drawn)
        return scores, {
            "cost_ratio": float(np.exp(-scores.mean())),
            **mean_cost(costs),
            "decisions": float(len(candidates) * instances),
        }

    def _costs(
        self, scorer: PairScorer, drawn: Sequence[Chunk], instances_at_a_time: int
    ) -> Floats:
        """Return (chunks,) costs of a scorer."""
        goal = self.chosen.objective
        return np.array([play(one, scorer, instances_at_a_time).cost(one, goal) for one in drawn])

    def judge(self, weights: Floats, rng: np.random.Generator) -> Mapping[str, float]:
        """Return how the scorer does in the held-out chunks, one instance at a time.

        ``cost_ratio``: geometric mean of the ratio of costs to those of the rule; ``cost`` and
        ``unfinished`` as in `score`.
        """
        unseen = self.source.held_out
        if not unseen:
            return {}
        costs = self._costs(self.scorer(weights), unseen, 1)
        return {
            "cost_ratio": float(np.exp(np.log(ratios(costs, self._held_out_rule)).mean())),
            **mean_cost(costs),
        }

    @cached_property
    def _held_out_rule(self) -> Floats:
        """(chunks,) costs of the rule on held-out chunks."""
        return self._costs(self.rule, self.source.held_out, 1)

    def agent(
        self, weights: Floats
    ) -> tuple[Mapping[str, npt.NDArray[np.float32]], Mapping[str, Any]]:
        scorer = self.scorer(weights)
        return scorer.stored, describe(scorer, self.source.resources)


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
