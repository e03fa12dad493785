"""An actor, and critics that learn from what others did as well: the networks of off-policy agents.

The actor gives the probabilities of actions, the critics what each will bring from now on if the
actor goes on from there; slow copies of the critics are their own goals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor, nn

from simkit.learners.common.actor_critic.critics import Critic, Critics, expected_value
from simkit.learners.common.distributions import masked_log_softmax
from simkit.learners.common.images.network import ImageEncoder, ImageNetwork
from simkit.learners.common.networks import SetScorer, build
from simkit.learners.common.shapes import ImageShape, SetScorerShape
from simkit.learners.common.targets import follow, target_of
from simkit.learners.common.trajectories import Transitions

__all__ = ["ActorAndCritics", "actor_and_critics"]

_FIRST_TEMPERATURE: Final = 1.0
"""Rewards are about 1 a step at most, so that entropy outweighs them at first."""


def actor_and_critics(
    shape: SetScorerShape | ImageShape, critics: int, discount: float, *, popart: bool
) -> ActorAndCritics:
    """Return networks of one shape with fresh weights.

    Over an image all share an encoder, which learns from the critics alone.

    Args:
        shape: of each network.
        critics: how many there are.
        discount: γ of a unit of time.
        popart: whether the goals of the critics are scaled as they come.
    """
    if isinstance(shape, SetScorerShape):

        def critic() -> Critic:
            return Critic(build(shape), popart=popart)

        scorer = build(shape)
        assert isinstance(scorer, SetScorer)
        return ActorAndCritics(scorer, Critics(critics, critic), discount)
    encoder = ImageEncoder(shape)

    def critic_of_image() -> Critic:
        return Critic(ImageNetwork(shape, encoder), popart=popart)

    actor = ImageNetwork(shape, encoder, frozen=True)
    return ActorAndCritics(actor, Critics(critics, critic_of_image), discount)


class ActorAndCritics(nn.Module):
    """An actor, K critics, and their slow copies.

    Attributes:
        log_temperature: the logarithm of α, what a nat of the actor's entropy is worth, for those
            that train it.
    """

    def __init__(self, actor: SetScorer | ImageNetwork, critics: Critics, discount: float) -> None:
        """Begin.

        Args:
            actor: returns logits.
            critics: return values.
            discount: γ of a unit of time.
        """
        super().__init__()
        self.actor, self.critics, self._discount = actor, critics, discount
        self.slow = target_of(critics)
        self.log_temperature = nn.Parameter(torch.tensor([_FIRST_TEMPERATURE]).log())

    def learned(self) -> Iterator[nn.Parameter]:
        """Yield the weights that an optimiser changes, each once; without the temperature."""
        for each in self.parameters():
            if each.requires_grad and each is not self.log_temperature:
                yield each

    def chances(self, seen: Tensor, allowed: Tensor) -> Tensor:
        """Return (B, A) log-probabilities of the actor; -inf where not allowed."""
        return masked_log_softmax(self.actor(seen), allowed)

    @torch.no_grad()
    def goals(
        self, batch: Transitions, usual: float = 0.0, temperature: float | Tensor = 0.0
    ) -> Tensor:
        """Return (B,) what the values of the actions taken should be.

        r - ρ (1 - γ^h) / (1 - γ) + γ^h Σ π (Q - α log π) of what came h units of time later: the
        rewards above the usual ones, as a game without an end is judged by (R. S. Sutton and A. G.
        Barto, "Reinforcement learning", 2018, section 10.3).

        Args:
            batch: B decisions.
            usual: ρ, the mean reward per unit of time.
            temperature: α, at least 0, what a nat of the actor's entropy is worth.
        """
        gone = self._discount**batch.passed
        chances = self.chances(batch.after, batch.allowed_after)
        later = expected_value(self.slow(batch.after), chances, temperature)
        share = batch.passed if self._discount == 1.0 else (1.0 - gone) / (1.0 - self._discount)
        return batch.rewards - usual * share + torch.where(batch.over, 0.0, gone * later)

    def follow(self, share: float) -> None:
        """Move the slow copies towards the critics by a share."""
        follow(self.slow, self.critics, share)
