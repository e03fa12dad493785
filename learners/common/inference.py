"""What a trained network says, calculated with NumPy: agents run where torch is absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np

from simkit.errors import RunError
from simkit.learners.common.shapes import PerceptronShape, SetScorerShape
from simkit.learners.nn.perceptron import Array, largest_flow, layers_of, logits

__all__ = ["PlainNetwork", "plain_network"]


class PlainNetwork(Protocol):
    """A network without gradients."""

    def logits(self, seen: Array, /) -> Array:
        """Return (…, A) logits of (…, K) observations."""

    def largest(self, seen: float, /) -> float:
        """Return a bound on all numbers on the way, from observations of at most that magnitude."""


def plain_network(
    shape: PerceptronShape | SetScorerShape, weights: Mapping[str, Array]
) -> PlainNetwork:
    """Return the network of some weights; raises RunError if they do not fit the shape."""
    if isinstance(shape, PerceptronShape):
        return _PlainPerceptron(shape, weights)
    return _PlainSetScorer(shape, weights)


class _PlainPerceptron:
    """The perceptron; weights are (in, out)."""

    def __init__(self, shape: PerceptronShape, weights: Mapping[str, Array]) -> None:
        self._layers = layers_of(weights)
        sizes = (self._layers[0][0].shape[0], *(bias.shape[0] for _, bias in self._layers))
        if sizes != shape.layers:
            raise RunError(f"the weights have layers {list(sizes)}, not {list(shape.layers)}")

    def logits(self, seen: Array) -> Array:
        return logits(self._layers, seen)

    def largest(self, seen: float) -> float:
        return largest_flow(self._layers, seen)


def _set_scorer_sizes(shape: SetScorerShape) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of `networks.SetScorer`, (out, in) as in torch."""
    hidden = shape.hidden
    sizes: dict[str, tuple[int, ...]] = {
        "item.weight": (hidden, shape.features), "item.bias": (hidden,),
        "context.weight": (hidden, shape.context), "context.bias": (hidden,),
        "beside.weight": (hidden, hidden), "beside.bias": (hidden,),
        "together.weight": (hidden, hidden),
        "score.weight": (1, hidden), "score.bias": (1,),
    }  # fmt: skip
    if shape.others:
        sizes |= {
            "other.weight": (hidden, 2 * hidden), "other.bias": (hidden,),
            "other_score.weight": (shape.others, hidden), "other_score.bias": (shape.others,),
        }  # fmt: skip
    return sizes


class _PlainSetScorer:
    """The scorer of sets; see `simkit.learners.common.networks.SetScorer`."""

    def __init__(self, shape: SetScorerShape, weights: Mapping[str, Array]) -> None:
        wanted, found = _set_scorer_sizes(shape), {name: a.shape for name, a in weights.items()}
        if found != wanted:
            wrong = sorted(k for k in {*wanted, *found} if wanted.get(k) != found.get(k))
            shown = ", ".join(
                f"{k} is {found.get(k, 'missing')} and should be {wanted.get(k, 'absent')}"
                for k in wrong
            )
            raise RunError(f"the weights are not those of this set scorer: {shown}")
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
        together = (each * items[..., :1]).mean(axis=-2)
        beside = self._linear("beside", each) + self._linear("together", together)[..., None, :]
        scores = self._linear("score", np.maximum(beside, 0))[..., 0]
        if not shape.others:
            return scores
        summary = np.concatenate((together, np.maximum(context, 0)), axis=-1)
        others = self._linear("other_score", np.maximum(self._linear("other", summary), 0))
        return np.concatenate((scores, others), axis=-1)

    def _reach(self, name: str, flow: float) -> float:
        """Return a bound on what a layer makes of numbers of at most that magnitude."""
        if not flow <= _UNBOUNDED:
            return flow
        weight = np.abs(self._weights[f"{name}.weight"]).sum(axis=1, dtype=np.float64)
        bias = self._weights.get(f"{name}.bias")
        return float((flow * weight + (0.0 if bias is None else np.abs(bias))).max())

    def largest(self, seen: float) -> float:
        each = self._reach("item", seen) + self._reach("context", seen)
        together = each * max(seen, 1.0)
        beside = self._reach("beside", each) + self._reach("together", together)
        reached = [together, self._reach("score", beside)]
        if self._shape.others:
            reached.append(self._reach("other_score", self._reach("other", together)))
        return max(reached)


_UNBOUNDED: Final = 1e200
"""Beyond it a bound says only that there is none."""
