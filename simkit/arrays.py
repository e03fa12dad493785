"""Names for NumPy array types, used in annotations throughout, and sums of their rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_UNROLLED = 8  # columns from which on NumPy adds up a row in another order


def row_sums(table: Floats) -> Floats:
    """Return (n,) the sums of the rows of (n, R) numbers: to the bit what NumPy's `sum` returns.

    That is many times slower where n is large and R is small.
    """
    if not 0 < table.shape[1] < _UNROLLED:
        sums: Floats = table.sum(axis=1)
        return sums
    total: Floats = table[:, 0].copy()
    for column in table.T[1:]:
        total += column
    return total
