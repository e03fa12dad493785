"""Gradient-boosted trees stored as arrays: fitted by scikit-learn, evaluated by NumPy.

J. H. Friedman, "Greedy function approximation: a gradient boosting machine" (2001).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.learners.run_times.burst_models import Arrays, check_shapes, rounded
from simkit.learners.run_times.examples import Examples
from simkit.learners.run_times.local_power_law import Nearest

__all__ = ["TREES", "BoostedTrees"]

_ROWS = 1024  # evaluated at once, which bounds the memory
_SETTINGS = {"n_estimators": 400, "learning_rate": 0.05, "max_depth": 6, "subsample": 0.5,
             "max_features": 0.5, "min_samples_leaf": 3}  # fmt: skip
TREES: Final[Mapping[str, Any]] = {"n_estimators": 800, "learning_rate": 0.1, "max_depth": 8}
"""Settings for section sizes: their relation to the run time takes many splits."""
_NODES: Final = ("feature", "threshold", "left", "right", "value")  # arrays of (N,)
_WHOLE: Final = ("root", "feature", "left", "right")  # arrays of whole numbers


@dataclass(frozen=True)
class BoostedTrees:
    """K trees whose predictions add up; their N nodes are numbered tree by tree, roots first.

    A `Model` of burst times.
    A row goes to a node's left child if its feature, as float32, is at most the threshold. A leaf
    is its own child. `for_bursts` makes them a `Model` of burst times.
    """

    start: float
    """Prediction to which the values of the trees are added."""
    root: Ints
    """(K,) number of each tree's root."""
    feature: Ints
    """(N,) number of the feature that a node tests; 0 at a leaf."""
    threshold: Floats
    """(N,)"""
    left: Ints
    """(N,) number of the left child."""
    right: Ints
    """(N,) number of the right child."""
    value: Floats
    """(N,) contribution of a leaf, learning rate included."""

    @classmethod
    def fitted(cls, examples: Examples, rng: np.random.Generator, **settings: Any) -> Self:
        """Return trees whose sum is the natural logarithm of the run time in seconds.

        Args:
            examples: training data.
            rng: draws the seed for the subsets of examples and features.
            settings: arguments of scikit-learn's `GradientBoostingRegressor` that override the
                defaults here.
        """
        from sklearn.ensemble import GradientBoostingRegressor

        chosen = {**_SETTINGS, **settings}
        model = GradientBoostingRegressor(**chosen, random_state=int(rng.integers(2**31)))
        model.fit(examples.features, np.log(examples.run_time_s))
        trees = [each.tree_ for each in model.estimators_[:, 0]]
        root = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        leaf = np.concatenate([tree.children_left < 0 for tree in trees])
        itself = np.arange(len(leaf))

        def child(side: str) -> Ints:
            shifted = [getattr(t, side) + first for first, t in zip(root, trees, strict=True)]
            return np.where(leaf, itself, np.concatenate(shifted))

        return cls(
            float(model.init_.constant_.ravel()[0]), root,
            np.where(leaf, 0, np.concatenate([tree.feature for tree in trees])),
            np.concatenate([tree.threshold for tree in trees]),
            child("children_left"), child("children_right"),
            np.concatenate([tree.value[:, 0, 0] for tree in trees]) * chosen["learning_rate"],
        )  # fmt: skip

    def scaled(self, factor: float) -> Self:
        """Return trees that predict run times multiplied by a factor."""
        return replace(self, start=self.start + log(factor))

    def run_time_s(self, features: Floats) -> Floats:
        """Return (m,) run times in seconds for (m, F) features."""
        rows = features.astype(np.float32)
        parts = [self._sums(rows[k : k + _ROWS]) for k in range(0, len(rows), _ROWS)]
        times: Floats = np.exp(self.start + np.concatenate([np.empty(0), *parts]))
        return times

    def _sums(self, features: npt.NDArray[np.float32]) -> Floats:
        """Return (m,) sums of the values of all trees for (m, F) features."""
        node = np.repeat(self.root[None], len(features), axis=0)
        row = np.arange(len(features))[:, None]
        while True:
            goes_left = features[row, self.feature[node]] <= self.threshold[node]
            child = np.where(goes_left, self.left[node], self.right[node])
            if np.array_equal(child, node):
                total: Floats = self.value[node].sum(axis=1)
                return total
            node = child

    def probabilities(self, features: Floats) -> None:
        """Return None: trees predict no classes."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of the trees by name, as a bundle stores them."""
        names = ("root", *_NODES)
        return {"start": np.array([self.start]), **{name: getattr(self, name) for name in names}}

    def plain(self) -> dict[str, Any]:
        """Return no entries: the arrays say everything."""
        return {}

    @classmethod
    def for_bursts(cls, examples: Examples, rng: np.random.Generator) -> Self:
        """Return trees for section sizes, whose numbers have the precision of float32."""
        arrays = cls.fitted(examples, rng, **TREES).arrays()
        if len(arrays["feature"]) > 2**24:
            raise ValueError("the trees have more nodes than float32 can count")
        threshold = arrays["threshold"].astype(np.float32)
        above = threshold > arrays["threshold"]  # some float32 features would take another way
        arrays["threshold"] = np.where(above, np.nextafter(threshold, -np.inf), threshold)
        return cls._stored(arrays)

    @classmethod
    def read(cls, arrays: Arrays, nearest: Nearest) -> Self:
        """Return the trees in a bundle; raises ValueError or LookupError if parts do not fit."""
        sizes = {"1": 1}
        shapes = {"start": ("1",), "root": ("K",), **dict.fromkeys(_NODES, ("N",))}
        check_shapes(arrays, shapes, sizes)
        trees = cls._stored({name: each for name, each in arrays.items() if name != "examples"})
        nodes, features = np.arange(sizes["N"]), nearest.logs.shape[1]
        for name, low, end in (
            ("root", 0, sizes["N"]), ("feature", 0, features),
            ("left", nodes, sizes["N"]), ("right", nodes, sizes["N"]),  # so that no path is endless
        ):  # fmt: skip
            numbers = getattr(trees, name)
            if (numbers < low).any() or (numbers >= end).any():
                raise ValueError(f"{name} leads to no node or feature")
        return trees

    @classmethod
    def _stored(cls, arrays: Arrays) -> Self:
        """Return the trees with these `arrays`, as float32 holds them."""
        named: dict[str, Any] = {name: each.astype(np.int64) if name in _WHOLE else rounded(each)
                 for name, each in arrays.items()}  # fmt: skip
        return cls(float(named.pop("start")[0]), **named)
