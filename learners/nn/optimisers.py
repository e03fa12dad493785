"""Optimisers for named arrays of NumPy or torch, rmsprop and Adam, which maximise.

They change the weights in place. Their whole state can be saved and restored.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, Protocol

from simkit.errors import ScenarioError, did_you_mean

Arrays = Mapping[str, Any]
OptimiserName = Literal["rmsprop", "adam"]


class Optimiser(Protocol):
    """Moves weights along gradients, for ascent, and remembers moments of the gradients."""

    def ascend(self, weights: Arrays, gradient: Arrays) -> None:
        """Change the weights in place.

        Args:
            weights: arrays by name.
            gradient: of the objective to maximise, with the same names and shapes.
        """

    def state(self) -> dict[str, Any]:
        """Return the state by name.

        Arrays such as ``mean_square.layers.0.weight``; Adam adds ``steps``, an int.
        """

    def restore(self, state: Arrays) -> None:
        """Restore what `state` returned; arrays are copied."""


class RmsProp:
    """Steps over the root of a moving mean of squares (Tieleman and Hinton, lecture 6.5, 2012).

    `epsilon` is added under the root, as in DeepRM's original program.
    """

    def __init__(
        self, learning_rate: float = 0.001, decay: float = 0.9, epsilon: float = 1e-9
    ) -> None:
        self.learning_rate = learning_rate
        self.decay = decay
        self.epsilon = epsilon
        self._mean_square: MutableMapping[str, Any] = {}

    def ascend(self, weights: Arrays, gradient: Arrays) -> None:
        for name, slope in gradient.items():
            before = self._mean_square.get(name, 0.0)
            square = self.decay * before + (1 - self.decay) * slope * slope
            self._mean_square[name] = square
            weights[name][...] += self.learning_rate * slope / (square + self.epsilon) ** 0.5

    def state(self) -> dict[str, Any]:
        return {f"mean_square.{name}": +array for name, array in self._mean_square.items()}

    def restore(self, state: Arrays) -> None:
        self._mean_square = with_prefix(state, "mean_square.")


class Adam:
    """Steps along a moving mean over the root of a moving mean of squares, both bias-corrected.

    Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        first_decay: float = 0.9,
        second_decay: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        self.learning_rate = learning_rate
        self.first_decay = first_decay
        self.second_decay = second_decay
        self.epsilon = epsilon
        self._steps = 0
        self._mean: MutableMapping[str, Any] = {}
        self._mean_square: MutableMapping[str, Any] = {}

    def ascend(self, weights: Arrays, gradient: Arrays) -> None:
        self._steps += 1
        first = 1 - self.first_decay**self._steps
        second = 1 - self.second_decay**self._steps
        for name, slope in gradient.items():
            mean = self.first_decay * self._mean.get(name, 0.0) + (1 - self.first_decay) * slope
            square = self._mean_square.get(name, 0.0) * self.second_decay
            square = square + (1 - self.second_decay) * slope * slope
            self._mean[name], self._mean_square[name] = mean, square
            root = (square / second) ** 0.5 + self.epsilon
            weights[name][...] += self.learning_rate * (mean / first) / root

    def state(self) -> dict[str, Any]:
        means = {f"mean.{name}": +array for name, array in self._mean.items()}
        squares = {f"mean_square.{name}": +array for name, array in self._mean_square.items()}
        return {"steps": self._steps} | means | squares

    def restore(self, state: Arrays) -> None:
        self._steps = int(state["steps"])
        self._mean = with_prefix(state, "mean.")
        self._mean_square = with_prefix(state, "mean_square.")


def make_optimiser(name: str, learning_rate: float) -> Optimiser:
    """Return a new optimiser by its name, ``rmsprop`` or ``adam``.

    Raises ScenarioError for another name, or a learning rate that is not positive.
    """
    kinds: dict[str, type[RmsProp] | type[Adam]] = {"rmsprop": RmsProp, "adam": Adam}
    if name not in kinds:
        raise ScenarioError(f"optimiser is {name!r}{did_you_mean(name, kinds)}")
    if not learning_rate > 0:
        raise ScenarioError(f"learning_rate is {learning_rate!r}; give a number above 0")
    return kinds[name](learning_rate)


def with_prefix(state: Arrays, prefix: str) -> dict[str, Any]:
    """Return copies of the values whose names have a prefix, by name without the prefix."""
    return {
        name.removeprefix(prefix): +array
        for name, array in state.items()
        if name.startswith(prefix)
    }
