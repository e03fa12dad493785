"""RARE: an off-policy actor-critic for a green datacenter's ready pool.

"RARE" is chapter 5 of the dissertation on power-modulated datacenters (University of Virginia,
2023), algorithm 6: an encoder embeds the observation, a critic estimates the value of each action,
and the actor imitates the actions in the replay memory that are better than its own mean action (Z.
Wang et al., "Critic regularized regression", 2020, with the binary filter). In a warm-up, a rule
may play and the actor imitate it; then the actor plays itself. The critic's targets come from a
slow copy of it, and are normalised as they arrive (PopArt). The encoder reads a set of jobs, for
pools of any size; that of the dissertation reads an image of the pool.

As in `simkit.learners.cocorl`, a job's value is paid when it is placed, and rewards count above
their mean per hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from simkit.learners.common.actor_critic.off_policy import Transitions
from simkit.learners.common.actor_critic.policy_losses import cloning_loss
from simkit.learners.common.arguments import prepared
from simkit.learners.common.distributions import entropy
from simkit.learners.lockstep.ready_pool.rules import ORDERS, left_over
from simkit.learners.ready_pool.arguments import OffPolicyArguments
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
    """The rule that plays in the warm-up; left-over: place the job that leaves the least free when
    it starts."""
    warm_up: Annotated[int, Field(ge=0)] = 0
    """Iterations in which the rule plays and the actor only imitates."""
    critics: Count = 1
    """Number of critics; the lowest of their values counts."""

    @model_validator(mode="after")
    def _warm_up_fits(self) -> Self:
        problems = []
        if "teacher" in self.model_fields_set and not self.warm_up:
            problems.append(
                (("teacher",), "plays only in the warm-up; give warm_up, or leave it out")
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
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that lock-step ready pools do not
    support, arguments out of range, or a missing device; PluginError without safetensors, which the
    first checkpoint needs.
    """

    def source_of(chosen: RAREArguments) -> ReadySource:
        return ReadySource(scenario, **chosen.environment())

    chosen, source = prepared(RAREArguments, arguments, source_of, device)
    return RARETraining(scenario, source, chosen, seed, device)


class RARETraining(OffPolicyTraining[RAREArguments]):
    """A training with RARE."""

    learner = "rare"

    def __init__(
        self, scenario: Scenario, source: ReadySource, arguments: RAREArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        shape = source.scorer(arguments.hidden)
        super().__init__(scenario, source, arguments, shape, seed, device)

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``value_per_hour``: value paid per hour, in steps of the whole pool; ``cost``: mean number
        of waiting jobs; ``critic``: mean loss of the critics; ``imitated``: share of decisions that
        the actor imitated; ``entropy``: mean entropy of the actor, in nats.
        """
        chosen = self.chosen
        self.lower_learning_rate()
        # Play
        warming_up = self.iteration <= chosen.warm_up
        teacher = {**ORDERS, "left-over": left_over(chosen.max_start)}[chosen.teacher]
        outcome = self.experience.play(teacher if warming_up else self.own_rule(), chosen.decisions)
        self.usual.take(outcome.value_per_hour)
        # Learn
        rng, rows = self.generators["memories"], []
        for _ in range(chosen.updates):
            batch = Transitions.of(self.experience.memory.draw(chosen.batch, rng).columns)
            rows.append(self._improve(batch.to(self.device), imitate_all=warming_up))
        # Logging
        critic, imitated, mean_entropy = np.mean(rows, axis=0)
        return {
            "value_per_hour": outcome.value_per_hour, "cost": outcome.cost,
            "critic": float(critic), "imitated": float(imitated), "entropy": float(mean_entropy),
        }  # fmt: skip

    def _improve(self, batch: Transitions, *, imitate_all: bool) -> tuple[float, float, float]:
        """Take one step of Adam; return the critics' loss, the share imitated, and the entropy."""
        network = self.network
        log_probs = network.log_probabilities(batch.seen, batch.allowed)
        # Critics
        goals = network.goals(batch, self.usual.value)
        error = network.critics.error(batch.seen, batch.actions, goals)
        # Actor
        if imitate_all:
            imitated, actor_loss = 1.0, cloning_loss(log_probs, batch.actions)
        else:
            actor_loss, imitated = self.regression(batch, log_probs)
        self.take_step(error + actor_loss)
        return float(error.detach()), imitated, float(entropy(log_probs.detach()).mean())
