"""How many instances fit on each machine, and how they are dealt out in order.

That dealing out many at once is one by one is tried with whole policies in test_fitness_one_by_one.
"""

from __future__ import annotations

import numpy as np
import pytest

from simkit.policy.room import instances_that_fit, split_in_order

FREE = np.array([[4.0, 8.0], [0.5, 9.0], [-1.0, 6.0]])


@pytest.mark.parametrize(
    ("request_", "most", "expected"),
    [
        ((1.0, 2.0), 9, [4, 0, 0]),  # the scarcer resource decides
        ((1.0, 2.0), 3, [3, 0, 0]),  # no more than was asked about
        ((0.0, 3.0), 9, [2, 3, 2]),  # what is not asked for may lie below 0
        ((0.0, 0.0), 5, [5, 5, 5]),  # asks for nothing
    ],
)
def test_how_many_fit(request_, most, expected):
    assert instances_that_fit(FREE, request_, most).tolist() == expected


@pytest.mark.parametrize(
    ("needed", "machines", "counts"),
    [
        (1, [2], [1]),
        (4, [2], [4]),  # exactly full
        (5, [2, 0], [4, 1]),
        (9, [2, 0, 1], [4, 2, 1]),  # fewer fit than are needed
    ],
)
def test_machines_are_filled_in_order(needed, machines, counts):
    order, placed = split_in_order(np.array([2, 0, 1]), np.array([2, 1, 4]), needed)
    assert (order.tolist(), placed.tolist()) == (machines, counts)
