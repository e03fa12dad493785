"""A predictor of burst times that was fitted to measured programs, and is kept as a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self, get_args

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.errors import PluginError, RunError
from simkit.learners.common.bundle import Bundle, read_bundle, safetensors, write_bundle
from simkit.learners.run_times.burst_models import KINDS, Model, ModelName, check, rounded
from simkit.learners.run_times.examples import Examples
from simkit.learners.run_times.nearest import Nearest

__all__ = ["MODELS", "BurstPredictor", "Prediction", "require_libraries"]

MODELS: Final[tuple[ModelName, ...]] = get_args(ModelName)
_LIBRARIES: Final[Mapping[str, tuple[str, str]]] = {
    "trees": ("sklearn", "scikit-learn"), "network": ("torch", "torch"),
}  # fmt: skip
_FEWEST = 10  # examples
_USUAL = 0.99  # share of examples whose nearest neighbour is within the limit of what is like them


@dataclass(frozen=True)
class Prediction:
    """What a predictor says of m programs."""

    run_time_s: Floats
    """(m,)"""
    label: Ints
    """(m,) classes, from 0."""
    probabilities: Floats | None
    """(m, C) of the classes; None: the model has none."""
    distance: Floats
    """(m,) from the nearest program that the model was fitted to; see `Nearest`."""
    unlike: npt.NDArray[np.bool_]
    """(m,) whether it is farther than almost all of those programs are from each other."""


@dataclass(frozen=True)
class BurstPredictor:
    """A fitted model, and the examples that say which programs it knows.

    All numbers are those of float32, as a bundle has them: a predictor that was read from a bundle
    says exactly what the one said that was written.
    """

    name: ModelName
    names: tuple[str, ...]
    """Of the F features."""
    edges_s: Floats
    """(C - 1,) run times at which a class ends and the next begins."""
    nearest: Nearest
    """The n examples."""
    limit: float
    """The distance that `_USUAL` of the examples have at most from the nearest of the others."""
    model: Model

    @classmethod
    def fit(
        cls, examples: Examples, rng: np.random.Generator, model: ModelName = "local-power-law",
        by: str = "bss",
    ) -> Self:  # fmt: skip
        """Return a predictor.

        Args:
            examples: to fit.
            rng: draws what the model draws.
            model: its kind.
            by: the feature by which run times grow.

        Raises PluginError if a library is missing, RunError if there are too few examples.
        """
        require_libraries(model)
        if len(examples) < _FEWEST:
            raise RunError(
                f"burst times: there are {len(examples)} programs to fit a predictor to, and it "
                f"needs {_FEWEST}; measure more"
            )
        fitted = KINDS[model].fitted(examples, rng, by)
        nearest = Nearest.of(examples, by)
        nearest = replace(nearest, logs=rounded(nearest.logs))
        limit = float(np.quantile(nearest.others(1)[0], _USUAL))
        return cls(model, examples.names, examples.edges_s, nearest, limit, fitted)

    def predict(self, features: Floats) -> Prediction:
        """Return what is to be expected of (m, F) features."""
        time_s, shares = self.model.run_time_s(features), self.model.probabilities(features)
        by_time = np.searchsorted(self.edges_s, time_s, side="right")
        label = by_time if shares is None else shares.argmax(axis=1)
        distance = self.nearest.find(np.log2(1.0 + features), 1)[0][:, 0]
        return Prediction(time_s, label, shares, distance, distance > self.limit)

    def save(self, folder: Path, facts: Mapping[str, Any] | None = None) -> None:
        """Write a bundle.

        Args:
            folder: of the bundle.
            facts: plain values, such as what the model was fitted to.

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

        Raises RunError if it is damaged or no predictor of burst times; PluginError if a library is
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
        told, arrays = bundle.description, bundle.weights
        names = tuple(map(str, told["observation"]["features"]))
        edges = np.array(told["actions"]["edges_s"], np.float64)
        if edges.ndim != 1 or not np.all(np.diff(edges) > 0):
            raise ValueError("edges_s must ascend")
        if (by := told["observation"]["by"]) not in names:
            raise ValueError(f"there is no feature {by}")
        check(arrays, {"examples": ("n", "F")}, {"F": len(names)})
        nearest = Nearest(names.index(by), arrays["examples"].astype(np.float64))
        model = KINDS[kind].read(arrays, told["architecture"], nearest, edges)
        return cls(kind, names, edges, nearest, float(told["limit"]), model)


def require_libraries(model: ModelName) -> None:
    """Raise PluginError, which says what to install, if a model's libraries are missing."""
    safetensors()
    module, package = _LIBRARIES.get(model, ("simkit", "simkit"))
    if find_spec(module) is None:
        raise PluginError(
            f"burst times: the model {model} needs {package}, which is not installed; "
            "pip install 'simkit-cluster[learn]'"
        )
