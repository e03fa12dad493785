"""A burst time predictor: fitted to measured programs and stored as a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.errors import RunError
from simkit.learners.common.bundle import Bundle, read_bundle, safetensors, write_bundle
from simkit.learners.run_times.boosted_trees import BoostedTrees
from simkit.learners.run_times.burst_models import (
    Model,
    Nearest,
    check_shapes,
    require_library,
    rounded,
)
from simkit.learners.run_times.examples import Examples
from simkit.learners.run_times.local_power_law import LocalPowerLaw

__all__ = ["MODELS", "BurstPredictor", "ModelName", "Prediction", "require_libraries"]

ModelName = Literal["local-power-law", "trees", "network"]

MODELS: Final[tuple[ModelName, ...]] = get_args(ModelName)
_FEWEST = 10  # examples
_LIKE = 0.99  # quantile of the examples' distances below which a program is like them


@dataclass(frozen=True)
class Prediction:
    """Predictions for m programs."""

    run_time_s: Floats
    """(m,)"""
    label: Ints
    """(m,) classes, from 0."""
    probabilities: Floats | None
    """(m, C) class probabilities; None: the model has none."""
    distance: Floats
    """(m,) distance to the nearest training example; see `Nearest`."""
    unlike: npt.NDArray[np.bool_]
    """(m,) whether this distance is larger than for almost all training examples."""


@dataclass(frozen=True)
class BurstPredictor:
    """A fitted model, and its training examples, which show the programs that it knows.

    All numbers are rounded to float32, the precision of a bundle: a predictor read from a bundle
    predicts exactly what it did before it was written.
    """

    name: ModelName
    names: tuple[str, ...]
    """Names of the F features."""
    edges_s: Floats
    """(C - 1,) run times at which a class ends and the next begins."""
    nearest: Nearest
    """The n training examples."""
    limit: float
    """The distance to its nearest neighbour that 99 % of the examples do not exceed."""
    model: Model

    @classmethod
    def fit(
        cls, examples: Examples, rng: np.random.Generator, model: ModelName = "local-power-law",
        **settings: Any,
    ) -> Self:  # fmt: skip
        """Return a predictor fitted to examples.

        Args:
            examples: training data; run times grow by ``bss``, the size of a program's arrays.
            rng: draws what is random in the model.
            model: kind of the model.
            settings: further arguments of the model's `fitted`.

        Raises PluginError if a library is missing, RunError if there are too few examples.
        """
        require_libraries(model)
        if len(examples) < _FEWEST:
            raise RunError(
                f"burst times: there are {len(examples)} programs to fit a predictor to, but it "
                f"needs {_FEWEST}; measure more"
            )
        fitted, nearest = _class_of(model).fitted(examples, rng, **settings), Nearest.of(examples)
        nearest = Nearest(nearest.by, rounded(nearest.logs))
        arrays = {name: array.astype(np.float32) for name, array in fitted.arrays().items()}
        stored = _class_of(model).read(arrays, fitted.plain(), nearest, examples.edges_s)
        limit = float(np.quantile(nearest.others(1)[0], _LIKE))
        return cls(model, examples.names, examples.edges_s, nearest, limit, stored)

    def predict(self, features: Floats) -> Prediction:
        """Return the predictions for (m, F) features."""
        time_s, shares = self.model.run_time_s(features), self.model.probabilities(features)
        by_time = np.searchsorted(self.edges_s, time_s, side="right")
        label = by_time if shares is None else shares.argmax(axis=1)
        distance = self.nearest.find(np.log2(1.0 + features), 1)[0][:, 0]
        return Prediction(time_s, label, shares, distance, distance > self.limit)

    def save(self, folder: Path, facts: Mapping[str, Any] | None = None) -> None:
        """Write a bundle.

        Args:
            folder: the bundle's folder.
            facts: further entries of the description, such as what the model was fitted to.

        Raises RunError if it cannot be written, PluginError without safetensors.
        """
        arrays = {"examples": self.nearest.logs, **self.model.arrays()}
        description = {
            "architecture": {"type": self.name, **self.model.plain()},
            "observation": {"features": list(self.names), "by": self.names[self.nearest.by]},
            "actions": {"type": "run-time-classes", "edges_s": self.edges_s.tolist()},
            "limit": self.limit, **(facts or {}),
        }  # fmt: skip
        write_bundle(folder, {k: v.astype(np.float32) for k, v in arrays.items()}, description)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a bundle.

        Raises RunError if it is damaged or not a burst time predictor; PluginError if a library is
        missing.
        """
        remedy = "`simkit burst-times fit` writes a predictor of burst times"
        try:
            bundle = read_bundle(folder)
        except RunError as error:
            raise RunError(f"{error}\n{folder}: {remedy}") from error
        kind = bundle.description["architecture"].get("type")
        if kind not in MODELS:
            raise RunError(f"{folder}: is a bundle of type {kind}, not of burst times; {remedy}")
        require_libraries(kind)
        try:
            return cls._read(bundle, kind)
        except (LookupError, TypeError, ValueError) as error:
            raise RunError(f"{folder}: its parts do not fit together: {error}; {remedy}") from error

    @classmethod
    def _read(cls, bundle: Bundle, kind: ModelName) -> Self:
        description, arrays = bundle.description, bundle.weights
        names = tuple(map(str, description["observation"]["features"]))
        edges = np.array(description["actions"]["edges_s"], np.float64)
        if edges.ndim != 1 or not len(edges) or not np.all(np.diff(edges) > 0):
            raise ValueError("edges_s must ascend")
        if (by := description["observation"]["by"]) not in names:
            raise ValueError(f"there is no feature {by}")
        check_shapes(arrays, {"examples": ("n", "F")}, {"F": len(names)})
        nearest = Nearest(names.index(by), arrays["examples"].astype(np.float64))
        model = _class_of(kind).read(arrays, description["architecture"], nearest, edges)
        return cls(kind, names, edges, nearest, float(description["limit"]), model)


def _class_of(name: ModelName) -> type[Model]:
    """Return the class of a kind of model; that of the network needs torch."""
    if name == "local-power-law":
        return LocalPowerLaw
    if name == "trees":
        return BoostedTrees
    from simkit.learners.run_times.burst_classifier import BurstClassifier

    return BurstClassifier


def require_libraries(model: ModelName) -> None:
    """Raise PluginError, with what to install, if a model's libraries are missing."""
    safetensors()
    require_library(model, f"burst times: the model {model}")
