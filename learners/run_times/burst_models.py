"""What models of run times have in common: the estimator, its library, its form in a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.errors import PluginError
from simkit.learners.run_times.examples import Examples

__all__ = ["Arrays", "Model", "Nearest", "check_shapes", "require_library", "rounded"]

Arrays = Mapping[str, npt.NDArray[Any]]
_OTHERS: Final = 32.0  # weight of the other features in a distance
_LIBRARIES: Final = {
    "trees": ("sklearn", "scikit-learn"), "network": ("torch", "torch"),
    "classes": ("torch", "torch"),
}  # fmt: skip


def require_library(model: str, what: str) -> None:
    """Raise PluginError, with what to install, if the library of a sort of model is missing.

    `what` needs it, for the message.
    """
    module, package = _LIBRARIES.get(model, ("simkit", "simkit"))
    if find_spec(module) is None:
        raise PluginError(
            f"{what} needs {package}, which is not installed; pip install 'simkit-cluster[learn]'"
        )


@dataclass(frozen=True)
class Nearest:
    """Examples that can be searched for the neighbours of a query.

    The distance between two examples is the sum of the differences of log2(1 + x) over their
    features x. The feature by which run times grow has a weight of 1, all others 32: an
    executable's code, which identifies the program, must agree before the size of its arrays
    matters.
    """

    by: int
    """The feature by which run times grow, such as the size of a program's arrays."""
    logs: Floats
    """(n, F) log2(1 + x) of each feature x."""

    @classmethod
    def of(cls, examples: Examples, by: str = "bss") -> Self:
        """Return the examples for searching, with the feature by which run times grow."""
        return cls(examples.names.index(by), np.log2(1.0 + examples.features))

    def __len__(self) -> int:
        return len(self.logs)

    def find(self, logs: Floats, count: int) -> tuple[Floats, Ints]:
        """Return (m, count) distances of the nearest examples, ascending, and their row numbers.

        Args:
            logs: (m, F) log2(1 + x) of the queries' features.
            count: number of neighbours, at most n.
        """
        from scipy.spatial import KDTree

        tree = KDTree(self._weighted(self.logs), balanced_tree=False)
        distance, near = tree.query(self._weighted(logs), k=np.arange(1, count + 1), p=1)
        return distance, near

    def others(self, count: int) -> tuple[Floats, Ints]:
        """Return the same for each example among the others; `count` is below n."""
        distance, near = self.find(self.logs, count + 1)
        itself = near == np.arange(len(self))[:, None]
        itself[~itself.any(axis=1), -1] = True  # more than `count` examples are its equals
        shape = (len(self), count)
        return distance[~itself].reshape(shape), near[~itself].reshape(shape)

    def _weighted(self, logs: Floats) -> Floats:
        weighted = logs * _OTHERS
        weighted[:, self.by] = logs[:, self.by]
        return weighted


class Model(Protocol):
    """An estimator of run times from a table of features, `Examples`.

    Its numbers are those of the fit; a bundle stores them as float32.
    """

    @classmethod
    def fitted(
        cls, examples: Examples, rng: np.random.Generator, /, *args: Any, **settings: Any
    ) -> Self:
        """Return the model fitted to examples; `rng` draws what is random in it.

        Each takes settings of its own as further arguments.
        """

    def run_time_s(self, features: Floats) -> Floats:
        """Return (m,) run times in seconds for (m, F) features."""

    def probabilities(self, features: Floats) -> Floats | None:
        """Return (m, C) class probabilities; None if the model has none."""

    def arrays(self) -> Arrays:
        """Return the arrays that a bundle stores in addition to the examples."""

    def plain(self) -> dict[str, Any]:
        """Return the entries that a bundle's description adds to the architecture."""

    @classmethod
    def read(
        cls, arrays: Arrays, plain: Mapping[str, Any], nearest: Nearest, edges_s: Floats, /
    ) -> Self:
        """Return the model in a bundle; raises ValueError or LookupError if parts do not fit."""


def rounded(numbers: npt.NDArray[Any]) -> Floats:
    """Return numbers rounded to float32, the precision of a bundle."""
    return numbers.astype(np.float32).astype(np.float64)


def check_shapes(
    arrays: Arrays, shapes: Mapping[str, tuple[str, ...]], known: dict[str, int]
) -> None:
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
