"""A scorer of machine–task pairs, for short makespans, trained by an evolution strategy on chunks.

After F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data
center" (ICBDC 2019): one scorer for every pair that fits, trained on chunks of ten jobs of a cloud
trace, by the rules of its simulator, CloudSimPy. Here the features include the remaining work of
all tasks and do not depend on units, the search begins at a rule, and the weights are found by
CMA-ES (N. Hansen, "The CMA evolution strategy: a tutorial", 2016) instead of REINFORCE, since a
makespan depends on only a few of thousands of decisions. A trace has few chunks, and later ones
differ from earlier ones. So chunks overlap, their requests and run times are varied at random, they
may run on several numbers of machines, the search is short, and the agent is the average of its
generations. All candidates of an iteration schedule the same chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.learners.common.arguments import Positive, attempt, read_arguments
from simkit.learners.common.bundle import safetensors
from simkit.learners.common.evolution import CMAEvolution
from simkit.learners.common.training import SeededTraining, Stateful
from simkit.learners.pairs.chunk import Chunk
from simkit.learners.pairs.chunk_source import ChunkSource
from simkit.learners.pairs.description import describe
from simkit.learners.pairs.model import play, require_numba
from simkit.learners.pairs.objectives import Objective
from simkit.learners.pairs.scorer import RULES, PairScorer, RuleName
from simkit.scenario import Scenario
from simkit.sections import Count, Many, Section
from simkit.training import Training


class FitnessArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 30
    """Generations of the search."""
    candidates: Annotated[int, Field(ge=4)] = 16
    """Candidates of a generation."""
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
    chunks: Count = 100
    """Chunks of a generation; all of its candidates schedule the same ones."""
    vary_requests: Annotated[float, Field(ge=0, le=2)] = 0.4
    """How much the requests of a chunk are varied when it is drawn: the standard deviation of the
    logarithm of a factor for each resource; 0: not at all."""
    vary_run_times: Annotated[float, Field(ge=0, le=2)] = 0.7
    """The same for the run times of a chunk, which share one factor."""
    start: RuleName = "balance"
    """The rule at which the search starts, and with which costs are compared."""
    spread: Positive = 0.1
    """Initial standard deviation of the weights."""
    averaged: Count = 30
    """Number of the last generations whose means are averaged for the agent's weights."""
    units: Annotated[int, Field(ge=0, le=64)] = 0
    """Hidden units with tanh that are added to the weighted sum."""
    instances_at_a_time: Count = 4
    """Instances that a pair gets at a time in training; more are faster but a little worse."""
    held_out_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the chunks, taken from the end, that is held out to evaluate the scorer; 0: none."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not bags of tasks on
    machines, arguments out of range, or a device other than the CPU; PluginError without
    safetensors, cma or numba.
    """
    safetensors()
    require_numba()
    problems: list[str] = []
    if device != "cpu":
        problems.append(f"device: is {device}; this learner runs on the cpu")
    chosen = (
        attempt(lambda: read_arguments(FitnessArguments, arguments), problems) or FitnessArguments()
    )
    source = attempt(
        lambda: ChunkSource.of(
            scenario, chosen.jobs, chosen.held_out_share, apart=chosen.apart,
            machines=chosen.machines,
        ),
        problems,
    )  # fmt: skip
    if problems or source is None:
        raise ScenarioError(problems)
    return FitnessTraining(scenario, source, chosen, seed)


class FitnessTraining(SeededTraining):
    """A training of a scorer of pairs."""

    learner = "fitness"
    extendable = True
    criterion = "cost_ratio"
    less_is_better = ("cost_ratio",)
    held_out_metrics = ("cost_ratio", "cost", "unfinished")

    def __init__(
        self, scenario: Scenario, source: ChunkSource, arguments: FitnessArguments, seed: int
    ) -> None:
        super().__init__(scenario, arguments, seed, ("chunks",))
        self.chosen, self.source = arguments, source
        # Agent
        rule = RULES[arguments.start]
        hidden = (arguments.units,) if arguments.units else ()
        blank = PairScorer.by_terms({}, hidden)
        start = np.concatenate((rule.linear, np.zeros(len(blank.flat) - len(rule.linear))))
        if hidden:  # so that units differ; they add 0 until the search gives them weights
            first = slice(len(rule.linear), len(rule.linear) + blank.layers[0][0].size)
            start[first] = self.stream("weights").normal(0.0, 0.5, first.stop - first.start)
        self.shape = blank
        self.search = CMAEvolution(
            start, spread=arguments.spread, seed=seed, candidates=arguments.candidates,
            averaged=arguments.averaged,
        )  # fmt: skip

    @property
    def scorer(self) -> PairScorer:
        """The best scorer so far."""
        return self.shape.with_flat(self.search.mean)

    def parts(self) -> Mapping[str, Stateful]:
        return {"search": self.search}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: minus the mean logarithm of the ratio of costs to those of the rule, over chunks
        and candidates; ``cost_ratio``: geometric mean of this ratio; ``cost``: mean of the
        objective, if all schedules end; ``unfinished``: number of schedules that never end;
        ``decisions``: instances placed.
        """
        # Draw: the same chunks for all candidates
        rng, chosen = self.generators["chunks"], self.chosen
        drawn = [
            self.source.trained[number].varied(rng, chosen.vary_requests, chosen.vary_run_times)
            for number in self.source.draw(rng, chosen.chunks)
        ]
        rule = self._costs(RULES[chosen.start], drawn)
        # Score
        candidates = self.search.ask()
        costs = np.array([self._costs(self.shape.with_flat(one), drawn) for one in candidates])
        scores = -np.log(_ratios(costs, rule)).mean(axis=1)  # (candidates, chunks) -> (candidates,)
        # Search on
        self.search.tell(scores)
        instances = sum(chunk.total_instances for chunk in drawn)
        return {
            "return": float(scores.mean()),
            "cost_ratio": float(np.exp(-scores.mean())),
            **_mean_cost(costs),
            "decisions": float(len(candidates) * instances),
        }

    def _costs(
        self, scorer: PairScorer, drawn: Sequence[Chunk], instances_at_a_time: int | None = None
    ) -> Floats:
        """Return (chunks,) costs of a scorer."""
        most = instances_at_a_time or self.chosen.instances_at_a_time
        goal = self.chosen.objective
        return np.array([play(chunk, scorer, most).cost(chunk, goal) for chunk in drawn])

    def held_out(self) -> Mapping[str, float]:
        """Evaluate the scorer on held-out chunks, if there are any, one instance at a time.

        ``cost_ratio``: geometric mean of the ratio of costs to those of the rule; ``cost`` and
        ``unfinished`` as in `iterate`.
        """
        unseen = self.source.held_out
        if not unseen:
            return {}
        costs = self._costs(self.scorer, unseen, 1)
        return {
            "cost_ratio": float(np.exp(np.log(_ratios(costs, self._held_out_rule)).mean())),
            **_mean_cost(costs),
        }

    @cached_property
    def _held_out_rule(self) -> Floats:
        """(chunks,) costs of the rule on held-out chunks."""
        return self._costs(RULES[self.chosen.start], self.source.held_out, 1)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        weights = {name: a.astype(np.float32) for name, a in self.scorer.weights.items()}
        description = describe(self.scorer, self.source.resources)
        self.write_weights(folder, weights, description, curve_end)


_WORST: float = 10.0
"""Ratio for a schedule that never ends, as rounding keeps an instance from ever fitting."""


def _ratios(costs: Floats, rule: Floats) -> Floats:
    """Return the ratios of costs to the rule's, from 1 / 10 to 10; 1 where neither ends."""
    neither = np.broadcast_to(np.isinf(rule), costs.shape) & np.isinf(costs)
    finite = np.where(np.isinf(rule), 1.0, rule)
    ratios = np.where(np.isinf(rule), 0.0, costs / finite)
    return np.where(neither, 1.0, np.clip(ratios, 1.0 / _WORST, _WORST))


def _mean_cost(costs: Floats) -> Mapping[str, float]:
    """Return how many schedules never end, and the mean cost if all end."""
    endless = int(np.isinf(costs).sum())
    return {"unfinished": endless} | ({} if endless else {"cost": float(costs.mean())})
