"""The gradient by hand is torch's, on the dense perceptron."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simkit.errors import ScenarioError
from simkit.learners.nn import policy_network
from simkit.learners.nn.input_layers import make_input_layer
from simkit.learners.nn.perceptron import small_weights
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learning.observe_deeprm import deeprm_compact, deeprm_image
from simkit.learning.slotted import Slotted, SlottedView

MODEL = Slotted()
DRAWN = {"deeprm-image": deeprm_image, "deeprm-compact": deeprm_compact}


def view(rows: int) -> SlottedView:
    rng = np.random.default_rng(5)
    length = rng.integers(0, 16, (rows, 10))
    size = rng.integers(1, 11, (rows, 10, 2)) * (length > 0)[..., None]
    occupied = rng.integers(0, 11, (rows, 20, 2))
    # shares of 1 and 0 alone are the same in single and double precision
    return SlottedView(
        occupied, length, size, rng.integers(0, 61, rows), 10 * rng.integers(0, 2, rows)
    )


@pytest.mark.parametrize("observation", list(DRAWN))
@pytest.mark.parametrize("hidden", [[20], [8, 6]])
@pytest.mark.parametrize("chunk", [7, 1000])
def test_logits_and_gradient_are_those_of_torch(
    observation: str, hidden: list[int], chunk: int, torch_logits: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(policy_network, "CHUNK", chunk)
    first, schema = make_input_layer(observation, MODEL)
    assert first.inputs == schema.size
    drawn = small_weights(np.random.default_rng(1), [first.inputs, *hidden, 11], deviation=0.3)
    weights = {name: array.astype(np.float64) for name, array in drawn.items()}
    network, stored = PolicyNetwork(first, weights), first.stored(view(30))
    slope = np.random.default_rng(2).normal(size=(30, 11))

    leaves = {n: torch.from_numpy(w.copy()).requires_grad_() for n, w in weights.items()}
    pixels = torch.from_numpy(
        DRAWN[observation](view(30), MODEL).reshape(30, -1).astype(np.float64)
    )
    dense = torch_logits(leaves, pixels)
    (dense * torch.from_numpy(slope)).sum().backward()

    assert network.logits(stored) == pytest.approx(dense.detach().numpy(), abs=1e-6)
    for name, found in network.gradient(stored, slope).items():
        assert found == pytest.approx(leaves[name].grad.numpy(), abs=1e-6), name


def test_changed_weights_count_after_a_refresh() -> None:
    first, _ = make_input_layer("deeprm-image", MODEL)
    weights = small_weights(np.random.default_rng(1), [first.inputs, 4, 11])
    network, stored = PolicyNetwork(first, weights), first.stored(view(3))
    before = network.logits(stored)
    weights["layers.0.weight"] += 1
    network.refresh()
    assert not np.allclose(before, network.logits(stored))
    assert np.array_equal(network.logits(stored), PolicyNetwork(first, weights).logits(stored))


def test_an_unknown_observation_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'deeprm-image'"):
        make_input_layer("deeprm-imag", MODEL)
