"""PPO's derivatives are those of its clipped objective and of the entropy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.learners.nn.perceptron import entropies, masked_log_softmax
from simkit.learners.nn.proximal import clipped_pull, entropy_pull, pull_on_logits

Matrix = npt.NDArray[np.float64]

CLIPPED = [
    # (ratio, advantage, pull): within the range nothing is clipped
    (1.0, 2.0, 2.0),
    (1.1, -1.0, -1.1),
    # a good action that is more than 1.2 times as likely gains no more
    (1.5, 2.0, 0.0),
    # a bad action that is less than 0.8 times as likely loses no more
    (0.5, -2.0, 0.0),
    # moves in the wrong direction are always undone
    (1.5, -2.0, -3.0),
    (0.5, 2.0, 1.0),
]


@pytest.mark.parametrize(("ratio", "advantage", "pull"), CLIPPED)
def test_the_pull_is_the_derivative_of_the_clipped_objective(
    ratio: float, advantage: float, pull: float
) -> None:
    def objective(log_ratio: Matrix) -> float:
        r = np.exp(log_ratio[0])
        return float(min(r * advantage, np.clip(r, 0.8, 1.2) * advantage))

    found = clipped_pull(np.array([ratio]), np.array([advantage]), 0.2)
    assert found.tolist() == pytest.approx([pull])
    assert slope_by_differences(objective, np.log([ratio])) == pytest.approx(found, abs=1e-7)


def slope_by_differences(function: Callable[[Matrix], float], logits: Matrix) -> Matrix:
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
