"""Machines in the same state are scored once.

That placements are those of scoring each is tried with whole policies in test_fitness_one_by_one.
"""

from __future__ import annotations

import numpy as np

from simkit.policy.fitness import MachineStates
from simkit.policy.pairs import PairPlacer, TaskColumns
from simkit.policy.task import Task


def placements(score, free, capacity, tasks, states):
    placer = PairPlacer(score, TaskColumns(tasks, free.shape[1]), free, capacity, states)
    return [(task.index, dict(on)) for task, on in placer.placements()]


def test_each_state_is_scored_once():
    scored = []

    def alignment(pairs):
        scored.append(len(pairs))
        return pairs.free[:, 0]

    capacity = np.full((1000, 1), 8.0)
    task = Task(0, 0, 0.0, (1.0,), 3000, gang=False)
    states = MachineStates().numbers(capacity, capacity)
    found = placements(alignment, capacity, capacity, [task], states)
    assert found == [(0, dict.fromkeys(range(1000), 3))]
    assert sum(scored) < 10
