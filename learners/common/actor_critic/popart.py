"""PopArt: normalises targets as they arrive, and preserves the values of the network.

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
    """The mean and standard deviation of a network's targets.

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
