"""Trained networks evaluated with NumPy, so that agents run without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import RunError
from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape

__all__ = [
    "LARGEST_FLOW", "PlainNetwork", "WeightedScorer", "draws", "masked_log_softmax",
    "plain_network", "split_weights", "weight_sizes",
]  # fmt: skip

Array = npt.NDArray[np.floating]

LARGEST_FLOW: Final = 1e30
"""Larger numbers may overflow float32 in sums; the agents that simkit trains stay below 1e4."""


class PlainNetwork(Protocol):
    """A network without gradients."""

    def logits(self, seen: Array, /) -> Array:
        """Return (…, A) logits for (…, K) observations."""

    def largest(self, seen: float, /) -> float:
        """Return a bound on all intermediate numbers, given a bound on the observations."""


def plain_network(
    shape: PerceptronShape | SetScorerShape, weights: Mapping[str, Array]
) -> PlainNetwork:
    """Return the network with these weights; raises RunError if they do not fit the shape."""
    if isinstance(shape, PerceptronShape):
        return _PlainPerceptron(shape, weights)
    return _PlainSetScorer(shape, weights)


def masked_log_softmax(logits: Array, allowed: Bools | None = None) -> Array:
    """Return logits - log(sum(exp(logits))) over the allowed actions.

    A masked action has a probability of 0, and the others' probabilities keep their ratios.

    Args:
        logits: (…, A) finite numbers.
        allowed: (…, A) which actions may be taken, at least one in each row; None: all.

    Returns:
        (…, A) log-probabilities of the logits' type; -inf where not allowed.
    """
    if allowed is not None:
        logits = np.where(allowed, logits, logits.dtype.type(-np.inf))
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def draws(chances: Floats, rng: np.random.Generator) -> Ints:
    """Return (N,) an action for each row of (N, A) chances; one without a chance is never drawn."""
    below = chances.cumsum(axis=1)
    drawn = rng.random(len(below)) * below[:, -1]
    actions = (below <= drawn[:, None]).sum(axis=1)
    # rounding may put a draw past the last allowed action
    limited: Ints = np.minimum(actions, (below < below[:, -1:]).sum(axis=1))
    return limited


class _PlainPerceptron:
    """The perceptron; weights are (in, out)."""

    def __init__(self, shape: PerceptronShape, weights: Mapping[str, Array]) -> None:
        _refuse_misfits(weights, weight_sizes(shape), "perceptron")
        self._is_tanh = shape.activation == "tanh"
        self._layers = [
            (weights[f"layers.{layer}.weight"], weights[f"layers.{layer}.bias"])
            for layer in range(len(shape.layers) - 1)
        ]

    def logits(self, seen: Array) -> Array:
        *hidden, (weight, bias) = self._layers
        flow = seen
        for hidden_weight, hidden_bias in hidden:
            sums = flow @ hidden_weight + hidden_bias
            flow = np.tanh(sums) if self._is_tanh else np.maximum(sums, 0)
        result: Array = flow @ weight + bias
        return result

    def largest(self, seen: float) -> float:
        bound = seen
        for weight, bias in self._layers:
            if not bound <= LARGEST_FLOW:
                break  # so that nothing overflows
            sums = np.abs(weight).sum(axis=0, dtype=np.float64)
            bound = float((bound * sums + np.abs(bias)).max())
        return bound


def _refuse_misfits(
    weights: Mapping[str, Array], wanted: Mapping[str, tuple[int, ...]], kind: str
) -> None:
    """Raise RunError if weights do not have the names and shapes wanted."""
    found = {name: array.shape for name, array in weights.items()}
    wrong = sorted(k for k in {*wanted, *found} if wanted.get(k) != found.get(k))
    if wrong:
        shown = ", ".join(
            f"{k} is {found.get(k, 'missing')} but should be {wanted.get(k, 'absent')}"
            for k in wrong
        )
        raise RunError(f"the weights are not those of this {kind}: {shown}")


def weight_sizes(shape: PerceptronShape | SetScorerShape) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight by name: of a perceptron (in, out), of a scorer (out, in)."""
    sizes: dict[str, tuple[int, ...]] = {}
    if isinstance(shape, PerceptronShape):
        for layer, (before, after) in enumerate(pairwise(shape.layers)):
            sizes |= {f"layers.{layer}.weight": (before, after), f"layers.{layer}.bias": (after,)}
        return sizes
    hidden = shape.hidden
    sizes = {
        "item.weight": (hidden, shape.features), "item.bias": (hidden,),
        "context.weight": (hidden, shape.context), "context.bias": (hidden,),
        "beside.weight": (hidden, hidden), "beside.bias": (hidden,),
        "together.weight": (hidden, hidden),
        "score.weight": (shape.scores, hidden), "score.bias": (shape.scores,),
    }  # fmt: skip
    if shape.others:
        sizes |= {
            "other.weight": (hidden, 2 * hidden), "other.bias": (hidden,),
            "other_score.weight": (shape.others, hidden), "other_score.bias": (shape.others,),
        }  # fmt: skip
    return sizes


