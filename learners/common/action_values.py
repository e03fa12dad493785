"""Action values, as deep Q-networks learn them: what an action and all that follow will bring."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from simkit.learners.common.networks import ActorCritic, Network

__all__ = ["ValueNetwork", "best_next"]


class ValueNetwork(nn.Module):
    """Says the value of each action; the highest first value is that of the first action allowed.

    With two streams it is the state's value and the action's advantage over the mean one that is
    allowed (Z. Wang, T. Schaul, M. Hessel, H. van Hasselt, M. Lanctot and N. de Freitas, "Dueling
    network architectures for deep reinforcement learning", 2016, equation 9).
    """

    def __init__(self, network: Network, *, duelling: bool) -> None:
        super().__init__()
        for layer in network.last_layers:
            for weights in layer.parameters():
                nn.init.zeros_(weights)  # all values are equal at first
        self.advantages = network
        self.streams = ActorCritic(network) if duelling else None

    def forward(self, seen: Tensor, allowed: Tensor) -> Tensor:
        """Return (N, A) values of (N, K) observations; -inf where (N, A) is not allowed."""
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
    """Return (N,) the value of the best action by the target network.

    The target also decides which action is best; with `double` the network does, so that an error
    that flatters an action does not count twice (H. van Hasselt, A. Guez and D. Silver, "Deep
    reinforcement learning with double Q-learning", 2016).

    Args:
        network: that learns.
        target: its slow copy.
        seen: (N, K) observations.
        allowed: (N, A) bool, at least one in each row.
        double: see above.
    """
    values = target(seen, allowed)
    if not double:
        best: Tensor = values.max(dim=-1).values
        return best
    chosen = network(seen, allowed).argmax(dim=-1, keepdim=True)
    of_chosen: Tensor = values.gather(-1, chosen).squeeze(-1)
    return of_chosen
