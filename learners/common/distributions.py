"""Masked softmax distributions over actions, in torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from simkit.arrays import Ints

__all__ = ["entropy", "log_probability", "masked_log_softmax", "ragged_log_softmax", "sample"]


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
    below = log_probabilities.double().exp().cpu().numpy().cumsum(axis=1)
    drawn = rng.random(len(below)) * below[:, -1]
    actions = (below <= drawn[:, None]).sum(axis=1)
    # rounding may put a draw past the last allowed action
    limited: Ints = np.minimum(actions, (below < below[:, -1:]).sum(axis=1))
    return limited
