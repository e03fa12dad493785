"""Critics: networks that estimate the value of each action, and the lowest of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from simkit.learners.networks.build import Network

__all__ = ["Critic", "Critics", "PopArt", "expected_value"]

_LEAST_SCALE, _LARGEST_SCALE = 1e-4, 1e6


class PopArt(nn.Module):
    """The mean and standard deviation of a network's targets, which are normalised as they arrive.

    H. van Hasselt, A. Guez, M. Hessel, V. Mnih and D. Silver, "Learning values across many orders
    of magnitude" (2016).

    The network returns normalised values. `values` scales them back, `normalise` scales targets for
    the loss. `update` adds targets to the statistics and corrects the last layers, so that no value
    changes.
    """

    mean: Tensor
    square: Tensor
    count: Tensor

    def __init__(self, layers: Sequence[nn.Module], step: float = 1e-4) -> None:
        """Begin with mean 0 and deviation 1.

        Args:
            layers: the linear layers that compute the outputs; all outputs share one scale.
            step: β, the weight of a new batch of targets; the n-th batch weighs 1 / n if that is
                more.
        """
        super().__init__()
        self._layers = tuple(layers)  # a tuple, lest torch registers them as parts of this module
        self._step = step
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("square", torch.ones(()))
        self.register_buffer("count", torch.zeros(()))

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the targets."""
        variance = self.square - self.mean.square()
        return variance.clamp(min=_LEAST_SCALE**2).sqrt().clamp(_LEAST_SCALE, _LARGEST_SCALE)

    def values(self, outputs: Tensor) -> Tensor:
        """Return the values, in the scale of the targets, of outputs of any shape."""
        return outputs * self.scale + self.mean

    def normalise(self, targets: Tensor) -> Tensor:
        """Return targets of any shape in the scale of the outputs."""
        return (targets - self.mean) / self.scale

    @torch.no_grad()
    def update(self, targets: Tensor) -> None:
        """Add targets of any shape to the statistics, and preserve all values.

        The first targets only set the scale: outputs before them have no meaning to preserve.
        """
        mean, scale = self.mean.clone(), self.scale
        self.count += 1
        share = max(self._step, 1.0 / float(self.count))
        self.mean.lerp_(targets.mean(), share)
        self.square.lerp_(targets.square().mean(), share)
        if self.count == 1:
            return
        for layer in self._layers:
            weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
            weight.mul_(scale / self.scale)
            bias.copy_((scale * bias + mean - self.mean) / self.scale)


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

    def forward(self, seen: Tensor) -> Tensor:
        """Return (B, A) values for (B, K) observations, the lowest of all critics."""
        return torch.stack([critic(seen) for critic in self.each]).amin(dim=0)

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
