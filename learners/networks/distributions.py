"""Masked softmax distributions over actions, and what B decisions gain by them, in torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from simkit.arrays import Ints
from simkit.learners.networks.inference import draws

__all__ = [
    "clipped_gain", "entropy", "log_probability", "masked_log_softmax", "ragged_log_softmax",
    "reinforce_gain", "sample", "squared_error",
]  # fmt: skip


def masked_log_softmax(logits: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return the log-probabilities of a softmax over the allowed actions.

    A masked action has probability 0 and receives no gradient.

    Args:
        logits: (…, A) finite numbers.
        allowed: (…, A) bool, at least one true in each row; None: all are allowed.

    Returns:
        (…, A); -inf where not allowed.
    """
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    return torch.log_softmax(logits, dim=-1)


def ragged_log_softmax(logits: Tensor, decision: Tensor, decisions: int) -> Tensor:
    """Return the log-probabilities of softmaxes over different numbers of options.

    Args:
        logits: (P,) finite numbers, for all options of all decisions.
        decision: (P,) int64, the decision that each option belongs to, from 0.
        decisions: D, the number of decisions.

    Returns:
        (P,) log-probability of each option.
    """
    most = logits.new_full((decisions,), -torch.inf)
    most = most.scatter_reduce(0, decision, logits.detach(), "amax")
    shifted = logits - most[decision]
    total = logits.new_zeros(decisions).index_add(0, decision, shifted.exp())
    return shifted - total.log()[decision]


def log_probability(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Return (N,) the entries of (N, A) log-probabilities at (N,) actions, int64."""
    return log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def entropy(log_probabilities: Tensor) -> Tensor:
    """Return (…) entropies in nats of (…, A) log-probabilities, which may be -inf."""
    terms = log_probabilities.exp() * log_probabilities.masked_fill(log_probabilities.isinf(), 0.0)
    return -terms.sum(dim=-1)


def sample(log_probabilities: Tensor, rng: np.random.Generator) -> Ints:
    """Draw an action, (N,), from each row of (N, A); an action at -inf is never drawn.

    NumPy's generator draws one number per row, so that the same seed draws the same actions on
    every device.
    """
    return draws(log_probabilities.double().exp().cpu().numpy(), rng)


def reinforce_gain(log_probability: Tensor, advantage: Tensor) -> Tensor:
    """Return the mean of log-probability times advantage; its gradient is the policy gradient.

    R. J. Williams, "Simple statistical gradient-following algorithms for connectionist
    reinforcement learning" (1992).

    Args:
        log_probability: (B,) of the actions taken, under the policy that took them.
        advantage: (B,)
    """
    return (log_probability * advantage).mean()


def clipped_gain(log_probability: Tensor, before: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return the mean clipped surrogate: nothing is gained beyond a ratio of 1 ± clip.

    J. Schulman, F. Wolski, P. Dhariwal, A. Radford and O. Klimov, "Proximal policy optimization
    algorithms" (2017), equation 7.

    Args:
        log_probability: (B,) of the actions taken, under the current policy.
        before: (B,) the same, under the policy that took them.
        advantage: (B,)
        clip: above 0.
    """
    ratio = (log_probability - before).exp()
    within = ratio.clamp(1 - clip, 1 + clip)
    return torch.minimum(ratio * advantage, within * advantage).mean()


def squared_error(values: Tensor, returns: Tensor) -> Tensor:
    """Return the mean squared error of (B,) values."""
    return (values - returns).square().mean()
