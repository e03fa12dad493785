"""REINFORCE on any scenario, by the gradient, the natural gradient or the clipped objective.

R. J. Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement
learning" (1992): each iteration plays every slice several times with the current policy, and makes
decisions likelier whose return is above a baseline. The baseline is the mean return of the same
slice's rollouts from the same time step on, or at the same decision (H. Mao, M. Alizadeh,
I. Menache and S. Kandula, "Resource management with deep reinforcement learning", 2016). The
natural gradient bounds how far an iteration moves the policy (S. Kakade, "A natural policy
gradient", 2001); the clipped objective is that of PPO (J. Schulman et al., "Proximal policy
optimization algorithms", 2017). `deeprm` and `sofia` are recipes of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.common.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.games import NOTHING_DONE, Source, logged
from simkit.learners.common.imitation import imitate_best, refuse_without_teachers
from simkit.learners.common.natural_gradient import Trust, as_vector, policy_step
from simkit.learners.common.returns import credit, deviation_by_group, time_moved
from simkit.learners.common.rollouts import Batch, Rollouts, minibatches, roll_out
from simkit.learners.common.torch_training import GamesTraining
from simkit.learners.games.choice import GamesArguments, games_of, usual_numbers
from simkit.learners.networks.build import Network, build, seeded
from simkit.learners.networks.distributions import (
    clipped_gain,
    entropy,
    log_probability,
    masked_log_softmax,
)
from simkit.learners.networks.optimisers import OptimiserName, make_optimiser, take_step
from simkit.learners.networks.shapes import SetScorerShape, TablePerceptronShape, Width
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count
from simkit.training import Training

CHUNKS: Final[Mapping[type, int]] = {SetScorerShape: 2_048, TablePerceptronShape: 16_384}
"""Shape of a network → decisions per chunk of a gradient, so that the activations fit into the
caches; others take all at once."""
SMALL: Final = 0.01
"""Standard deviation of small initial weights."""
USUAL: Final = {
    "job_sets": 8, "rollouts": 4, "discount": 0.95, "largest": 4.0, "held_out_sets": 20,
    "max_decisions": 5_000,
}  # fmt: skip
"""Defaults for simulations, which take longer than job sets in lock-step."""


class ReinforceArguments(GamesArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Iterations of the training."""
    job_sets: Count = 100
    """New slices per iteration, over all loads: job sets, or windows of a log."""
    fresh: bool = True
    """Draw new slices in each iteration; false: use the same ones."""
    rollouts: Annotated[int, Field(ge=2)] = 8
    """Episodes of each slice."""
    hidden: Width = 64
    """Units of each layer."""
    initial_weights: Literal["even", "small", "glorot"] = "even"
    """Last layer small, so that the policy is almost uniform at first (`even`); all weights normal
    with a standard deviation of 0.01, as in DeepRM's program (`small`); or the last layer, too, by
    X. Glorot and Y. Bengio (2010)."""
    warm_start: Annotated[int, Field(ge=0)] = 0
    """Rounds of games in which the network first learns to imitate the best of some simple rules;
    0: it learns from nothing."""
    # credit
    discount: Share = 1.0
    """Discount factor per decision."""
    baseline: Literal["step", "decision"] | None = None
    """The mean return of a slice's rollouts from the same time step on, or at the same decision;
    null: by the step where time passes in steps and `discount` is 1, else by the decision."""
    credit: Literal["choices", "all", "first"] = "choices"
    """Decisions that are learned from: those that left a choice, all, or the first of each time
    step, as in Sofia's program."""
    normalise: bool = True
    """Count advantages in deviations of their load."""
    largest: Positive | None = None
    """Advantages beyond this many standard deviations count as that many; null: as they are."""
    # update
    update: Literal["natural", "gradient", "proximal"] = "natural"
    """How the weights are updated: a bounded step along the natural gradient, one step of the
    optimiser along the gradient, or several steps on PPO's clipped objective."""
    kl: Positive = 0.02
    """Natural gradient: upper bound on the mean KL divergence of a step, in nats."""
    damping: NotNegative = 0.001
    """Natural gradient: added to the diagonal of the Fisher matrix."""
    fisher_share: Share = 0.2
    """Natural gradient: share of the decisions used for the Fisher matrix."""
    measured: Literal["all", "sample"] = "all"
    """Natural gradient: the decisions on which the KL divergence and the gain of a step are
    measured: all, or those of the Fisher matrix."""
    optimiser: OptimiserName = "adam"
    """The optimiser; the natural gradient does not use one."""
    learning_rate: Positive = 0.01
    """Learning rate of the optimiser."""
    sets_per_mean: Count | None = None
    """Gradient: the mean over the decisions of this many slices, summed over these groups, as in
    DeepRM's program; null: the mean over all decisions."""
    clip: Positive = 0.2
    """Proximal: the ratio of probabilities is clipped to 1 ± this."""
    epochs: Count = 4
    """Proximal: passes over the decisions of an iteration."""
    batch: Count = 4096
    """Proximal: decisions per step of the optimiser."""
    entropy: NotNegative = 0.0
    """Weight of the policy's mean entropy, in nats."""

    @model_validator(mode="after")
    def _means_of_discounted_returns(self) -> Self:
        if self.baseline == "step" and self.discount < 1:
            text = "means from a time step on are not discounted; take decision, or discount: 1"
            raise BrokenRulesError([(("baseline",), text)])
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu",
    learner: str = "reinforce",
) -> Training:  # fmt: skip
    """Return a new training; an entry point of ``simkit.learners``.

    `learner` is the name of a recipe, see `simkit.learners.recipes`.

    Raises ScenarioError, all problems at once, for arguments that are out of range or do not suit
    the scenario, job sets without a job, or a missing device; PluginError without safetensors,
    which the first checkpoint needs.
    """

    def source_of(chosen: ReinforceArguments) -> Source[Any]:
        source = games_of(scenario, chosen, learner, chosen.job_sets)
        refuse_without_teachers(source, chosen.warm_start)
        return source

    given = {**usual_numbers(scenario, USUAL, arguments), **arguments}
    chosen, source = prepared(ReinforceArguments, given, source_of, device)
    return ReinforceTraining(scenario, source, chosen, seed, device, learner)


