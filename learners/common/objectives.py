"""Objectives over B decisions: gains that policies maximise, errors that values minimise."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["clipped_gain", "reinforce_gain", "squared_error"]


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
