"""First derivatives of a perceptron, forward and backward, without automatic differentiation.

For two layers this is quicker than a graph. The weights have the names that `perceptron` gives
them. As one vector they are concatenated layer by layer, each weight before its bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np

from simkit.arrays import Bools, Floats
from simkit.learners.nn.input_layers import PLAIN, FirstLayer, Stored
from simkit.learners.nn.perceptron import (
    Array,
    Weights,
    layers_of,
    masked_log_softmax,
    weight_names,
)

Vector = Floats


def glorot(rng: np.random.Generator, sizes: tuple[int, ...]) -> Weights:
    """Draw weights for layers of these sizes, inputs first and outputs last.

    Normal with variance 2 / (in + out), biases 0 (Glorot and Bengio, "Understanding the
    difficulty of training deep feedforward neural networks", 2010); float32.
    """
    weights: Weights = {}
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        weight, bias = weight_names(layer)
        drawn = rng.standard_normal((rows, columns)) * np.sqrt(2 / (rows + columns))
        weights[weight] = drawn.astype(np.float32)
        weights[bias] = np.zeros(columns, np.float32)
    return weights


def as_vector(arrays: Mapping[str, Array]) -> Vector:
    """Return named arrays as one vector, (P,) float64."""
    return np.concatenate([arrays[name].ravel() for name in _names(arrays)]).astype(np.float64)


def as_named(vector: Vector, like: Mapping[str, Array]) -> Weights:
    """Split a vector into arrays with the names, shapes and types of `like`."""
    names = _names(like)
    ends = np.cumsum([like[name].size for name in names])[:-1]
    parts = zip(names, np.split(vector, ends), strict=True)
    return {name: part.reshape(like[name].shape).astype(like[name].dtype) for name, part in parts}


def _names(arrays: Mapping[str, Array]) -> list[str]:
    """Return the names in the order of the layers; the mapping's order does not matter."""
    return [name for layer in range(len(arrays) // 2) for name in weight_names(layer)]


def moved(weights: Mapping[str, Array], change: Vector) -> Weights:
    """Return the weights after a change; types stay the same."""
    return as_named(as_vector(weights) + change, weights)


class LinearisedPerceptron:
    """A perceptron at a batch of inputs, linearised at its current weights."""

    def __init__(
        self, weights: Mapping[str, Array], stored: Stored, first: FirstLayer = PLAIN
    ) -> None:
        """Run the perceptron forward.

        Args:
            weights: by name, in the order of the layers.
            stored: (N, F) observations, as the first layer stores them.
            first: multiplies them with the first weight.
        """
        self._weights = weights
        self._layers = layers_of(weights)
        self._stored, self._first = stored, first
        flow = first.product(stored, first.table(self._layers[0][0])) + self._layers[0][1]
        self._hidden: list[Array] = []
        """Output of each hidden layer, (N, its width)."""
        for matrix, bias in self._layers[1:]:
            self._hidden.append(np.maximum(flow, 0))
            flow = self._hidden[-1] @ matrix + bias
        self.outputs: Array = flow
        """(N, out) output of the last layer."""

    def forward(self, direction: Vector) -> Array:
        """Return the derivative of the outputs, (N, out), along a direction (P,) of the weights."""
        (d_matrix, d_bias), *changes = layers_of(as_named(direction, self._weights))
        moving = self._first.product(self._stored, self._first.table(d_matrix)) + d_bias
        for (matrix, _), (d_matrix, d_bias), hidden in zip(
            self._layers[1:], changes, self._hidden, strict=True
        ):
            moving = (moving * (hidden > 0)) @ matrix + hidden @ d_matrix + d_bias
        return moving

    def backward(self, cotangent: Array) -> Vector:
        """Return the derivative of sum(cotangent * outputs), (P,), by the weights.

        Args:
            cotangent: (N, out).
        """
        parts: list[Array] = []
        flow = cotangent.astype(self.outputs.dtype, copy=False)
        for (matrix, _), hidden in zip(self._layers[:0:-1], self._hidden[::-1], strict=True):
            parts += [flow.sum(axis=0), (hidden.T @ flow).ravel()]
            flow = (flow @ matrix.T) * (hidden > 0)
        parts += [flow.sum(axis=0), self._first.gradient(self._stored, flow).ravel()]
        return np.concatenate(parts[::-1]).astype(np.float64)


class LinearisedPolicy(LinearisedPerceptron):
    """A perceptron whose outputs are the logits of a softmax over the actions."""

    def __init__(
        self,
        weights: Mapping[str, Array],
        stored: Stored,
        allowed: Bools | None = None,
        first: FirstLayer = PLAIN,
    ) -> None:
        """Run the perceptron forward.

        Args:
            weights: by name.
            stored: (N, F).
            allowed: (N, A) the actions that may be taken, at least one in each row; None: all.
            first: as for `LinearisedPerceptron`.
        """
        super().__init__(weights, stored, first)
        self._allowed = allowed

    @cached_property
    def log_probabilities(self) -> Array:
        """(N, A) log-probabilities of the actions; -inf for masked ones."""
        return masked_log_softmax(self.outputs, self._allowed)

    @cached_property
    def probabilities(self) -> Array:
        """(N, A) probabilities of the actions; 0 for masked ones."""
        return np.exp(self.log_probabilities)
