"""A table of scores that is kept up to date: as if all pairs were scored again each time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.policy.pairs import MachineTaskPairs, PairTable, TaskColumns
from simkit.policy.task import Task

Score = Callable[[MachineTaskPairs], Floats]


def alignment(pairs: MachineTaskPairs) -> Floats:
    aligned: Floats = (pairs.free * pairs.request).sum(axis=1)
    return aligned


def tightest(pairs: MachineTaskPairs) -> Floats:
    left: Floats = (pairs.free - pairs.request).sum(axis=1)
    return -left


def most_left(pairs: MachineTaskPairs) -> Floats:
    return pairs.remaining * 1.0


def share_left(pairs: MachineTaskPairs) -> Floats:
    shares: Floats = (pairs.free / pairs.capacity).max(axis=1) - 0.1 * pairs.remaining
    return shares


def alike(pairs: MachineTaskPairs) -> Floats:
    return np.zeros(len(pairs))


SCORES: dict[str, Score] = {
    "alignment": alignment,
    "tightest": tightest,
    "most left": most_left,
    "share left": share_left,
    "all alike": alike,
}


def bags(*rows: tuple[int, float, float]) -> TaskColumns:
    """Return the columns of tasks of (instances, cpu, mem)."""
    tasks = [
        Task(row, row, 0.0, (cpu, mem), count, gang=False)
        for row, (count, cpu, mem) in enumerate(rows)
    ]
    return TaskColumns(tasks, 2)


def placed_by_best(table: PairTable) -> list[tuple[int, int]]:
    """Return (machine, task) of every instance, in order."""
    placed = []
    while (pair := table.best()) is not None:
        table.place(*pair)
        placed.append(pair)
    return placed


def fitting(facts: TaskColumns, free: Floats) -> list[tuple[int, int]]:
    """Return (machine, task) of all pairs that fit, machine by machine."""
    return [
        (machine, task)
        for machine in range(len(free))
        for task in range(len(facts.tasks))
        if facts.remaining[task] > 0 and (facts.request[task] <= free[machine]).all()
    ]


def placed_from_scratch(
    score: Score, facts: TaskColumns, free: Floats, capacity: Floats
) -> list[tuple[int, int]]:
    """Return the same, with all pairs scored again after each placement, one at a time."""
    placed = []
    while pairs := fitting(facts, free):
        scores = [
            score(
                MachineTaskPairs(
                    facts, np.array([t]), np.array([m]), free[m : m + 1], capacity[m : m + 1]
                )
            )[0]
            for m, t in pairs
        ]
        machine, task = pairs[int(np.argmax(scores))]  # the first of equals
        free[machine] -= facts.request[task]
        facts.remaining[task] -= 1
        placed.append((machine, task))
    return placed


AMOUNT = st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])


@pytest.mark.parametrize("score", SCORES)
def test_placing_by_best_is_scoring_all_pairs_again(score: str) -> None:
    @given(
        rows=st.lists(st.tuples(st.integers(1, 6), AMOUNT, AMOUNT), min_size=1, max_size=5),
        capacity=st.lists(st.tuples(*[st.sampled_from([1.0, 2.0])] * 2), min_size=1, max_size=4),
        taken=st.sampled_from([0.0, 0.3]),
    )
    def check(
        rows: list[tuple[int, float, float]], capacity: list[tuple[float, ...]], taken: float
    ) -> None:
        total = np.array(capacity)
        table = PairTable(SCORES[score], bags(*rows), total - taken, total)
        expected = placed_from_scratch(SCORES[score], bags(*rows), total - taken, total)
        assert placed_by_best(table) == expected

    check()


def test_only_the_pairs_of_machine_and_task_are_scored_again() -> None:
    scored: list[set[tuple[int, int]]] = []

    def score(pairs: MachineTaskPairs) -> Floats:
        found = list(zip(pairs.machine.tolist(), pairs.task.tolist(), strict=True))
        assert len(set(found)) == len(found)
        scored.append(set(found))
        return np.zeros(len(pairs))

    capacity = np.full((3, 2), 2.0)
    table = PairTable(score, bags((3, 1, 1), (3, 1, 1)), capacity.copy(), capacity)
    table.place(1, 0)
    every = {(machine, task) for machine in range(3) for task in range(2)}
    assert scored == [every, {(1, 0), (1, 1), (0, 0), (2, 0)}]


def scores_of(*scores: float) -> Score:
    """Return a score by the machine's row."""
    return lambda pairs: np.array(scores)[pairs.machine]


def test_draws_are_in_proportion_to_exp_of_the_score() -> None:
    # Probabilities 1, 2, 3 and 4 tenths; nothing fits on the machine in the middle.
    weights, draws = np.array([1.0, 2.0, 0.0, 3.0, 4.0]), 4000
    with np.errstate(divide="ignore"):
        score = scores_of(*np.where(weights > 0, 700.0 + np.log(weights), 900.0))
    free = np.array([[1.0, 1.0], [1.0, 1.0], [0.5, 1.0], [1.0, 1.0], [1.0, 1.0]])
    table, rng = PairTable(score, bags((1, 1, 1)), free, np.ones((5, 2))), np.random.default_rng(3)
    drawn = [table.draw(rng) for _ in range(draws)]
    assert all(pair is not None and pair[1] == 0 for pair in drawn)
    counts = np.bincount([pair[0] for pair in drawn if pair is not None], minlength=5)
    assert counts[2] == 0
    expected = draws * weights[weights > 0] / weights.sum()
    chi_square = ((counts[weights > 0] - expected) ** 2 / expected).sum()
    assert chi_square < 16.27  # 3 degrees of freedom: exceeded once in a thousand


@given(seed=st.integers(0, 2**32), spread=st.sampled_from([0.0, 1.0, 1e3]))
def test_only_what_fits_is_drawn_until_nothing_does(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    facts = bags(*zip(rng.integers(1, 5, 4), rng.choice([0.1, 0.5], 4), rng.random(4), strict=True))
    score = scores_of(*rng.normal(scale=spread, size=3))
    table = PairTable(score, facts, np.ones((3, 2)), np.ones((3, 2)))
    while (pair := table.draw(rng)) is not None:
        assert pair in fitting(facts, table.free)
        table.place(*pair)
    assert fitting(facts, table.free) == []


@pytest.mark.parametrize("number", [0.0, 0.5, 1.0 - 2.0**-53])
def test_a_draw_takes_one_number_and_none_where_nothing_fits(number: float) -> None:
    class Counted:
        taken = 0

        def random(self) -> float:
            self.taken += 1
            return number

    rng, capacity = Counted(), np.ones((3, 2))
    table = PairTable(scores_of(0, 0, 0), bags((3, 1, 1)), capacity.copy(), capacity)
    drawn = []
    while (pair := table.draw(rng)) is not None:  # type: ignore[arg-type]
        drawn.append(pair[0])
        table.place(*pair)
    assert sorted(drawn) == [0, 1, 2]
    assert drawn[0] == int(3 * number)
    assert rng.taken == 3


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_a_score_is_finite(score: float) -> None:
    with pytest.raises(PolicyError, match=r"gives (nan|-?inf) for <Task 0.* on machine 0"):
        PairTable(scores_of(score, 0.0), bags((1, 1, 1)), np.ones((2, 2)), np.ones((2, 2)))
