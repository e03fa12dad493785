"""Agents of a ready pool from recorded data, from games, or from both, as Launchpad does.

"Launchpad" is chapter 7 of the dissertation on power-modulated datacenters (University of Virginia,
2023). A training has up to three phases:

1. *Cloning*: the actor imitates the recorded actions.
2. *Offline*: critics learn what the recorded actions brought, and the actor imitates those that
   were better than its own mean one (Z. Wang et al., "Critic regularized regression", 2020).
3. *Online*: the actor plays, and learns from its games beside the recorded ones. It takes the
   actions that the critics value most, with some entropy (P. Christodoulou, "Soft actor-critic for
   discrete action settings", 2019), as in the dissertation's algorithm 10; or it goes on as before
   (A. Nair, A. Gupta, M. Dalal and S. Levine, "AWAC: accelerating online reinforcement learning
   with offline datasets", 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
    soft_policy_loss,
    temperature_loss,
)
from simkit.learners.common.distributions import entropy
from simkit.learners.common.moving_mean import MovingMean
from simkit.learners.common.networks import seeded
from simkit.learners.common.schedules import linear
from simkit.learners.common.shapes import Width
from simkit.learners.common.training import Stateful
from simkit.learners.common.trajectories import Transitions, joined
from simkit.learners.ready_pool.description import ready_scorer
from simkit.learners.ready_pool.experience import Experience
from simkit.learners.ready_pool.recorded import Recorded
from simkit.learners.ready_pool.source import HORIZON, ReadySource
from simkit.learners.ready_pool.training import OffPolicyTraining
from simkit.learning.ready_pool.actions import Advance
from simkit.scenario import Scenario
from simkit.scenario.types import BrokenRulesError, Count, Section
from simkit.training import Training

LARGEST_GRADIENT: Final = 10.0
"""Gradients are shortened to this norm."""
Phase = Literal["clone", "offline", "online"]


class OfflineArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 100
    """Iterations of the training: those of `clone`, then those of `offline`, then online ones."""
    dataset: str | None = None
    """The file of `simkit dataset record`; null: none, and all iterations are online."""
    clone: Annotated[int, Field(ge=0)] = 20
    """Iterations in which the actor only imitates."""
    offline: Annotated[int, Field(ge=0)] = 80
    """Iterations that learn from the data alone."""
    updates: Count = 500
    """Steps of the optimiser in an iteration."""
    # online
    games: Count = 64
    """Replicas that are played at the same time."""
    decisions: Annotated[int, Field(ge=2)] = 64
    """Decisions of each in an online iteration."""
    hours: Count = 2000
    """Steps of a game; then another begins."""
    replay: Count = 50_000
    """Decisions that are remembered, beside the data."""
    # the environment
    max_start: Annotated[int, Field(ge=0, lt=HORIZON)] = 0
    """The last step ahead in which a job may start; 0: only now."""
    reject: bool = False
    """Whether the agent may reject jobs."""
    advance: Advance = "no-op"
    """Time goes on when the agent does nothing, or with each of its actions."""
    # learning
    actor: Literal["soft", "regression"] = "soft"
    """How the actor learns online: it takes what the critics value most, or goes on as offline."""
    filter: Filter = "binary"
    """Recorded actions above the mean count alike, or all by how much they are better."""
    temperature: Positive = 0.1
    """Of the exponential filter."""
    entropy: Share = 0.1
    """Share of the largest entropy that a soft actor keeps."""
    critics: Count = 2
    """The least of their values counts."""
    popart: bool = True
    """Goals of the critics are scaled as they come."""
    hidden: Width = 64
    """Units of each layer."""
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
    def _phases_fit(self) -> Self:
        given = self.model_fields_set & {"clone", "offline"}
        if self.dataset is None:
            texts = [((key,), "needs data; give a dataset, or leave it out") for key in given]
        else:
            both = self.clone + self.offline
            text = f"is {self.iterations}, fewer than clone and offline together, {both}; give more"
            texts = [(("iterations",), text)] if both > self.iterations else []
        if texts:
            raise BrokenRulesError(texts)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that lock-step ready pools do not
    know, data of another pool, arguments out of their range, or a device that is not there;
    RunError for a dataset that cannot be read; PluginError without safetensors, which the first
    checkpoint needs.
    """

    def source_of(chosen: OfflineArguments) -> ReadySource:
        return ReadySource(
            scenario, hours=chosen.hours, max_start=chosen.max_start, reject=chosen.reject,
            advance=chosen.advance, discount=chosen.discount,
        )  # fmt: skip

    chosen, source = prepared(OfflineArguments, arguments, source_of, device)
    data = None if chosen.dataset is None else _recorded(chosen, source)
    return OfflineTraining(scenario, source, data, chosen, seed, device)


def _recorded(chosen: OfflineArguments, source: ReadySource) -> Recorded:
    assert chosen.dataset is not None
    playing = chosen.iterations > chosen.clone + chosen.offline
    return Recorded.read(Path(chosen.dataset), source, chosen.discount, playing=playing)


