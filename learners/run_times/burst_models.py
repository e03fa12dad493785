"""The kinds of model behind a burst time predictor, and how a bundle stores each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.learners.run_times.boosted_trees import BoostedTrees
from simkit.learners.run_times.examples import Examples
from simkit.learners.run_times.local_power_law import LocalPowerLaw
from simkit.learners.run_times.nearest import Nearest

__all__ = ["KINDS", "TREES", "Arrays", "Model", "ModelName", "check", "rounded"]

ModelName = Literal["local-power-law", "trees", "network"]
TREES: Final[Mapping[str, Any]] = {"n_estimators": 800, "learning_rate": 0.1, "max_depth": 8}
"""Settings for section sizes: their relation to the run time takes many splits."""

Arrays = Mapping[str, npt.NDArray[Any]]


class Model(Protocol):
    """A fitted model; its numbers have the precision of float32, in which a bundle stores them."""

    def run_time_s(self, features: Floats) -> Floats:
        """Return (m,) run times in seconds for (m, F) features."""

    def probabilities(self, features: Floats) -> Floats | None:
        """Return (m, C) class probabilities; None if the model has none."""

    def arrays(self) -> Arrays:
        """Return the arrays that a bundle stores in addition to the examples."""

    def plain(self) -> dict[str, Any]:
        """Return the entries that a bundle's description adds to the architecture."""


def rounded(numbers: npt.NDArray[Any]) -> Floats:
    """Return numbers rounded to float32, the precision of a bundle."""
    return numbers.astype(np.float32).astype(np.float64)


def check(arrays: Arrays, shapes: Mapping[str, tuple[str, ...]], known: dict[str, int]) -> None:
    """Raise ValueError unless arrays have these shapes.

    Args:
        arrays: by name.
        shapes: the names of each array's dimensions; equal names mean equal sizes.
        known: sizes by name of the dimension; the sizes found here are added.
    """
    for name, dims in shapes.items():
        if name not in arrays:
            raise ValueError(f"there is no array {name}")
        found = arrays[name].shape
        sizes = [known.setdefault(d, s) for d, s in zip(dims, found, strict=False)]
        if len(found) != len(dims) or list(found) != sizes:
            raise ValueError(f"{name} is of shape {found}, not ({', '.join(dims)})")


@dataclass(frozen=True)
class PowerLaw:
    """A local power law of the run time."""

    law: LocalPowerLaw
    edges_s: Floats

    @classmethod
    def fitted(cls, examples: Examples, rng: np.random.Generator, by: str) -> Self:
        """Return the model fitted to examples; `rng` draws what is random in it."""
        law = LocalPowerLaw.fitted(examples, by)
        nearest = replace(law.nearest, logs=rounded(law.nearest.logs))
        law = replace(law, nearest=nearest, log_time=rounded(law.log_time),
                      left_out=rounded(law.left_out))  # fmt: skip
        return cls(law, examples.edges_s)

    @classmethod
    def read(
        cls, arrays: Arrays, plain: Mapping[str, Any], nearest: Nearest, edges_s: Floats
    ) -> Self:
        """Return the model in a bundle; raises ValueError or LookupError if parts do not fit."""
        numbers = tuple(plain["neighbours"])
        sizes = {"n": len(nearest), "K": len(numbers)}
        check(arrays, {"log_time": ("n",), "left_out": ("n", "K")}, sizes)
        if not numbers or not all(type(k) is int and 0 < k < sizes["n"] for k in numbers):
            raise ValueError(f"neighbours are {list(numbers)} of {sizes['n']} examples")
        times, left_out = arrays["log_time"], arrays["left_out"]
        law = LocalPowerLaw(nearest, rounded(times), numbers, rounded(left_out))
        return cls(law, edges_s)

    def run_time_s(self, features: Floats) -> Floats:
        return self.law.run_time_s(features)

    def probabilities(self, features: Floats) -> Floats:
        return self.law.probabilities(features, self.edges_s)

    def arrays(self) -> Arrays:
        return {"log_time": self.law.log_time, "left_out": self.law.left_out}

    def plain(self) -> dict[str, Any]:
        return {"neighbours": list(self.law.neighbours)}


