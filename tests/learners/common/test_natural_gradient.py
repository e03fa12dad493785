"""The natural gradient against matrices that are small enough to be written out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simkit.learners.common.natural_gradient import (
    Trust,
    as_vector,
    conjugate_gradient,
    divergence,
    fisher_product,
    natural_step,
)
from simkit.learners.networks.build import Perceptron
from simkit.learners.networks.distributions import masked_log_softmax
from simkit.learners.networks.shapes import PerceptronShape

Matrix = npt.NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)
SHAPE = PerceptronShape(type="perceptron", layers=(4, 3, 3), activation="relu")


class Policy:
    """A policy in double precision at seven observations, some of its actions masked."""

    def __init__(self, seed: int, *, masked: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.network = Perceptron(SHAPE).double()
        self.weights = list(self.network.parameters())
        with torch.no_grad():
            for array in self.weights:
                array.copy_(torch.from_numpy(0.6 * rng.standard_normal(tuple(array.shape))))
        self.seen = torch.from_numpy(rng.standard_normal((7, 4)))
        self.allowed = torch.from_numpy(rng.random((7, 3)) < (0.7 if masked else 1))
        self.allowed[:, -1] = True
        self.worth = torch.from_numpy(rng.standard_normal((7, 3)))
        self.before = self.chances().detach()

    def chances(self) -> Tensor:
        return masked_log_softmax(self.network(self.seen), self.allowed)

    def objective(self) -> Tensor:
        """Return the mean over observations of sum(p * worth)."""
        return (self.chances().exp() * self.worth).sum(dim=1).mean()

    def gradient(self) -> Tensor:
        return as_vector(torch.autograd.grad(self.objective(), self.weights))

    def fisher(self, damping: float = 0.0):
        return fisher_product(self.chances(), self.weights, damping)

    def explicit_fisher(self) -> Matrix:
        """F as it is defined: E[grad log p grad log p'], a gradient for each log-probability."""
        chances = self.chances()
        total = np.zeros((len(as_vector(self.weights)),) * 2)
        for row, action in np.argwhere(self.allowed.numpy()).tolist():
            one = torch.autograd.grad(chances[row, action], self.weights, retain_graph=True)
            slope = as_vector(one).numpy()
            total += float(chances[row, action].detach().exp()) * np.outer(slope, slope)
        return total / len(chances)

    def effect(self) -> tuple[float, float]:
        with torch.no_grad():
            new = self.chances()
            gain = ((new.exp() - self.before.exp()) * self.worth).sum()
            return divergence(self.before, new), float(gain)

    def step(self, trust: Trust, effect=None, damping: float = 0.01):
        """Take a step; return it, and by how much the weights have changed."""
        begin = as_vector(self.weights)
        fisher = self.fisher(damping)
        done = natural_step(self.weights, self.gradient(), fisher, effect or self.effect, trust)
        return done, (as_vector(self.weights) - begin).numpy()


@pytest.mark.parametrize("masked", [False, True])
def test_fisher_products_are_those_of_the_matrix(masked):
    policy = Policy(1, masked=masked)
    product, matrix = policy.fisher(), policy.explicit_fisher()
    columns = np.stack([product(row).numpy() for row in torch.eye(len(matrix)).double()])
    assert np.abs(matrix).max() > 0.01
    np.testing.assert_allclose(columns, matrix, atol=1e-12)


def test_damping_is_added_to_the_diagonal():
    policy = Policy(2)
    v = torch.from_numpy(np.random.default_rng(3).standard_normal(27))
    np.testing.assert_allclose(policy.fisher(0.5)(v) - policy.fisher()(v), 0.5 * v, atol=1e-12)


@given(SEEDS, st.integers(1, 12))
def test_conjugate_gradients_solve_what_numpy_solves(seed, size):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    a, b = torch.from_numpy(root @ root.T + np.eye(size)), rng.standard_normal(size)
    found = conjugate_gradient(
        lambda v: a @ v, torch.from_numpy(b), iterations=3 * size, tolerance=1e-10
    )
    np.testing.assert_allclose(found.x, np.linalg.solve(a.numpy(), b), atol=1e-7)
    np.testing.assert_allclose(found.image, a @ found.x, atol=1e-7)
    assert found.residual <= 1e-10


def test_conjugate_gradients_on_a_singular_matrix_stay_in_its_range():
    a = torch.diag(torch.tensor([2.0, 1.0, 0.0]).double())
    right = torch.tensor([2.0, 3.0, 0.0]).double()
    found = conjugate_gradient(lambda v: a @ v, right, iterations=9)
    np.testing.assert_allclose(found.x, [1.0, 3.0, 0.0], atol=1e-12)
    assert found.products == 2  # as many as there are different eigenvalues


@given(SEEDS, st.sampled_from([1e-3, 1e-2, 1e-1]))
def test_a_step_keeps_the_bound_and_gains(seed, bound):
    policy = Policy(seed)
    flat = float(policy.gradient().norm()) < 1e-6  # then there is no step
    done, change = policy.step(Trust(kl=bound))
    kl, gain = policy.effect()
    assert kl <= bound
    assert flat or (done.gain > 0 and change.any())
    assert (done.kl, done.gain) == ((kl, gain) if change.any() else (0.0, 0.0))


def test_a_step_that_never_gains_is_given_up_and_the_weights_are_as_before():
    done, change = Policy(8).step(Trust(backtracks=4), lambda: (0.0, -1.0))
    assert not change.any()
    assert (done.kl, done.gain) == (0.0, 0.0)


def test_the_step_is_along_the_inverse_fisher_matrix_times_the_gradient():
    policy = Policy(9)
    gradient = policy.gradient().numpy()
    matrix = policy.explicit_fisher() + 0.01 * np.eye(len(gradient))
    expected = np.linalg.solve(matrix, gradient)
    expected *= np.sqrt(2 * 0.01 / (expected @ gradient))
    _, change = policy.step(Trust(kl=0.01, products=100, tolerance=1e-10), lambda: (0.0, 1.0))
    np.testing.assert_allclose(change, expected, atol=1e-6)


def test_divergence_leaves_out_what_may_not_be_taken():
    old = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]).double().log()
    new = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]]).double().log()
    expected = [0.5 * np.log(2) + 0.5 * np.log(2 / 3), 0.25 * np.log(0.5) + 0.5 * np.log(2)]
    assert divergence(old, new) == pytest.approx(np.mean(expected))
