"""Gradients are those of torch on the dense perceptron; `TorchNetwork` does the same by torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simkit.errors import ScenarioError
from simkit.learners.nn import policy_network
from simkit.learners.nn.input_layers import InputLayer, make_input_layer
from simkit.learners.nn.perceptron import small_weights
from simkit.learners.nn.policy_network import (
    PolicyNetwork,
    TorchNetwork,
    make_network,
)
from simkit.learners.nn.sofia_layer import SofiaLayer
from simkit.learning.observe_deeprm import deeprm_compact, deeprm_image
from simkit.learning.slotted import Slotted, SlottedView
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training.train import train

MODEL = Slotted()
DRAWN = {"deeprm-image": deeprm_image, "deeprm-compact": deeprm_compact}
LAYERS = {
    "deeprm-image": lambda: make_input_layer("deeprm-image", MODEL)[0],
    "deeprm-compact": lambda: make_input_layer("deeprm-compact", MODEL)[0],
    "sofia-units": lambda: SofiaLayer(MODEL, shares=False),
    "sofia-shares": lambda: SofiaLayer(MODEL, shares=True),
}


def view(rows: int, since: Sequence[int]) -> SlottedView:
    rng = np.random.default_rng(5)
    length = rng.integers(0, 16, (rows, 10))
    return SlottedView(
        occupied=rng.integers(0, 11, (rows, 20, 2)),
        length=length,
        size=rng.integers(1, 11, (rows, 10, 2)) * (length > 0)[..., None],
        backlog=rng.integers(0, 61, rows),
        since_arrival=rng.choice(since, rows),
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
    # shares of 0 and 1 are the same in single and double precision
    seen = view(30, since=[0, 10])
    network, stored = PolicyNetwork(first, weights), first.stored(seen)
    slope = np.random.default_rng(2).normal(size=(30, 11))

    leaves = {n: torch.from_numpy(w.copy()).requires_grad_() for n, w in weights.items()}
    pixels = torch.from_numpy(DRAWN[observation](seen, MODEL).reshape(30, -1).astype(np.float64))
    dense = torch_logits(leaves, pixels)
    (dense * torch.from_numpy(slope)).sum().backward()

    assert network.logits(stored) == pytest.approx(dense.detach().numpy(), abs=1e-6)
    for name, found in network.gradient(stored, slope).items():
        assert found == pytest.approx(leaves[name].grad.numpy(), abs=1e-6), name


def test_changed_weights_count_after_a_refresh() -> None:
    first, _ = make_input_layer("deeprm-image", MODEL)
    weights = small_weights(np.random.default_rng(1), [first.inputs, 4, 11])
    network, stored = PolicyNetwork(first, weights), first.stored(view(3, since=[0, 10]))
    before = network.logits(stored)
    weights["layers.0.weight"] += 1
    network.refresh()
    assert not np.allclose(before, network.logits(stored))
    assert np.array_equal(network.logits(stored), PolicyNetwork(first, weights).logits(stored))


def test_an_unknown_observation_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'deeprm-image'"):
        make_input_layer("deeprm-imag", MODEL)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("hidden", [[20], [8, 6]])
def test_logits_and_gradient_are_those_of_numpy(name: str, hidden: list[int]) -> None:
    pytest.importorskip("torch")
    first: InputLayer = LAYERS[name]()
    drawn = small_weights(np.random.default_rng(1), [first.inputs, *hidden, 11], deviation=0.3)
    weights = {name: array.astype(np.float64) for name, array in drawn.items()}
    mine, theirs = make_network(first, weights, "cpu"), TorchNetwork(first, weights, "cpu")
    stored, slope = (
        first.stored(view(30, since=range(11))),
        np.random.default_rng(2).normal(size=(30, 11)),
    )

    assert theirs.logits(stored) == pytest.approx(mine.logits(stored), abs=1e-9)
    expected = mine.gradient(stored, slope)
    for name, found in theirs.gradient(stored, slope).items():
        assert found == pytest.approx(expected[name], abs=1e-9), name

    weights["layers.0.weight"] += 1
    for network in (mine, theirs):
        network.refresh()
    assert theirs.logits(stored) == pytest.approx(mine.logits(stored), abs=1e-9)


@pytest.mark.parametrize("learner", ["deeprm"])
def test_training_by_torch_equals_numpy_up_to_rounding(
    learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    sets = {"job_sets": 2, "rollouts": 2, "held_out_sets": 2}
    scenario = load_scenario(
        scenario_path(learner),
        overrides={"learn": {"learner": learner, "iterations": 2, "arguments": sets}},
    )
    for_cpu = train(scenario, tmp_path / "numpy").rows
    monkeypatch.setattr("simkit.learners.arguments.check_device", lambda _device: [])
    monkeypatch.setattr(
        f"simkit.learners.{learner}.make_network",
        lambda first, weights, _device: TorchNetwork(first, weights, "cpu"),
    )
    for_gpu = train(scenario, tmp_path / "torch", device="cuda").rows
    assert [row["return"] for row in for_gpu if "return" in row] == pytest.approx(
        [row["return"] for row in for_cpu if "return" in row],
        rel=0.05,  # a last digit may change an action that is drawn, and all that follows
    )
