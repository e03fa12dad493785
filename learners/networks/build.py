"""Networks in torch, built from their shapes: perceptrons, and scorers of unordered sets.

`simkit.learners.networks.inference` computes the same with NumPy, for agents without torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape, TablePerceptronShape

__all__ = [
    "ActorCritic", "Dense", "Network", "Perceptron", "SetScorer", "almost_zero", "build", "seeded",
]  # fmt: skip

_FIRST_LOGITS: Final = 0.01
"""Standard deviation of the last layer's initial weights; it makes the policy almost uniform."""


class Dense(nn.Module):
    """A dense layer with weights of shape (in, out), as a bundle stores those of a perceptron.

    Initial weights are normal with variance 2 / (in + out), biases 0 (X. Glorot and Y. Bengio,
    "Understanding the difficulty of training deep feedforward neural networks", 2010).
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_normal_(self.weight)

    def forward(self, seen: Tensor) -> Tensor:
        """Map (…, in) to (…, out)."""
        return seen @ self.weight + self.bias


class Perceptron(nn.Module):
    """A perceptron that maps (…, inputs) to (…, outputs)."""

    def __init__(self, shape: PerceptronShape, first: nn.Module | None = None) -> None:
        """Draw weights; those of the last layer are small.

        Args:
            shape: the sizes of the layers.
            first: a first layer that takes its inputs in another form, with the parameters of
                `Dense`; None: a dense one.
        """
        super().__init__()
        self.shape = shape
        pairs = list(pairwise(shape.layers))
        if first is None:
            first = Dense(*pairs[0])
        self.layers = nn.ModuleList([first, *(Dense(a, b) for a, b in pairs[1:])])
        self._activation = {"relu": torch.relu, "tanh": torch.tanh}[shape.activation]
        self.summary_size = shape.layers[-2]
        almost_zero(self.last)

    @property
    def last(self) -> Dense:
        """The layer that computes the outputs."""
        layer = self.layers[-1]
        assert isinstance(layer, Dense)
        return layer

    @property
    def last_layers(self) -> Sequence[nn.Module]:
        """The layers that compute the outputs."""
        return [self.last]

    def forward(self, seen: Tensor) -> Tensor:
        return self.with_summary(seen)[0]

    def with_summary(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs and the values of the last hidden layer."""
        flow = seen
        for layer in self.layers[:-1]:
            flow = self._activation(layer(flow))
        return self.layers[-1](flow), flow


class SetScorer(nn.Module):
    """Scores each item with the same weights, from its features, the context and the whole set.

    If items swap places, so do their scores, and nothing else changes. M. Zaheer, S. Kottur,
    S. Ravanbakhsh, B. Póczos, R. Salakhutdinov and A. Smola, "Deep sets" (2017).
    """

    def __init__(self, shape: SetScorerShape) -> None:
        super().__init__()
        hidden = shape.hidden
        self.shape = shape
        self.item = nn.Linear(shape.features, hidden)
        self.context = nn.Linear(shape.context, hidden)
        self.beside = nn.Linear(hidden, hidden)
        self.together = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, shape.scores)
        self.summary_size = 2 * hidden
        almost_zero(self.score)
        if shape.others:
            self.other = nn.Linear(2 * hidden, hidden)
            self.other_score = nn.Linear(hidden, shape.others)
            almost_zero(self.other_score)

    @property
    def last_layers(self) -> Sequence[nn.Module]:
        """The layers that compute the outputs."""
        return [self.score, *([self.other_score] if self.shape.others else [])]

    def forward(self, seen: Tensor) -> Tensor:
        """Return (…, M · scores + others) logits for (…, C + M · F) numbers."""
        return self.with_summary(seen)[0]

    def with_summary(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits, and (…, 2 · hidden) a summary of the context and all items."""
        shape = self.shape
        items = seen[..., shape.context :].reshape(*seen.shape[:-1], shape.items, shape.features)
        context = self.context(seen[..., : shape.context])
        each = torch.relu(self.item(items) + context.unsqueeze(-2))
        mean = (each * items[..., :1]).mean(dim=-2)
        summary = torch.cat((mean, torch.relu(context)), dim=-1)
        combined = torch.relu(self.beside(each) + self.together(mean).unsqueeze(-2))
        scores = self.score(combined).transpose(-1, -2).flatten(start_dim=-2)
        if shape.others:
            others = self.other_score(torch.relu(self.other(summary)))
            scores = torch.cat((scores, others), dim=-1)
        return scores, summary


Network = Perceptron | SetScorer


def build(shape: PerceptronShape | SetScorerShape) -> Network:
    """Return a network with initial weights, drawn by torch's global generator; see `seeded`."""
    if isinstance(shape, TablePerceptronShape):
        from simkit.learners.networks.image_layer import ImageLayer  # which needs scipy

        return Perceptron(shape, ImageLayer(shape.slotted, shape.layers[1]))
    return Perceptron(shape) if isinstance(shape, PerceptronShape) else SetScorer(shape)


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Seed torch's global generator with a number from `rng`; restore its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        yield


class ActorCritic(nn.Module):
    """A policy network, and a critic that reads the network's summary of an observation.

    The critic may return several values, such as for rewards and for costs.
    """

    def __init__(self, actor: Network, hidden: int = 64, values: int = 1) -> None:
        super().__init__()
        self.actor: Network = actor
        self.critic = nn.Sequential(
            nn.Linear(actor.summary_size, hidden), nn.ReLU(), nn.Linear(hidden, values)
        )
        almost_zero(self.critic[-1])

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return (N, A) logits and (N,) values, or (N, values), for (N, K) observations."""
        logits, summary = self.actor.with_summary(seen)
        return logits, self.values(summary)

    def values(self, summary: Tensor) -> Tensor:
        """Return (N,) values, or (N, values), for (N, …) summaries."""
        values: Tensor = self.critic(summary).squeeze(-1)
        return values


def almost_zero(layer: nn.Module) -> None:
    """Draw the weights of a last layer so small that the initial policy is almost uniform."""
    assert isinstance(layer, nn.Linear | Dense)
    nn.init.normal_(layer.weight, 0.0, _FIRST_LOGITS)
    nn.init.zeros_(layer.bias)
