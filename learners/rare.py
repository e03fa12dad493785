"""An off-policy actor-critic for a green datacenter's ready pool, as RARE is.

"RARE" is chapter 5 of the dissertation on power-modulated datacenters (University of Virginia,
2023), algorithm 6: an encoder condenses what is seen, a critic estimates what each action will
bring, and the actor imitates those of the remembered actions that were better than its own mean one
(Z. Wang et al., "Critic regularized regression", 2020, with the binary filter). The memory may
begin with what a rule did, which the actor imitates first; then it plays itself. The critic's goals
come from a slow copy of it, and are scaled as they come (PopArt). The encoder is that of the
dissertation, over an image of the pool, or a set encoder, which knows pools of any size.

As in `simkit.learners.cocorl`, a job's value is paid as it is placed, and rewards count above
their mean per hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from simkit.learners.common.actor_critic.policy_losses import (
    cloning_loss,
)
from simkit.learners.common.arguments import prepared
from simkit.learners.common.distributions import entropy
from simkit.learners.common.shapes import Width
from simkit.learners.common.trajectories import Transitions
from simkit.learners.lockstep.ready_pool.rules import ORDERS, left_over
from simkit.learners.ready_pool.arguments import OffPolicyArguments
from simkit.learners.ready_pool.description import (
    EncoderSize,
    ready_image_network,
    ready_scorer,
)
from simkit.learners.ready_pool.source import ReadySource
from simkit.learners.ready_pool.training import OffPolicyTraining
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count
from simkit.training import Training


class RAREArguments(OffPolicyArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Iterations of the training."""
    teacher: Literal["fcfs", "sjf", "qos", "value", "value-density", "left-over"] = "qos"
    """The rule that plays in the warm-up; left-over: the job that may be placed and
    leaves least over."""
    warm_up: Annotated[int, Field(ge=0)] = 0
    """Iterations in which the rule plays and the actor only imitates."""
    encoder: EncoderSize | Literal["set"] = "set"
    """A set of jobs, or an image of the pool of a size of table A.5."""
    hidden: Width = 64
    """Units of each layer; of the one behind the encoder of images."""
    critics: Count = 1
    """The least of their values counts."""

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
        return ReadySource(scenario, image=chosen.encoder != "set", **chosen.environment())

    chosen, source = prepared(RAREArguments, arguments, source_of, device)
    return RARETraining(scenario, source, chosen, seed, device)


class RARETraining(OffPolicyTraining[RAREArguments]):
    """A training under way."""

    learner = "rare"

    def __init__(
        self, scenario: Scenario, source: ReadySource, arguments: RAREArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        shape = (
            ready_scorer(source, arguments.hidden)
            if arguments.encoder == "set"
            else ready_image_network(source, arguments.encoder, arguments.hidden)
        )
        super().__init__(scenario, source, arguments, shape, seed, device)

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``value_per_hour``: as it was paid, in steps of the whole pool; ``cost``: waiting jobs, in
        the mean; ``critic``: the critics' mean loss; ``imitated``: the share of decisions that the
        actor imitated; ``entropy``: the actor's mean, in nats.
        """
        chosen = self.chosen
        self.lower_learning_rate()
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
        network = self.network
        chances = network.log_probabilities(batch.seen, batch.allowed)
        # Critics
        goals = network.goals(batch, self.usual.value)
        error = network.critics.error(batch.seen, batch.actions, goals)
        # Actor
        if imitate_all:
            imitated, actor_loss = 1.0, cloning_loss(chances, batch.actions)
        else:
            actor_loss, imitated = self.regression(batch, chances)
        self.take_step(error + actor_loss)
        spread = float(entropy(chances.detach()).mean())
        return float(error.detach()), imitated, spread
