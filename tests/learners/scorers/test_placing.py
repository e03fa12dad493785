"""Decisions in one compiled step place what the scores say, instance by instance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

from simkit.arrays import Floats
from simkit.learners.scorers.decision_kernel import CompiledScores
from simkit.learners.scorers.pair_scorer import RULES, TERMS, PairScorer
from simkit.learners.scorers.policies import ScorerFitness
from simkit.policy.pairs import MachineTaskPairs, TaskColumns
from simkit.policy.queue import TaskQueue
from simkit.policy.task import Task

pytestmark = pytest.mark.thorough

MACHINES = np.array([[4.0, 1.0], [4.0, 1.0], [8.0, 1.0], [4.0, 0.0], [8.0, 2.0]])
TOTAL = MACHINES.sum(axis=0)
DRAWN = np.random.default_rng(3).normal(size=(3, len(TERMS)))
SCORERS = {
    **RULES,
    "drawn": PairScorer.by_terms(dict(zip(TERMS, DRAWN[0].tolist(), strict=True))),
    "drawn, shifted": PairScorer("terms", DRAWN[1], np.exp(DRAWN[2]), DRAWN[0]),
}


def make_task(index: int, rng: np.random.Generator, kinds: int) -> Task:
    """Return a bag; one of few kinds, so that there are ties, or of many."""
    request = (0.5 * int(rng.integers(1, kinds)), float(rng.choice([0.0, 0.125, 0.5])))
    run_s = float(rng.choice([0.0, 0.5, 8.0, 64.0, 4096.0]))
    return Task(index, index, 0.0, request, int(rng.integers(1, 9)), False, run_s)


def check(
    pairs: list[list[int]], fitness: ScorerFitness, facts: TaskColumns, free: Floats,
    capacity: Floats,
) -> None:  # fmt: skip
    """Place instances one by one: each must be the best of its time, and at last nothing fits."""
    left = facts.remaining.copy()
    while True:
        fits = (facts.request[:, None] <= np.maximum(free, 0.0)).all(axis=2) & (left > 0)[:, None]
        task, machine = fits.nonzero()
        if not len(task):
            break
        seen = MachineTaskPairs(facts, task, machine, free[machine], capacity[machine])
        scores = fitness.scores(seen)
        chosen_task, chosen_machine = pairs.pop(0)
        at = np.flatnonzero((task == chosen_task) & (machine == chosen_machine))
        assert len(at) == 1
        assert scores[at[0]] >= scores.max() - 1e-12 * max(1.0, abs(scores.max()))
        inputs = np.column_stack((seen.hold_s, seen.remaining, seen.request, seen.free,
                                  seen.capacity))  # fmt: skip
        assert at[0] == np.flatnonzero((inputs == inputs[at]).all(axis=1))[0]
        left[chosen_task] -= 1
        free[chosen_machine] -= facts.request[chosen_task]
    assert not pairs


@pytest.mark.parametrize("name", SCORERS)
def test_each_instance_goes_where_it_scores_highest(name):
    fitness = ScorerFitness(SCORERS[name])

    @given(seed=st.integers(0, 2**32 - 1))
    def play(seed: int) -> None:
        rng = np.random.default_rng(seed)
        scores, queue, kinds = CompiledScores(SCORERS[name]), TaskQueue(2), int(rng.choice([3, 30]))
        come = [make_task(index, rng, kinds) for index in range(60)]
        come = [come[index] for index in rng.permutation(60)]
        for _ in range(12):
            for _ in range(min(len(come), int(rng.integers(0, 20)))):
                queue.add(come.pop())
            machines = np.flatnonzero(rng.random(len(MACHINES)) < rng.choice([0.3, 1.0]))
            capacity = MACHINES[machines]
            free = capacity * rng.choice([-0.25, 0.25, 0.5, 1.0], (len(machines), 1))
            work_s = rng.choice([0.0, 16.0, 64.0], 2)
            longest_s = max((task.estimate_s for task in queue), default=0.0)
            fitness.weigh(work_s, longest_s, TOTAL)
            placed = scores.place(
                queue.columns(), free.copy(), capacity, work_s, longest_s, TOTAL
            ).tolist()
            check(list(placed), fitness, TaskColumns(tuple(queue.tasks), 2), free, capacity)
            tasks = tuple(queue.tasks)
            for row, _ in placed:
                tasks[row].remaining -= 1
            for task in tasks:
                if task.remaining:
                    queue.refresh(task)
                else:
                    queue.remove(task)

    play()


@pytest.mark.parametrize("machines", [0, 2])
def test_without_tasks_or_machines_nothing_is_placed(machines):
    queue, capacity = TaskQueue(2), MACHINES[:machines]
    scores = CompiledScores(SCORERS["balance"])
    for tasks in range(2):
        if tasks and machines:
            break
        placed = scores.place(queue.columns(), capacity.copy(), capacity, np.zeros(2), 0.0, TOTAL)
        assert placed.shape == (0, 2)
        queue.add(make_task(0, np.random.default_rng(0), 3))
