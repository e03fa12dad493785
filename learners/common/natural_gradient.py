"""The natural policy gradient: the steepest ascent per change of the policy, not of the weights.

A step x of the weights changes the distribution over actions by KL ~ x'F x / 2, where F is the
policy's Fisher matrix. The best step of a given KL is along F^-1 g (S. Kakade, "A natural policy
gradient", 2001). F has as many rows as there are weights, so it is never formed: conjugate
gradients need only its products with vectors. F is the Hessian of the KL from the current policy,
so automatic differentiation gives these products exactly. The first step has the length at which
the damped quadratic form equals a bound on the KL; it is shortened until the measured KL keeps the
bound and the measured gain is positive (J. Schulman, S. Levine, P. Moritz, M. Jordan and P. Abbeel,
"Trust region policy optimization", 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from simkit.learners.common.rollouts import Batch
from simkit.learners.networks.distributions import entropy, log_probability

__all__ = [
    "NaturalStep",
    "Solution",
    "Trust",
    "as_vector",
    "conjugate_gradient",
    "divergence",
    "fisher_product",
    "natural_step",
    "policy_step",
]

Product = Callable[[Tensor], Tensor]
StepEffect = Callable[[], tuple[float, float]]
"""Returns (KL from the old policy in nats, gain of the objective) at the current weights."""

SHORTER: Final = 0.7
"""Factor by which a step is shortened; it about halves the KL."""


def as_vector(tensors: Sequence[Tensor]) -> Tensor:
    """Return the concatenated entries of tensors, (P,) float64."""
    return torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors])


@dataclass(frozen=True)
class Solution:
    """An approximate solution of A x = b."""

    x: Tensor
    """(P,) the solution."""
    image: Tensor
    """(P,) A x, from the iteration, without another product."""
    residual: float
    """||b - A x|| / ||b||; 0 if b is 0."""
    products: int
    """Number of products with A that it took."""


def conjugate_gradient(
    product: Product, right: Tensor, *, iterations: int = 10, tolerance: float = 1e-10
) -> Solution:
    """Solve A x = b for a symmetric positive semidefinite A.

    M. R. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems"
    (1952). The iteration starts at 0, so x stays in the span of b, A b, A^2 b, …; a singular A does
    no harm if b lies in its range. It ends early if rounding errors leave no curvature along a
    direction.

    Args:
        product: returns A v for a (P,) vector v.
        right: (P,) b.
        iterations: largest number of products with A.
        tolerance: the iteration ends when ||b - A x|| is at most this times ||b||.
    """
    x, residual, direction = torch.zeros_like(right), right.clone(), right.clone()
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


@dataclass(frozen=True)
class Trust:
    """Bound on a step, and the accuracy of its direction."""

    kl: float = 0.01
    """Bound on the mean Kullback-Leibler divergence from the old policy to the new, in nats."""
    products: int = 10
    """Largest number of products with F."""
    tolerance: float = 1e-4
    """Conjugate gradients end when their residual is this share of the gradient."""
    backtracks: int = 12
    """How often a step that breaks the bound or gains nothing is shortened before giving up."""


@dataclass(frozen=True)
class NaturalStep:
    """The outcome of a step of the weights."""

    kl: float
    """Measured divergence from the old policy to the new, in nats; at most the bound."""
    gain: float
    """Measured gain of the objective; 0 if no step was taken, as none kept the bound and gained."""
    backtracks: int
    """How often the step was shortened."""
    products: int
    """Number of products with F that it took."""
    residual: float
    """Residual of the conjugate gradients, as a share of the gradient."""


def fisher_product(
    log_probabilities: Tensor, parameters: Sequence[Tensor], damping: float = 0.0
) -> Product:
    """Return the function v -> (F + damping I) v, where F is the mean over N observations.

    Args:
        log_probabilities: (N, A) of the policy, with their graph; -inf for masked actions.
        parameters: the P weights of the graph.
        damping: keeps steps short along directions that change no distribution.
    """
    probabilities = log_probabilities.detach().exp()
    finite = log_probabilities.masked_fill(probabilities == 0, 0.0)
    cross_entropy = -(probabilities * finite).sum(dim=1).mean()  # the KL up to a constant
    slope = torch.autograd.grad(cross_entropy, parameters, create_graph=True)
    flat = torch.cat([part.reshape(-1) for part in slope])

    def product(vector: Tensor) -> Tensor:
        along = flat @ vector.to(flat.dtype)
        second = torch.autograd.grad(along, parameters, retain_graph=True)
        return as_vector(second) + damping * vector

    return product


def natural_step(
    parameters: Sequence[Tensor],
    gradient: Tensor,
    product: Product,
    effect: StepEffect,
    trust: Trust,
) -> NaturalStep:
    """Move the weights along (F + damping I)^-1 g, within the KL bound and with a gain.

    The first step has the length at which the quadratic form of F + damping I equals the bound;
    damping makes it shorter than F alone would. It is then shortened, never lengthened, until the
    measured KL keeps the bound and the objective gains. If no step does, the weights stay.

    Args:
        parameters: P weights in all, changed in place.
        gradient: (P,) float64, gradient of the objective, for ascent.
        product: from `fisher_product`; a sample of the gradient's observations is enough.
        effect: measures the step, on the product's observations or more.
        trust: the bound and the accuracy.
    """
    solution = conjugate_gradient(
        product, gradient, iterations=trust.products, tolerance=trust.tolerance
    )
    curvature = float(solution.x @ solution.image)
    if not curvature > 0:
        return NaturalStep(0.0, 0.0, 0, solution.products, solution.residual)
    begin, change = as_vector(parameters), solution.x * (2 * trust.kl / curvature) ** 0.5
    for backtracks in range(trust.backtracks + 1):
        _set(parameters, begin + change)
        kl, gain = effect()
        if kl <= trust.kl and gain > 0:
            return NaturalStep(kl, gain, backtracks, solution.products, solution.residual)
        change = change * SHORTER
    _set(parameters, begin)
    return NaturalStep(0.0, 0.0, 0, solution.products, solution.residual)


def policy_step(
    log_probabilities: Callable[[Batch], Tensor],
    parameters: Sequence[Tensor],
    gradient: Tensor,
    sample: Batch,
    measured: Batch,
    trust: Trust,
    *,
    damping: float,
    entropy_weight: float,
) -> NaturalStep:
    """Take a natural step for the mean of probability ratio times advantage, plus entropy.

    Args:
        log_probabilities: returns (B, A) log-probabilities of B decisions at the current weights.
        parameters: P weights in all, changed in place.
        gradient: (P,) float64, gradient of the objective over all decisions, for ascent.
        sample: decisions of the Fisher matrix.
        measured: decisions on which the KL and the gain are measured.
        trust: the bound and the accuracy.
        damping: see `fisher_product`.
        entropy_weight: weight of the mean entropy in the objective.
    """
    with torch.no_grad():
        old = log_probabilities(measured)

    @torch.no_grad()
    def effect() -> tuple[float, float]:
        new = log_probabilities(measured)
        taken, before = (log_probability(each, measured.actions) for each in (new, old))
        better = (measured.advantage * ((taken - before).exp() - 1)).double().mean()
        more_entropy = entropy(new).mean() - entropy(old).mean()
        return divergence(old, new), float(better + entropy_weight * more_entropy)

    fisher = fisher_product(log_probabilities(sample), parameters, damping)
    return natural_step(parameters, gradient, fisher, effect, trust)


def _set(parameters: Sequence[Tensor], vector: Tensor) -> None:
    begin = 0
    with torch.no_grad():
        for parameter in parameters:
            end = begin + parameter.numel()
            parameter.copy_(vector[begin:end].reshape(parameter.shape))
            begin = end


def divergence(old: Tensor, new: Tensor) -> float:
    """Return the mean KL divergence in nats between rows of log-probabilities, old to new.

    Args:
        old: (N, A) log-probabilities; -inf for masked actions.
        new: (N, A) likewise, with the same actions masked.
    """
    probabilities = old.exp()
    terms = torch.where(probabilities > 0, probabilities * (old - new), 0.0)
    return float(terms.sum(dim=1).double().mean())
