"""DeepRM: a policy over ten slots, learned by REINFORCE.

H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (HotNets 2016). Each iteration plays a hundred job sets twenty times each with the current
policy. The credit of an action is its return minus the mean return of the same job set's rollouts
at the same decision. Two things differ from the paper: each iteration has new job sets (unless
`fresh` is false), since the network learns a hundred fixed ones by heart within some 300
iterations; and all jobs count in the metrics, also unfinished ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
from torch import nn

from simkit.arrays import Floats
from simkit.learners.common.arguments import Extent, NotNegative, Share, prepared
from simkit.learners.common.distributions import entropy, log_probability, masked_log_softmax
from simkit.learners.common.games import NOTHING_DONE
from simkit.learners.common.networks import Perceptron
from simkit.learners.common.optimisers import OptimiserName
from simkit.learners.common.rollouts import Batch, Rollouts, roll_out
from simkit.learners.common.training import Stateful
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import DeepRMJobs
from simkit.learners.lockstep.outcome import OUTCOME, outcome
from simkit.learners.lockstep.slot_games import ObservedGames
from simkit.learners.slot_reinforce import SlotReinforceArguments, SlotReinforceTraining
from simkit.learners.warm_start import WarmStart, imitate
from simkit.scenario import Scenario
from simkit.sections import Count
from simkit.training import Training

SETS_A_BATCH: Final = 10
"""The original averages over the decisions of ten job sets, and adds up these means."""
WARM_SETS: Final = 200
"""Job sets in a round of the warm start."""
FIRST_WEIGHTS: Final = 0.01
"""Standard deviation of the initial weights; it makes the policy almost uniform, as in the paper.
"""
CHUNK: Final = 16_384
"""Decisions per chunk of a gradient, so that the activations fit into the caches."""


class DeepRMArguments(SlotReinforceArguments):
    """The keys of `learn.arguments`."""

    job_sets: Count = 100
    """Job sets per iteration."""
    optimiser: OptimiserName = "rmsprop"
    """The optimiser; the original uses rmsprop."""
    observation: Literal["deeprm-image", "deeprm-compact"] = "deeprm-image"
    """The paper's image, or a compact encoding."""
    entropy: NotNegative = 0.0
    """Weight of a decision's entropy, in nats, which is added to its credit."""
    warm_start: Literal["none", "sjf"] = "none"
    """sjf: first train the network to imitate shortest job first."""
    warm_start_rounds: Count = 12
    """Rounds of the warm start, each with 200 job sets; a round takes about a second."""
    samples_share: Share = 1.0
    """Share of the decisions, drawn at random, used to compute the gradient."""
    held_out_sets: Extent = 100
    """Number of the original's unseen job sets on which the agent is evaluated."""
    horizon: Extent = 20
    """Steps ahead in which tasks can be placed."""
    memory: Extent = 10
    """Largest count of steps since the last arrival that the agent sees."""
    max_decisions: Count = 2000
    """Largest number of decisions in an episode; jobs still open then count as unfinished."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not DeepRM's workload on a
    pool in steps, arguments out of range, job sets without a job, or a missing device; PluginError
    without safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: DeepRMArguments) -> DeepRMJobs:
        who = "the learner deeprm"
        return DeepRMJobs(scenario, who, horizon=chosen.horizon, memory=chosen.memory)

    chosen, source = prepared(DeepRMArguments, arguments, source_of, device)
    return DeepRMTraining(scenario, source, chosen, seed, device)


class DeepRMTraining(SlotReinforceTraining):
    """A training with DeepRM."""

    learner = "deeprm"
    held_out_metrics = (*OUTCOME, "return")
    chosen: DeepRMArguments

    def __init__(
        self, scenario: Scenario, source: DeepRMJobs, arguments: DeepRMArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        streams = ("samples", "warm_start")
        super().__init__(scenario, source, arguments, seed, device, streams=streams)
        self.warm_start = WarmStart(done=arguments.warm_start == "none")

    def draw_weights(self, network: Perceptron) -> None:
        for weight in network.parameters():
            if weight.dim() > 1:  # biases stay 0
                nn.init.normal_(weight, 0.0, FIRST_WEIGHTS)

    def parts(self) -> Mapping[str, Stateful]:
        return {**super().parts(), "warm_start": self.warm_start}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: mean return of an episode; ``return_best``: return of the best rollout of each
        job set, mean over job sets; ``slowdown``, ``unfinished``: of the rollouts, over all jobs;
        ``decisions``: of all rollouts; ``entropy``: mean over the decisions learned from, in nats;
        ``gradient_norm``; with a value network ``explained_variance``. If no job set has a job,
        nothing is learned, and only `NOTHING_DONE` is returned.
        """
        self._warm_up()
        sets = self.draw_job_sets()
        if not sets.jobs.any():
            return NOTHING_DONE
        # Rollout
        games = self._games(sets, self.chosen.rollouts)
        rollouts = roll_out(games, self.network, self.generators["actions"], self.device)
        # Credit
        advantage, returns, value_metrics = self.credit(rollouts)
        # Update
        batch = self._batch(rollouts, advantage, returns)
        self.optimiser.zero_grad()
        mean_entropy = self._add_gradient(batch)
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), math.inf)  # clips nothing
        self.optimiser.step()
        # Logging
        total = rollouts.rewards.sum(axis=0).reshape(-1, self.chosen.rollouts)
        results = outcome(games.lockstep)
        return {
            "return": float(total.mean()),
            "return_best": float(total.max(axis=1).mean()),
            "slowdown": results["slowdown"],
            "unfinished": results["unfinished"],
            "decisions": float(len(rollouts.actions)),
            "entropy": mean_entropy,
            "gradient_norm": float(norm),
            **value_metrics,
        }

    def _warm_up(self) -> None:
        """Imitate shortest-job-first once, before the first iteration."""
        if self.warm_start.done:
            return
        rng, rounds = self.generators["warm_start"], range(self.chosen.warm_start_rounds)
        drawn = (self.source.draw(rng, WARM_SETS) for _ in rounds)
        games = (self._games(sets, 1) for sets in drawn if sets.jobs.any())
        imitate(self.network, games, rng, device=self.device)
        self.warm_start.done = True

    def _games(self, sets: JobSets, replicas: int) -> ObservedGames:
        objective, limit = self.chosen.objective, self.chosen.max_decisions
        return self.games(Lockstep(self.model, sets, replicas, objective, limit))

    def _batch(self, rollouts: Rollouts, advantage: Floats, returns: Floats) -> Batch:
        """Return the decisions to learn from: all, or a share drawn at random."""
        share = self.chosen.samples_share
        rows: Any = slice(None)
        if share < 1:
            rows = np.flatnonzero(self.generators["samples"].random(len(advantage)) < share)
        return rollouts.batch(rows, advantage[rows], returns[rows], self.device)

    def _add_gradient(self, batch: Batch) -> float:
        """Add the gradient of minus the expected return, at the scale of the original.

        The original averages over the decisions of ten job sets, and adds up these means. Here the
        sum over all decisions is divided by their mean number in ten job sets: nearly the same.

        Returns:
            The mean entropy.
        """
        scale, total_entropy = self.chosen.job_sets / SETS_A_BATCH / max(len(batch), 1), 0.0
        for first in range(0, len(batch), CHUNK):
            part = batch[slice(first, first + CHUNK)]
            log_probs = masked_log_softmax(self.network(part.seen), part.allowed)
            part_entropy = entropy(log_probs).sum()
            gain = (log_probability(log_probs, part.actions) * part.advantage).sum()
            objective = scale * (gain + self.chosen.entropy * part_entropy)
            (-objective).backward()  # type: ignore[no-untyped-call]
            total_entropy += float(part_entropy.detach())
        return total_entropy / max(len(batch), 1)

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the original's unseen sets, with drawn actions; see `outcome`.

        The draws are the same in every evaluation. ``return``: mean return of an episode.
        """
        games = self._games(self.unseen_sets, 1)
        rollouts = roll_out(games, self.network, self.stream("held_out"), self.device)
        total = float(rollouts.rewards.sum(axis=0).mean())
        return {**outcome(games.lockstep), "return": total}
