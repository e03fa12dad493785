"""Networks: what a set scorer cannot tell apart, and NumPy's calculation against torch's."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from simkit.learners.common.torch_training import weights_of
from simkit.learners.networks.build import ActorCritic, build, seeded
from simkit.learners.networks.inference import plain_network
from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape

SETS = SetScorerShape(
    type="set-scorer", context=3, items=4, features=5, hidden=8, others=2, activation="relu"
)
PLAIN = PerceptronShape(type="perceptron", layers=(6, 8, 8, 3), activation="relu")


def some(shape, rows=7, seed=0):
    with seeded(np.random.default_rng(seed)):
        network = build(shape)
    seen = np.random.default_rng(seed).normal(size=(rows, shape.inputs)).astype(np.float32)
    return network, torch.from_numpy(seen)


def test_items_that_change_places_take_their_scores_along():
    network, seen = some(SETS)
    order = torch.tensor([2, 0, 3, 1])
    items = seen[:, 3:].reshape(7, 4, 5)[:, order].reshape(7, 20)
    before, after = network(seen), network(torch.cat((seen[:, :3], items), dim=1))
    assert torch.allclose(after[:, :4], before[:, order], atol=1e-6)
    assert torch.allclose(after[:, 4:], before[:, 4:], atol=1e-6)


def test_what_is_left_of_an_absent_item_changes_no_other_score():
    network, seen = some(SETS)
    seen[:, 3] = 0  # the first item is absent
    other = seen.clone()
    other[:, 4:8] += 1
    assert torch.allclose(network(seen)[:, 1:], network(other)[:, 1:], atol=1e-6)


@pytest.mark.parametrize("shape", [SETS, PLAIN])
def test_the_first_policy_is_almost_uniform_and_the_critic_almost_0(shape):
    network, seen = some(shape)
    logits, values = ActorCritic(network, hidden=8)(seen)
    assert logits.shape == (7, shape.outputs)
    assert values.shape == (7,)
    assert logits.abs().max() < 0.5
    assert values.abs().max() < 0.5


@pytest.mark.parametrize("shape", [SETS, PLAIN])
def test_the_same_seed_draws_the_same_weights_and_torchs_own_draws_go_on(shape):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    one, seen = some(shape, seed=5)
    other, _ = some(shape, seed=5)
    assert torch.equal(one(seen), other(seen))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("wrong", [{"layers": [4]}, {"layers": [4, 0]}, {"activation": "sigmoid"}])
def test_shapes_that_are_none_are_refused(wrong):
    with pytest.raises(ValidationError):
        PerceptronShape.model_validate_json(json.dumps(PLAIN.model_dump() | wrong))


NO_OTHERS, MANY = (SETS.model_copy(update={"others": others}) for others in (0, 3))


TANH = PLAIN.model_copy(update={"activation": "tanh"})


@pytest.mark.parametrize("shape", [SETS, NO_OTHERS, MANY, PLAIN, TANH])
def test_numpy_calculates_what_torch_does(shape):
    network, seen = some(shape, rows=50)
    plain = plain_network(shape, weights_of(network))
    found = plain.logits(seen.numpy())
    assert found.dtype == np.float32
    assert np.allclose(found, network(seen).detach().numpy(), atol=1e-6)
    assert np.allclose(plain.logits(seen.numpy()[0]), found[0], atol=1e-6)
    assert np.abs(found).max() <= plain.largest(float(seen.abs().max()))
