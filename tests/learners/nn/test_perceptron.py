"""A perceptron by names: NumPy and torch agree, bad shapes are refused, masks are respected."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simkit.errors import RunError
from simkit.learners.nn.perceptron import (
    entropies,
    layers_of,
    logits,
    masked_log_softmax,
    sample,
    sizes_of,
    small_weights,
)


@pytest.mark.parametrize("sizes", [[5, 3], [5, 4, 3], [5, 4, 4, 3]])
def test_numpy_and_torch_agree(sizes: list[int], torch_logits: Any) -> None:
    torch = pytest.importorskip("torch")
    weights = small_weights(np.random.default_rng(0), sizes, deviation=1.0)
    inputs = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)
    by_torch = torch_logits(
        {name: torch.from_numpy(array) for name, array in weights.items()}, torch.from_numpy(inputs)
    )
    assert logits(layers_of(weights), inputs) == pytest.approx(by_torch.numpy(), abs=1e-5)
    assert sizes_of(weights) == sizes


def test_first_weights_are_small_and_deterministic() -> None:
    weights = small_weights(np.random.default_rng(3), [400, 20, 11])
    again = small_weights(np.random.default_rng(3), [400, 20, 11])
    assert all((weights[name] == again[name]).all() for name in weights)
    assert weights["layers.0.weight"].std() == pytest.approx(0.01, rel=0.05)
    assert not weights["layers.0.bias"].any()
    assert all(array.dtype == np.float32 for array in weights.values())


MISFITS = [  # (widths of weights and biases by layer, message)
    ({0: (2, 3, 3), 2: (3, 1, 1)}, "no layer left out"),  # layer 1 is missing
    ({}, "missing"),
    ({0: (2, 3, 4)}, r"layer 0 .*\(2, 3\).*\(4,\)"),  # the bias is wider than its weight
    ({0: (2, 3, 3), 1: (5, 1, 1)}, r"layer 1 .*must be \(3, out\)"),  # 5 inputs after 3 outputs
]


@pytest.mark.parametrize(("layers", "text"), MISFITS)
def test_weights_that_do_not_fit_are_refused(
    layers: dict[int, tuple[int, int, int]], text: str
) -> None:
    weights = {}
    for layer, (rows, columns, bias) in layers.items():
        weights[f"layers.{layer}.weight"] = np.zeros((rows, columns))
        weights[f"layers.{layer}.bias"] = np.zeros(bias)
    with pytest.raises(RunError, match=text):
        sizes_of(weights)


LOGITS = arrays(np.float64, (6, 4), elements=st.floats(-700, 700))
ALLOWED = arrays(np.bool_, (6, 4)).map(lambda mask: mask | (np.arange(4) == 3))


@given(LOGITS, ALLOWED)
def test_probabilities_are_those_of_the_allowed_actions(
    logits: np.ndarray, allowed: np.ndarray
) -> None:
    p = np.exp(masked_log_softmax(logits, allowed))
    assert np.allclose(p.sum(axis=1), 1)
    assert (p[~allowed] == 0).all()
    for row in range(len(logits)):
        alone = np.exp(masked_log_softmax(logits[row, allowed[row]]))
        assert np.allclose(p[row, allowed[row]], alone)


@given(LOGITS, ALLOWED, st.integers(0, 2**32))
def test_a_masked_action_is_never_drawn(logits: np.ndarray, allowed: np.ndarray, seed: int) -> None:
    actions = sample(masked_log_softmax(logits, allowed), np.random.default_rng(seed))
    assert allowed[np.arange(6), actions].all()


class FixedGenerator:
    """A generator that always returns the same number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, size: int) -> np.ndarray:
        return np.full(size, self.number)


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2**-53])
def test_a_draw_at_either_end_is_an_allowed_action(number: float) -> None:
    allowed = np.array([[False, True, True, False]])
    log_p = masked_log_softmax(np.zeros((1, 4), np.float32), allowed)
    assert sample(log_p, FixedGenerator(number))[0] in (1, 2)  # type: ignore[arg-type]


def test_draws_have_the_frequencies_of_the_probabilities() -> None:
    p = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        log_p = np.broadcast_to(np.log(p), (40_000, 4))
    drawn = sample(log_p, np.random.default_rng(0))
    assert np.bincount(drawn, minlength=4) / 40_000 == pytest.approx(p, abs=0.01)


def test_entropy_is_that_of_the_allowed_actions() -> None:
    logits = np.zeros((2, 4))
    allowed = np.array([[True] * 4, [False, True, False, True]])
    assert entropies(masked_log_softmax(logits, allowed)) == pytest.approx([log(4), log(2)])
