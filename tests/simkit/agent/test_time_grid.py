"""The time grid: rectangles of steps and units, and the earliest place for another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.slotted_plan import TimeGrid


def test_takes_and_lets_time_go_on():
    grid = TimeGrid((3, 2), 4)
    grid.take(1, 2, (2, 1))
    grid.take(2, 9, (1, 0))  # reaches beyond the last row
    assert grid.occupied.tolist() == [[0, 0], [2, 1], [3, 1], [1, 0]]
    assert grid.free_now() == (3, 2)
    grid.advance(1)
    assert grid.occupied.tolist() == [[2, 1], [3, 1], [1, 0], [0, 0]]
    assert grid.free_now() == (1, 1)
    grid.advance(7)
    assert not grid.occupied.any()


def test_holds_no_more_than_there_is():
    grid = TimeGrid((3, 2), 2)
    grid.take(0, 1, (5, 1))
    assert grid.occupied.tolist() == [[3, 1], [0, 0]]
    assert grid.earliest(1, (0, 1), 0) == 0  # what asks for nothing of it fits


PLACES = [
    # length, size, latest -> earliest, beside (2, 0) held in steps 2 and 3 of 3 units, 2 units
    (2, (3, 2), 5, 0),
    (3, (3, 2), 5, 4),  # not in the gap before, which has two steps
    (3, (1, 2), 5, 0),  # beside it
    (3, (3, 2), 3, -1),  # too late
    (1, (4, 0), 5, -1),  # more than there is
    (7, (1, 1), -1, -1),  # no time to begin
]


@pytest.mark.parametrize(("length", "size", "latest", "earliest"), PLACES)
def test_earliest_place(length, size, latest, earliest):
    grid = TimeGrid((3, 2), 8)
    grid.take(2, 2, (2, 0))
    assert grid.earliest(length, size, latest) == earliest


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
