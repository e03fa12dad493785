"""What schedules of chunks cost: against a count tick by tick, and against numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
from pair_chunks import workload_of

pytest.importorskip("numba")

from simkit.arrays import Floats
from simkit.learners.pairs.chunk import Chunk
from simkit.learners.pairs.model import Outcome, play, roll_out
from simkit.learners.pairs.objectives import Objective, cost, cost_to_go, job_ends
from simkit.learners.pairs.scorer import RULES, PairScorer

JOBS = [
    (0.0, [(9, 1.0, 0.1, 7.5), (5, 0.5, 0.3, 1.0)]),
    (3.0, [(4, 2.0, 0.05, 20.0)]),
    (3.0, [(12, 1.5, 0.2, 4.25)]),
    (9.0, [(7, 3.0, 0.15, 2.0), (1, 1.0, 0.1, 40.0)]),
]
CHUNK = Chunk.of(workload_of(JOBS), np.array([[4.0, 1.0]] * 2))
pytestmark = pytest.mark.thorough

OBJECTIVES: list[Objective] = ["makespan", "turnaround", "weighted-turnaround", "slowdown"]


def weights(objective: str) -> Floats:
    """Return what a tick of each job costs."""
    instances, longest = np.array([14, 4, 12, 8]), np.array([10, 20, 10, 40])  # 10 at least
    return {
        "turnaround": np.full(4, 0.25),
        "weighted-turnaround": instances / 38,
        "slowdown": 1 / longest / 4,
    }[objective]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_costs_build_up_tick_by_tick(objective):
    drawn = roll_out(CHUNK, PairScorer.of_paper(), np.random.default_rng(3))
    ends = job_ends(CHUNK, drawn.tick, drawn.task)
    seen = [CHUNK.seen[CHUNK.job == job].min() for job in range(4)]
    expected = []
    for tick in range(int(drawn.makespan)):
        open_jobs = np.array([seen[job] <= tick < ends[job] for job in range(4)], float)
        expected.append(1.0 if objective == "makespan" else float(weights(objective) @ open_jobs))
    found = drawn.cost_to_go(CHUNK, objective)
    np.testing.assert_allclose(found, np.cumsum(expected[::-1])[::-1])
    assert cost(CHUNK, objective, drawn.makespan, ends) == pytest.approx(sum(expected))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_rule_costs_what_its_placements_say(objective):
    played = play(CHUNK, RULES["balance"])
    tick, task, _, count = np.array(played.placed).T
    rows = task.astype(int)
    assert np.bincount(rows, count).tolist() == CHUNK.instances.tolist()
    ends = job_ends(CHUNK, tick, rows)
    assert ends.max() == played.makespan
    assert played.cost(CHUNK, objective) == cost(CHUNK, objective, played.makespan, ends)
    assert len(cost_to_go(CHUNK, objective, played.makespan, ends)) == played.makespan


def test_what_has_no_end_costs_infinitely_much():
    assert cost(CHUNK, "slowdown", np.inf, np.zeros(4)) == np.inf
    assert Outcome(np.inf, []).cost(CHUNK, "slowdown") == np.inf
