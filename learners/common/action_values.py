"""Action values of deep Q-networks: the expected return after each action."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from simkit.learners.common.networks import ActorCritic, Network

__all__ = ["ValueNetwork", "best_next"]


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
