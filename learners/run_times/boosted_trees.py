"""Gradient-boosted trees stored as arrays: fitted by scikit-learn, evaluated by NumPy.

J. H. Friedman, "Greedy function approximation: a gradient boosting machine" (2001).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.learners.run_times.burst_models import Arrays, Nearest, check_shapes, rounded
from simkit.learners.run_times.examples import Examples

__all__ = ["TREES", "BoostedTrees"]

_ROWS = 1024  # evaluated at once, which bounds the memory
TREES: Final[Mapping[str, Any]] = {
    "n_estimators": 800, "learning_rate": 0.1, "max_depth": 8, "subsample": 0.5,
    "max_features": 0.5, "min_samples_leaf": 3,
}  # fmt: skip
"""Arguments of scikit-learn for section sizes: their relation to the run time takes many splits."""
_COUNTED = 2**24  # whole numbers up to this have a float32
_NODES: Final = ("feature", "threshold", "left", "right", "value")  # arrays of (N,)
_WHOLE: Final = ("root", "feature", "left", "right")  # arrays of whole numbers


@dataclass(frozen=True)
class BoostedTrees:
    """K trees whose predictions add up; their N nodes are numbered tree by tree, roots first.

    A `Model` of run times. A row goes to a node's left child if its feature, as float32, is at most
    the threshold. A leaf is its own child.
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
            settings: arguments of scikit-learn's `GradientBoostingRegressor` that override
                `TREES`.
        """
        from sklearn.ensemble import GradientBoostingRegressor

        chosen = {**TREES, **settings}
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
        """Return the arrays of the trees by name, as float32 that leads every row the same way.

        Raises ValueError if there are more nodes than float32 can count.
        """
        if len(self.feature) > _COUNTED:
            raise ValueError("the trees have more nodes than float32 can count")
        names = ("root", *_NODES)
        arrays = {"start": np.array([self.start]), **{name: getattr(self, name) for name in names}}
        threshold = self.threshold.astype(np.float32)
        above = threshold > self.threshold  # some float32 features would take another way
        arrays["threshold"] = np.where(above, np.nextafter(threshold, -np.inf), threshold)
        return arrays

    def plain(self) -> dict[str, Any]:
        """Return no entries: the arrays say everything."""
        return {}

    @classmethod
    def read(
        cls, arrays: Arrays, _plain: Mapping[str, Any], nearest: Nearest, _edges_s: Floats
    ) -> Self:
        """Return the trees in a bundle; raises ValueError or LookupError if parts do not fit."""
        sizes = {"1": 1}
        shapes = {"start": ("1",), "root": ("K",), **dict.fromkeys(_NODES, ("N",))}
        check_shapes(arrays, shapes, sizes)
        named: dict[str, Any] = {
            name: arrays[name].astype(np.int64) if name in _WHOLE else rounded(arrays[name])
            for name in shapes
        }
        trees = cls(float(named.pop("start")[0]), **named)
        nodes, features = np.arange(sizes["N"]), nearest.logs.shape[1]
        for name, low, end in (
            ("root", 0, sizes["N"]), ("feature", 0, features),
            ("left", nodes, sizes["N"]), ("right", nodes, sizes["N"]),  # so that no path is endless
        ):  # fmt: skip
            numbers = getattr(trees, name)
            if (numbers < low).any() or (numbers >= end).any():
                raise ValueError(f"{name} leads to no node or feature")
        return trees
