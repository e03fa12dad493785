"""The natural policy gradient: the steepest ascent per change of the policy, not of the weights.

A step x of the weights changes the distribution over actions by KL ~ x'F x / 2, F being the
policy's Fisher matrix. The best step of a given KL is along F^-1 g (Kakade, "A natural policy
gradient", 2001). F has as many rows as there are weights, so it is never formed: conjugate
gradients need its products with vectors only, and for a softmax policy they are exact and cheap,

    F v = mean over observations of J' (diag(p) - p p') J v,

J being the derivative of the logits (Schraudolph, "Fast curvature matrix-vector products for
second-order gradient descent", 2002). The step's length is at first that at which the quadratic
form, damped, equals a bound on the KL; it is shortened until the measured KL keeps the bound and
the measured gain is positive (Schulman et al., "Trust region policy optimization", 2015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.learners.nn.perceptron import Array

Vector = Floats
Product = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Solution:
    """An approximate solution of A x = b."""

    x: Vector
    """(P,) the solution."""
    image: Vector
    """(P,) A x, from the iteration, without another product."""
    residual: float
    """||b - A x|| / ||b||; 0 if b is 0."""
    products: int
    """Number of products with A."""


def conjugate_gradient(
    product: Product, right: Vector, *, iterations: int = 10, tolerance: float = 1e-10
) -> Solution:
    """Solve A x = b for a symmetric positive semidefinite A.

    Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems" (1952). It
    starts at 0, so that x stays in the span of b, A b, A^2 b, …; a singular A does no harm if b
    lies in its range. It ends early if rounding errors leave no curvature along a direction.

    Args:
        product: returns A v for a (P,) vector v.
        right: (P,) b.
        iterations: the most products with A.
        tolerance: it ends when ||b - A x|| is at most this times ||b||.
    """
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    size = wanted = float(residual @ residual)
    products = 0
    while products < iterations and size > tolerance**2 * wanted:
        image = product(direction)
        products += 1
        curvature = float(direction @ image)
        if not curvature > 0:
            break
        step = size / curvature
        x += step * direction
        residual -= step * image
        before, size = size, float(residual @ residual)
        direction = residual + size / before * direction
    share = (size / wanted) ** 0.5 if wanted > 0 else 0.0
    return Solution(x, right - residual, share, products)


SHORTER = 0.7
"""Factor that shortens a step; its KL is about halved."""


class Tangent(Protocol):
    """A softmax policy at a batch of N observations, linearised at its current weights."""

    @property
    def probabilities(self) -> Array:
        """(N, A) probabilities of the actions; 0 for masked ones."""

    def forward(self, direction: Vector, /) -> Array:
        """Return J v, (N, A): how the logits change along a direction (P,) of the weights."""

    def backward(self, cotangent: Array, /) -> Vector:
        """Return J' u, (P,): the sum over the batch, for a cotangent u (N, A) of the logits."""


@dataclass(frozen=True)
class Trust:
    """Bound on a step, and the accuracy of its direction."""

    kl: float = 0.01
    """Bound on the mean Kullback-Leibler divergence from the old policy to the new, in nats."""
    damping: float = 0.01
    """Added to the diagonal of F, so that directions that change no distribution stay short."""
    products: int = 10
    """The most products with F."""
    tolerance: float = 1e-4
    """Conjugate gradients end when their residual is this share of the gradient."""
    backtracks: int = 12
    """How often a step that breaks the bound or gains nothing is shortened before giving up."""


@dataclass(frozen=True)
class NaturalStep:
    """A step of the weights, with its measurements."""

    change: Vector
    """(P,) to be added to the weights; 0 if no step kept the bound and gained."""
    kl: float
    """Measured divergence from the old policy to the new, in nats; at most the bound."""
    gain: float
    """Measured gain of the surrogate objective."""
    backtracks: int
    """How often the step was shortened."""
    products: int
    """Products with F."""
    residual: float
    """Residual of the conjugate gradients, as a share of the gradient."""


StepEffect = Callable[[Vector], tuple[float, float]]
"""Maps a change of the weights to (KL from the old policy in nats, gain of the objective)."""


def fisher_product(tangent: Tangent, damping: float = 0.0) -> Product:
    """Return the function v -> (F + damping I) v, F being the mean over the tangent's batch."""
    p = tangent.probabilities

    def product(vector: Vector) -> Vector:
        logits = tangent.forward(vector)  # (N, A)
        weighed = p * logits
        weighed -= p * weighed.sum(axis=1, keepdims=True)
        return tangent.backward(weighed) / len(p) + damping * vector

    return product


def natural_step(
    gradient: Vector, tangent: Tangent, outcome: StepEffect, trust: Trust | None = None
) -> NaturalStep:
    """Return a step along (F + damping I)^-1 g that keeps the KL bound and gains.

    Its first length is that at which the quadratic form of F + damping I equals the bound; the
    damping makes it shorter than F alone would. Then it is shortened, never lengthened, until the
    measured KL keeps the bound; a longer step might also have kept it.

    Args:
        gradient: (P,) of the objective, for ascent.
        tangent: the policy on the observations that F is averaged over; a sample of the gradient's
            observations is enough.
        outcome: measures a step on the tangent's observations or more.
        trust: the bound and the effort.
    """
    trust = trust or Trust()
    product = fisher_product(tangent, trust.damping)
    found = conjugate_gradient(
        product, gradient, iterations=trust.products, tolerance=trust.tolerance
    )
    none = NaturalStep(np.zeros_like(gradient), 0.0, 0.0, 0, found.products, found.residual)
    curvature = float(found.x @ found.image)
    if not curvature > 0:
        return none
    change = found.x * np.sqrt(2 * trust.kl / curvature)
    for backtracks in range(trust.backtracks + 1):
        kl, gain = outcome(change)
        if kl <= trust.kl and gain > 0:
            return NaturalStep(change, kl, gain, backtracks, found.products, found.residual)
        change = change * SHORTER
    return none


def divergence(old: Array, new: Array) -> float:
    """Return the mean KL divergence in nats between rows of log-probabilities, old to new.

    Args:
        old: (N, A) log-probabilities; -inf for masked actions.
        new: (N, A) likewise, with the same actions masked.
    """
    p = np.exp(old)
    with np.errstate(invalid="ignore"):
        terms = np.where(p > 0, p * (old - new), 0.0)
    return float(terms.sum(axis=1, dtype=np.float64).mean())