class ReinforceTraining(GamesTraining):
    """A training with REINFORCE."""

    learner = "reinforce"
    extendable = True
    chosen: ReinforceArguments
    network: Network

    def __init__(
        self, scenario: Scenario, source: Source[Any], chosen: ReinforceArguments, seed: int,
        device: str, learner: str,
    ) -> None:  # fmt: skip
        # Environment
        streams = ("job_sets", "actions", "sample", "warm_start")
        super().__init__(scenario, source, chosen, seed, device, learner, streams)
        self.fixed = source.draw(self.stream("fixed_job_sets"), chosen.job_sets)
        if not chosen.fresh and not len(source.games(self.fixed).active):
            raise ScenarioError(
                "learn.arguments.job_sets: the workload brings so few jobs that all "
                f"{chosen.job_sets} of these slices are empty; raise the workload's rate or load, "
                "or give more"
            )
        # Agent
        with seeded(self.stream("weights")):
            self.network = build(source.scorer(chosen.hidden))
            _draw_weights(self.network, chosen.initial_weights)
        self.network.to(device)
        self.weights = list(self.network.parameters())
        self.optimiser = make_optimiser(chosen.optimiser, self.weights, chosen.learning_rate)

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        Of the rollouts see `logged`; ``return_best``: return of the best rollout of each slice,
        mean over slices; ``choices``: decisions that are learned from; ``entropy``: the mean over
        these, in nats; with the natural gradient ``kl`` in nats, ``backtracks``, ``products`` and
        ``residual`` of `NaturalStep`; in the first iteration after a warm start ``imitated``, see
        `imitate`. If no slice has a job, nothing is learned, and only `NOTHING_DONE` is returned.
        """
        chosen = self.chosen
        rounds = chosen.warm_start if self.iteration == 1 else 0
        warm = imitate_best(
            self.agent, self.source, self.generators["warm_start"], rounds, chosen.job_sets,
            self.device,
        )  # fmt: skip
        # Rollout
        slices = self.fixed
        if chosen.fresh:
            slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        games = self.source.games(slices, chosen.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        rollouts = roll_out(games, self.network, self.generators["actions"], self.device)
        # Update
        batch = self._batch(rollouts, self._advantages(rollouts))
        metrics = self._update(batch) if len(batch) else {}
        # Logging
        returns = rollouts.rewards.sum(axis=0).reshape(-1, chosen.rollouts)
        return {
            **logged(games, rollouts.mean_return, len(rollouts.actions)),
            "return_best": float(returns.max(axis=1).mean()), "choices": float(len(batch)),
            **metrics, **warm,
        }  # fmt: skip

    def _advantages(self, rollouts: Rollouts) -> Floats:
        """Return (D,) what each decision earned above what is usual in its slice; see `credit`."""
        chosen = self.chosen
        usual = "step" if self.source.in_steps and chosen.discount == 1 else "decision"
        earned = credit(
            rollouts.rewards, rollouts.steps, chosen.rollouts,
            by_step=(chosen.baseline or usual) == "step", relative=self.source.relative,
            discount=chosen.discount,
        )  # fmt: skip
        return rollouts.rows(earned.gain)

    def _batch(self, rollouts: Rollouts, advantages: Floats) -> Batch:
        """Return the decisions to learn from; advantages may be divided by their deviation.

        This is done for each load separately, lest the highest drowns out the others.
        """
        chosen, rows = self.chosen, self._learned(rollouts)
        scaled = advantages[rows]
        if chosen.normalise:
            load = rollouts.groups(self.source, chosen.job_sets)[rows]
            scaled = scaled / deviation_by_group(scaled, load)
        if chosen.largest is not None:
            scaled = np.clip(scaled, -chosen.largest, chosen.largest)
        return rollouts.batch(rows, scaled, np.zeros(len(scaled)), self.device)

    def _learned(self, rollouts: Rollouts) -> Ints | slice:
        """Return the rows of the decisions to learn from."""
        if self.chosen.credit == "choices":
            return rollouts.choices
        if self.chosen.credit == "first":  # of its time step: at the start, and where time moved
            moved = np.roll(time_moved(rollouts.steps), 1, axis=0)
            return np.flatnonzero(rollouts.rows(moved))
        return slice(None)

    def _update(self, batch: Batch) -> dict[str, float]:
        """Learn from decisions; return numbers to log."""
        ways = {"natural": self._natural, "gradient": self._plain, "proximal": self._proximal}
        return ways[self.chosen.update](batch)

    def _natural(self, batch: Batch) -> dict[str, float]:
        """Take a natural gradient step; the Fisher matrix is that of a sample."""
        chosen = self.chosen
        mean_entropy = self._add_gradient(batch, 1 / len(batch))
        count = max(1, round(chosen.fisher_share * len(batch)))
        drawn = self.generators["sample"].choice(len(batch), count, replace=False)
        sample = batch[torch.from_numpy(np.sort(drawn))]
        step = policy_step(
            self._log_probs, self.weights,
            -as_vector([weights.grad for weights in self.weights if weights.grad is not None]),
            sample, batch if chosen.measured == "all" else sample,
            Trust(kl=chosen.kl),
            damping=chosen.damping, entropy_weight=chosen.entropy,
        )  # fmt: skip
        return {
            "entropy": mean_entropy, "kl": step.kl, "backtracks": float(step.backtracks),
            "products": float(step.products), "residual": step.residual,
        }  # fmt: skip

    def _plain(self, batch: Batch) -> dict[str, float]:
        """Take one step of the optimiser along the gradient."""
        groups = self.chosen.job_sets / (self.chosen.sets_per_mean or self.chosen.job_sets)
        mean_entropy = self._add_gradient(batch, groups / len(batch))
        self.optimiser.step()
        return {"entropy": mean_entropy}

    def _add_gradient(self, batch: Batch, scale: float) -> float:
        """Set the gradients of minus the gain times `scale`; return the mean entropy."""
        self.optimiser.zero_grad()
        size, total_entropy = CHUNKS.get(type(self.network.shape), len(batch)), 0.0
        for part in (batch[slice(k, k + size)] for k in range(0, len(batch), size)):
            log_probs = self._log_probs(part)
            part_entropy = entropy(log_probs).sum()
            gain = (log_probability(log_probs, part.actions) * part.advantage).sum()
            objective = scale * (gain + self.chosen.entropy * part_entropy)
            (-objective).backward()  # type: ignore[no-untyped-call]
            total_entropy += float(part_entropy.detach())
        return total_entropy / len(batch)

    def _proximal(self, batch: Batch) -> dict[str, float]:
        """Pass over the batch several times, in shuffled minibatches."""
        chosen, entropies = self.chosen, []
        for part in minibatches(batch, chosen.batch, chosen.epochs, self.generators["sample"]):
            log_probs = self._log_probs(part)
            mean_entropy = entropy(log_probs).mean()
            taken = log_probability(log_probs, part.actions)
            gain = clipped_gain(taken, part.log_probability, part.advantage, chosen.clip)
            take_step(self.optimiser, -gain - chosen.entropy * mean_entropy, math.inf)
            entropies.append(float(mean_entropy.detach()))
        return {"entropy": float(np.mean(entropies))}

    def _log_probs(self, part: Batch) -> Tensor:
        """Return (B, actions) log-probabilities under the current policy."""
        return masked_log_softmax(self.network(part.seen), part.allowed)


def _draw_weights(network: Network, initial: str) -> None:
    """Draw a policy's initial weights once more; see `ReinforceArguments.initial_weights`."""
    if initial == "small":
        for weights in network.parameters():
            if weights.dim() > 1:  # biases stay as they are
                nn.init.normal_(weights, 0.0, SMALL)
    if initial == "glorot":
        for layer in network.last_layers:
            nn.init.xavier_normal_(next(layer.parameters()))
