"""Action values of deep Q-networks, the expected return after each action, and target networks.

A target network is a copy that follows a network slowly, which keeps its targets stable.
"""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from simkit.learners.networks.build import ActorCritic, Network

__all__ = ["ValueNetwork", "best_next", "follow", "target_of"]


class ValueNetwork(nn.Module):
    """Estimates the value of each action; at first, all values are equal.

    With two streams, a value is that of the state plus the action's advantage over the mean of the
    allowed actions (Z. Wang, T. Schaul, M. Hessel, H. van Hasselt, M. Lanctot and N. de Freitas,
    "Dueling network architectures for deep reinforcement learning", 2016, equation 9).
    """

    def __init__(self, network: Network, *, duelling: bool) -> None:
        super().__init__()
        for layer in network.last_layers:
            for weights in layer.parameters():
                nn.init.zeros_(weights)
        self.advantages = network
        self.streams = ActorCritic(network) if duelling else None

    def forward(self, seen: Tensor, allowed: Tensor) -> Tensor:
        """Return (N, A) values for (N, K) observations; -inf where (N, A) is not allowed."""
        if self.streams is None:
            values = self.advantages(seen)
        else:
            advantages, state = self.streams(seen)
            count = allowed.sum(dim=-1).clamp(min=1)
            mean = (advantages * allowed).sum(dim=-1) / count
            values = advantages + (state - mean).unsqueeze(-1)
        result: Tensor = values.masked_fill(~allowed, -torch.inf)
        return result


@torch.no_grad()
def best_next(
    network: ValueNetwork, target: ValueNetwork, seen: Tensor, allowed: Tensor, *, double: bool
) -> Tensor:
    """Return the target network's value of the best action, (N,).

    The target network also chooses the best action. With `double`, the learning network chooses it,
    so that an overestimate does not count twice (H. van Hasselt, A. Guez and D. Silver, "Deep
    reinforcement learning with double Q-learning", 2016).

    Args:
        network: the network that learns.
        target: its slow copy.
        seen: (N, K) observations.
        allowed: (N, A) bool, at least one in each row.
        double: whether the learning network chooses the action.
    """
    values = target(seen, allowed)
    if not double:
        best: Tensor = values.max(dim=-1).values
        return best
    chosen = network(seen, allowed).argmax(dim=-1, keepdim=True)
    chosen_values: Tensor = values.gather(-1, chosen).squeeze(-1)
    return chosen_values


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
