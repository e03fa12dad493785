"""A network that says in which class the burst time of a program is, by its signature.

"SchedQRM" (CCIT 2019): features, 100 hidden units, ten classes; Adam with 1e-4, 120 iterations.
What the paper leaves open is a setting here: an iteration is a pass over all examples, in batches
of 32; units are max(0, ·); features are shifted and scaled to mean 0 and deviation 1. `PUBLISHED`
has the paper's settings, `TUNED` those that suit the data set: features as logarithms, a larger
step that falls to 0, and two hidden layers.
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
    """Units of the hidden layers."""
    logarithms: bool = False
    """Whether features are seen as log2(1 + x)."""
    learning_rate: float = 1e-4
    falls: bool = False
    """Whether the learning rate falls to 0, as half a cosine."""
    passes: int = 120
    """Over all examples."""
    batch: int = 32


PUBLISHED: Final = Settings()
TUNED: Final = Settings((256, 256), logarithms=True, learning_rate=3e-3, falls=True, passes=200,
                        batch=128)  # fmt: skip


_SAME = 1e-6  # a deviation as small as this comes of rounding: the feature never changes


@dataclass(frozen=True)
class BurstClassifier:
    """A trained classifier of F features and C classes."""

    network: Perceptron
    """(…, F) to (…, C) logits."""
    logarithms: bool
    shift: Floats
    """(F,)"""
    scale: Floats
    """(F,) above 0."""

    def probabilities(self, features: Floats) -> Floats:
        """Return (n, C) probabilities of (n, F) features."""
        with torch.no_grad():
            logits = self.network(self.seen(features))
        found: Floats = torch.softmax(logits.double(), dim=-1).numpy()
        return found

    def classes(self, features: Floats) -> Ints:
        """Return (n,) the most probable class of each."""
        most: Ints = self.probabilities(features).argmax(axis=1)
        return most

    def seen(self, features: Floats) -> torch.Tensor:
        """Return (n, F) features as the network sees them."""
        plain = _plain(features, self.logarithms)
        return torch.from_numpy((plain - self.shift) / self.scale).float()


def _plain(features: Floats, logarithms: bool) -> Floats:
    """Return features as they are before shift and scale."""
    return np.log2(1.0 + features) if logarithms else features


def train(
    examples: Examples, rng: np.random.Generator, settings: Settings = TUNED,
    on_pass: Callable[[float], object] | None = None,
) -> BurstClassifier:  # fmt: skip
    """Train a classifier.

    Args:
        examples: to learn from; the paper's are as many of each class, see `Examples.balanced`.
        rng: draws the first weights, and the batches.
        settings: of network and training.
        on_pass: told of the mean loss of each pass over the examples.
    """
    plain = _plain(examples.features, settings.logarithms)
    deviation = plain.std(axis=0)
    layers = (len(examples.names), *settings.hidden, examples.classes)
    with seeded(rng):
        network = Perceptron(PerceptronShape(type="perceptron", layers=layers, activation="relu"))
    classifier = BurstClassifier(
        network, settings.logarithms, plain.mean(axis=0),
        np.where(deviation > _SAME, deviation, 1.0),
    )  # fmt: skip
    seen, label = classifier.seen(examples.features), torch.from_numpy(examples.label)
    optimiser = torch.optim.Adam(network.parameters(), settings.learning_rate)
    steps = settings.passes * -(-len(examples) // settings.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(settings.passes):
        order = torch.from_numpy(rng.permutation(len(examples)))
        total = 0.0
        for batch in torch.split(order, settings.batch):
            loss = nn.functional.cross_entropy(network(seen[batch]), label[batch])
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
