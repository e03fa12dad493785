"""PopArt: a last layer whose targets are scaled as they come, and whose outputs stay what they are.

H. van Hasselt, A. Guez, M. Hessel, V. Mnih and D. Silver, "Learning values across many orders of
magnitude" (2016).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["PopArt"]

_LEAST_SCALE, _LARGEST_SCALE = 1e-4, 1e6


class PopArt(nn.Module):
    """A linear layer of values, and the mean and deviation of the targets it has learned from.

    `forward` returns values as they are; `normalised` what the layer says before they are scaled
    back, which is what a loss compares with `normalise` of the targets. `update` takes targets into
    the statistics and corrects the weights, so that no value changes by it.
    """

    mean: Tensor
    square: Tensor
    count: Tensor

    def __init__(self, inputs: int, outputs: int, step: float = 1e-4) -> None:
        """Begin with targets of mean 0 and deviation 1.

        Args:
            inputs: numbers that come in.
            outputs: values that come out; all have the same scale, as they are of one kind.
            step: β, what a batch of targets counts in the statistics, at least; at first batches
                count alike.
        """
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self._step = step
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("square", torch.ones(()))
        self.register_buffer("count", torch.zeros(()))

    @property
    def scale(self) -> Tensor:
        """The deviation of the targets."""
        variance = self.square - self.mean.square()
        return variance.clamp(min=_LEAST_SCALE**2).sqrt().clamp(_LEAST_SCALE, _LARGEST_SCALE)

    def forward(self, flow: Tensor) -> Tensor:
        """Return (…, outputs) values of (…, inputs)."""
        return self.normalised(flow) * self.scale + self.mean

    def normalised(self, flow: Tensor) -> Tensor:
        """Return (…, outputs) what the layer says of (…, inputs)."""
        said: Tensor = self.layer(flow)
        return said

    def normalise(self, targets: Tensor) -> Tensor:
        """Return targets, of any shape, as the layer should say them."""
        return (targets - self.mean) / self.scale

    @torch.no_grad()
    def update(self, targets: Tensor) -> None:
        """Take targets of any shape into the statistics; values stay what they are.

        The first targets set the scale alone: what the layer said before them means nothing.
        """
        mean, scale = self.mean.clone(), self.scale
        self.count += 1
        share = max(self._step, 1.0 / float(self.count))
        self.mean.lerp_(targets.mean(), share)
        self.square.lerp_(targets.square().mean(), share)
        if self.count == 1:
            return
        self.layer.weight *= scale / self.scale
        self.layer.bias.copy_((scale * self.layer.bias + mean - self.mean) / self.scale)
