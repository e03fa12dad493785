"""REINFORCE on the Sofia study's batches, uphill by the gradient, the natural gradient or PPO.

The model is that of "Resource management with deep reinforcement learning" (Sofia, 2021): some
seventy jobs wait from step 0 on, ten of them in slots, for a pool of 50 units of two resources.
The study's own natural gradient did not converge; here it needs no Fisher matrix and its step is
bounded (`natural_gradient`). Every decision is credited and every episode is played to its end,
where the study's program credits the first decision of a step and stops at step 150.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simkit.learners.arguments import prepared, refuse_without_jobs
from simkit.learners.common.baselines import decision_means
from simkit.learners.common.returns import rewards_to_go
from simkit.learners.lockstep import Lockstep, MeteredLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import SofiaJobs
from simkit.learners.lockstep.rollouts import (
    NOTHING_DONE,
    Rollouts,
    chooser,
    outcome,
    play,
    roll_out,
)
from simkit.learners.nn.derivatives import glorot
from simkit.learners.nn.optimisers import make_optimiser
from simkit.learners.nn.perceptron import entropies
from simkit.learners.nn.policy_network import make_network
from simkit.learners.nn.sofia_layer import SofiaLayer
from simkit.learners.nn.value_baseline import ValueBaseline
from simkit.learners.slotted_training import SlottedTraining
from simkit.learners.sofia.arguments import SofiaArguments
from simkit.learners.sofia.updates import Batch, Updates, first_of_steps
from simkit.learning.observe_sofia import NAMES, sofia_schema
from simkit.scenario import Scenario
from simkit.seeds import stream
from simkit.training import Training


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not Sofia's batch on a
    pool, arguments out of their range, job sets without a job, or a device that is not there;
    PluginError without safetensors, which the first checkpoint needs. Fisher-vector products are
    always calculated on the CPU.
    """

    def source_of(chosen: SofiaArguments) -> SofiaJobs:
        shown = chosen.backlog_shown
        return SofiaJobs(scenario, "the learner sofia", horizon=chosen.horizon, backlog_shown=shown)

    chosen, source = prepared(SofiaArguments, arguments, source_of, device)
    return SofiaTraining(scenario, source, chosen, seed, device)


class SofiaTraining(SlottedTraining):
    """A training under way."""

    learner = "sofia"

    def __init__(
        self,
        scenario: Scenario,
        source: SofiaJobs,
        arguments: SofiaArguments,
        seed: int,
        device: str,
    ) -> None:
        self.iteration, self.iterations = 0, arguments.iterations
        model = source.model
        self.scenario, self.model, self.seed = scenario, model, seed
        self.arguments: SofiaArguments = arguments

        # Seed: a stream for each thing that is drawn
        names = ("job_sets", "actions", "sample", "value")
        self.generators = {name: stream(seed, f"sofia.{name}") for name in names}

        # Environment
        shares = arguments.observation == NAMES[True]
        self.schema = sofia_schema(model, shares=shares)
        self.source = source
        self.fixed_sets = source.draw(stream(seed, "sofia.fixed_job_sets"), arguments.job_sets)
        self.held_out_sets = source.held_out(arguments.held_out_sets)
        fixed = {} if arguments.fresh else {"job_sets": self.fixed_sets}
        refuse_without_jobs({"held_out_sets": self.held_out_sets, **fixed})

        # Agent
        first, inputs = SofiaLayer(model, shares=shares), self.schema.size
        weights = glorot(stream(seed, "sofia.weights"), (inputs, arguments.hidden, model.actions))
        self.network = make_network(first, weights, device)
        self.optimiser = make_optimiser(arguments.optimiser, arguments.learning_rate)
        self.value = ValueBaseline(
            inputs,
            rng=self.generators["value"],
            learning_rate=arguments.value_learning_rate,
            first=first,
        )
        self.warm_start = {}
        self._updates = Updates(arguments, self.network, self.optimiser, self.generators["sample"])

    def step(self) -> Mapping[str, float]:
        """Do an iteration; return what `simkit train` logs.

        ``return``: mean sum of rewards of an episode; ``slowdown``, ``unfinished``: of the
        rollouts, all jobs counted; ``decisions``; ``entropy`` in nats; ``load``, ``last_load``,
        ``last_reward``: see `MeteredLockstep`; and what the update says. If no job set has a job,
        nothing is learned, and only `NOTHING_DONE` is returned.
        """
        chosen = self.arguments
        sets = self._draw_job_sets()
        self.iteration += 1
        if not sets.jobs.any():
            return NOTHING_DONE
        # Rollout
        limit = chosen.max_decisions
        game = MeteredLockstep(self.model, sets, chosen.rollouts, chosen.objective, limit)
        game.meter(chosen.last_step)
        rollouts = roll_out(game, self.network, self.generators["actions"], mask=chosen.mask)
        # Storage
        batch, said = self._batch(rollouts)
        # Update
        said |= self._updates.improve(batch)
        # Logging
        results = outcome(game)
        return {
            "return": float(rollouts.rewards.sum(axis=0).mean()),
            "slowdown": results["slowdown"],
            "unfinished": results["unfinished"],
            "decisions": float(len(rollouts.actions)),
            "entropy": float(entropies(rollouts.log_probabilities).mean()),
            **game.measured(),
            **said,
        }

    def _draw_job_sets(self) -> JobSets:
        if not self.arguments.fresh:
            return self.fixed_sets
        return self.source.draw(self.generators["job_sets"], self.arguments.job_sets)

    def _batch(self, rollouts: Rollouts) -> tuple[Batch, dict[str, float]]:
        """Return the decisions to learn from, and numbers to log."""
        chosen, said = self.arguments, {}
        where = rollouts.decision, rollouts.episode
        returns = rewards_to_go(rollouts.rewards, chosen.discount)
        if chosen.baseline == "value":
            advantage = returns[where] - self.value.predict(rollouts.stored)
            said["explained_variance"] = self.value.fit(rollouts.stored, returns[where])
        else:
            advantage = (returns - decision_means(returns, chosen.rollouts))[where]
        if chosen.normalise:
            advantage = advantage / max(float(advantage.std()), 1e-12)
        rows: Any = slice(None)
        if chosen.credit == "first":
            rows = np.flatnonzero(first_of_steps(rollouts.rewards)[where])
        return Batch(
            rollouts.stored[rows], rollouts.log_probabilities[rows], rollouts.actions[rows],
            advantage[rows].astype(np.float32),
        ), said  # fmt: skip

    def held_out(self) -> Mapping[str, float]:
        """Return how the agent does on the held-out sets; see `outcome`.

        Actions are drawn, since the likeliest action alone may never place a job.
        """
        chosen, sets = self.arguments, self.held_out_sets
        limit = chosen.max_decisions
        game = Lockstep(self.model, sets, objective=chosen.objective, limit=limit)
        total = play(
            game, chooser(self.network, game, stream(0, "sofia.held_out"), mask=chosen.mask)
        )
        return {"return": float(total.mean()), **outcome(game)}
