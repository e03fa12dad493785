"""Launchpad: agents of a ready pool learn from recorded data, from games, or from both.

"Launchpad" is chapter 7 of the dissertation on power-modulated datacenters (University of Virginia,
2023). A training has up to three phases:

1. *Cloning*: the actor imitates the recorded actions.
2. *Offline*: critics learn the values of the recorded actions, and the actor imitates those that
   are better than its own mean action (Z. Wang et al., "Critic regularized regression", 2020).
3. *Online*: the actor plays, and learns from its games as well as from the recorded ones. It learns
   to take the actions that the critics value most, with some entropy (P. Christodoulou, "Soft
   actor-critic for discrete action settings", 2019), as in the dissertation's algorithm 10; or it
   learns as in the offline phase (A. Nair, A. Gupta, M. Dalal and S. Levine, "AWAC: accelerating
   online reinforcement learning with offline datasets", 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from simkit.learners.common.actor_critic.off_policy import Transitions, joined
from simkit.learners.common.actor_critic.policy_losses import (
    cloning_loss,
    soft_policy_loss,
    temperature_loss,
)
from simkit.learners.common.arguments import Share, prepared
from simkit.learners.common.baselines import MovingMean
from simkit.learners.common.distributions import entropy
from simkit.learners.common.optimisers import linear
from simkit.learners.common.training import Stateful
from simkit.learners.ready_pool.arguments import OffPolicyArguments
from simkit.learners.ready_pool.recorded import Recorded
from simkit.learners.ready_pool.source import ReadySource
from simkit.learners.ready_pool.training import OffPolicyTraining
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count
from simkit.training import Training

Phase = Literal["clone", "offline", "online"]


class OfflineArguments(OffPolicyArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Iterations of the training: those of `clone`, then those of `offline`, then online ones."""
    dataset: str | None = None
    """A file that `simkit dataset record` wrote; null: none, all iterations are online."""
    clone: Annotated[int, Field(ge=0)] = 20
    """Iterations in which the actor only imitates."""
    offline: Annotated[int, Field(ge=0)] = 10
    """Iterations that learn from the data alone; with many, the actor becomes undecided."""
    actor: Literal["soft", "regression"] = "soft"
    """How the actor learns online: to take what the critics value most, or as offline."""
    entropy: Share = 0.1
    """Share of the largest possible entropy that a soft actor keeps."""
    entropy_first: Share = 0.5
    """This share when the games begin; it falls until half of them are played. An actor that never
    waits when a job could start gains nothing by waiting once, so it must be undecided at first."""
    critics: Count = 2
    """Number of critics; the lowest of their values counts."""

    @model_validator(mode="after")
    def _arguments_fit(self) -> Self:
        given = self.model_fields_set & {"clone", "offline"}
        if self.dataset is None:
            texts = [((key,), "needs data; give a dataset, or leave it out") for key in given]
        else:
            both = self.clone + self.offline
            text = f"is {self.iterations}, fewer than clone and offline together, {both}; give more"
            texts = [(("iterations",), text)] if both > self.iterations else []
        if self.entropy_first < self.entropy:
            text = f"is {self.entropy_first:g}; it must exceed entropy, {self.entropy:g}"
            texts.append((("entropy_first",), text))
        if texts:
            raise BrokenRulesError(texts)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that lock-step ready pools do not
    support, data of another pool, arguments out of range, or a missing device; RunError for a
    dataset that cannot be read; PluginError without safetensors, which the first checkpoint needs.
    """

    def source_of(chosen: OfflineArguments) -> ReadySource:
        return ReadySource(scenario, **chosen.environment())

    chosen, source = prepared(OfflineArguments, arguments, source_of, device)
    data = None if chosen.dataset is None else _recorded(chosen, source)
    return OfflineTraining(scenario, source, data, chosen, seed, device)


def _recorded(chosen: OfflineArguments, source: ReadySource) -> Recorded:
    assert chosen.dataset is not None
    playing = chosen.iterations > chosen.clone + chosen.offline
    return Recorded.read(Path(chosen.dataset), source, chosen.discount, playing=playing)


class OfflineTraining(OffPolicyTraining[OfflineArguments]):
    """A training with Launchpad."""

    learner = "offline"

    def __init__(
        self, scenario: Scenario, source: ReadySource, data: Recorded | None,
        arguments: OfflineArguments, seed: int, device: str,
    ) -> None:  # fmt: skip
        shape = source.scorer(arguments.hidden)
        super().__init__(scenario, source, arguments, shape, seed, device)
        self.data = data
        if data is not None:
            self.usual = MovingMean(first=data.value_per_hour)

    def parts(self) -> Mapping[str, Stateful]:
        return {**super().parts(), **({} if self.data is None else {"data": self.data})}

    @property
    def phase(self) -> Phase:
        """The phase of this iteration."""
        if self.data is None:
            return "online"
        past_clone = self.iteration - self.chosen.clone
        if past_clone <= 0:
            return "clone"
        return "offline" if past_clone <= self.chosen.offline else "online"

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``online``: 1 in the online phase, else 0; ``value_per_hour``: value paid per hour in its
        games, in steps of the whole pool, and ``cost``: their mean number of waiting jobs, both 0
        before; ``critic``: mean loss of the critics; ``imitated``: share of decisions that the
        actor imitated; ``entropy``: mean entropy of the actor, in nats.
        """
        chosen, phase = self.chosen, self.phase
        self.lower_learning_rate()
        # Play
        value = cost = 0.0
        if phase == "online":
            outcome = self.experience.play(self.own_rule(), chosen.decisions)
            value, cost = outcome.value_per_hour, outcome.cost
            self.usual.take(value)
        # Learn
        rows = [self._improve(self._batch(phase), phase) for _ in range(chosen.updates)]
        # Logging
        critic, imitated, mean_entropy = np.mean(rows, axis=0)
        return {
            "online": float(phase == "online"), "value_per_hour": value, "cost": cost,
            "critic": float(critic), "imitated": float(imitated), "entropy": float(mean_entropy),
        }  # fmt: skip

    def _wanted_entropy(self) -> float:
        """Return the share of the largest entropy that a soft actor keeps in this iteration."""
        before = 0 if self.data is None else self.chosen.clone + self.chosen.offline
        played = (self.iteration - before - 1) / (self.iterations - before)
        return linear(self.chosen.entropy_first, self.chosen.entropy, 2 * played)

    def _batch(self, phase: Phase) -> Transitions:
        """Draw decisions from the data; in the online phase, draw half of them from the games.

        P. J. Ball, L. Smith, I. Kostrikov and S. Levine, "Efficient online reinforcement learning
        with offline data" (2023), section 4.1: drawn in proportion, data would outnumber games.
        """
        rng, count = self.generators["memories"], self.chosen.batch
        own = 0 if phase != "online" else count if self.data is None else count // 2
        parts = []
        if self.data is not None:
            parts.append(self.data.memory.draw(count - own, rng))
        if own:
            parts.append(self.experience.memory.draw(own, rng))
        return joined([Transitions.of(part.columns) for part in parts]).to(self.device)

    def _improve(self, batch: Transitions, phase: Phase) -> tuple[float, float, float]:
        """Take one step of Adam; return the critics' loss, the share imitated, and the entropy."""
        chosen, network = self.chosen, self.network
        log_probs = network.log_probabilities(batch.seen, batch.allowed)
        mean_entropy, imitated = float(entropy(log_probs.detach()).mean()), 1.0
        soft = phase == "online" and chosen.actor == "soft"
        temperature = network.log_temperature.detach().exp() if soft else 0.0
        error = torch.zeros(())
        # Critics
        if phase != "clone":
            goals = network.goals(batch, self.usual.value, temperature)
            error = network.critics.error(batch.seen, batch.actions, goals)
        # Actor
        if phase == "clone":
            actor_loss = cloning_loss(log_probs, batch.actions)
        elif soft:
            imitated = 0.0
            values = network.critics(batch.seen)
            wanted = self._wanted_entropy() * batch.allowed.sum(dim=-1).float().log()
            actor_loss = soft_policy_loss(values, log_probs, temperature)
            actor_loss = actor_loss + temperature_loss(network.log_temperature, log_probs, wanted)
        else:
            actor_loss, imitated = self.regression(batch, log_probs)
        self.take_step(error + actor_loss)
        return float(error.detach()), imitated, mean_entropy
