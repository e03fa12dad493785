"""Critics: networks that estimate the value of each action, and the lowest of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from simkit.learners.common.actor_critic.popart import PopArt
from simkit.learners.common.networks import Network

__all__ = ["Belief", "Critic", "Critics", "expected_value"]

Belief = Literal["least", "mean"]
"""Take the least of several values, or their mean."""


class Critic(nn.Module):
    """A network that maps (B, K) observations to (B, A) action values."""

    def __init__(self, network: Network, *, popart: bool = False) -> None:
        super().__init__()
        self.network = network
        self.scale = PopArt(network.last_layers) if popart else None

    def forward(self, seen: Tensor) -> Tensor:
        output: Tensor = self.network(seen)
        return output if self.scale is None else self.scale.values(output)

    def error(self, seen: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error of the values of (B,) actions.

        With PopArt, its statistics first include the targets, and the error is that of the
        normalised values.
        """
        if self.scale is not None:
            self.scale.update(targets)
            targets = self.scale.normalise(targets)
        values: Tensor = self.network(seen).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        return (values - targets).square().mean()


class Critics(nn.Module):
    """K critics that learn the same values from different initial weights.

    The lower of two values does not inherit the overestimates of one critic (S. Fujimoto, H. van
    Hoof and D. Meger, "Addressing function approximation error in actor-critic methods", 2018).
    """

    def __init__(self, count: int, make: Callable[[], Critic]) -> None:
        """Make K = `count` critics; raises ValueError below 1."""
        super().__init__()
        if count < 1:
            raise ValueError(f"count is {count}; it must be at least 1")
        self.each = nn.ModuleList([make() for _ in range(count)])

    def forward(self, seen: Tensor, belief: Belief = "least") -> Tensor:
        """Return (B, A) values for (B, K) observations."""
        values = torch.stack([critic(seen) for critic in self.each])
        return values.amin(dim=0) if belief == "least" else values.mean(dim=0)

    def error(self, seen: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the critics' errors; see `Critic.error`."""
        errors = [critic.error(seen, actions, targets) for critic in self._critics()]
        return torch.stack(errors).sum()

    def _critics(self) -> list[Critic]:
        return [critic for critic in self.each if isinstance(critic, Critic)]


def expected_value(
    values: Tensor, log_probabilities: Tensor, temperature: float | Tensor = 0.0
) -> Tensor:
    """Return (B,) Σ π (Q - α log π), the value of a state under a policy, with its entropy.

    P. Christodoulou, "Soft actor-critic for discrete action settings" (2019), equation 10. With a
    temperature of 0 it is the plain expectation.

    Args:
        values: (B, A) Q.
        log_probabilities: (B, A) log π; -inf where an action is masked.
        temperature: α, at least 0.
    """
    probabilities = log_probabilities.exp()
    finite = log_probabilities.masked_fill(log_probabilities.isinf(), 0.0)
    return (probabilities * (values - temperature * finite)).sum(dim=-1)