class OfflineTraining(OffPolicyTraining):
    """A training under way."""

    learner = "offline"

    def __init__(
        self, scenario: Scenario, source: ReadySource, data: Recorded | None,
        arguments: OfflineArguments, seed: int, device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("streams", "actions", "memories"))
        chosen = self.chosen = arguments
        self.held_out_games = chosen.held_out_games
        self.source, self.data, self.device = source, data, device
        # Environment
        rows = max(chosen.replay // chosen.games, 2)
        self.experience = Experience(source, chosen.games, rows, self.generators["streams"])
        self.usual = MovingMean(first=None if data is None else data.value_per_hour)
        # Agent
        shape = ready_scorer(source, chosen.hidden)
        with seeded(self.stream("weights")):
            self.actor_and_critics = actor_and_critics(
                shape, chosen.critics, chosen.discount, popart=chosen.popart
            ).to(device)
        self.optimiser = torch.optim.Adam(self.network.learned(), chosen.learning_rate)

    def parts(self) -> Mapping[str, Stateful]:
        own = self.experience
        found: dict[str, Stateful] = {
            "games": own.games, "memory": own.memory, "usual": self.usual,
        }  # fmt: skip
        return found if self.data is None else {**found, "data": self.data}

    @property
    def phase(self) -> Phase:
        """What this iteration is for."""
        if self.data is None:
            return "online"
        past_clone = self.iteration - self.chosen.clone
        if past_clone <= 0:
            return "clone"
        return "offline" if past_clone <= self.chosen.offline else "online"

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``online``: 1 in the online phase, else 0; ``value_per_hour``: paid in its games, in steps
        of the whole pool, ``cost``: waiting jobs in their mean, both 0 before; ``critic``: the
        critics' mean loss; ``imitated``: the share of decisions that the actor imitated;
        ``entropy``: the actor's mean, in nats.
        """
        chosen, phase = self.chosen, self.phase
        for group in self.optimiser.param_groups:
            group["lr"] = linear(chosen.learning_rate, 0.0, (self.iteration - 1) / self.iterations)
        # Play
        value = cost = 0.0
        if phase == "online":
            rule = self.own_rule()
            went = self.experience.play(rule, chosen.decisions)
            value, cost = went.value_per_hour, went.cost
            self.usual.take(value)
        # Learn
        rows = [self._improve(self._batch(phase), phase) for _ in range(chosen.updates)]
        # Logging
        critic, imitated, spread = np.mean(rows, axis=0)
        return {
            "online": float(phase == "online"), "value_per_hour": value, "cost": cost,
            "critic": float(critic), "imitated": float(imitated), "entropy": float(spread),
        }  # fmt: skip

    def _batch(self, phase: Phase) -> Transitions:
        """Draw decisions: of the data, and online of the games as well, by how many there are."""
        rng, count = self.generators["memories"], self.chosen.batch
        own = len(self.experience.memory) if phase == "online" else 0
        kept = 0 if self.data is None else len(self.data.memory)
        from_own = round(count * own / (own + kept))
        parts = []
        if self.data is not None and from_own < count:
            parts.append(self.data.memory.draw(count - from_own, rng))
        if from_own:
            parts.append(self.experience.memory.draw(from_own, rng))
        return joined(parts).to(self.device)

    def _improve(self, batch: Transitions, phase: Phase) -> tuple[float, float, float]:
        """Take one step of Adam; return the critics' loss, the share imitated, and the entropy."""
        chosen, network = self.chosen, self.network
        chances = network.chances(batch.seen, batch.allowed)
        spread, imitated = entropy(chances), 1.0
        soft = phase == "online" and chosen.actor == "soft"
        temperature = network.log_temperature.detach().exp() if soft else 0.0
        error = torch.zeros(())
        # Critics
        if phase != "clone":
            goals = network.goals(batch, self.usual.value, temperature)
            error = network.critics.error(batch.seen, batch.actions, goals)
        # Actor
        if phase == "clone":
            actor_loss = cloning_loss(chances, batch.actions)
        else:
            values = network.critics(batch.seen).detach()
            if soft:
                imitated = 0.0
                wanted = chosen.entropy * batch.allowed.sum(dim=-1).float().log()
                actor_loss = soft_policy_loss(values, chances, temperature)
                actor_loss = actor_loss + temperature_loss(network.log_temperature, chances, wanted)
            else:
                weights = regression_weights(
                    values, chances, batch.actions, chosen.filter, chosen.temperature
                )
                imitated = float((weights > 0).float().mean())
                actor_loss = regression_loss(chances, batch.actions, weights)
        self.optimiser.zero_grad()
        loss = error + actor_loss
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.learned(), LARGEST_GRADIENT)
        self.optimiser.step()
        network.follow(chosen.follow)
        return float(error.detach()), imitated, float(spread.mean().detach())
