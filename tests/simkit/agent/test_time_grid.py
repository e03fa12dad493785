"""The time grid: rectangles of steps and units, and the earliest place for another."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.slotted import TimeGrid


def test_holds_no_more_than_there_is():
    grid = TimeGrid((3, 2), 2)
    grid.take(0, 1, (5, 1))
    assert grid.occupied.tolist() == [[3, 1], [0, 0]]
    assert grid.earliest(1, (0, 1), 0) == 0  # what asks for nothing of it fits


CAPACITIES = [
    (4,),
    (4, 4),
    (3, 127, 128),  # on either side of what a field of eight bits holds
    (4, 2**40, 1),  # bytes of memory
]


@given(st.data(), st.sampled_from(CAPACITIES), st.integers(1, 9))
def test_the_earliest_place_is_the_first_of_all_that_are_tried(data, capacity, length):
    amounts = st.tuples(*[st.integers(0, units + 1) for units in capacity])
    moves = st.one_of(
        st.integers(1, 12),  # time goes on
        st.tuples(st.integers(0, 11), st.integers(1, 12), amounts),  # take
    )
    grid, plain = TimeGrid(capacity, 10), np.zeros((10, len(capacity)), np.int64)
    for move in data.draw(st.lists(moves, max_size=12)):
        if isinstance(move, int):
            grid.advance(move)
            new = np.zeros((min(move, 10), len(capacity)), np.int64)
            plain = np.concatenate((plain[move:], new))
        else:
            start, steps, asked = move
            grid.take(start, steps, asked)
            plain[start : start + steps] += asked
            plain = np.minimum(plain, capacity)
    assert grid.occupied.tolist() == plain.tolist()
    assert grid.free_now() == tuple(np.subtract(capacity, plain[0]).tolist())
    size, latest = data.draw(amounts), 10 - length - 1
    tried = [
        start
        for start in range(latest + 1)
        if (plain[start : start + length] + size <= capacity).all()
    ]
    assert grid.earliest(length, size, latest) == (tried[0] if tried else -1)
