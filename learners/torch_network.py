"""The policy network with its products done by torch, on another device than the processor.

The weights, the optimiser and all that is drawn stay where they are, in NumPy: what goes to the
device are weights once an iteration and observations, what comes back are logits and gradients. An
agent's bundle does not tell where it was trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .input_layers import InputLayer, Stored
from .perceptron import Array, Weights, weight_names
from .policy_network import PolicyNetwork

if TYPE_CHECKING:
    from torch import Tensor


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
        """See `PolicyNetwork.refresh`."""
        super().refresh()
        layers = [(self._table, self._layers[0][1]), *self._layers[1:]]
        self._there = [(self._sent(weight), self._sent(bias)) for weight, bias in layers]

    def logits(self, stored: Stored) -> Array:
        """See `PolicyNetwork.logits`."""
        weight, bias = self._there[-1]
        return self._fetched(self._flows(stored)[-1] @ weight + bias)

    def _parts(self, stored: Stored, cotangent: Array) -> Iterator[tuple[str, Array]]:
        """See `PolicyNetwork._parts`."""
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
        """Return what goes into each layer: the observations, then what each hidden layer gives."""
        flows = [self._matrix(stored)]
        for weight, bias in self._there[:-1]:
            flows.append((flows[-1] @ weight + bias).relu())
        return flows

    def _matrix(self, stored: Stored) -> Tensor:
        """Return (A, rows) of the first layer, dense: it travels as the sparse one that it is."""
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
