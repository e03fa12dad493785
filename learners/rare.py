"""An off-policy actor-critic for a green datacenter's ready pool, as RARE is.

"RARE" is chapter 5 of the dissertation on power-modulated datacenters (University of Virginia,
2023), algorithm 6: an encoder condenses what is seen, a critic says what each action will bring,
and the actor imitates those of the remembered actions that were better than its own mean one (Z.
Wang et al., "Critic regularized regression", 2020, with the binary filter). The memory may begin
with what a rule did, which the actor imitates first; then it plays itself. The critic's goals come
from a slow copy of it, and are scaled as they come (PopArt). The encoder is that of the
dissertation, over an image of the pool, or a set encoder, which knows pools of any size.

As in `simkit.learners.cocorl`, a job's value is paid as it is placed, and rewards count above
their mean per hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from simkit.learners.arguments import Positive, Share, prepared
from simkit.learners.common.actor_critic.off_policy import actor_and_critics
from simkit.learners.common.actor_critic.policy_losses import (
    Filter,
    cloning_loss,
    regression_loss,
    regression_weights,
)
from simkit.learners.common.distributions import entropy
from simkit.learners.common.moving_mean import MovingMean
from simkit.learners.common.networks import seeded
from simkit.learners.common.schedules import linear
from simkit.learners.common.shapes import Width
from simkit.learners.common.training import Stateful
from simkit.learners.common.trajectories import Transitions
from simkit.learners.lockstep.ready_pool.rules import ORDERS, left_over
from simkit.learners.ready_pool.description import (
    EncoderSize,
    ready_image_network,
    ready_scorer,
)
from simkit.learners.ready_pool.experience import Experience
from simkit.learners.ready_pool.source import HORIZON, ReadySource
from simkit.learners.ready_pool.training import OffPolicyTraining
from simkit.learning.ready_pool.actions import Advance
from simkit.scenario import Scenario
from simkit.scenario.types import BrokenRulesError, Count, Section
from simkit.training import Training

LARGEST_GRADIENT: Final = 10.0
"""Gradients are shortened to this norm."""


class RAREArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Iterations of the training."""
    games: Count = 64
    """Replicas that are played at the same time."""
    decisions: Annotated[int, Field(ge=2)] = 64
    """Decisions of each in an iteration."""
    hours: Count = 2000
    """Steps of a game; then another begins."""
    updates: Count = 200
    """Steps of the optimiser in an iteration."""
    replay: Count = 50_000
    """Decisions that are remembered."""
    # the beginning
    teacher: Literal["fcfs", "sjf", "qos", "value", "value-density", "left-over"] = "qos"
    """The rule that plays in the warm-up; left-over: of the jobs that may be placed, the one beside
    which least is left over."""
    warm_up: Annotated[int, Field(ge=0)] = 0
    """Iterations that the rule plays and the actor only imitates."""
    # the environment
    max_start: Annotated[int, Field(ge=0, lt=HORIZON)] = 0
    """The last step ahead in which a job may start; 0: only now."""
    reject: bool = False
    """Whether the agent may reject jobs."""
    advance: Advance = "no-op"
    """Time goes on when the agent does nothing, or with each of its actions."""
    # the networks
    encoder: EncoderSize | Literal["set"] = "set"
    """A set of jobs, or an image of the pool of a size of table A.5."""
    hidden: Width = 64
    """Units of each layer; of the one behind the encoder of images."""
    critics: Count = 1
    """The least of their values counts."""
    popart: bool = True
    """Goals of the critics are scaled as they come."""
    # learning
    filter: Filter = "binary"
    """Actions above the mean count alike, or all by how much they are better."""
    temperature: Positive = 0.1
    """Of the exponential filter."""
    learning_rate: Positive = 0.001
    """Learning rate of Adam at first; it falls to 0 in equal steps."""
    discount: Share = 0.98
    """γ of a step of time."""
    follow: Share = 0.005
    """Share by which the slow critics follow at every update."""
    batch: Count = 256
    """Decisions of an update."""
    held_out_games: Count = 32
    """Streams on which the agent is evaluated; the same for all trainings, never trained on."""

    @model_validator(mode="after")
    def _warm_up_fits(self) -> Self:
        problems = []
        if "teacher" in self.model_fields_set and not self.warm_up:
            problems.append(
                (("teacher",), "plays in the warm-up alone; give warm_up, or leave it out")
            )
        if self.warm_up > self.iterations:
            text = f"is {self.warm_up}, more than the {self.iterations} iterations; give fewer"
            problems.append((("warm_up",), text))
        if problems:
            raise BrokenRulesError(problems)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that lock-step ready pools do not
    know, arguments out of their range, an encoder that the image is too small for, or a device that
    is not there; PluginError without safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: RAREArguments) -> ReadySource:
        return ReadySource(
            scenario, hours=chosen.hours, max_start=chosen.max_start, reject=chosen.reject,
            advance=chosen.advance, discount=chosen.discount,
            image=chosen.encoder != "set",
        )  # fmt: skip

    chosen, source = prepared(RAREArguments, arguments, source_of, device)
    return RARETraining(scenario, source, chosen, seed, device)


