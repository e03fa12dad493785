"""A trained network over an image, evaluated with NumPy; see `ImageNetwork`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from simkit.learners.common.shapes import ImageShape

__all__ = ["PlainImageNetwork", "image_network_sizes"]

Array = npt.NDArray[np.floating]
_EPSILON = 1e-5
"""Number that torch adds to the variance before it takes the root."""


def image_network_sizes(shape: ImageShape) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of `ImageNetwork`, (out, in) as in torch."""
    rows, columns = shape.filtered
    cells = shape.filters * rows * columns
    both = shape.image_units + shape.fact_units
    linear: dict[str, tuple[int, ...]] = {
        "encoder.image": (shape.image_units, cells),
        "encoder.facts": (shape.fact_units, shape.facts),
        "encoder.more_facts": (shape.fact_units, shape.fact_units),
        "encoder.both": (shape.image_units, both),
        "encoder.embedding": (shape.embedding, shape.image_units),
        "hidden": (shape.hidden, shape.embedding),
        "score": (shape.outputs, shape.hidden),
    }
    kernel = shape.kernel, shape.kernel
    for layer in range(shape.convolutions):
        linear[f"encoder.filters.{layer}"] = shape.filters, shape.filters if layer else 1, *kernel
    sizes = {f"{name}.weight": size for name, size in linear.items()}
    sizes |= {f"{name}.bias": size[:1] for name, size in linear.items()}
    for name, units in (("image", shape.image_units), ("fact", shape.fact_units)):
        for part in ("weight", "bias"):
            sizes[f"encoder.{name}_norm.{part}"] = (units,)
    return sizes


class PlainImageNetwork:
    """The network over an image; see `simkit.learners.common.images.network.ImageNetwork`."""

    def __init__(self, shape: ImageShape, weights: Mapping[str, Array]) -> None:
        """Take weights of the sizes that `image_network_sizes` returns."""
        self._shape, self._weights = shape, dict(weights)

    def logits(self, seen: Array) -> Array:
        """Return (…, outputs) for (…, K) observations."""
        shape, lead, cells = self._shape, seen.shape[:-1], self._shape.rows * self._shape.columns
        flow = seen[..., :cells].reshape(-1, 1, shape.rows, shape.columns)
        for layer in range(shape.convolutions):
            flow = np.maximum(self._filtered(f"encoder.filters.{layer}", flow), 0)
        image = self._normed("image", self._linear("encoder.image", flow.reshape(len(flow), -1)))
        facts = np.maximum(self._linear("encoder.facts", seen[..., cells:]), 0)
        facts = self._normed("fact", self._linear("encoder.more_facts", facts))
        image = image.reshape(*lead, shape.image_units)
        flow = np.maximum(np.concatenate((image, facts), axis=-1), 0)
        flow = np.maximum(self._linear("encoder.both", flow), 0)
        flow = np.maximum(self._linear("hidden", self._linear("encoder.embedding", flow)), 0)
        return self._linear("score", flow)

    def largest(self, seen: float) -> float:
        """Return a bound on all intermediate numbers, given a bound on the observations.

        A normalised number is at most the root of the number of units, whatever came before.
        """
        bounds = [seen]
        for layer in range(self._shape.convolutions):
            bounds.append(self._reach(f"encoder.filters.{layer}", bounds[-1]))
        bounds.append(self._reach("encoder.image", bounds[-1]))
        bounds += [self._reach("encoder.more_facts", self._reach("encoder.facts", seen))]
        both = max(self._normed_reach(name) for name in ("image", "fact"))
        embedded = self._reach("encoder.embedding", self._reach("encoder.both", both))
        return max(*bounds, both, self._reach("score", self._reach("hidden", embedded)))

    def _filtered(self, name: str, flow: Array) -> Array:
        """Convolve (B, channels, …) to (B, filters, rows, columns)."""
        size, weight = self._shape.kernel, self._weights[f"{name}.weight"]
        windows = np.lib.stride_tricks.sliding_window_view(flow, (size, size), axis=(2, 3))
        windows = windows[:, :, :, :: self._shape.stride]
        sums: Array = np.einsum("bcrlij,fcij->bfrl", windows, weight, optimize=True)
        return sums + self._weights[f"{name}.bias"][:, None, None]

    def _linear(self, name: str, flow: Array) -> Array:
        result: Array = flow @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return result

    def _normed(self, name: str, flow: Array) -> Array:
        mean, variance = flow.mean(axis=-1, keepdims=True), flow.var(axis=-1, keepdims=True)
        weight, bias = (self._weights[f"encoder.{name}_norm.{part}"] for part in ("weight", "bias"))
        result: Array = (flow - mean) / np.sqrt(variance + _EPSILON) * weight + bias
        return result

    def _reach(self, name: str, flow: float) -> float:
        weight = np.abs(self._weights[f"{name}.weight"].astype(np.float64))
        sums = weight.reshape(len(weight), -1).sum(axis=1)
        return float((flow * sums + np.abs(self._weights[f"{name}.bias"])).max())

    def _normed_reach(self, name: str) -> float:
        weight, bias = (
            np.abs(self._weights[f"encoder.{name}_norm.{part}"].astype(np.float64))
            for part in ("weight", "bias")
        )
        return float((np.sqrt(len(weight)) * weight + bias).max())
