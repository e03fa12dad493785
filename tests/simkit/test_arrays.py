"""Sums of rows are those of NumPy, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.arrays import row_sums


@pytest.mark.parametrize("columns", range(13))
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
def test_row_sums_are_those_of_numpy(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    table = rng.random((rows, columns)) * rng.choice([1e-3, 1.0, 1e6], (rows, columns))
    assert np.array_equal(row_sums(table), table.sum(axis=1))
