"""Evolution strategies: they climb, they are repeatable, and they can be interrupted."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.learners.common.evolution import AntitheticEvolution, CMAEvolution

GOAL = np.array([1.0, -2.0, 0.5, 3.0])


def score(weights):
    return -((weights - GOAL) ** 2 * [1, 4, 1, 2]).sum(axis=-1)


def antithetic(seed=0, rate=0.02):
    rng = np.random.default_rng(seed)
    return AntitheticEvolution(np.zeros(4), spread=0.1, rate=rate, pairs=8, rng=rng)


def cma(seed=0):
    return CMAEvolution(np.zeros(4), spread=1.0, seed=seed, candidates=10)


def improved(search, generations):
    for _ in range(generations):
        search.tell(score(search.ask()))
    return search


@pytest.mark.parametrize(("make", "close"), [(antithetic, 0.05), (cma, 1e-6)])
def test_it_climbs_to_the_top(make, close):
    assert score(improved(make(), 200).mean) > -close


def test_pairs_go_on_from_their_state_and_generator():
    whole, first = improved(antithetic(), 7), improved(antithetic(), 4)
    resumed = antithetic(seed=99)
    resumed.restore(first.state())
    resumed._rng.bit_generator.state = first._rng.bit_generator.state
    assert improved(resumed, 3).mean.tobytes() == whole.mean.tobytes()


def test_steps_come_in_opposite_pairs_and_a_move_follows_the_ranks():
    search = antithetic(rate=1.0)
    steps = (search.ask() - search.mean) / 0.1
    assert steps[:8] == pytest.approx(-steps[8:])
    scores = np.arange(16.0) ** 3  # only their order counts
    before = search.mean.copy()
    search.tell(scores)
    weights = np.arange(16) / 15 - 0.5
    assert search.mean - before == pytest.approx(weights @ steps / (16 * 0.1))


def test_equal_scores_move_nothing():
    search = antithetic()
    search.ask()
    search.tell(np.ones(16))
    assert search.mean == pytest.approx(np.zeros(4))


def test_nobody_elses_draws_change_what_cma_asks():
    alone, among = cma(), cma()
    for _ in range(3):
        expected = alone.ask()
        alone.tell([score(weights) for weights in expected])
    for _ in range(3):
        np.random.rand(3)  # noqa: NPY002 - cma draws from the global generator by default
        found = among.ask()
        among.tell([score(weights) for weights in found])
    assert found.tolist() == expected.tolist()
