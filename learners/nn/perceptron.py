"""A perceptron by the names of its weights.

``layers.0.weight`` (in, out), ``layers.0.bias`` (out,), ``layers.1.weight``, …: products with
max(0, ·) between them, and logits at the end, of which a softmax over the allowed actions makes
probabilities. These are the weights of an agent's bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Ints
from simkit.errors import RunError

Array = npt.NDArray[np.floating]
Weights = dict[str, Array]

LARGEST_FLOW: Final = 1e30
"""Beyond it sums in float32 may overflow; the agents that simkit trains stay below 1e4."""


def weight_names(layer: int) -> tuple[str, str]:
    """Return the names of a layer's weight and bias; layers count from 0."""
    return f"layers.{layer}.weight", f"layers.{layer}.bias"


def layers_of(weights: Mapping[str, Array]) -> list[tuple[Array, Array]]:
    """Return (weight, bias) of each layer, the first layer first.

    Raises RunError, all problems at once, if names are missing or unknown, or shapes do not fit.
    """
    count = len(weights) // 2
    expected = [name for layer in range(count) for name in weight_names(layer)]
    if set(expected) != set(weights) or not weights:
        raise RunError(
            f"perceptron: weights are {', '.join(weights) or 'missing'}; they must be "
            "layers.0.weight, layers.0.bias, layers.1.weight, …, with no layer left out"
        )
    layers = [tuple(weights[name] for name in weight_names(layer)) for layer in range(count)]
    if problems := list(_misfits(layers)):
        raise RunError("\n".join(problems))
    return [(weight, bias) for weight, bias in layers]


def _misfits(layers: Iterable[tuple[Array, ...]]) -> Iterable[str]:
    """Yield which weights do not fit the layer before them."""
    before: int | None = None
    for number, (weight, bias) in enumerate(layers):
        rows = weight.shape[0] if before is None else before
        if weight.ndim != 2 or weight.shape[0] != rows or bias.shape != weight.shape[1:]:
            yield (
                f"perceptron: layer {number} has a weight of shape {weight.shape} and a bias of "
                f"shape {bias.shape}; they must be ({rows}, out) and (out,)"
            )
        before = bias.shape[0] if bias.ndim else None


def sizes_of(weights: Mapping[str, Array]) -> list[int]:
    """Return the architecture, inputs first and logits last: ``[4480, 20, 11]``."""
    layers = layers_of(weights)
    return [layers[0][0].shape[0], *(bias.shape[0] for _, bias in layers)]


def small_weights(
    rng: np.random.Generator, sizes: Iterable[int], deviation: float = 0.01
) -> Weights:
    """Draw weights from a normal distribution about 0, biases 0; float32.

    Weights so small make the first policy almost uniform, as in DeepRM.

    Args:
        rng: the generator.
        sizes: of the layers, inputs first and logits last.
        deviation: standard deviation of a weight.
    """
    weights: Weights = {}
    widths = list(sizes)
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        weight, bias = weight_names(layer)
        weights[weight] = (deviation * rng.standard_normal((rows, columns))).astype(np.float32)
        weights[bias] = np.zeros(columns, np.float32)
    return weights


def logits(layers: Sequence[tuple[Array, Array]], inputs: Array) -> Array:
    """Return the logits, (…, out), of inputs (…, in), under what `layers_of` gives."""
    flow = inputs
    for weight, bias in layers[:-1]:
        flow = np.maximum(flow @ weight + bias, 0)
    weight, bias = layers[-1]
    result: Array = flow @ weight + bias
    return result


def largest_flow(layers: Iterable[tuple[Array, Array]], inputs: float) -> float:
    """Return a bound on all that `logits` calculates from inputs of at most that magnitude.

    What comes after a layer that may exceed `LARGEST_FLOW` is left out, so that nothing overflows.
    """
    bound = inputs
    for weight, bias in layers:
        if not bound <= LARGEST_FLOW:
            break
        sums = np.abs(weight).sum(axis=0, dtype=np.float64)
        bound = float((bound * sums + np.abs(bias)).max())
    return bound


def masked_log_softmax(logits: Array, allowed: Bools | None = None) -> Array:
    """Return logits - log(sum(exp(logits))) over the actions that are allowed.

    A masked action has a probability of 0, so no gradient flows to its logit, and the others'
    probabilities keep their ratios.

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


def sample(log_probabilities: Array, rng: np.random.Generator) -> Ints:
    """Draw an action from each row, (N,); one number of the generator a row.

    Args:
        log_probabilities: (N, A); an action at -inf is never drawn.
        rng: the generator.
    """
    below = np.exp(log_probabilities, dtype=np.float64).cumsum(axis=1)
    drawn = rng.random(len(below)) * below[:, -1]
    actions = (below <= drawn[:, None]).sum(axis=1)
    # rounding may put a draw at the end of the range, past the last allowed action
    limited: Ints = np.minimum(actions, (below < below[:, -1:]).sum(axis=1))
    return limited


def entropies(log_probabilities: Array) -> Array:
    """Return the entropy of each row in nats, (N,), of (N, A) log-probabilities."""
    probabilities = np.exp(log_probabilities)
    terms = probabilities * np.where(probabilities > 0, log_probabilities, 0)
    result: Array = -terms.sum(axis=1)
    return result
