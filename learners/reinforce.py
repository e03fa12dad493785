"""REINFORCE on any scenario, by the natural gradient or the plain one.

R. J. Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement
learning" (1992): each iteration plays every slice several times with the current policy, and makes
decisions likelier whose return is above a baseline. The baseline is the mean return of the same
slice's rollouts from the same time step on, or at the same decision, or the estimate of a value
network. Advantages count in deviations of their load, or in simulations of their slice. The natural
gradient bounds how far an iteration moves the policy (S. Kakade, "A natural policy gradient",
2001). Decisions that leave no choice are not learned from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from simkit.arrays import Floats, Ints
from simkit.learners.common.arguments import NotNegative, Positive, Share, prepared
from simkit.learners.common.distributions import entropy, log_probability, masked_log_softmax
from simkit.learners.common.games import NOTHING_DONE, Source, results_of
from simkit.learners.common.natural_gradient import Trust, as_vector, policy_step
from simkit.learners.common.networks import Network, Perceptron, build, seeded
from simkit.learners.common.returns import deviation_by_group, rewards_to_go, rollout_means
from simkit.learners.common.rollouts import Batch, Rollouts, roll_out
from simkit.learners.common.shapes import PerceptronShape, SetScorerShape, Width
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.common.value_baseline import ValueBaseline
from simkit.learners.games.choice import GamesArguments, games_of, usual_numbers
from simkit.scenario import Scenario
from simkit.sections import Count
from simkit.training import Training

CHUNK: Final = 2048
"""Decisions per chunk of a gradient, so that the activations fit into the caches."""
USUAL: Final = {
    "job_sets": 12, "rollouts": 4, "discount": 0.95, "largest": 2.0, "held_out_sets": 40,
    "max_decisions": 5_000,
}  # fmt: skip
"""Defaults for simulations, which take longer than job sets in lock-step."""


class ReinforceArguments(GamesArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Iterations of the training."""
    job_sets: Count = 100
    """New slices per iteration, over all loads: job sets, or windows of a log."""
    rollouts: Annotated[int, Field(ge=2)] = 8
    """Episodes of each slice."""
    hidden: Width = 64
    """Units of each layer."""
    discount: Share = 1.0
    """Discount factor per decision."""
    baseline: Literal["step", "decision", "value"] | None = None
    """The mean return of a slice's rollouts from the same time step on, or at the same decision; or
    a value network; null: by the step where time passes in steps and `discount` is 1, else by the
    decision."""
    largest: Positive | None = None
    """Advantages beyond this many standard deviations count as that many; null: as they are."""
    update: Literal["natural", "gradient"] = "natural"
    """How the weights are updated: a bounded step along the natural gradient, or one step of Adam
    along the gradient."""
    kl: Positive = 0.02
    """Natural gradient: upper bound on the mean KL divergence of a step, in nats."""
    damping: NotNegative = 0.001
    """Natural gradient: added to the diagonal of the Fisher matrix."""
    products: Count = 10
    """Natural gradient: maximum number of products with the Fisher matrix."""
    fisher_share: Share = 0.2
    """Natural gradient: share of the decisions used for the Fisher matrix."""
    learning_rate: Positive = 0.01
    """Learning rate of Adam, with `update: gradient`."""
    entropy: NotNegative = 0.0
    """Weight of the policy's mean entropy, in nats."""


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
        return games_of(scenario, chosen, learner, chosen.job_sets)

    given = {**usual_numbers(scenario, USUAL, arguments), **arguments}
    chosen, source = prepared(ReinforceArguments, given, source_of, device)
    return ReinforceTraining(scenario, source, chosen, seed, device, learner)