@dataclass(frozen=True)
class Trees:
    """Boosted trees of the logarithm of the run time."""

    trees: BoostedTrees
    _ints: ClassVar = ("root", "feature", "left", "right")

    @classmethod
    def fitted(cls, examples: Examples, rng: np.random.Generator, by: str) -> Self:
        """Return the model fitted to examples; `rng` draws what is random in it."""
        arrays = BoostedTrees.fitted(examples, rng, **TREES).arrays
        if len(arrays["feature"]) > 2**24:
            raise ValueError("the trees have more nodes than float32 can count")
        threshold = arrays["threshold"].astype(np.float32)
        above = threshold > arrays["threshold"]  # some float32 features would take another way
        arrays["threshold"] = np.where(above, np.nextafter(threshold, -np.inf), threshold)
        return cls(cls._rounded_trees(arrays))

    @classmethod
    def read(
        cls, arrays: Arrays, plain: Mapping[str, Any], nearest: Nearest, edges_s: Floats
    ) -> Self:
        """Return the model in a bundle; raises ValueError or LookupError if parts do not fit."""
        shapes = dict.fromkeys(("feature", "threshold", "left", "right", "value"), ("N",))
        sizes = {"1": 1}
        check(arrays, {"start": ("1",), "root": ("K",), **shapes}, sizes)
        own = {name: each for name, each in arrays.items() if name != "examples"}
        trees = cls._rounded_trees(own)
        nodes, features = np.arange(sizes["N"]), nearest.logs.shape[1]
        for name, low, end in (
            ("root", 0, sizes["N"]), ("feature", 0, features),
            ("left", nodes, sizes["N"]), ("right", nodes, sizes["N"]),  # so that no path is endless
        ):  # fmt: skip
            numbers = getattr(trees, name)
            if (numbers < low).any() or (numbers >= end).any():
                raise ValueError(f"{name} leads to no node or feature")
        return cls(trees)

    @classmethod
    def _rounded_trees(cls, arrays: Arrays) -> BoostedTrees:
        return BoostedTrees.from_arrays({
            name: each.astype(np.int64) if name in cls._ints else rounded(each)
            for name, each in arrays.items()
        })  # fmt: skip

    def run_time_s(self, features: Floats) -> Floats:
        return self.trees.run_time_s(features)

    def probabilities(self, features: Floats) -> None:
        return None

    def arrays(self) -> Arrays:
        return self.trees.arrays

    def plain(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Network:
    """A classifier; it predicts the mean of the classes' middles, weighted by probability."""

    classify: Callable[[Floats], Floats]
    """Maps (m, F) features to (m, C) probabilities."""
    middles_s: Floats
    """(C,) middle of each class."""
    weights: Arrays
    settings: dict[str, Any]
    """``layers`` and ``logarithms`` of the network, for the bundle."""

    @classmethod
    def fitted(cls, examples: Examples, rng: np.random.Generator, by: str) -> Self:
        """Return the model fitted to examples; `rng` draws what is random in it."""
        from simkit.learners.common.torch_training import one_thread
        from simkit.learners.run_times.burst_classifier import train

        with one_thread():  # sums over several threads differ from run to run
            trained = train(examples, rng)
        weights = {name: w.numpy() for name, w in trained.network.state_dict().items()}
        arrays = {**weights, "shift": trained.shift, "scale": trained.scale}
        settings = {
            "layers": list(trained.network.shape.layers), "logarithms": trained.logarithms,
        }  # fmt: skip
        return cls._build(arrays, settings, examples.edges_s)

    @classmethod
    def read(
        cls, arrays: Arrays, plain: Mapping[str, Any], nearest: Nearest, edges_s: Floats
    ) -> Self:
        """Return the model in a bundle; raises ValueError or LookupError if parts do not fit."""
        layers = list(plain["layers"])
        if len(layers) < 2 or layers[0] != nearest.logs.shape[1] or layers[-1] != len(edges_s) + 1:
            raise ValueError(f"layers are {layers}")
        own = {name: each for name, each in arrays.items() if name != "examples"}
        check(own, {"shift": ("F",), "scale": ("F",)}, {"F": layers[0]})
        for k, (before, after) in enumerate(pairwise(layers)):
            shapes = {f"layers.{k}.weight": ("in", "out"), f"layers.{k}.bias": ("out",)}
            check(own, shapes, {"in": before, "out": after})
        if not (own["scale"] > 0).all():
            raise ValueError("scale must be above 0")
        settings = {"layers": layers, "logarithms": plain["logarithms"] is True}
        return cls._build(own, settings, edges_s)

    @classmethod
    def _build(cls, arrays: Arrays, settings: dict[str, Any], edges_s: Floats) -> Self:
        import torch

        from simkit.learners.common.networks import Perceptron
        from simkit.learners.common.shapes import PerceptronShape
        from simkit.learners.run_times.burst_classifier import BurstClassifier

        network = Perceptron(
            PerceptronShape(type="perceptron", layers=tuple(settings["layers"]), activation="relu")
        )
        state = {k: torch.from_numpy(v) for k, v in arrays.items() if k.startswith("layers.")}
        network.load_state_dict(state)
        shift, scale = rounded(arrays["shift"]), rounded(arrays["scale"])
        classifier = BurstClassifier(network, settings["logarithms"], shift, scale)
        last = 2 * edges_s[-1] - edges_s[-2] if len(edges_s) > 1 else 2 * edges_s[-1]
        middles = np.array([(a + b) / 2 for a, b in pairwise([0.0, *edges_s, last])])
        return cls(classifier.probabilities, middles, arrays, settings)

    def run_time_s(self, features: Floats) -> Floats:
        times: Floats = self.classify(features) @ self.middles_s
        return times

    def probabilities(self, features: Floats) -> Floats:
        return self.classify(features)

    def arrays(self) -> Arrays:
        return self.weights

    def plain(self) -> dict[str, Any]:
        return self.settings


KINDS: Final[Mapping[ModelName, type[PowerLaw | Trees | Network]]] = {
    "local-power-law": PowerLaw, "trees": Trees, "network": Network,
}  # fmt: skip
