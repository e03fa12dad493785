"""What schedules of chunks cost: against a count tick by tick."""

from __future__ import annotations

import numpy as np
import pytest
from pair_chunks import workload_of

pytest.importorskip("numba")

from simkit.learners.scorers.pair_model import Chunk, Outcome, play
from simkit.learners.scorers.pair_scorer import RULES

JOBS = [
    (0.0, [(9, 1.0, 0.1, 7.5), (5, 0.5, 0.3, 1.0)]),
    (3.0, [(4, 2.0, 0.05, 20.0)]),
    (3.0, [(12, 1.5, 0.2, 4.25)]),
    (9.0, [(7, 3.0, 0.15, 2.0), (1, 1.0, 0.1, 40.0)]),
]
CHUNK = Chunk.of(workload_of(JOBS), np.array([[4.0, 1.0]] * 2))
LONGEST = np.array([10, 20, 10, 40])  # ticks of the longest instance, 10 at least
WEIGHTS = {
    "turnaround": np.full(4, 0.25),
    "weighted-turnaround": np.array([14, 4, 12, 8]) / 38,
    "slowdown": 1 / LONGEST / 4,
}
"""Objective → what a tick of each job costs."""
pytestmark = pytest.mark.thorough


def test_costs_build_up_tick_by_tick():
    played = play(CHUNK, RULES["balance"])
    tick, task, _, count = np.array(played.placed).T
    rows = task.astype(int)
    assert np.bincount(rows, count).tolist() == CHUNK.instances.tolist()
    seen = [CHUNK.seen[CHUNK.job == job].min() for job in range(4)]
    ends = [(tick + CHUNK.hold[rows])[CHUNK.job[rows] == job].max() for job in range(4)]
    assert max(ends) == played.makespan == played.cost(CHUNK, "makespan")
    unfinished = np.array([
        [seen[job] <= tick < ends[job] for tick in range(int(played.makespan))] for job in range(4)
    ])  # fmt: skip
    for objective, weights in WEIGHTS.items():
        expected = (weights @ unfinished).sum()
        assert played.cost(CHUNK, objective) == pytest.approx(expected)


def test_what_has_no_end_costs_infinitely_much():
    assert Outcome(np.inf, []).cost(CHUNK, "slowdown") == np.inf
