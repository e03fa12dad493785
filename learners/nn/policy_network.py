"""A perceptron for the logits of actions, with its gradient written by hand.

For two layers on a CPU that is several times quicker than a graph, and the first layer can be a
sparse one (`table_layer`). Tests hold it equal to torch's gradient of the dense perceptron. On a
GPU torch does the products; the weights and the optimiser stay in NumPy, so that weights and
observations go to the device, and logits and gradients come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from simkit.learners.nn.input_layers import InputLayer, Stored
from simkit.learners.nn.perceptron import Array, Weights, layers_of, weight_names

if TYPE_CHECKING:
    from torch import Tensor


CHUNK = 16_384
"""Observations per chunk of a gradient, so that intermediate arrays fit the caches."""


class PolicyNetwork:
    """A perceptron behind an input layer. Call `refresh` after each change of its weights."""

    def __init__(self, first: InputLayer, weights: Weights) -> None:
        """Take weights of at least two layers by name; they are changed from outside, in place."""
        self.first = first
        self.weights = weights
        self.refresh()

    def refresh(self) -> None:
        """Use the weights after a change."""
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
        """Return the output of each hidden layer, (A, its width)."""
        flow = self.first.product(stored, self._table)
        flow += self._layers[0][1]
        hidden = [np.maximum(flow, 0, out=flow)]
        for weight, bias in self._layers[1:-1]:
            hidden.append(np.maximum(hidden[-1] @ weight + bias, 0))
        return hidden


def make_network(first: InputLayer, weights: Weights, device: str) -> PolicyNetwork:
    """Return a network that does its products on a device, which must be available."""
    if device == "cpu":
        return PolicyNetwork(first, weights)
    return TorchNetwork(first, weights, device)


class TorchNetwork(PolicyNetwork):
    """Does what `PolicyNetwork` does, by torch.

    Products are dense ones in the weights' own precision, so that the same seed on the same device
    gives the same weights; those of another device differ in the last digits.
    """

    def __init__(self, first: InputLayer, weights: Weights, device: str) -> None:
        """Take weights as `PolicyNetwork` does, and torch's name of a device, e.g. ``cuda``."""
        import torch

        self._torch = torch
        self._device = torch.device(device)
        super().__init__(first, weights)

    def refresh(self) -> None:
        super().refresh()
        layers = [(self._table, self._layers[0][1]), *self._layers[1:]]
        self._there = [(self._sent(weight), self._sent(bias)) for weight, bias in layers]

    def logits(self, stored: Stored) -> Array:
        weight, bias = self._there[-1]
        return self._fetched(self._flows(stored)[-1] @ weight + bias)

    def _parts(self, stored: Stored, cotangent: Array) -> Iterator[tuple[str, Array]]:
        flows = self._flows(stored)
        flow = self._sent(cotangent.astype(self._table.dtype, copy=False))
        for layer in range(len(self._there) - 1, -1, -1):
            weight, bias = weight_names(layer)
            yield bias, self._fetched(flow.sum(dim=0))
            slope = self._fetched(flows[layer].T @ flow)
            yield weight, slope if layer else self.first.fold(slope)
            if layer:
                flow = (flow @ self._there[layer][0].T) * (flows[layer] > 0)

    def _flows(self, stored: Stored) -> list[Tensor]:
        """Return the input of each layer: the observations, then the hidden layers' outputs."""
        flows = [self._matrix(stored)]
        for weight, bias in self._there[:-1]:
            flows.append((flows[-1] @ weight + bias).relu())
        return flows

    def _matrix(self, stored: Stored) -> Tensor:
        """Return (A, rows) of the first layer, dense on the device; it is sent sparse."""
        matrix = self.first.matrix(stored, self._table.dtype)
        if isinstance(matrix, np.ndarray):
            return self._sent(matrix)
        found = self._torch.zeros(matrix.shape, dtype=self._there[0][0].dtype, device=self._device)
        rows = np.repeat(np.arange(len(stored)), np.diff(matrix.indptr))
        places = self._sent(rows), self._sent(matrix.indices.astype(np.int64))
        return found.index_put_(places, self._sent(matrix.data))

    def _sent(self, array: Array | np.ndarray) -> Tensor:
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _fetched(self, tensor: Tensor) -> Array:
        found: Array = tensor.cpu().numpy()
        return found
