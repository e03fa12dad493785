"""A network over an image and a list of facts; several networks may share its encoder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from simkit.learners.common.networks import almost_zero
from simkit.learners.common.shapes import ImageShape

__all__ = ["ImageEncoder", "ImageNetwork"]


class ImageEncoder(nn.Module):
    """Maps (B, K) observations to embeddings, (B, embedding); see `ImageShape`.

    The summaries of the image and of the facts are normalised before they are joined (J. L. Ba, J.
    R. Kiros and G. E. Hinton, "Layer normalization", 2016).
    """

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self._shape = shape
        channels = [1, *[shape.filters] * shape.convolutions]
        self.filters = nn.ModuleList(
            nn.Conv2d(before, after, shape.kernel, (1, shape.stride))
            for before, after in pairwise(channels)
        )
        rows, columns = shape.filtered
        self.image = nn.Linear(shape.filters * rows * columns, shape.image_units)
        self.image_norm = nn.LayerNorm(shape.image_units)
        self.facts = nn.Linear(shape.facts, shape.fact_units)
        self.more_facts = nn.Linear(shape.fact_units, shape.fact_units)
        self.fact_norm = nn.LayerNorm(shape.fact_units)
        self.both = nn.Linear(shape.image_units + shape.fact_units, shape.image_units)
        self.embedding = nn.Linear(shape.image_units, shape.embedding)

    def forward(self, seen: Tensor) -> Tensor:
        shape, cells = self._shape, self._shape.rows * self._shape.columns
        flow = seen[..., :cells].reshape(-1, 1, shape.rows, shape.columns)
        for layer in self.filters:
            flow = torch.relu(layer(flow))
        image = self.image_norm(self.image(flow.flatten(start_dim=1)))
        facts = torch.relu(self.facts(seen[..., cells:]))
        facts = self.fact_norm(self.more_facts(facts))
        joined = torch.relu(torch.cat((image, facts), dim=-1))
        embedded: Tensor = self.embedding(torch.relu(self.both(joined)))
        return embedded


class ImageNetwork(nn.Module):
    """An encoder and one hidden layer: maps (B, K) observations to (B, outputs)."""

    def __init__(
        self, shape: ImageShape, encoder: ImageEncoder | None = None, *, frozen: bool = False
    ) -> None:
        """Draw weights; those of the last layer are small.

        Args:
            shape: the sizes of the layers.
            encoder: an encoder to share with another network; None: a new one.
            frozen: whether gradients of this network stop before the encoder.
        """
        super().__init__()
        self.shape, self._frozen = shape, frozen
        self.encoder = ImageEncoder(shape) if encoder is None else encoder
        self.hidden = nn.Linear(shape.embedding, shape.hidden)
        self.score = nn.Linear(shape.hidden, shape.outputs)
        almost_zero(self.score)

    @property
    def last_layers(self) -> Sequence[nn.Module]:
        """The layer that computes the outputs."""
        return [self.score]

    def forward(self, seen: Tensor) -> Tensor:
        flow = self.encoder(seen)
        if self._frozen:
            flow = flow.detach()
        output: Tensor = self.score(torch.relu(self.hidden(flow)))
        return output
