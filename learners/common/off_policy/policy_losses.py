"""Losses of actors over B states, given a critic's values.

None of them passes a gradient on to the critic.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simkit.learners.common.off_policy.critics import expected_value
from simkit.learners.networks.distributions import entropy, log_probability

__all__ = ["imitation_loss", "is_better", "soft_policy_loss", "temperature_loss"]


@torch.no_grad()
def is_better(values: Tensor, log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Return (B,) 1 for actions that are better than the policy's mean, else 0.

    Z. Wang et al., "Critic regularized regression" (2020), equation 4.

    Args:
        values: (B, A) Q.
        log_probabilities: (B, A) log π, -inf where an action is masked.
        actions: (B,) int64, actions taken.
    """
    taken = values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return (taken - expected_value(values, log_probabilities) > 0).to(values.dtype)


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