class ReinforceTraining(TorchTraining):
    """A training with REINFORCE."""

    extendable = True

    def __init__(
        self, scenario: Scenario, source: Source[Any], arguments: ReinforceArguments, seed: int,
        device: str, learner: str = "reinforce",
    ) -> None:  # fmt: skip
        streams = ("job_sets", "actions", "sample", "value")
        super().__init__(scenario, arguments, seed, streams, learner)
        self.chosen, self.device = arguments, device
        # Environment
        self.source = source
        self.unseen = source.held_out(arguments.held_out_sets)
        self.criterion = source.criterion
        # Agent
        shape = source.scorer(arguments.hidden)
        with seeded(self.stream("weights")):
            self._network = build(shape).to(device)
            value = Perceptron(_value_shape(shape, arguments.hidden)).to(device)
        self.weights = list(self._network.parameters())
        self.optimiser = torch.optim.Adam(self.weights, arguments.learning_rate)
        self.value = ValueBaseline(value, rng=self.generators["value"])

    @property
    def network(self) -> Network:
        return self._network

    def parts(self) -> Mapping[str, Stateful]:
        return {"value": self.value} if self.chosen.baseline == "value" else {}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: mean return of an episode; ``slowdown``, ``unfinished``: of the rollouts, over
        all jobs; ``decisions``: of all rollouts; ``choices``: decisions that left a choice;
        ``entropy``: the mean over these, in nats; with a value network ``explained_variance``; with
        the natural gradient ``kl`` in nats, ``backtracks``, ``products`` and ``residual`` of
        `NaturalStep`. If no job set has a job, nothing is learned, and only `NOTHING_DONE` is
        returned.
        """
        chosen = self.chosen
        slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        # Rollout
        games = self.source.games(slices, chosen.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        rollouts = roll_out(games, self.network, self.generators["actions"], self.device)
        # Credit
        advantage, value_metrics = self._credit(rollouts)
        # Update
        batch = self._batch(rollouts, advantage)
        update = {"natural": self._natural, "gradient": self._plain}
        metrics = update[chosen.update](batch) if len(batch) else {}
        # Logging
        results = games.outcome()
        return {
            "return": float(rollouts.rewards.sum(axis=0).mean()),
            **{name: results[name] for name in ("slowdown", "unfinished") if name in results},
            "decisions": float(len(rollouts.actions)),
            "choices": float(len(batch)),
            **metrics,
            **value_metrics,
        }

    def _credit(self, rollouts: Rollouts) -> tuple[Floats, dict[str, float]]:
        """Return (D,) advantages, and numbers to log."""
        chosen, rewards = self.chosen, rollouts.rewards  # (T, N)
        to_go = rewards_to_go(rewards, chosen.discount)
        returns = rollouts.rows(to_go)  # (D,)
        if chosen.baseline == "value":
            seen = torch.from_numpy(rollouts.seen).to(self.device)
            advantage = returns - self.value.predict(seen)
            return advantage, {"explained_variance": self.value.fit(seen, returns)}
        usual = "step" if self.source.in_steps and chosen.discount == 1 else "decision"
        baseline = rollout_means(
            rewards, to_go, rollouts.grid(rollouts.step), chosen.rollouts,
            by_step=(chosen.baseline or usual) == "step",
        )  # fmt: skip
        return returns - rollouts.rows(baseline), {}

    def _batch(self, rollouts: Rollouts, advantage: Floats) -> Batch:
        """Return the decisions that left a choice; advantages are divided by their deviation.

        This is done for each load or slice separately, lest the highest drowns out the others.
        """
        rows = np.flatnonzero(rollouts.allowed.sum(axis=1) > 1)
        scaled = advantage[rows] / deviation_by_group(
            advantage[rows], self._load(rollouts.episode[rows])
        )
        if self.chosen.largest is not None:
            scaled = np.clip(scaled, -self.chosen.largest, self.chosen.largest)
        return rollouts.batch(rows, scaled, np.zeros(len(rows)), self.device)

    def _load(self, episode: Ints) -> Ints:
        """Return (D,) number of the load, or the slice, of each decision's episode."""
        chosen = self.chosen
        return self.source.group_of(chosen.job_sets)[episode // chosen.rollouts]

    def _natural(self, batch: Batch) -> dict[str, float]:
        """Take a natural gradient step; the Fisher matrix is that of a sample."""
        chosen = self.chosen
        mean_entropy = self._add_gradient(batch)
        count = max(1, round(chosen.fisher_share * len(batch)))
        drawn = self.generators["sample"].choice(len(batch), count, replace=False)
        step = policy_step(
            self._log_probs, self.weights,
            -as_vector([weights.grad for weights in self.weights if weights.grad is not None]),
            batch[torch.from_numpy(np.sort(drawn))], batch,
            Trust(kl=chosen.kl, products=chosen.products),
            damping=chosen.damping, entropy_weight=chosen.entropy,
        )  # fmt: skip
        return {
            "entropy": mean_entropy, "kl": step.kl, "backtracks": float(step.backtracks),
            "products": float(step.products), "residual": step.residual,
        }  # fmt: skip

    def _plain(self, batch: Batch) -> dict[str, float]:
        """Take one step of Adam along the gradient."""
        mean_entropy = self._add_gradient(batch)
        self.optimiser.step()
        return {"entropy": mean_entropy}

    def _add_gradient(self, batch: Batch) -> float:
        """Set the gradients of minus the mean gain; return the mean entropy."""
        self.optimiser.zero_grad(set_to_none=False)
        total_entropy = 0.0
        for part in _chunks(batch):
            log_probs = self._log_probs(part)
            part_entropy = entropy(log_probs).sum()
            gain = (log_probability(log_probs, part.actions) * part.advantage).sum()
            objective = (gain + self.chosen.entropy * part_entropy) / len(batch)
            (-objective).backward()  # type: ignore[no-untyped-call]
            total_entropy += float(part_entropy.detach())
        return total_entropy / len(batch)

    def _log_probs(self, part: Batch) -> Tensor:
        """Return (B, actions) log-probabilities under the current policy."""
        return masked_log_softmax(self.network(part.seen), part.allowed)

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out slices; see the games' `outcome`.

        Actions are drawn as in training, with the same draws in every evaluation, or the likeliest
        are taken, as the source says. ``return``: see `results_of`.
        """
        games, rng = self.source.games(self.unseen), self.stream("held_out")
        rollouts = roll_out(games, self.network, rng, self.device, greedy=self.source.greedy)
        mean = float(rollouts.rewards.sum(axis=0).mean())
        return results_of(games, self.criterion, mean)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        shape = self.network.shape
        self.write_network(folder, self.network, self.source.describe(shape), curve_end)


def _value_shape(shape: PerceptronShape | SetScorerShape, hidden: int) -> PerceptronShape:
    """Return the shape of a value network that sees what a policy of this shape sees."""
    layers = (shape.inputs, hidden, 1)
    return PerceptronShape(type="perceptron", layers=layers, activation="relu")


def _chunks(batch: Batch) -> Iterator[Batch]:
    for first in range(0, len(batch), CHUNK):
        yield batch[slice(first, first + CHUNK)]
