"""The networks of off-policy agents: an actor, and critics that learn from anyone's actions.

The actor gives the probabilities of actions. The critics estimate the return of each action if the
actor decides from there on; slow copies of the critics provide the targets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from simkit.learners.common.off_policy.action_values import follow, target_of
from simkit.learners.common.off_policy.critics import Critic, Critics, expected_value
from simkit.learners.common.off_policy.replay import Columns
from simkit.learners.networks.build import Network, build
from simkit.learners.networks.distributions import masked_log_softmax
from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape

__all__ = ["ActorAndCritics", "Transitions"]


@dataclass(frozen=True)
class Transitions:
    """B decisions and their outcomes."""

    seen: Tensor
    """(B, K) observations."""
    allowed: Tensor
    """(B, A) bool: which actions were allowed."""
    actions: Tensor
    """(B,) int64: actions taken."""
    rewards: Tensor
    """(B,)"""
    passed: Tensor
    """(B,) time until the next decision."""
    over: Tensor
    """(B,) bool: whether the decision ended its episode."""
    after: Tensor
    """(B, K) observations at the next decision."""
    allowed_after: Tensor
    """(B, A) bool: which actions the next decision allowed; all if the episode is over."""

    @classmethod
    def of(cls, parts: Sequence[Columns], device: str = "cpu") -> Self:
        """Return drawn rows of memories, one after another, on a device; numbers are float32."""
        drawn = {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}
        drawn |= {name: drawn[name].astype(np.float32) for name in ("rewards", "passed")}
        return cls(**{name: torch.from_numpy(column).to(device) for name, column in drawn.items()})


_COLUMNS = tuple(field.name for field in fields(Transitions))


class ActorAndCritics(nn.Module):
    """An actor, K critics, and their slow copies; all networks have one shape.

    Attributes:
        log_temperature: logarithm of α, the value of a nat of the actor's entropy; only some
            learners train it.
    """

    def __init__(
        self, shape: PerceptronShape | SetScorerShape, critics: int, discount: float, *,
        popart: bool, temperature: float = 1.0,
    ) -> None:  # fmt: skip
        """Draw weights.

        Args:
            shape: shape of each network.
            critics: K.
            discount: γ per unit of time.
            popart: whether the critics' targets are normalised as they arrive.
            temperature: initial α.
        """
        super().__init__()
        self._discount = discount
        self.actor: Network = build(shape)  # returns logits
        self.critics = Critics(critics, lambda: Critic(build(shape), popart=popart))
        self.slow = target_of(self.critics)
        self.log_temperature = nn.Parameter(torch.tensor([math.log(temperature)]))

    def learned(self) -> Iterator[nn.Parameter]:
        """Yield each weight that an optimiser changes, except the temperature."""
        for each in self.parameters():
            if each.requires_grad and each is not self.log_temperature:
                yield each

    def log_probabilities(self, seen: Tensor, allowed: Tensor) -> Tensor:
        """Return (B, A) log-probabilities of the actor; -inf where not allowed."""
        return masked_log_softmax(self.actor(seen), allowed)

    @torch.no_grad()
    def goals(
        self, batch: Transitions, usual: float = 0.0, temperature: float | Tensor = 0.0
    ) -> Tensor:
        """Return (B,) targets for the values of the actions taken.

        r - ρ (1 - γ^h) / (1 - γ) + γ^h Σ π (Q - α log π), where Q and π are those of the next
        decision, h units of time later. Endless games count rewards above their mean ρ (R. S.
        Sutton and A. G. Barto, "Reinforcement learning", 2018, section 10.3).

        Args:
            batch: B decisions.
            usual: ρ, the mean reward per unit of time.
            temperature: α, at least 0, the value of a nat of the actor's entropy.
        """
        discount = self._discount**batch.passed
        log_probs = self.log_probabilities(batch.after, batch.allowed_after)
        later = expected_value(self.slow(batch.after), log_probs, temperature)
        time = batch.passed if self._discount == 1.0 else (1.0 - discount) / (1.0 - self._discount)
        return batch.rewards - usual * time + torch.where(batch.over, 0.0, discount * later)

    def follow(self, share: float) -> None:
        """Move the slow copies a share of the way towards the critics."""
        follow(self.slow, self.critics, share)
