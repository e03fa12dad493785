"""PPO over whatever is to choose from: one scorer for all, and a baseline for every decision.

J. Schulman, F. Wolski, P. Dhariwal, A. Radford and O. Klimov, "Proximal policy optimization
algorithms" (2017), adapted to scheduling: each iteration plays every slice several times, and
compares a decision with the mean return of the same slice's rollouts, in lock-step from the same
time step on, in simulations from the same decision on; the critic learns only the remaining
difference. In lock-step, advantages decay over time, as many decisions share a step. Decisions that
leave no choice are not learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from simkit.arrays import Floats, Ints
from simkit.learners.common.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.distributions import (
    clipped_gain,
    entropy,
    log_probability,
    masked_log_softmax,
    squared_error,
)
from simkit.learners.common.games import NOTHING_DONE, Source, logged
from simkit.learners.common.imitation import imitate_best, refuse_without_teachers
from simkit.learners.common.networks import ActorCritic, build, seeded
from simkit.learners.common.optimisers import linear, set_learning_rate, take_step
from simkit.learners.common.returns import (
    deviation_by_group,
    generalised_advantages,
    rewards_to_go,
    rollout_means,
    time_moved,
)
from simkit.learners.common.rollouts import Batch, Rollouts, judged, minibatches, roll_out
from simkit.learners.common.shapes import Width
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.games.choice import GamesArguments, games_of, usual_numbers
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many
from simkit.training import Training

VALUE_SHARE: Final = 0.5
"""Weight of the critic's error relative to the policy's gain."""
LARGEST_GRADIENT: Final = 0.5
"""Gradients are clipped to this norm."""
USUAL: Final = {
    "job_sets": 8, "rollouts": 4, "warm_start": 3, "decay": 0.9, "largest": 2.0, "batch": 512,
    "entropy": 0.003, "falls": True, "held_out_sets": 40, "max_decisions": 5_000,
}  # fmt: skip
"""Defaults for simulations, which take longer than job sets in lock-step."""


class PPOArguments(GamesArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 40
    """Iterations of the training."""
    weights: Many[Positive] = ()
    """Relative weight of each load in the policy's gain; none: all the same."""
    job_sets: Count = 100
    """New slices per iteration, over all loads: job sets, or windows of a log."""
    rollouts: Annotated[int, Field(ge=2)] = 8
    """Episodes of each slice."""
    hidden: Width = 64
    """Units of each layer."""
    warm_start: Annotated[int, Field(ge=0)] = 0
    """Rounds of games in which the network first learns to imitate the best of the source's simple
    rules; 0, or no rule: it learns from nothing."""
    learning_rate: Positive = 0.001
    """Learning rate of Adam."""
    falls: bool = False
    """Whether the learning rate falls linearly to 0 during the training."""
    decay: Share = 0.95
    """λ: share of the advantages after the next time step, or in simulations the next decision,
    that counts for the decisions before it."""
    clip: Positive = 0.2
    """The ratio of probabilities is clipped to 1 ± this."""
    largest: Positive | None = None
    """Advantages beyond this many standard deviations count as that many; null: as they are."""
    entropy: NotNegative = 0.01
    """Initial weight of the policy's mean entropy, in nats; it falls linearly to 0."""
    epochs: Count = 3
    """Passes over the decisions of an iteration."""
    batch: Count = 4096
    """Decisions per step of Adam."""

    @model_validator(mode="after")
    def _one_for_each_load(self) -> Self:
        if self.weights and len(self.weights) != len(self.loads):
            text = f"has {len(self.weights)} numbers for {len(self.loads)} loads; give one for each"
            raise BrokenRulesError([(("weights",), text)])
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for arguments that are out of range or do not suit
    the scenario, job sets without a job, or a missing device; PluginError without safetensors,
    which the first checkpoint needs.
    """

    def source_of(chosen: PPOArguments) -> Source[Any]:
        source = games_of(scenario, chosen, "ppo", chosen.job_sets)
        refuse_without_teachers(source, arguments.get("warm_start", 0))
        return source

    given = {**usual_numbers(scenario, USUAL, arguments), **arguments}
    chosen, source = prepared(PPOArguments, given, source_of, device)
    return PPOTraining(scenario, source, chosen, seed, device)


class PPOTraining(TorchTraining):
    """A training with PPO."""

    learner = "ppo"

    def __init__(
        self, scenario: Scenario, source: Source[Any], arguments: PPOArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("job_sets", "actions", "parts", "warm_start"))
        self.chosen, self.device = arguments, device
        # Environment
        self.source = source
        self.unseen = source.held_out(arguments.held_out_sets)
        self.criterion = source.criterion
        # Agent
        shape = source.scorer(arguments.hidden)
        with seeded(self.stream("weights")):
            self._network = ActorCritic(build(shape), arguments.hidden).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), arguments.learning_rate)

    @property
    def network(self) -> ActorCritic:
        return self._network

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: mean return of an episode; ``slowdown``, ``unfinished``: of the rollouts, over
        all jobs; ``decisions``: of all rollouts; ``choices``: decisions that left a choice;
        ``entropy``: the mean over these, in nats; in the first iteration after a warm start
        ``imitated``, see `imitate`. If no job set has a job, nothing is learned, and only
        `NOTHING_DONE` is returned.
        """
        chosen = self.chosen
        warm: Mapping[str, float] = {}
        if self.iteration == 1:
            warm = imitate_best(
                self.network.actor, self.source, self.generators["warm_start"], chosen.warm_start,
                chosen.job_sets, self.device,
            )  # fmt: skip
        slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        # Rollout
        games = self.source.games(slices, chosen.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        rollouts = roll_out(games, self.network, self.generators["actions"], self.device)
        # Advantages
        batch = self._batch(rollouts, *self._advantages(rollouts))
        # Update
        if chosen.falls:
            set_learning_rate(self.optimiser, self._rate)
        weight = linear(chosen.entropy, 0.0, (self.iteration - 1) / self.iterations)
        parts = minibatches(batch, chosen.batch, chosen.epochs, self.generators["parts"])
        entropies = [self._improve(part, weight) for part in parts]
        # Logging
        return {
            **logged(games, rollouts.mean_return, len(rollouts.actions)),
            "choices": float(len(batch)),
            "entropy": float(np.mean(entropies)) if entropies else 0.0,
            **warm,
        }

    @property
    def _rate(self) -> float:
        return linear(self.chosen.learning_rate, 0.0, (self.iteration - 1) / self.iterations)

    def _advantages(self, rollouts: Rollouts) -> tuple[Floats, Floats]:
        """Return (D,) advantages, and (D,) targets of the critic.

        The critic counts in standard deviations of its load. Otherwise, its errors at high loads,
        where returns are a hundred times as large, would drown out gains at low loads.
        """
        chosen, steps, rewards = self.chosen, rollouts.grid(rollouts.step), rollouts.rewards
        to_go = rewards_to_go(rewards, 1.0)
        in_steps = self.source.in_steps
        baseline = rollout_means(rewards, to_go, steps, chosen.rollouts, by_step=in_steps)
        difference = rollouts.rows(to_go - baseline)
        unit = deviation_by_group(difference, self._load(rollouts.episode))
        values = rollouts.grid(rollouts.rows(baseline) + unit * rollouts.value)
        passed = time_moved(steps) if in_steps else True
        decay = np.where(passed, chosen.decay, np.ones(rewards.shape))
        advantages = generalised_advantages(rewards, values, decay)
        return rollouts.rows(advantages), rollouts.rows(advantages + values - baseline) / unit

    def _load(self, episode: Ints) -> Ints:
        """Return (D,) number of the load of each decision's episode."""
        chosen = self.chosen
        return self.source.group_of(chosen.job_sets)[episode // chosen.rollouts]

    def _batch(self, rollouts: Rollouts, advantages: Floats, returns: Floats) -> Batch:
        """Return the decisions that left a choice; advantages are divided by their deviation.

        This is done for each load separately, lest the highest drowns out the others.
        """
        rows = np.flatnonzero(rollouts.allowed.sum(axis=1) > 1)
        load = self._load(rollouts.episode[rows])
        scaled = advantages[rows] / deviation_by_group(advantages[rows], load)
        if self.chosen.largest is not None:
            scaled = np.clip(scaled, -self.chosen.largest, self.chosen.largest)
        if weights := self.chosen.weights:
            scaled *= np.array(weights)[load] / np.mean(weights)
        return rollouts.batch(rows, scaled, returns[rows], self.device)

    def _improve(self, part: Batch, entropy_weight: float) -> float:
        """Take one step of Adam; return the mean entropy."""
        logits, values = self.network(part.seen)
        log_probs = masked_log_softmax(logits, part.allowed)
        mean_entropy = entropy(log_probs).mean()
        gain = clipped_gain(
            log_probability(log_probs, part.actions), part.log_probability, part.advantage,
            self.chosen.clip,
        )  # fmt: skip
        error = squared_error(values, part.returns)
        loss = VALUE_SHARE * error - gain - entropy_weight * mean_entropy
        take_step(self.optimiser, loss, LARGEST_GRADIENT)
        return float(mean_entropy.detach())

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out sets; see `outcome`.

        Actions are drawn as in training, with the same draws in every evaluation; with classes, the
        likeliest actions are taken. ``return``: mean return of an episode.
        """
        rng = self.stream("held_out")
        return judged(self.source, self.unseen, self.network, rng, self.device)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        actor = self.network.actor
        self.write_network(folder, actor, self.source.describe(actor.shape), curve_end)
