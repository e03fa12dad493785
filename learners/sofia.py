"""REINFORCE on the Sofia study's batches, by the gradient, the natural gradient or PPO.

The model is that of "Resource management with deep reinforcement learning" (Sofia, 2021): from step
0 on, some seventy jobs wait, ten of them in slots, for a pool of 50 units of two resources. The
study's own natural gradient did not converge; here it does not form the Fisher matrix, and its step
is bounded (`natural_gradient`). Every decision is credited and every episode is played to its end,
while the study's program credits only the first decision of a step and stops at step 150.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from simkit.arrays import Bools, Floats
from simkit.learners.common.arguments import (
    Extent,
    NotNegative,
    Positive,
    Share,
    prepared,
)
from simkit.learners.common.distributions import entropy, log_probability, masked_log_softmax
from simkit.learners.common.games import NOTHING_DONE
from simkit.learners.common.natural_gradient import Trust, as_vector, policy_step
from simkit.learners.common.networks import Perceptron
from simkit.learners.common.objectives import clipped_gain, reinforce_gain
from simkit.learners.common.optimisers import OptimiserName
from simkit.learners.common.rollouts import Batch, Rollouts, minibatches, roll_out
from simkit.learners.lockstep import Lockstep, MeteredLockstep
from simkit.learners.lockstep.job_sources import SofiaJobs
from simkit.learners.lockstep.outcome import OUTCOME, outcome
from simkit.learners.slot_reinforce import SlotReinforceArguments, SlotReinforceTraining
from simkit.scenario import Scenario
from simkit.sections import Count
from simkit.training import Training


class SofiaArguments(SlotReinforceArguments):
    """The keys of `learn.arguments`."""

    job_sets: Count = 5
    """Job sets per iteration."""
    update: Literal["gradient", "natural", "proximal"] = "natural"
    """How the weights are updated: one step of the optimiser, a bounded step along the natural
    gradient, or several steps of the optimiser on the clipped objective."""
    optimiser: OptimiserName = "adam"
    """The optimiser; the natural gradient does not use one."""
    observation: Literal["sofia-shares", "sofia-compact"] = "sofia-shares"
    """The study's state as shares of the capacity, or in units as in the study (sofia-compact)."""
    credit: Literal["all", "first"] = "all"
    """Decisions that contribute to the gradient: all, or the first of each step, as in the study.
    """
    value_learning_rate: Positive = 0.001
    """Learning rate of the value network."""
    normalise: bool = True
    """Divide the advantages of an iteration by their standard deviation; `entropy` then has the
    same scale."""
    entropy: NotNegative = 0.0
    """Weight of the policy's mean entropy, in nats, in the objective."""
    kl: Positive = 0.01
    """Natural gradient: upper bound on the mean KL divergence of a step, in nats."""
    damping: NotNegative = 0.01
    """Natural gradient: added to the diagonal of the Fisher matrix."""
    products: Count = 10
    """Natural gradient: maximum number of products with the Fisher matrix."""
    fisher_share: Share = 0.1
    """Natural gradient: share of the decisions used for the Fisher matrix and the KL divergence."""
    clip: Positive = 0.2
    """Proximal: the ratio of probabilities is clipped to 1 ± this."""
    epochs: Count = 4
    """Proximal: passes over the decisions of an iteration."""
    batch: Count = 4096
    """Proximal: decisions per step of the optimiser."""
    held_out_sets: Count = 20
    """Job sets on which the agent is evaluated; the same for all trainings, never trained on."""
    max_decisions: Count = 4000
    """Largest number of decisions in an episode; jobs still open then count as unfinished."""
    horizon: Extent = 60
    """Steps ahead in which tasks can be placed."""
    backlog_shown: Extent = 60
    """Tasks of the backlog that the agent observes; further ones are hidden."""
    last_step: Count = 150
    """The step whose load and reward are logged; the study's episodes end there."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not Sofia's batch on a
    pool, arguments out of range, job sets without a job, or a missing device; PluginError without
    safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: SofiaArguments) -> SofiaJobs:
        shown = chosen.backlog_shown
        return SofiaJobs(scenario, "the learner sofia", horizon=chosen.horizon, backlog_shown=shown)

    chosen, source = prepared(SofiaArguments, arguments, source_of, device)
    return SofiaTraining(scenario, source, chosen, seed, device)


class SofiaTraining(SlotReinforceTraining):
    """A training on the Sofia study's batches."""

    learner = "sofia"
    held_out_metrics = (*OUTCOME, "return")
    chosen: SofiaArguments

    def __init__(
        self, scenario: Scenario, source: SofiaJobs, arguments: SofiaArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(
            scenario, source, arguments, seed, device, streams=("sample",),
            value_learning_rate=arguments.value_learning_rate,
        )  # fmt: skip
        self.weights = list(self.network.parameters())

    def draw_weights(self, network: Perceptron) -> None:
        nn.init.xavier_normal_(network.last.weight)

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: mean return of an episode; ``slowdown``, ``unfinished``: of the rollouts, over
        all jobs; ``decisions``; ``entropy``: mean over the decisions learned from, in nats;
        ``load``, ``last_load``, ``last_reward``: see `MeteredLockstep`; with a value network
        ``explained_variance``; with the natural gradient ``kl`` in nats, ``backtracks``,
        ``products`` and ``residual`` of `NaturalStep`. If no job set has a job, nothing is learned,
        and only `NOTHING_DONE` is returned.
        """
        chosen = self.chosen
        sets = self.draw_job_sets()
        if not sets.jobs.any():
            return NOTHING_DONE
        # Rollout
        lockstep = MeteredLockstep(
            self.model, sets, chosen.rollouts, chosen.objective, chosen.max_decisions
        )
        lockstep.meter(chosen.last_step)
        rollouts = roll_out(
            self.games(lockstep), self.network, self.generators["actions"], self.device
        )
        # Credit
        advantage, returns, metrics = self.credit(rollouts)
        # Update
        batch = self._batch(rollouts, advantage, returns)
        update = {"gradient": self._step, "natural": self._natural, "proximal": self._proximal}
        metrics |= update[chosen.update](batch)
        # Logging
        results = outcome(lockstep)
        return {
            "return": float(rollouts.rewards.sum(axis=0).mean()),
            "slowdown": results["slowdown"],
            "unfinished": results["unfinished"],
            "decisions": float(len(rollouts.actions)),
            **lockstep.measured(),
            **metrics,
        }

    def _batch(self, rollouts: Rollouts, advantage: Floats, returns: Floats) -> Batch:
        """Return the decisions to learn from."""
        rows: Any = slice(None)
        if self.chosen.normalise:
            advantage = advantage / max(float(advantage.std()), 1e-12)
        if self.chosen.credit == "first":
            rows = np.flatnonzero(rollouts.rows(first_of_steps(rollouts.rewards)))
        return rollouts.batch(rows, advantage[rows], returns[rows], self.device)

    def _log_probs(self, part: Batch) -> Tensor:
        """Return (B, actions) log-probabilities under the current policy."""
        return masked_log_softmax(self.network(part.seen), part.allowed)

    def _step(self, batch: Batch) -> dict[str, float]:
        """Take one step of the optimiser along the gradient."""
        log_probs = self._log_probs(batch)
        gain = reinforce_gain(log_probability(log_probs, batch.actions), batch.advantage)
        return {"entropy": self._ascend(gain, entropy(log_probs).mean())}

    def _proximal(self, batch: Batch) -> dict[str, float]:
        """Pass over the batch several times, in shuffled minibatches."""
        chosen, entropies = self.chosen, []
        for part in minibatches(batch, chosen.batch, chosen.epochs, self.generators["sample"]):
            log_probs = self._log_probs(part)
            taken = log_probability(log_probs, part.actions)
            gain = clipped_gain(taken, part.log_probability, part.advantage, chosen.clip)
            entropies.append(self._ascend(gain, entropy(log_probs).mean()))
        return {"entropy": float(np.mean(entropies))}

    def _ascend(self, gain: Tensor, mean_entropy: Tensor) -> float:
        """Take a step of the optimiser; return the mean entropy."""
        self.optimiser.zero_grad()
        (-gain - self.chosen.entropy * mean_entropy).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return float(mean_entropy.detach())

    def _natural(self, batch: Batch) -> dict[str, float]:
        """Take a natural gradient step; the Fisher matrix and the KL are those of a sample."""
        chosen = self.chosen
        log_probs = self._log_probs(batch)
        gain = reinforce_gain(log_probability(log_probs, batch.actions), batch.advantage)
        mean_entropy = entropy(log_probs).mean()
        gradient = torch.autograd.grad(gain + chosen.entropy * mean_entropy, self.weights)
        count = max(1, round(chosen.fisher_share * len(batch)))
        drawn = self.generators["sample"].choice(len(batch), count, replace=False)
        sample = batch[torch.from_numpy(np.sort(drawn))]
        trust = Trust(kl=chosen.kl, products=chosen.products)
        step = policy_step(
            self._log_probs, self.weights, as_vector(gradient), sample, sample, trust,
            damping=chosen.damping, entropy_weight=chosen.entropy,
        )  # fmt: skip
        return {
            "entropy": float(mean_entropy.detach()), "kl": step.kl,
            "backtracks": float(step.backtracks), "products": float(step.products),
            "residual": step.residual,
        }  # fmt: skip

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out sets; see `outcome`.

        Actions are drawn, since the likeliest action alone may never place a job.
        """
        chosen, sets = self.chosen, self.unseen_sets
        lockstep = Lockstep(
            self.model, sets, objective=chosen.objective, limit=chosen.max_decisions
        )
        rng = self.stream("held_out")
        rollouts = roll_out(self.games(lockstep), self.network, rng, self.device)
        return {"return": float(rollouts.rewards.sum(axis=0).mean()), **outcome(lockstep)}


def first_of_steps(rewards: Floats) -> Bools:
    """Return (T, N) whether a decision is the first of its time step.

    Args:
        rewards: (T, N), not 0 where time passed; in a batch there are jobs in every step.
    """
    first = np.ones(rewards.shape, np.bool_)
    first[1:] = rewards[:-1] != 0
    return first
