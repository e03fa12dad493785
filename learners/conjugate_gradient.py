"""Conjugate gradients: solves A x = b from products of A with vectors; A itself is never needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Product = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Solution:
    """An approximate solution of A x = b."""

    x: Vector
    """(P,) the solution."""
    image: Vector
    """(P,) A x, as the iteration knows it, without another product."""
    residual: float
    """||b - A x|| / ||b||; 0 where b is 0."""
    products: int
    """How many products with A it took."""


def conjugate_gradient(
    product: Product, right: Vector, *, iterations: int = 10, tolerance: float = 1e-10
) -> Solution:
    """Solve A x = b for a symmetric positive semidefinite A.

    Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems" (1952). It
    starts at 0, so that x stays in the span of b, A b, A^2 b, …; a singular A does no harm as long
    as b lies in its range. It ends early where A shows no curvature, the products' rounding having
    used up what the directions could still give.

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
