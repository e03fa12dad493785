"""Losses of actors over B states, given a critic's values.

None of them passes a gradient on to the critic.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from simkit.learners.common.actor_critic.critics import expected_value
from simkit.learners.common.distributions import entropy, log_probability

__all__ = [
    "Filter",
    "imitation_loss",
    "regression_weights",
    "soft_policy_loss",
    "temperature_loss",
]

Filter = Literal["binary", "exponential"]
"""Imitate actions that are better than the mean, all equally; or all, weighted by advantage."""


@torch.no_grad()
def regression_weights(
    values: Tensor,
    log_probabilities: Tensor,
    actions: Tensor,
    kind: Filter = "binary",
    temperature: float = 1.0,
    largest: float = 20.0,
) -> Tensor:
    """Return (B,) weights by which to imitate actions.

    They depend on the advantage A = Q(s, a) - Σ π Q. The binary weight is 1 if A > 0, else 0; the
    exponential one is exp(A / β), at most `largest`. Z. Wang et al., "Critic regularized
    regression" (2020), equations 4 and 5; the exponential weight is also that of A. Nair, A. Gupta,
    M. Dalal and S. Levine, "AWAC: accelerating online reinforcement learning with offline datasets"
    (2020).

    Args:
        values: (B, A) Q.
        log_probabilities: (B, A) log π, -inf where an action is masked.
        actions: (B,) int64, actions taken.
        kind: binary or exponential.
        temperature: β, above 0.
        largest: largest exponential weight, above 0.
    """
    taken = values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    advantage = taken - expected_value(values, log_probabilities)
    if kind == "binary":
        return (advantage > 0).to(values.dtype)
    return (advantage / temperature).exp().clamp(max=largest)


def imitation_loss(log_probabilities: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
    """Return minus the mean of weight times log-probability of (B,) actions."""
    return -(weights * log_probability(log_probabilities, actions)).mean()


def soft_policy_loss(
    values: Tensor, log_probabilities: Tensor, temperature: float | Tensor
) -> Tensor:
    """Return minus the mean of Σ π (Q - α log π), summed over all actions.

    P. Christodoulou, "Soft actor-critic for discrete action settings" (2019), equation 12. For the
    arguments see `expected_value`.
    """
    return -expected_value(values.detach(), log_probabilities, temperature).mean()


def temperature_loss(
    log_temperature: Tensor, log_probabilities: Tensor, wanted_entropy: float | Tensor
) -> Tensor:
    """Return a loss that raises the temperature while the entropy is too low, and else lowers it.

    T. Haarnoja et al., "Soft actor-critic algorithms and applications" (2019), equation 18, in the
    logarithm of the temperature.

    Args:
        log_temperature: the number that is trained.
        log_probabilities: (B, A) log π, -inf where an action is masked.
        wanted_entropy: in nats; one number, or (B,) if the allowed actions differ.
    """
    missing = wanted_entropy - entropy(log_probabilities.detach())
    return -(log_temperature * missing).mean()
