"""PopArt: targets are scaled as they come, and values stay what they are.

H. van Hasselt, A. Guez, M. Hessel, V. Mnih and D. Silver, "Learning values across many orders of
magnitude" (2016).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["PopArt"]

_LEAST_SCALE, _LARGEST_SCALE = 1e-4, 1e6


class PopArt(nn.Module):
    """The mean and deviation of the targets that a network's last layers have learned from.

    The network returns scaled values; `values` scales them back, `normalise` scales targets for the
    loss. `update` takes targets into the statistics and corrects the last layers, so that no value
    changes by it.
    """

    mean: Tensor
    square: Tensor
    count: Tensor

    def __init__(self, layers: Sequence[nn.Module], step: float = 1e-4) -> None:
        """Begin with targets of mean 0 and deviation 1.

        Args:
            layers: the linear layers that outputs come from; all values have one scale, as they are
                of one kind.
            step: β, the weight of a new batch of targets; of the n-th batch at first, 1 / n.
        """
        super().__init__()
        self._layers = tuple(layers)  # a tuple: they are parts of the network, not of this
        self._step = step
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("square", torch.ones(()))
        self.register_buffer("count", torch.zeros(()))

    @property
    def scale(self) -> Tensor:
        """The deviation of the targets."""
        variance = self.square - self.mean.square()
        return variance.clamp(min=_LEAST_SCALE**2).sqrt().clamp(_LEAST_SCALE, _LARGEST_SCALE)

    def values(self, said: Tensor) -> Tensor:
        """Return the network's outputs, of any shape, as values."""
        return said * self.scale + self.mean

    def normalise(self, targets: Tensor) -> Tensor:
        """Return targets, of any shape, in the network's scale."""
        return (targets - self.mean) / self.scale

    @torch.no_grad()
    def update(self, targets: Tensor) -> None:
        """Take targets of any shape into the statistics; values stay what they are.

        The first targets set the scale alone: what the network returned before them means nothing.
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
