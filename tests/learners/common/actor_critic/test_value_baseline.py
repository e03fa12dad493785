"""The value network learns returns of any size, and resumes exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from simkit.learners.common.actor_critic.value_baseline import ValueBaseline
from simkit.learners.common.networks import Perceptron, seeded
from simkit.learners.common.shapes import PerceptronShape

Matrix = npt.NDArray[np.float64]


def samples(seed: int, count: int = 2000) -> tuple[Tensor, Matrix]:
    """Return observations of five numbers, and a return that depends on two of them."""
    x = np.random.default_rng(seed).random((count, 5)).astype(np.float32)
    returns = 2.0 * x[:, 0] - np.maximum(0, 3 * x[:, 1] - 1)
    return torch.from_numpy(x), returns.astype(np.float64)


def baseline(rng: np.random.Generator | None = None) -> ValueBaseline:
    shape = PerceptronShape(type="perceptron", layers=(5, 20, 1), activation="relu")
    with seeded(np.random.default_rng(0)):
        network = Perceptron(shape)
    rng = rng or np.random.default_rng(0)
    return ValueBaseline(network, rng=rng, learning_rate=0.01, batch=128)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1000.0, -5000.0), (1e-3, 0.0)])
def test_it_predicts_unseen_returns_of_any_size(scale, offset):
    value = baseline()
    x, returns = samples(1)
    first = value.fit(x, scale * returns + offset)
    for _ in range(15):
        value.fit(x, scale * returns + offset)
    unseen, truth = samples(2)
    left = np.var(scale * truth + offset - value.predict(unseen)) / np.var(scale * truth)
    assert first == pytest.approx(0.0, abs=1e-9)  # before any fit
    assert left < 0.05


def test_rescaling_does_not_change_predictions():
    value = baseline()
    x, returns = samples(3)
    for _ in range(5):
        value.fit(x, returns)
    before = value.predict(x)
    value.epochs = 0  # a fit that rescales and learns nothing
    value.fit(x, 10 * returns - 50)
    np.testing.assert_allclose(value.predict(x), before, atol=1e-4)


def test_equal_returns_are_learned():
    value = baseline()
    assert value.fit(samples(5, 50)[0], np.full(50, -7.0)) == 0.0
    np.testing.assert_allclose(value.predict(samples(5, 50)[0]), -7.0, atol=1e-3)
