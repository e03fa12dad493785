"""Placing instances all at once gives the same as placing them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policy.room import instances_that_fit, split_by_score, split_in_order

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


def one_by_one(scores, free, request, needed):
    """Deal one instance after another; ties to the lowest row."""
    free, counts, order = free.copy(), [0] * len(free), []
    for _ in range(needed):
        fitting = [m for m in range(len(free)) if (np.array(request) <= free[m]).all()]
        if not fitting:
            break
        best = max(fitting, key=lambda m: (scores(free[m : m + 1], np.array([m]))[0], -m))
        free[best] -= request
        counts[best] += 1
        if best not in order:
            order.append(best)
    return order, [counts[m] for m in order]


def zigzag(free, at):
    """Rise and fall as a machine fills, with many ties."""
    return (free[:, 0] * 7 + at * 3) % 5


SCORES = {
    "falls": lambda free, at: free.sum(axis=1),
    "rises": lambda free, at: -free.sum(axis=1),
    "all alike": lambda free, at: np.zeros(len(free)),
    "zigzag": zigzag,
}


@given(
    free=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=6),
    request=st.sampled_from([(1.0, 1.0), (2.0, 1.0), (1.0, 0.0), (0.5, 0.25)]),
    needed=st.integers(1, 60),
    kind=st.sampled_from(sorted(SCORES)),
)
def test_all_at_once_is_one_by_one(free, request, needed, kind):
    room = np.array(free, dtype=float)
    counts = instances_that_fit(room, request, needed)
    with_room = np.flatnonzero(counts)
    if not len(with_room):
        return
    room, counts = room[with_room], counts[with_room]
    order, placed = split_by_score(SCORES[kind], room, request, counts, needed)
    expected = one_by_one(SCORES[kind], room, request, needed)
    assert (order.tolist(), placed.tolist()) == expected
