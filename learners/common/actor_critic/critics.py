"""Critics: several networks that estimate what each action will bring, and their least value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from simkit.learners.common.actor_critic.popart import PopArt
from simkit.learners.common.distributions import log_probability
from simkit.learners.common.images.network import ImageNetwork
from simkit.learners.common.networks import Network

__all__ = ["Belief", "Critic", "Critics", "expected_value"]

Belief = Literal["least", "mean"]
"""The least of several values, or their mean."""


class Critic(nn.Module):
    """A network of action values: (B, K) observations to (B, A) values."""

    def __init__(self, network: Network | ImageNetwork, *, popart: bool = False) -> None:
        super().__init__()
        self.network = network
        self.scale = PopArt(network.last_layers) if popart else None

    def forward(self, seen: Tensor) -> Tensor:
        said: Tensor = self.network(seen)
        return said if self.scale is None else self.scale.values(said)

    def error(self, seen: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error of the values of (B,) actions; with PopArt, of scaled ones.

        PopArt's statistics take in the targets first.
        """
        if self.scale is not None:
            self.scale.update(targets)
            targets = self.scale.normalise(targets)
        said = log_probability(self.network(seen), actions)
        return (said - targets).square().mean()


class Critics(nn.Module):
    """K critics that learn the same from different first weights.

    The least of two values does not flatter actions that one of them overestimates (S. Fujimoto, H.
    van Hoof and D. Meger, "Addressing function approximation error in actor-critic methods", 2018).
    """

    def __init__(self, count: int, make: Callable[[], Critic]) -> None:
        """Make K = `count` critics; raises ValueError for less than 1."""
        super().__init__()
        if count < 1:
            raise ValueError(f"count is {count}; it must be at least 1")
        self.each = nn.ModuleList([make() for _ in range(count)])

    def forward(self, seen: Tensor, belief: Belief = "least") -> Tensor:
        """Return (B, A) values."""
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
    """Return (B,) Σ π (Q - α log π): what a policy will bring from a state on, with its entropy.

    P. Christodoulou, "Soft actor-critic for discrete action settings" (2019), equation 10; with a
    temperature of 0 it is the plain expectation.

    Args:
        values: (B, A) Q.
        log_probabilities: (B, A) log π; -inf where an action is ruled out.
        temperature: α, at least 0.
    """
    chances = log_probabilities.exp()
    known = log_probabilities.masked_fill(log_probabilities.isinf(), 0.0)
    return (chances * (values - temperature * known)).sum(dim=-1)
