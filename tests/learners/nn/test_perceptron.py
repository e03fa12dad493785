"""A perceptron by names: NumPy and torch agree, and weights that do not fit are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simkit.errors import RunError
from simkit.learners.nn.perceptron import layers_of, logits, sizes_of, small_weights


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


MISFITS = [
    # a layer is missing
    ({"layers.0.weight": (2, 3), "layers.0.bias": (3,), "layers.2.weight": (3, 1), "layers.2.bias": (1,)}, "no layer left out"),
    # nothing at all
    ({}, "missing"),
    # the bias is not as wide as its weight
    ({"layers.0.weight": (2, 3), "layers.0.bias": (4,)}, r"layer 0 .*\(2, 3\).*\(4,\)"),
    # the second layer takes other inputs than the first gives
    ({"layers.0.weight": (2, 3), "layers.0.bias": (3,), "layers.1.weight": (5, 1), "layers.1.bias": (1,)}, r"layer 1 .*must be \(3, out\)"),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "text"), MISFITS)
def test_weights_that_do_not_fit_are_refused(shapes: dict[str, tuple[int, ...]], text: str) -> None:
    with pytest.raises(RunError, match=text):
        sizes_of({name: np.zeros(shape) for name, shape in shapes.items()})
