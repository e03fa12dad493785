"""First layers: how a learner stores observations, and their product with the first weight.

A learner stores hundreds of thousands of observations per iteration. An `InputLayer` stores only
what is needed of each, and multiplies it with the first layer's weight; `table_layer` does so for
images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy.typing as npt
from scipy import sparse

from simkit.errors import ScenarioError, did_you_mean
from simkit.learners.nn.perceptron import Array
from simkit.learners.nn.table_layer import TableLayer
from simkit.learning.observe_deeprm import compact_schema, deeprm_compact, image_schema
from simkit.learning.schema import ObservationSchema
from simkit.learning.slotted import Slotted, SlottedView

Stored = npt.NDArray[Any]


class FirstLayer(Protocol):
    """The product of stored observations with the first weight, and its derivative."""

    def table(self, weight: Array, /) -> Array:
        """Return a weight (K, hidden) in the form that `product` needs; once per change of it."""

    def product(self, stored: Stored, table: Array, /) -> Array:
        """Return (N, hidden): the observations times the weight."""

    def gradient(self, stored: Stored, cotangent: Array, /) -> Array:
        """Return (K, hidden): the observations, transposed, times a cotangent (N, hidden)."""


class PlainLayer:
    """The first layer of observations that are stored as (N, K) numbers: a dense product."""

    def table(self, weight: Array) -> Array:
        """Return the weight."""
        return weight

    def product(self, stored: Stored, table: Array) -> Array:
        result: Array = stored @ table
        return result

    def gradient(self, stored: Stored, cotangent: Array) -> Array:
        result: Array = stored.T.astype(cotangent.dtype, copy=False) @ cotangent
        return result


PLAIN = PlainLayer()


class InputLayer(FirstLayer, Protocol):
    """A first layer that stores observations of K numbers in its own format."""

    inputs: int
    """K."""

    def stored(self, view: SlottedView) -> Stored:
        """Return (A, F): the stored form of A observations."""

    def matrix(self, stored: Stored, dtype: npt.DTypeLike) -> Array | sparse.csr_array:
        """Return (A, rows): how often each row of the table is in each observation."""

    def fold(self, slopes: Array) -> Array:
        """Return (K, hidden) by the weight, of a derivative (rows, hidden) by the table."""


class CompactLayer(PlainLayer):
    """The first layer for the compact observation: a dense product."""

    def __init__(self, model: Slotted) -> None:
        self._model = model
        self.inputs = compact_schema(model).size

    def stored(self, view: SlottedView) -> Stored:
        """Return (A, K) float32."""
        return deeprm_compact(view, self._model)

    def matrix(self, stored: Stored, dtype: npt.DTypeLike) -> Array:
        """Return the observations."""
        return stored.astype(dtype, copy=False)

    def fold(self, slopes: Array) -> Array:
        """Return the derivative."""
        return slopes


LAYERS: Mapping[str, Callable[[Slotted], InputLayer]] = {
    "deeprm-image": TableLayer,
    "deeprm-compact": CompactLayer,
}
SCHEMAS = {"deeprm-image": image_schema, "deeprm-compact": compact_schema}


def make_input_layer(observation: str, model: Slotted) -> tuple[InputLayer, ObservationSchema]:
    """Return the first layer for an observation, and what its numbers mean.

    Raises ScenarioError for an observation that is not of a slotted model.
    """
    if observation not in LAYERS:
        raise ScenarioError(
            f"learn.arguments.observation: unknown value {observation!r}"
            f"{did_you_mean(observation, LAYERS)}"
        )
    return LAYERS[observation](model), SCHEMAS[observation](model)
