"""Target networks: copies that follow a network slowly, which keeps its targets stable."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

__all__ = ["follow", "target_of"]

Module = TypeVar("Module", bound=nn.Module)


def target_of(network: Module) -> Module:
    """Return a target network: a copy that gradients do not change.

    V. Mnih et al., "Human-level control through deep reinforcement learning" (2015).
    """
    return copy.deepcopy(network).requires_grad_(requires_grad=False)


def follow(target: nn.Module, network: nn.Module, share: float = 1.0) -> None:
    """Move a target's weights towards those of its network by a share of the way; 1 copies them.

    T. P. Lillicrap et al., "Continuous control with deep reinforcement learning" (2016), use a
    small share at every update.
    """
    with torch.no_grad():
        for old, new in zip(target.parameters(), network.parameters(), strict=True):
            old.lerp_(new, share)
        for buffer, latest in zip(target.buffers(), network.buffers(), strict=True):
            buffer.lerp_(latest, share)  # such as the scale of values