class RARETraining(OffPolicyTraining):
    """A training under way."""

    learner = "rare"

    def __init__(
        self, scenario: Scenario, source: ReadySource, arguments: RAREArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("streams", "actions", "memories"))
        chosen = self.chosen = arguments
        self.held_out_games = chosen.held_out_games
        self.source, self.device = source, device
        # Environment
        rows = max(chosen.replay // chosen.games, 2)
        streams = self.generators["streams"]
        self.experience = Experience(source, chosen.games, rows, streams)
        self.usual = MovingMean()
        # Agent
        shape = (
            ready_scorer(source, chosen.hidden)
            if chosen.encoder == "set"
            else ready_image_network(source, chosen.encoder, chosen.hidden)
        )
        with seeded(self.stream("weights")):
            self.actor_and_critics = actor_and_critics(
                shape, chosen.critics, chosen.discount, popart=chosen.popart
            ).to(device)
        self.optimiser = torch.optim.Adam(self.network.learned(), chosen.learning_rate)

    def parts(self) -> Mapping[str, Stateful]:
        own = self.experience
        return {"games": own.games, "memory": own.memory, "usual": self.usual}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``value_per_hour``: as it was paid, in steps of the whole pool; ``cost``: waiting jobs, in
        the mean; ``critic``: the critics' mean loss; ``imitated``: the share of decisions that the
        actor imitated; ``entropy``: the actor's mean, in nats.
        """
        chosen, done = self.chosen, (self.iteration - 1) / self.iterations
        for group in self.optimiser.param_groups:
            group["lr"] = linear(chosen.learning_rate, 0.0, done)
        # Play
        first = self.iteration <= chosen.warm_up
        own = self.own_rule()
        teacher = {**ORDERS, "left-over": left_over(chosen.max_start)}[chosen.teacher]
        went = self.experience.play(teacher if first else own, chosen.decisions)
        self.usual.take(went.value_per_hour)
        # Learn
        rng, rows = self.generators["memories"], []
        for _ in range(chosen.updates):
            batch = self.experience.memory.draw(chosen.batch, rng).to(self.device)
            rows.append(self._improve(batch, imitate_all=first))
        # Logging
        critic, imitated, spread = np.mean(rows, axis=0)
        return {
            "value_per_hour": went.value_per_hour, "cost": went.cost, "critic": float(critic),
            "imitated": float(imitated), "entropy": float(spread),
        }  # fmt: skip

    def _improve(self, batch: Transitions, *, imitate_all: bool) -> tuple[float, float, float]:
        """Take one step of Adam; return the critics' loss, the share imitated, and the entropy."""
        chosen, network = self.chosen, self.network
        chances = network.chances(batch.seen, batch.allowed)
        # Critics
        goals = network.goals(batch, self.usual.value)
        error = network.critics.error(batch.seen, batch.actions, goals)
        # Actor
        if imitate_all:
            imitated, actor_loss = 1.0, cloning_loss(chances, batch.actions)
        else:
            weights = regression_weights(
                network.critics(batch.seen), chances, batch.actions, chosen.filter,
                chosen.temperature,
            )  # fmt: skip
            imitated = float((weights > 0).float().mean())
            actor_loss = regression_loss(chances, batch.actions, weights)
        self.optimiser.zero_grad()
        loss = error + actor_loss
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.learned(), LARGEST_GRADIENT)
        self.optimiser.step()
        network.follow(chosen.follow)
        spread = float(entropy(chances.detach()).mean())
        return float(error.detach()), imitated, spread
