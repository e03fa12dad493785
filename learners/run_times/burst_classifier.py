"""A network that predicts the class of a program's burst time from its signature.

"SchedQRM" (CCIT 2019): features, 100 hidden units, ten classes; Adam with 1e-4, 120 iterations.
The paper leaves open what we chose: an iteration is a pass over all examples, in batches of 32;
units are max(0, ·); features are standardised to mean 0 and deviation 1. `PUBLISHED` has the
paper's settings, `TUNED` those that suit the data set better: logarithms of the features, a larger
learning rate that falls to 0, and two hidden layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import nn

from simkit.arrays import Floats, Ints
from simkit.learners.common.networks import Perceptron, seeded
from simkit.learners.common.shapes import PerceptronShape
from simkit.learners.run_times.examples import Examples


@dataclass(frozen=True)
class Settings:
    """How a classifier is built and trained."""

    hidden: tuple[int, ...] = (100,)
    """Units of each hidden layer."""
    logarithms: bool = False
    """Whether the network reads log2(1 + x) of each feature x."""
    learning_rate: float = 1e-4
    falls: bool = False
    """Whether the learning rate falls to 0 along half a cosine."""
    passes: int = 120
    """Passes over all examples."""
    batch: int = 32
    """Examples per step of the optimiser."""


PUBLISHED: Final = Settings()
TUNED: Final = Settings((256, 256), logarithms=True, learning_rate=3e-3, falls=True, passes=200,
                        batch=128)  # fmt: skip


_CONSTANT = 1e-6  # a smaller deviation is due to rounding: the feature never changes


@dataclass(frozen=True)
class BurstClassifier:
    """A trained classifier of F features and C classes."""

    network: Perceptron
    """Maps (…, F) inputs to (…, C) logits."""
    logarithms: bool
    """Whether the network reads log2(1 + x) of each feature x."""
    shift: Floats
    """(F,) subtracted from the features."""
    scale: Floats
    """(F,) above 0; the shifted features are divided by it."""

    def probabilities(self, features: Floats) -> Floats:
        """Return (n, C) class probabilities for (n, F) features."""
        with torch.no_grad():
            logits = self.network(self.inputs(features))
        probabilities: Floats = torch.softmax(logits.double(), dim=-1).numpy()
        return probabilities

    def classes(self, features: Floats) -> Ints:
        """Return the most probable class for each of (n, F) features, (n,)."""
        likeliest: Ints = self.probabilities(features).argmax(axis=1)
        return likeliest

    def inputs(self, features: Floats) -> torch.Tensor:
        """Return the network's inputs for (n, F) features, of the same shape."""
        unscaled = _unscaled(features, self.logarithms)
        return torch.from_numpy((unscaled - self.shift) / self.scale).float()


def _unscaled(features: Floats, logarithms: bool) -> Floats:
    """Return the network's inputs before they are shifted and scaled."""
    return np.log2(1.0 + features) if logarithms else features


def train(
    examples: Examples, rng: np.random.Generator, settings: Settings = TUNED,
    on_pass: Callable[[float], object] | None = None,
) -> BurstClassifier:  # fmt: skip
    """Train a classifier.

    Args:
        examples: training data; the paper balances its classes, see `Examples.balanced`.
        rng: draws the initial weights and the batches.
        settings: how the network is built and trained.
        on_pass: called with the mean loss of each pass over the examples.
    """
    unscaled = _unscaled(examples.features, settings.logarithms)
    deviation = unscaled.std(axis=0)
    layers = (len(examples.names), *settings.hidden, examples.classes)
    with seeded(rng):
        network = Perceptron(PerceptronShape(type="perceptron", layers=layers, activation="relu"))
    classifier = BurstClassifier(
        network, settings.logarithms, unscaled.mean(axis=0),
        np.where(deviation > _CONSTANT, deviation, 1.0),
    )  # fmt: skip
    inputs, label = classifier.inputs(examples.features), torch.from_numpy(examples.label)
    optimiser = torch.optim.Adam(network.parameters(), settings.learning_rate)
    steps = settings.passes * -(-len(examples) // settings.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(settings.passes):
        order = torch.from_numpy(rng.permutation(len(examples)))
        total = 0.0
        for batch in torch.split(order, settings.batch):
            loss = nn.functional.cross_entropy(network(inputs[batch]), label[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if settings.falls:
                schedule.step()
            if on_pass is not None:
                total += float(loss.detach()) * len(batch)
        if on_pass is not None:
            on_pass(total / len(examples))
    return classifier
