"""The base of off-policy trainings on a ready pool: networks, play, imitation and evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import torch
from torch import Tensor

from simkit.learners.common.actor_critic.off_policy import (
    ActorAndCritics,
    Transitions,
    actor_and_critics,
)
from simkit.learners.common.actor_critic.policy_losses import regression_loss, regression_weights
from simkit.learners.common.baselines import MovingMean
from simkit.learners.common.networks import Perceptron, seeded
from simkit.learners.common.optimisers import linear, take_step
from simkit.learners.common.shapes import SetScorerShape
from simkit.learners.common.torch_training import TorchTraining
from simkit.learners.common.training import Stateful
from simkit.learners.lockstep.ready_pool.rules import Rule
from simkit.learners.ready_pool.arguments import OffPolicyArguments
from simkit.learners.ready_pool.experience import Experience
from simkit.learners.ready_pool.judge import greedy_and_drawn, rule_of
from simkit.learners.ready_pool.source import ReadySource
from simkit.scenario import Scenario

__all__ = ["OffPolicyTraining"]

Chosen = TypeVar("Chosen", bound=OffPolicyArguments)

_LARGEST_GRADIENT: Final = 10.0
"""Gradients are clipped to this norm."""
_TEMPERATURE_RATE: Final = 0.005
"""Learning rate of the logarithm of a soft actor's temperature, which thus follows the entropy
within an iteration or two."""


class OffPolicyTraining(TorchTraining, Generic[Chosen]):
    """A training of an actor and its critics on a ready pool."""

    criterion = "lost_value"
    less_is_better = ("lost_value", "lost_value_drawn", "cost", "cost_drawn")
    held_out_metrics = less_is_better

    def __init__(
        self, scenario: Scenario, source: ReadySource, arguments: Chosen,
        shape: SetScorerShape, seed: int, device: str,
    ) -> None:  # fmt: skip
        """Build games, memory, networks and optimiser.

        Args:
            scenario: the scenario to train on.
            source: where the games come from.
            arguments: the learner's arguments.
            shape: shape of each network.
            seed: seed of the training.
            device: device to train on.
        """
        super().__init__(scenario, arguments, seed, ("streams", "actions", "memories"))
        self.chosen, self.source, self.device = arguments, source, device
        # Environment
        rows = max(arguments.replay // arguments.games, 2)
        self.experience = Experience(source, arguments.games, rows, self.generators["streams"])
        self.unseen = source.held_out(arguments.held_out_games)
        self.usual = MovingMean()
        # Agent
        with seeded(self.stream("weights")):
            self._network = actor_and_critics(
                shape, arguments.critics, arguments.discount, popart=arguments.popart
            ).to(device)
        groups: list[dict[str, Any]] = [
            {"params": list(self.network.learned())},
            {"params": [self.network.log_temperature], "lr": _TEMPERATURE_RATE},
        ]
        self.optimiser = torch.optim.Adam(groups, arguments.learning_rate)

    @property
    def network(self) -> ActorAndCritics:
        return self._network

    def parts(self) -> Mapping[str, Stateful]:
        own = self.experience
        return {"games": own.games, "memory": own.memory, "usual": self.usual}

    def own_rule(self) -> Rule:
        """Return the rule by which the actor plays its games: it draws its actions."""
        rng = self.generators["actions"]
        return rule_of(self.network.actor, rng, self.device)

    def lower_learning_rate(self) -> None:
        """Set the learning rate of the weights for this iteration."""
        weights, _temperature = self.optimiser.param_groups
        done = (self.iteration - 1) / self.iterations
        weights["lr"] = linear(self.chosen.learning_rate, 0.0, done)

    def regression(self, batch: Transitions, log_probs: Tensor) -> tuple[Tensor, float]:
        """Return the loss of imitating actions better than the mean one, and the share of these.

        Args:
            batch: B decisions.
            log_probs: (B, A) log-probabilities of the actor.
        """
        values = self.network.critics(batch.seen)
        weights = regression_weights(
            values, log_probs, batch.actions, self.chosen.filter, self.chosen.temperature
        )
        share = float((weights > 0).float().mean())
        return regression_loss(log_probs, batch.actions, weights), share

    def take_step(self, loss: Tensor) -> None:
        """Take one step of Adam; the target critics follow."""
        take_step(self.optimiser, loss, _LARGEST_GRADIENT)
        self.network.follow(self.chosen.follow)

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the agent on held-out streams; see `greedy_and_drawn`."""
        return greedy_and_drawn(self.source, self.unseen, self._evaluation_rule)

    def _evaluation_rule(self, greedy: bool) -> Rule:
        rng = None if greedy else self.stream("held_out")
        return rule_of(self.network.actor, rng, self.device)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        actor = self.network.actor
        assert not isinstance(actor, Perceptron)
        self.write_network(folder, actor, self.source.describe(actor.shape), curve_end)
