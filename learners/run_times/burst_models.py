"""What models of run times have in common: a library, and, of burst times, a form in a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import PluginError

__all__ = ["Arrays", "Model", "check_shapes", "require_library", "rounded"]

Arrays = Mapping[str, npt.NDArray[Any]]
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
