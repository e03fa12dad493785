"""A perceptron that gives logits of actions, with its gradient worked out by hand.

For two layers on a CPU that is several times quicker than a graph, and the first layer can be a
sparse one (`table_layer`). The tests hold it equal to torch's gradient of the dense perceptron.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .input_layers import InputLayer, Stored
from .perceptron import Array, Weights, layers_of, weight_names

CHUNK = 16_384
"""Observations whose gradient is worked out at a time: their intermediate arrays fit the caches."""


class PolicyNetwork:
    """A perceptron behind an input layer. Call `refresh` after each change of its weights."""

    def __init__(self, first: InputLayer, weights: Weights) -> None:
        """Take weights of at least two layers by name; they are changed from outside, in place."""
        self.first = first
        self.weights = weights
        self.refresh()

    def refresh(self) -> None:
        """Take notice of weights that were changed."""
        self._layers = layers_of(self.weights)
        self._table = self.first.table(self._layers[0][0])

    def logits(self, stored: Stored) -> Array:
        """Return (A, actions) of observations as the input layer keeps them."""
        weight, bias = self._layers[-1]
        result: Array = self._hidden(stored)[-1] @ weight + bias
        return result

    def gradient(self, stored: Stored, cotangent: Array) -> Weights:
        """Return the derivative of sum(cotangent * logits) by each weight.

        Args:
            stored: (D, F) observations.
            cotangent: (D, actions).

        Chunks are summed in float64, so that hundreds of thousands of terms lose no digits.
        """
        total = {name: np.zeros(array.shape) for name, array in self.weights.items()}
        for begin in range(0, len(stored), CHUNK):
            rows = slice(begin, begin + CHUNK)
            for name, part in self._parts(stored[rows], cotangent[rows]):
                total[name] += part
        return {name: array.astype(self.weights[name].dtype) for name, array in total.items()}

    def _parts(self, stored: Stored, cotangent: Array) -> Iterator[tuple[str, Array]]:
        """Yield the derivative by each weight, the last layer first."""
        hidden = self._hidden(stored)
        flow = cotangent.astype(hidden[-1].dtype, copy=False)
        for layer in range(len(self._layers) - 1, -1, -1):
            weight, bias = weight_names(layer)
            yield bias, flow.sum(axis=0)
            if layer == 0:
                yield weight, self.first.gradient(stored, flow)
            else:
                into = hidden[layer - 1]
                yield weight, into.T @ flow
                flow = (flow @ self._layers[layer][0].T) * (into > 0)

    def _hidden(self, stored: Stored) -> list[Array]:
        """Return what each hidden layer gives, (A, its width)."""
        flow = self.first.product(stored, self._table)
        flow += self._layers[0][1]
        hidden = [np.maximum(flow, 0, out=flow)]
        for weight, bias in self._layers[1:-1]:
            hidden.append(np.maximum(hidden[-1] @ weight + bias, 0))
        return hidden
