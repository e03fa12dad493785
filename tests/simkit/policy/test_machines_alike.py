"""Machines in the same state are scored once; the placements are those of scoring each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policy.fitness import MachineStates
from simkit.policy.pairs import PairPlacer, TaskColumns
from simkit.policy.task import Task

SCORES = {
    "alignment": lambda pairs: (pairs.free * pairs.request).sum(axis=1),  # falls as machines fill
    "tightest": lambda pairs: -(pairs.free - pairs.request).sum(axis=1),  # rises
    "both ways": lambda pairs: -np.abs(pairs.free - 2.0 * pairs.request).sum(axis=1),
    "shape": lambda pairs: -np.abs(pairs.free[:, 0] / pairs.capacity[:, 0] - 0.5),
    "all alike": lambda pairs: np.zeros(len(pairs)),
    "longest": lambda pairs: pairs.remaining * 1.0,
}


def placements(score, free, capacity, tasks, rows, states):
    facts = TaskColumns(tasks, free.shape[1])
    placer = PairPlacer(score, facts, free, capacity, states)
    for row, machines in enumerate(rows):
        if machines is not None:
            placer.restrict(np.array([row]), machines)
    return [(task.index, dict(on)) for task, on in placer.placements()]


@pytest.mark.parametrize("score", SCORES)
def test_placements_are_those_of_scoring_each(score):
    @given(seed=st.integers(0, 2**32), machines=st.integers(1, 14), size=st.integers(1, 5))
    def check(seed, machines, size):
        rng = np.random.default_rng(seed)
        capacity = rng.choice([4.0, 8.0], (machines, 2), p=[0.2, 0.8])
        free = capacity - rng.choice([0.0, 1.0, 5.0], (machines, 2), p=[0.6, 0.3, 0.1])
        tasks = [
            Task(index, index, 0.0, tuple(rng.choice([0.0, 0.5, 1.0, 2.0], 2).tolist()),
                 int(rng.integers(1, 3 * machines + 2)), gang=bool(rng.random() < 0.02))
            for index in range(size)
        ]  # fmt: skip
        some = np.unique(rng.integers(0, machines, machines))
        rows = [some if rng.random() < 0.3 else None for _ in tasks]
        states = MachineStates().numbers(free, capacity)
        args = SCORES[score], free, capacity, tasks, rows
        assert placements(*args, states) == placements(*args, None)

    check()


def test_each_state_is_scored_once():
    scored = []

    def alignment(pairs):
        scored.append(len(pairs))
        return pairs.free[:, 0]

    capacity = np.full((1000, 1), 8.0)
    task = Task(0, 0, 0.0, (1.0,), 3000, gang=False)
    states = MachineStates().numbers(capacity, capacity)
    found = placements(alignment, capacity, capacity, [task], [None], states)
    assert found == [(0, dict.fromkeys(range(1000), 3))]
    assert sum(scored) < 10


def test_numbers_follow_free_amounts_and_capacity():
    capacity = np.array([[4.0, 2.0], [4.0, 2.0], [8.0, 2.0], [4.0, 2.0]])
    free, states = np.full((4, 2), 2.0), MachineStates()

    def groups():
        return [np.flatnonzero(numbers == n).tolist() for n in dict.fromkeys(numbers.tolist())]

    numbers = states.numbers(free, capacity)
    assert groups() == [[0, 1, 3], [2]]
    free[1, 0] = 1.0
    numbers = states.numbers(free, capacity)
    assert groups() == [[0, 3], [1], [2]]
    free[3, 0] = 1.0
    numbers = states.numbers(free, capacity)
    assert groups() == [[0], [1, 3], [2]]
    capacity = capacity.copy()
    capacity[3] = 8.0, 2.0
    numbers = states.numbers(free, capacity)
    assert groups() == [[0], [1], [2], [3]]
