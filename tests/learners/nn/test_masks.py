"""A masked action has no probability, is never drawn, and the others keep their ratios."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simkit.learners.nn.perceptron import entropies, masked_log_softmax, sample

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


class Given:
    """A generator of one number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, size: int) -> np.ndarray:
        return np.full(size, self.number)


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2**-53])
def test_a_draw_at_either_end_stays_among_the_allowed(number: float) -> None:
    allowed = np.array([[False, True, True, False]])
    log_p = masked_log_softmax(np.zeros((1, 4), np.float32), allowed)
    assert sample(log_p, Given(number))[0] in (1, 2)  # type: ignore[arg-type]


def test_draws_have_the_frequencies_of_the_probabilities() -> None:
    p = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        log_p = np.broadcast_to(np.log(p), (40_000, 4))
    drawn = sample(log_p, np.random.default_rng(0))
    assert np.bincount(drawn, minlength=4) / 40_000 == pytest.approx(p, abs=0.01)


def test_entropy_is_that_of_the_actions_left() -> None:
    logits = np.zeros((2, 4))
    allowed = np.array([[True] * 4, [False, True, False, True]])
    assert entropies(masked_log_softmax(logits, allowed)) == pytest.approx([log(4), log(2)])
