"""Networks without torch: weights that do not fit are refused, and masks are respected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simkit.errors import RunError
from simkit.learners.networks.inference import masked_log_softmax, plain_network
from simkit.learners.networks.shapes import PerceptronShape

SHAPE = PerceptronShape(type="perceptron", layers=(2, 3, 1), activation="relu")
WEIGHTS = {
    "layers.0.weight": np.array([[1.0, 2, -1], [0, 1, 1]]), "layers.0.bias": np.array([0.0, -1, 0]),
    "layers.1.weight": np.array([[1.0], [10], [100]]), "layers.1.bias": np.array([0.5]),
}  # fmt: skip


def test_a_perceptron_by_hand():
    plain = plain_network(SHAPE, WEIGHTS)
    # (1, 1) gives (1, 2, 0); (-1, 3) gives (0, 0, 4)
    assert plain.logits(np.array([[1.0, 1], [-1, 3]])).tolist() == [[21.5], [400.5]]
    # of the units at most max(1 + 0, 3 + 1, 2 + 0) = 4, and so 4 · (1 + 10 + 100) + 0.5
    assert plain.largest(1.0) == 444.5


MISFITS = [
    ({"layers.1.weight": None}, r"layers.1.weight is missing but should be \(3, 1\)"),
    ({"layers.2.bias": np.zeros(1)}, r"layers.2.bias is \(1,\) but should be absent"),
    ({"layers.0.bias": np.zeros(4)}, r"layers.0.bias is \(4,\) but should be \(3,\)"),
]


@pytest.mark.parametrize(("changes", "text"), MISFITS)
def test_weights_that_do_not_fit_are_refused(changes, text):
    weights = {name: array for name, array in (WEIGHTS | changes).items() if array is not None}
    with pytest.raises(RunError, match=f"not those of this perceptron: {text}"):
        plain_network(SHAPE, weights)


LOGITS = arrays(np.float64, (6, 4), elements=st.floats(-700, 700))
ALLOWED = arrays(np.bool_, (6, 4)).map(lambda mask: mask | (np.arange(4) == 3))


@given(LOGITS, ALLOWED)
def test_probabilities_are_those_of_the_allowed_actions(logits, allowed):
    p = np.exp(masked_log_softmax(logits, allowed))
    assert np.allclose(p.sum(axis=1), 1)
    assert (p[~allowed] == 0).all()
    for row in range(len(logits)):
        alone = np.exp(masked_log_softmax(logits[row, allowed[row]]))
        assert np.allclose(p[row, allowed[row]], alone)
