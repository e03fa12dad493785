"""DeepRM: a policy over ten slots, learned by REINFORCE.

H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (HotNets 2016). In each iteration a hundred job sets are played twenty times each with
the policy as it is; an action's credit is the return from it on, less the mean return of the same
job set's rollouts at the same decision. Two things differ from the paper's recipe: job
sets are fresh in each iteration (unless `fresh` is false), since a hundred fixed ones are learned
by heart after some 300 iterations; and all jobs count in what is reported, also unfinished ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simkit.arrays import Floats
from simkit.learners.arguments import prepared, refuse_without_jobs
from simkit.learners.common.baselines import decision_means
from simkit.learners.common.returns import rewards_to_go
from simkit.learners.deeprm.arguments import DeepRMArguments
from simkit.learners.deeprm.warm_start import imitate
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import DeepRMJobs
from simkit.learners.lockstep.rollouts import (
    NOTHING_DONE,
    Rollouts,
    chooser,
    outcome,
    play,
    roll_out,
)
from simkit.learners.nn.input_layers import make_input_layer
from simkit.learners.nn.optimisers import make_optimiser
from simkit.learners.nn.perceptron import Weights, entropies, small_weights
from simkit.learners.nn.policy_network import make_network
from simkit.learners.nn.proximal import entropy_pull, pull_on_logits
from simkit.learners.nn.value_baseline import ValueBaseline
from simkit.learners.slotted_training import SlottedTraining
from simkit.scenario import Scenario
from simkit.seeds import stream
from simkit.training import Training

SETS_A_BATCH = 10
"""The original takes the mean over the decisions of ten job sets, and adds these means up."""
WARM_SETS = 200
"""Job sets of a round of the warm start."""
STREAMS = ("job_sets", "actions", "samples", "value", "warm_start")
"""What is drawn at random in the course of a training."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not DeepRM's workload on a
    pool in steps, arguments out of their range, job sets without a job, or a device that is not
    there; PluginError without safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: DeepRMArguments) -> DeepRMJobs:
        who = "the learner deeprm"
        return DeepRMJobs(scenario, who, horizon=chosen.horizon, memory=chosen.memory)

    chosen, source = prepared(DeepRMArguments, arguments, source_of, device)
    return DeepRMTraining(scenario, source, chosen, seed, device)


