"""Losses of actors whose actions a critic has valued: (B,) states to one number.

All take the critic's values as they are: no gradient goes to the critic.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from simkit.learners.common.actor_critic.critics import expected_value
from simkit.learners.common.distributions import entropy, log_probability

__all__ = [
    "Filter",
    "cloning_loss",
    "regression_loss",
    "regression_weights",
    "soft_policy_loss",
    "temperature_loss",
]

Filter = Literal["binary", "exponential"]
"""Actions that are better than the mean one count alike, or all by how much they are better."""


def cloning_loss(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Return minus the mean log-probability of (B,) actions that others took: their imitation."""
    return -log_probability(log_probabilities, actions).mean()


@torch.no_grad()
def regression_weights(
    values: Tensor,
    log_probabilities: Tensor,
    actions: Tensor,
    kind: Filter = "binary",
    temperature: float = 1.0,
    largest: float = 20.0,
) -> Tensor:
    """Return (B,) how much each action is worth imitating.

    By its advantage A = Q(s, a) - Σ π Q: 1 if it is above 0, else 0; or exp(A / β), at most
    `largest`. Z. Wang et al., "Critic regularized regression" (2020), equations 4 and 5; with the
    exponential it is also the weight of A. Nair, A. Gupta, M. Dalal and S. Levine, "AWAC:
    accelerating online reinforcement learning with offline datasets" (2020).

    Args:
        values: (B, A) Q.
        log_probabilities: (B, A) log π, -inf where an action is ruled out.
        actions: (B,) int64 that were taken.
        kind: of the weight.
        temperature: β, above 0.
        largest: weight; above 0.
    """
    advantage = log_probability(values, actions) - expected_value(values, log_probabilities)
    if kind == "binary":
        return (advantage > 0).to(values.dtype)
    return (advantage / temperature).exp().clamp(max=largest)


def regression_loss(log_probabilities: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
    """Return minus the mean of weight times log-probability of (B,) actions."""
    return -(weights * log_probability(log_probabilities, actions)).mean()


def soft_policy_loss(
    values: Tensor, log_probabilities: Tensor, temperature: float | Tensor
) -> Tensor:
    """Return minus the mean of Σ π (Q - α log π), exact over all actions.

    P. Christodoulou, "Soft actor-critic for discrete action settings" (2019), equation 12. For the
    arguments see `expected_value`.
    """
    return -expected_value(values.detach(), log_probabilities, temperature).mean()


def temperature_loss(
    log_temperature: Tensor, log_probabilities: Tensor, wanted_entropy: float | Tensor
) -> Tensor:
    """Return the loss whose gradient raises the temperature while the entropy is too low.

    T. Haarnoja et al., "Soft actor-critic algorithms and applications" (2019), equation 18, in the
    logarithm of the temperature.

    Args:
        log_temperature: a single number, which is trained.
        log_probabilities: (B, A) log π, -inf where an action is ruled out.
        wanted_entropy: in nats; one number, or (B,) where the allowed actions differ.
    """
    missing = wanted_entropy - entropy(log_probabilities.detach())
    return -(log_temperature * missing).mean()
