"""The value network learns returns of any size, and goes on where it stopped; the PPO objective."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.learners.nn.perceptron import entropies, masked_log_softmax
from simkit.learners.nn.proximal import (
    clipped_objective,
    clipped_pull,
    entropy_pull,
    pull_on_logits,
)
from simkit.learners.nn.value_baseline import ValueBaseline

Matrix = npt.NDArray[np.float64]


def samples(seed: int, count: int = 2000) -> tuple[npt.NDArray[np.float32], Matrix]:
    """Return observations of five numbers, and a return that depends on two of them."""
    x = np.random.default_rng(seed).random((count, 5)).astype(np.float32)
    return x, (2.0 * x[:, 0] - np.maximum(0, 3 * x[:, 1] - 1)).astype(np.float64)


def baseline(seed: int = 0) -> ValueBaseline:
    return ValueBaseline(5, rng=np.random.default_rng(seed), learning_rate=0.01, batch=128)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1000.0, -5000.0), (1e-3, 0.0)])
def test_it_foresees_unseen_returns_of_any_size(scale: float, offset: float) -> None:
    value = baseline()
    x, returns = samples(1)
    first = value.fit(x, scale * returns + offset)
    for _ in range(15):
        value.fit(x, scale * returns + offset)
    unseen, truth = samples(2)
    left = np.var(scale * truth + offset - value.predict(unseen)) / np.var(scale * truth)
    assert first == pytest.approx(0.0, abs=1e-9)  # it had seen nothing
    assert left < 0.05


def test_new_units_do_not_change_what_it_expects() -> None:
    value = baseline()
    x, returns = samples(3)
    for _ in range(5):
        value.fit(x, returns)
    before = value.predict(x)
    value.epochs = 0  # a fit that takes new units and learns nothing
    value.fit(x, 10 * returns - 50)
    np.testing.assert_allclose(value.predict(x), before, atol=1e-4)


def test_nothing_is_expected_before_a_fit() -> None:
    assert not baseline().predict(samples(4, 3)[0]).any()


def test_equal_returns_are_no_trouble() -> None:
    value = baseline()
    assert value.fit(samples(5, 50)[0], np.full(50, -7.0)) == 0.0
    np.testing.assert_allclose(value.predict(samples(5, 50)[0]), -7.0, atol=1e-3)


def test_going_on_equals_not_stopping() -> None:
    x, returns = samples(6, 300)
    whole, first = baseline(), baseline()
    rng = np.random.default_rng(0)
    second = ValueBaseline(5, rng=rng, learning_rate=0.01, batch=128)
    for _ in range(4):
        whole.fit(x, returns)
    for _ in range(2):
        first.fit(x, returns)
    second.restore(first.state())
    rng.bit_generator.state = first._rng.bit_generator.state
    for _ in range(2):
        second.fit(x, returns)
    assert (whole.predict(x) == second.predict(x)).all()


CLIPPED = [
    # (ratio, advantage, objective, pull): within the range nothing is clipped
    (1.0, 2.0, 2.0, 2.0),
    (1.1, -1.0, -1.1, -1.1),
    # a good action that has become likelier than 1.2 times gains no more
    (1.5, 2.0, 2.4, 0.0),
    # a bad action that has become rarer than 0.8 times loses no more
    (0.5, -2.0, -1.6, 0.0),
    # moves the wrong way are always undone
    (1.5, -2.0, -3.0, -3.0),
    (0.5, 2.0, 1.0, 1.0),
]


@pytest.mark.parametrize(("ratio", "advantage", "objective", "pull"), CLIPPED)
def test_the_clipped_objective(
    ratio: float, advantage: float, objective: float, pull: float
) -> None:
    r, a = np.array([ratio]), np.array([advantage])
    assert clipped_objective(r, a, 0.2)[0] == pytest.approx(objective)
    assert clipped_pull(r, a, 0.2)[0] == pytest.approx(pull)


def slope_by_differences(function: object, logits: Matrix) -> Matrix:
    assert callable(function)
    step, slope = 1e-6, np.empty_like(logits)
    for where in np.ndindex(logits.shape):
        ahead, behind = logits.copy(), logits.copy()
        ahead[where] += step
        behind[where] -= step
        slope[where] = (function(ahead) - function(behind)) / (2 * step)
    return slope


@given(st.integers(0, 2**32 - 1))
def test_derivatives_by_the_logits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, allowed = rng.standard_normal((4, 3)), rng.random((4, 3)) < 0.7
    actions, pull = rng.integers(0, 3, 4), rng.standard_normal(4)
    allowed[np.arange(4), actions] = True
    log_p = masked_log_softmax(logits, allowed)

    def taken(z: Matrix) -> float:
        return float((pull * masked_log_softmax(z, allowed)[np.arange(4), actions]).sum())

    np.testing.assert_allclose(
        pull_on_logits(np.exp(log_p), actions, pull), slope_by_differences(taken, logits), atol=1e-7
    )
    spread = slope_by_differences(
        lambda z: float(entropies(masked_log_softmax(z, allowed)).sum()), logits
    )
    np.testing.assert_allclose(entropy_pull(log_p), spread, atol=1e-7)