class DeepRMTraining(SlottedTraining):
    """A training under way."""

    learner = "deeprm"

    def __init__(
        self,
        scenario: Scenario,
        source: DeepRMJobs,
        arguments: DeepRMArguments,
        seed: int,
        device: str,
    ) -> None:
        self.iteration, self.iterations = 0, arguments.iterations
        self.scenario, self.model, self.seed = scenario, source.model, seed
        self.arguments: DeepRMArguments = arguments

        # Seed: a stream for each thing that is drawn
        self.generators = {name: stream(seed, f"deeprm.{name}") for name in STREAMS}

        # Environment
        self.source = source
        self.fixed_sets = source.draw(stream(seed, "deeprm.fixed_job_sets"), arguments.job_sets)
        self.unseen_sets = source.held_out(arguments.held_out_sets)
        fixed = {} if arguments.fresh else {"job_sets": self.fixed_sets}
        refuse_without_jobs({"held_out_sets": self.unseen_sets, **fixed})

        # Agent
        first, self.schema = make_input_layer(arguments.observation, source.model)
        layers = [first.inputs, arguments.hidden, source.model.actions]
        weights = small_weights(stream(seed, "deeprm.weights"), layers)
        self.network = make_network(first, weights, device)
        self.optimiser = make_optimiser(arguments.optimiser, arguments.learning_rate)
        self.value = ValueBaseline(first.inputs, rng=self.generators["value"], first=first)
        self.warm_start = {"done": arguments.warm_start == "none"}

    def step(self) -> Mapping[str, float]:
        """Do an iteration; return what `simkit train` logs.

        ``return``: mean sum of rewards of an episode; ``return_best``: mean over the job sets of
        their best rollout's; ``slowdown``, ``unfinished``: of the rollouts, all jobs counted;
        ``decisions``: of all rollouts; ``entropy``: mean of a decision, in nats;
        ``gradient_norm``; with a value network ``explained_variance``. If no job set has a job,
        nothing is learned, and only `NOTHING_DONE` is returned.
        """
        chosen = self.arguments
        self._warm_up()
        sets = self._draw_job_sets()
        self.iteration += 1
        if not sets.jobs.any():
            return NOTHING_DONE
        # Storage and rollout
        game = self._game(sets, chosen.rollouts)
        rollouts = roll_out(game, self.network, self.generators["actions"], mask=chosen.mask)
        # Update
        advantage, said = self._advantage(rollouts)
        slope = self._slope(rollouts, advantage)
        self.optimiser.ascend(self.network.weights, slope)
        self.network.refresh()
        # Logging
        returns = rollouts.rewards.sum(axis=0).reshape(-1, chosen.rollouts)
        results = outcome(game)
        return {
            "return": float(returns.mean()),
            "return_best": float(returns.max(axis=1).mean()),
            "slowdown": results["slowdown"],
            "unfinished": results["unfinished"],
            "decisions": float(len(rollouts.actions)),
            "entropy": float(entropies(rollouts.log_probabilities).mean()),
            "gradient_norm": _norm(slope),
            **said,
        }

    def _warm_up(self) -> None:
        """Imitate shortest-job-first once, before the first iteration."""
        if self.warm_start["done"]:
            return
        rng = self.generators["warm_start"]
        rounds = range(self.arguments.warm_start_rounds)
        drawn = (self.source.draw(rng, WARM_SETS) for _ in rounds)
        imitate(self.network, (self._game(sets, 1) for sets in drawn if sets.jobs.any()), rng)
        self.warm_start["done"] = True

    def _draw_job_sets(self) -> JobSets:
        if not self.arguments.fresh:
            return self.fixed_sets
        return self.source.draw(self.generators["job_sets"], self.arguments.job_sets)

    def _game(self, sets: JobSets, replicas: int) -> Lockstep:
        chosen = self.arguments
        return Lockstep(self.model, sets, replicas, chosen.objective, chosen.max_decisions)

    def _advantage(self, rollouts: Rollouts) -> tuple[Floats, dict[str, float]]:
        """Return (D,) the credit of each decision, and numbers to log."""
        where = rollouts.decision, rollouts.episode
        returns = rewards_to_go(rollouts.rewards, self.arguments.discount)  # (T, N)
        if self.arguments.baseline == "decision":
            return (returns - decision_means(returns, self.arguments.rollouts))[where], {}
        advantage = returns[where] - self.value.predict(rollouts.stored)
        foreseen = self.value.fit(rollouts.stored, returns[where])
        return advantage, {"explained_variance": foreseen}

    def _slope(self, rollouts: Rollouts, advantage: Floats) -> Weights:
        """Return the gradient of the expected return, at the scale of the original.

        There it is the mean over the decisions of ten job sets, summed over all tens; here it is
        the sum over all decisions, divided by their mean number in ten job sets: nearly the same.
        """
        chosen = self.arguments
        stored, log_p = rollouts.stored, rollouts.log_probabilities
        actions = rollouts.actions
        if chosen.samples_share < 1:
            taken = self.generators["samples"].random(len(actions)) < chosen.samples_share
            stored, log_p, actions = stored[taken], log_p[taken], actions[taken]
            advantage = advantage[taken]
        scale = chosen.job_sets / SETS_A_BATCH / max(len(actions), 1)
        pull = (advantage * scale).astype(np.float32)
        cotangent = pull_on_logits(np.exp(log_p), actions, pull)  # (D, actions)
        if chosen.entropy:
            cotangent += np.float32(chosen.entropy * scale) * entropy_pull(log_p)
        return self.network.gradient(stored, cotangent)

    def held_out(self) -> Mapping[str, float]:
        """Return how the agent does on the original's unseen sets, actions drawn; see `outcome`.

        The draws are the same at every look. ``return``: mean sum of rewards of an episode.
        """
        self._warm_up()
        game = self._game(self.unseen_sets, 1)
        rng = stream(self.seed, "deeprm.held_out")
        decide = chooser(self.network, game, rng, mask=self.arguments.mask)
        total = play(game, decide)
        return {**outcome(game), "return": float(total.mean())}

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        self._warm_up()
        super().write_agent(folder, curve_end)


def _norm(arrays: Weights) -> float:
    return float(
        sum(float((array.astype(np.float64) ** 2).sum()) for array in arrays.values()) ** 0.5
    )