def split_weights(flat: Floats, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """Return (P,) weights in a row as arrays of these shapes by name, as float32 holds them."""
    stored = np.asarray(flat, np.float64).astype(np.float32).astype(np.float64)
    ends = np.cumsum([prod(shape) for shape in shapes.values()])
    parts = zip(shapes.items(), np.split(stored, ends[:-1]), strict=True)
    return {name: part.reshape(shape) for (name, shape), part in parts}


class WeightedScorer(ABC):
    """A scorer of jobs or of pairs: named arrays of weights, P in all."""

    @property
    @abstractmethod
    def weights(self) -> dict[str, Floats]:
        """The arrays by name, as in a bundle."""

    @abstractmethod
    def with_weights(self, weights: Mapping[str, Floats]) -> Self:
        """Return a scorer of the same shape with other weights by name."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays by name."""
        return {name: array.shape for name, array in self.weights.items()}

    @property
    def flat(self) -> Floats:
        """(P,) all weights in a row."""
        return np.concatenate([array.reshape(-1) for array in self.weights.values()])

    @property
    def stored(self) -> dict[str, npt.NDArray[np.float32]]:
        """The arrays by name, for a bundle."""
        return {name: array.astype(np.float32) for name, array in self.weights.items()}

    def with_flat(self, flat: Floats) -> Self:
        """Return a scorer of the same shape with (P,) other weights, as float32 holds them."""
        return self.with_weights(split_weights(flat, self.shapes))

    def of_bundle(self, weights: Mapping[str, Array], where: str) -> Self:
        """Return a scorer of the same shape with the weights of a bundle.

        Raises RunError, which begins with `where`, if they have other names or shapes.
        """
        try:
            _refuse_misfits(weights, self.shapes, "scorer")
        except RunError as error:
            raise RunError(f"{where}: {error}; train it again") from None
        return self.with_weights({name: weights[name].astype(np.float64) for name in self.shapes})


class _PlainSetScorer:
    """The scorer of sets; see `simkit.learners.networks.build.SetScorer`."""

    def __init__(self, shape: SetScorerShape, weights: Mapping[str, Array]) -> None:
        _refuse_misfits(weights, weight_sizes(shape), "set scorer")
        self._shape, self._weights = shape, dict(weights)

    def _linear(self, name: str, flow: Array) -> Array:
        result: Array = flow @ self._weights[f"{name}.weight"].T
        bias = self._weights.get(f"{name}.bias")
        return result if bias is None else result + bias

    def logits(self, seen: Array) -> Array:
        shape, lead = self._shape, seen.shape[:-1]
        items = seen[..., shape.context :].reshape(*lead, shape.items, shape.features)
        context = self._linear("context", seen[..., : shape.context])
        each = np.maximum(self._linear("item", items) + context[..., None, :], 0)
        mean = (each * items[..., :1]).mean(axis=-2)
        combined = self._linear("beside", each) + self._linear("together", mean)[..., None, :]
        scores = self._linear("score", np.maximum(combined, 0))
        scores = scores.swapaxes(-1, -2).reshape(*lead, shape.items * shape.scores)
        if not shape.others:
            return scores
        summary = np.concatenate((mean, np.maximum(context, 0)), axis=-1)
        others = self._linear("other_score", np.maximum(self._linear("other", summary), 0))
        return np.concatenate((scores, others), axis=-1)

    def _reach(self, name: str, flow: float) -> float:
        """Return a bound on a layer's outputs, given a bound on its inputs."""
        if not flow <= _UNBOUNDED:
            return flow
        weight = np.abs(self._weights[f"{name}.weight"]).sum(axis=1, dtype=np.float64)
        bias = self._weights.get(f"{name}.bias")
        return float((flow * weight + (0.0 if bias is None else np.abs(bias))).max())

    def largest(self, seen: float) -> float:
        each = self._reach("item", seen) + self._reach("context", seen)
        mean = each * max(seen, 1.0)
        combined = self._reach("beside", each) + self._reach("together", mean)
        bounds = [mean, self._reach("score", combined)]
        if self._shape.others:
            bounds.append(self._reach("other_score", self._reach("other", mean)))
        return max(bounds)


_UNBOUNDED: Final = 1e200
"""Larger bounds are not multiplied further, lest they overflow."""
