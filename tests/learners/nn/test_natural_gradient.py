"""The natural gradient against matrices that are small enough to be written out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.learners.nn.derivatives import (
    LinearisedPerceptron,
    LinearisedPolicy,
    as_vector,
    glorot,
    moved,
)
from simkit.learners.nn.natural_gradient import (
    Trust,
    conjugate_gradient,
    divergence,
    fisher_product,
    natural_step,
)
from simkit.learners.nn.perceptron import masked_log_softmax

Matrix = npt.NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def network(seed: int, *sizes: int) -> dict[str, Matrix]:
    """Return weights in double precision, biases not 0."""
    rng = np.random.default_rng(seed)
    drawn = glorot(rng, sizes)
    return {name: array + 0.1 * rng.standard_normal(array.shape) for name, array in drawn.items()}


def log_policy(weights: dict[str, Matrix], x: Matrix, allowed: Matrix | None = None) -> Matrix:
    return LinearisedPolicy(weights, x, allowed).log_probabilities


def explicit_fisher(weights: dict[str, Matrix], x: Matrix, allowed: Matrix) -> Matrix:
    """F as it is defined: E[grad log p grad log p'], gradients by central differences."""
    size = len(as_vector(weights))
    step = 1e-5
    slopes = np.empty((size, *allowed.shape))  # of every log-probability by every weight
    for k in range(size):
        unit = np.zeros(size)
        unit[k] = step
        ahead, behind = (
            np.where(allowed, log_policy(moved(weights, s * unit), x, allowed), 0) for s in (1, -1)
        )
        slopes[k] = (ahead - behind) / (2 * step)
    p = np.exp(log_policy(weights, x, allowed))
    return np.einsum("kna,na,lna->kl", slopes, p, slopes) / len(x)


def some_policy(seed: int) -> tuple[dict[str, Matrix], Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    weights = network(seed, 4, 3, 3)
    x = rng.standard_normal((7, 4))
    allowed = rng.random((7, 3)) < 0.7
    allowed[:, -1] = True
    return weights, x, allowed


@pytest.mark.parametrize("masked", [False, True])
def test_fisher_products_are_those_of_the_matrix(masked: bool) -> None:
    weights, x, allowed = some_policy(1)
    allowed = allowed if masked else np.ones_like(allowed)
    product = fisher_product(LinearisedPolicy(weights, x, allowed))
    columns = np.stack([product(row) for row in np.eye(len(as_vector(weights)))])
    matrix = explicit_fisher(weights, x, allowed)
    assert np.abs(matrix).max() > 0.01
    np.testing.assert_allclose(columns, matrix, atol=1e-8)


def test_damping_is_added_to_the_diagonal() -> None:
    weights, x, allowed = some_policy(2)
    v = np.random.default_rng(3).standard_normal(len(as_vector(weights)))
    tangent = LinearisedPolicy(weights, x, allowed)
    np.testing.assert_allclose(
        fisher_product(tangent, 0.5)(v) - fisher_product(tangent)(v), 0.5 * v, atol=1e-12
    )


@given(SEEDS)
def test_forward_and_backward_are_the_same_derivative(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = network(seed, 5, 4, 3, 2)
    x = rng.standard_normal((6, 5))
    here = LinearisedPerceptron(weights, x)
    v, u = rng.standard_normal(len(as_vector(weights))), rng.standard_normal((6, 2))
    assert np.sum(u * here.forward(v)) == pytest.approx(here.backward(u) @ v, rel=1e-9, abs=1e-9)


def test_forward_is_the_change_of_the_outputs() -> None:
    weights = network(4, 5, 4, 3, 2)
    rng = np.random.default_rng(5)
    x, v = rng.standard_normal((6, 5)), rng.standard_normal(len(as_vector(weights)))
    step = 1e-6
    ahead, behind = (LinearisedPerceptron(moved(weights, s * step * v), x).outputs for s in (1, -1))
    np.testing.assert_allclose(
        LinearisedPerceptron(weights, x).forward(v), (ahead - behind) / (2 * step), atol=1e-7
    )


@given(SEEDS, st.integers(1, 12))
def test_conjugate_gradients_solve_what_numpy_solves(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    a, b = root @ root.T + np.eye(size), rng.standard_normal(size)
    found = conjugate_gradient(lambda v: a @ v, b, iterations=3 * size, tolerance=1e-10)
    np.testing.assert_allclose(found.x, np.linalg.solve(a, b), atol=1e-7)
    np.testing.assert_allclose(found.image, a @ found.x, atol=1e-7)
    assert found.residual <= 1e-10


def test_conjugate_gradients_on_a_singular_matrix_stay_in_its_range() -> None:
    a = np.diag([2.0, 1.0, 0.0])
    found = conjugate_gradient(lambda v: a @ v, np.array([2.0, 3.0, 0.0]), iterations=9)
    np.testing.assert_allclose(found.x, [1.0, 3.0, 0.0], atol=1e-12)
    assert found.products == 2  # as many as there are different eigenvalues


def test_no_gradient_no_products() -> None:
    found = conjugate_gradient(lambda v: v, np.zeros(3))
    assert (found.products, found.residual, found.x.tolist()) == (0, 0.0, [0, 0, 0])


def test_effort_is_bounded() -> None:
    a = np.diag(np.arange(1.0, 21))
    assert conjugate_gradient(lambda v: a @ v, np.ones(20), iterations=5).products == 5


def objective(
    weights: dict[str, Matrix], x: Matrix, allowed: Matrix, worth: Matrix
) -> tuple[Matrix, LinearisedPolicy]:
    """Return the gradient of the mean over observations of sum(p * worth), and its tangent."""
    here = LinearisedPolicy(weights, x, allowed)
    p = here.probabilities
    cotangent = p * (worth - (p * worth).sum(axis=1, keepdims=True)) / len(x)
    return here.backward(cotangent), here


@given(SEEDS, st.sampled_from([1e-3, 1e-2, 1e-1]))
def test_a_step_keeps_the_bound_and_gains(seed: int, bound: float) -> None:
    weights, x, allowed = some_policy(seed)
    worth = np.random.default_rng(seed).standard_normal(allowed.shape)
    gradient, here = objective(weights, x, allowed, worth)

    def outcome(change: Matrix) -> tuple[float, float]:
        new = log_policy(moved(weights, change), x, allowed)
        return divergence(here.log_probabilities, new), float(
            ((np.exp(new) - here.probabilities) * worth).sum()
        )

    step = natural_step(gradient, here, outcome, Trust(kl=bound))
    kl, gain = outcome(step.change)
    assert kl <= bound
    if np.linalg.norm(gradient) > 1e-6:  # a flat objective has no step
        assert gain > 0
        assert (step.kl, step.gain) == (kl, gain)


def test_the_bound_is_used_where_the_policy_is_smooth() -> None:
    weights, x, allowed = some_policy(6)
    worth = np.random.default_rng(7).standard_normal(allowed.shape)
    gradient, here = objective(weights, x, allowed, worth)

    def outcome(change: Matrix) -> tuple[float, float]:
        new = log_policy(moved(weights, change), x, allowed)
        return divergence(here.log_probabilities, new), 1.0

    step = natural_step(gradient, here, outcome, Trust(kl=1e-6, damping=1e-9, products=60))
    assert 0.4e-6 < step.kl <= 1e-6  # the first try, or shortened once
    assert step.backtracks <= 1


def test_a_step_that_never_gains_is_given_up() -> None:
    weights, x, allowed = some_policy(8)
    gradient, here = objective(weights, x, allowed, np.arange(21.0).reshape(7, 3))
    step = natural_step(gradient, here, lambda _: (0.0, -1.0), Trust(backtracks=4))
    assert not step.change.any()


class LinearPolicy:
    """Logits x @ W with W = the parameters times a fixed matrix: one policy, many coordinates."""

    def __init__(self, x: Matrix, parameters: Matrix, coordinates: Matrix) -> None:
        self.x, self.coordinates = x, coordinates
        self.logits = self.forward(parameters)
        self.probabilities = np.exp(masked_log_softmax(self.logits))

    def forward(self, direction: Matrix) -> Matrix:
        return self.x @ (self.coordinates @ direction).reshape(self.x.shape[1], -1)

    def backward(self, cotangent: Matrix) -> Matrix:
        return self.coordinates.T @ (self.x.T @ cotangent).ravel()


def linear_step(coordinates: Matrix, weights: Matrix) -> tuple[Matrix, Matrix]:
    """Return the natural step in these coordinates, and the change of all logits by it."""
    rng = np.random.default_rng(11)
    x, worth = rng.standard_normal((9, 3)), rng.standard_normal((9, 4))
    policy = LinearPolicy(x, np.linalg.solve(coordinates, weights), coordinates)
    p = policy.probabilities
    cotangent = p * (worth - (p * worth).sum(axis=1, keepdims=True))
    trust = Trust(kl=0.01, damping=0.0, products=200, tolerance=1e-12)
    step = natural_step(policy.backward(cotangent), policy, lambda _: (0.0, 1.0), trust)
    change = policy.forward(step.change)
    return step.change, change - change.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(5))
def test_the_step_does_not_depend_on_the_coordinates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(12).standard_normal(12)
    coordinates = rng.standard_normal((12, 12)) + 3 * np.eye(12)
    plain, as_it_is = linear_step(np.eye(12), weights)
    other, in_others = linear_step(coordinates, weights)
    assert not np.allclose(plain, coordinates.T @ other, atol=0.01)  # no mere change of basis of g
    np.testing.assert_allclose(in_others, as_it_is, atol=1e-6)


def test_the_step_is_along_the_inverse_fisher_matrix_times_the_gradient() -> None:
    weights, x, allowed = some_policy(9)
    worth = np.random.default_rng(10).standard_normal(allowed.shape)
    gradient, here = objective(weights, x, allowed, worth)
    matrix = explicit_fisher(weights, x, allowed) + 0.01 * np.eye(len(gradient))
    expected = np.linalg.solve(matrix, gradient)
    expected *= np.sqrt(2 * 0.01 / (expected @ gradient))
    trust = Trust(kl=0.01, damping=0.01, products=100, tolerance=1e-10)
    step = natural_step(gradient, here, lambda _: (0.0, 1.0), trust)
    np.testing.assert_allclose(step.change, expected, atol=1e-6)


def test_divergence_leaves_out_what_may_not_be_taken() -> None:
    old = np.log(np.array([[0.5, 0.5, 1.0], [1.0, 1.0, 1.0]]))
    old[0, 2] = -np.inf
    old[1] = np.log([0.25, 0.25, 0.5])
    new = np.log(np.array([[0.25, 0.75, 1.0], [0.5, 0.25, 0.25]]))
    new[0, 2] = -np.inf
    expected = [0.5 * np.log(2) + 0.5 * np.log(2 / 3), 0.25 * np.log(0.5) + 0.5 * np.log(2)]
    assert divergence(old, new) == pytest.approx(np.mean(expected))
