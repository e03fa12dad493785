"""rmsprop and Adam: their first steps by hand, their memory, and torch's own Adam."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simkit.errors import ScenarioError
from simkit.learners.nn.optimisers import Adam, Optimiser, RmsProp, make_optimiser


def after(optimiser: Optimiser, *slopes: float) -> float:
    weights = {"w": np.zeros(1)}
    for slope in slopes:
        optimiser.ascend(weights, {"w": np.array([slope])})
    return float(weights["w"][0])


def test_rmsprop_by_hand() -> None:
    first = 0.1 * 2 / (0.1 * 4 + 1e-9) ** 0.5
    second = 0.1 * -3 / (0.9 * 0.4 + 0.1 * 9 + 1e-9) ** 0.5
    assert after(RmsProp(0.1), 2.0, -3.0) == pytest.approx(first + second, abs=1e-15)


def test_adams_first_step_is_the_learning_rate() -> None:
    assert after(Adam(0.1), 1e-3) == pytest.approx(0.1, rel=1e-4)
    assert after(Adam(0.1), -7.0) == pytest.approx(-0.1, rel=1e-4)


def test_adam_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    ours = {"w": rng.standard_normal((3, 2))}
    theirs = torch.tensor(ours["w"], requires_grad=True)
    adam, reference = Adam(0.01), torch.optim.Adam([theirs], lr=0.01, maximize=True)
    for _ in range(20):
        slope = rng.standard_normal((3, 2))
        adam.ascend(ours, {"w": slope})
        theirs.grad = torch.tensor(slope)
        reference.step()
    np.testing.assert_allclose(ours["w"], theirs.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("name", ["rmsprop", "adam"])
def test_torch_and_numpy_arrays_move_alike(name: str) -> None:
    torch = pytest.importorskip("torch")
    slopes = np.random.default_rng(1).standard_normal((5, 4))
    plain, other = {"w": np.ones(4)}, {"w": torch.ones(4, dtype=torch.float64)}
    here, there = make_optimiser(name, 0.1), make_optimiser(name, 0.1)
    for slope in slopes:
        here.ascend(plain, {"w": slope})
        there.ascend(other, {"w": torch.tensor(slope)})
    np.testing.assert_allclose(plain["w"], other["w"].numpy(), atol=1e-14)


@pytest.mark.parametrize("name", ["rmsprop", "adam"])
def test_going_on_equals_not_stopping(name: str) -> None:
    slopes = np.random.default_rng(2).standard_normal((10, 3)).astype(np.float32)
    whole, halves = {"w": np.ones(3, np.float32)}, {"w": np.ones(3, np.float32)}
    one, first, second = (make_optimiser(name, 0.1) for _ in range(3))
    for slope in slopes:
        one.ascend(whole, {"w": slope})
    for slope in slopes[:5]:
        first.ascend(halves, {"w": slope})
    saved = first.state()
    first.ascend({"w": np.ones(3, np.float32)}, {"w": slopes[0]})  # does not reach what was saved
    second.restore(saved)
    for slope in slopes[5:]:
        second.ascend(halves, {"w": slope})
    assert (whole["w"] == halves["w"]).all()
    assert whole["w"].dtype == np.float32


WRONG = [
    ("adan", 0.1, "optimiser is 'adan'; did you mean 'adam'?"),
    ("adam", 0.0, "learning_rate is 0.0; give a number above 0"),
    ("rmsprop", float("nan"), "learning_rate is nan; give a number above 0"),
]


@pytest.mark.parametrize(("name", "rate", "text"), WRONG)
def test_what_is_refused(name: str, rate: float, text: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(text)):
        make_optimiser(name, rate)
