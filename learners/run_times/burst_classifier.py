"""A network that predicts the class of a program's burst time from its signature.

"SchedQRM" (CCIT 2019): features, 100 hidden units, ten classes; Adam with 1e-4, 120 iterations.
The paper leaves open what we chose: an iteration is a pass over all examples, in batches of 32;
units are max(0, ·); features are standardised to mean 0 and deviation 1. `PUBLISHED` has the
paper's settings, `TUNED` those that suit the data set better: logarithms of the features, a larger
learning rate that falls to 0, and two hidden layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import torch
from torch import nn

from simkit.arrays import Floats
from simkit.learners.common.torch_training import one_thread
from simkit.learners.networks.build import Perceptron, seeded
from simkit.learners.networks.shapes import PerceptronShape
from simkit.learners.run_times.burst_models import Arrays, Nearest, check_shapes, rounded
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
    """A trained classifier of F features and C classes; a `Model` of run times."""

    network: Perceptron
    """Maps (…, F) inputs to (…, C) logits."""
    logarithms: bool
    """Whether the network reads log2(1 + x) of each feature x."""
    shift: Floats
    """(F,) subtracted from the features."""
    scale: Floats
    """(F,) above 0; the shifted features are divided by it."""
    times_s: Floats
    """(C,) the run time that stands for each class: by default its middle."""

    def probabilities(self, features: Floats) -> Floats:
        """Return (n, C) class probabilities for (n, F) features."""
        with torch.no_grad():
            logits = self.network(self.inputs(features))
        probabilities: Floats = torch.softmax(logits.double(), dim=-1).numpy()
        return probabilities

    def run_time_s(self, features: Floats) -> Floats:
        """Return (m,) the run times of the classes, weighted by probability."""
        times: Floats = self.probabilities(features) @ self.times_s
        return times

    def inputs(self, features: Floats) -> torch.Tensor:
        """Return the network's inputs for (n, F) features, of the same shape."""
        unscaled = _unscaled(features, self.logarithms)
        return torch.from_numpy((unscaled - self.shift) / self.scale).float()

    def arrays(self) -> Arrays:
        weights = {name: weight.numpy() for name, weight in self.network.state_dict().items()}
        return {**weights, "shift": self.shift, "scale": self.scale}

    def plain(self) -> dict[str, Any]:
        return {"layers": list(self.network.shape.layers), "logarithms": self.logarithms}

    @classmethod
    def fitted(
        cls, examples: Examples, rng: np.random.Generator, settings: Settings = TUNED,
        on_pass: Callable[[float], object] | None = None,
    ) -> Self:  # fmt: skip
        """Return a trained classifier.

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
            network = Perceptron(
                PerceptronShape(type="perceptron", layers=layers, activation="relu")
            )
        scale = np.where(deviation > _CONSTANT, deviation, 1.0)
        times_s = _middles(examples.edges_s)
        classifier = cls(network, settings.logarithms, unscaled.mean(axis=0), scale, times_s)
        with one_thread():  # sums over several threads differ from run to run
            classifier._train(examples, rng, settings, on_pass)
        return classifier

    def _train(
        self, examples: Examples, rng: np.random.Generator, settings: Settings,
        on_pass: Callable[[float], object] | None,
    ) -> None:  # fmt: skip
        inputs, label = self.inputs(examples.features), torch.from_numpy(examples.label)
        optimiser = torch.optim.Adam(self.network.parameters(), settings.learning_rate)
        steps = settings.passes * -(-len(examples) // settings.batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(settings.passes):
            order = torch.from_numpy(rng.permutation(len(examples)))
            total = 0.0
            for batch in torch.split(order, settings.batch):
                loss = nn.functional.cross_entropy(self.network(inputs[batch]), label[batch])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                if settings.falls:
                    schedule.step()
                if on_pass is not None:
                    total += float(loss.detach()) * len(batch)
            if on_pass is not None:
                on_pass(total / len(examples))

    @classmethod
    def read(
        cls, arrays: Arrays, plain: Mapping[str, Any], nearest: Nearest, edges_s: Floats
    ) -> Self:
        """Return the model in a bundle; raises ValueError or LookupError if parts do not fit."""
        layers = tuple(plain["layers"])
        if len(layers) < 2 or layers[0] != nearest.logs.shape[1] or layers[-1] != len(edges_s) + 1:
            raise ValueError(f"layers are {list(layers)}")
        check_shapes(arrays, {"shift": ("F",), "scale": ("F",)}, {"F": layers[0]})
        for k, (before, after) in enumerate(pairwise(layers)):
            shapes = {f"layers.{k}.weight": ("in", "out"), f"layers.{k}.bias": ("out",)}
            check_shapes(arrays, shapes, {"in": before, "out": after})
        if not (arrays["scale"] > 0).all():
            raise ValueError("scale must be above 0")
        network = Perceptron(PerceptronShape(type="perceptron", layers=layers, activation="relu"))
        network.load_state_dict({
            name: torch.from_numpy(array)
            for name, array in arrays.items() if name.startswith("layers.")
        })  # fmt: skip
        shift, scale = rounded(arrays["shift"]), rounded(arrays["scale"])
        return cls(network, plain["logarithms"] is True, shift, scale, _middles(edges_s))


def _unscaled(features: Floats, logarithms: bool) -> Floats:
    """Return the network's inputs before they are shifted and scaled."""
    return np.log2(1.0 + features) if logarithms else features


def _middles(edges_s: Floats) -> Floats:
    """Return (C,) the middles of classes; the last is as wide as the one before it.

    A single class has no edge, so that its middle is NaN.
    """
    if not len(edges_s):
        return np.full(1, np.nan)
    last = 2 * edges_s[-1] - edges_s[-2] if len(edges_s) > 1 else 2 * edges_s[-1]
    return np.array([(a + b) / 2 for a, b in pairwise([0.0, *edges_s, last])])
